"""Several systems, a process each, measured in turns: A B C A B C …

`compare` starts `python SCRIPT --worker SYSTEM …` for each system. A worker prepares itself, says so, and then runs one
round for each line it reads. Only one works at a time, so they do not disturb each other; what the machine does in the
meantime meets them all.
"""
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from common import env


def serve(prepare: Callable[[], Callable[[], dict]]) -> None:
    "The worker's side: prepare, then a round for each line read; each answer is a JSON line."
    answers = os.fdopen(os.dup(1), "w")  # libraries may print; their lines must not mix with the answers
    os.dup2(2, 1)

    def answer(**values) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        one_round = prepare()
    except Exception as error:  # one system that cannot run must not stop the others: it is reported
        return answer(error=f"{type(error).__name__}: {error}"[:300])
    before = memory()
    answer(ready=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        values = one_round()
        answer(**{"seconds": time.perf_counter() - start, "extra_mib": round(memory() - before), **values})


def memory() -> float:
    "The most memory that this process ever had, MiB; on a GPU the most that was allocated there."
    import torch  # here, because the process that compares needs neither

    from transformer_nbdev.speed.bench import peak_memory

    return peak_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def compare(script: str, systems: list[str], arguments: list[str], rounds: int) -> dict[str, dict]:
    "Medians and ranges of the rounds of each system; the first round of each only warms up."
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments, "--worker"]
    found: dict[str, dict] = {}
    workers = {}
    for name in systems:
        workers[name] = subprocess.Popen(
            [*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
            stderr=subprocess.DEVNULL if not os.environ.get("SHOW_ERRORS") else None,
        )
        first = json.loads(workers[name].stdout.readline() or '{"error": "it ended"}')
        if "error" in first:
            found[name] = first
            workers.pop(name).kill()
    answers: dict[str, list[dict]] = {name: [] for name in workers}
    for _ in range(rounds + 1):
        for name, worker in workers.items():
            worker.stdin.write("go\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
            answers[name].append(json.loads(line) if line else {"error": "it ended in a round"})
    for name, worker in workers.items():
        worker.stdin.close()
        worker.wait()
        failed = [a for a in answers[name] if "error" in a]
        found[name] = failed[0] if failed else _summary(answers[name][1:])
    return {name: found[name] for name in systems}


def _summary(rounds: list[dict]) -> dict:
    "Tokens a second: median, lowest, highest. Memory: the most."
    speeds = [r["tokens"] / r["seconds"] for r in rounds]
    return {
        "tokens_per_second": round(statistics.median(speeds)), "lowest": round(min(speeds)),
        "highest": round(max(speeds)), "extra_mib": max(r["extra_mib"] for r in rounds),
        **{k: v for k, v in rounds[-1].items() if k not in ("tokens", "seconds", "extra_mib")},
    }
