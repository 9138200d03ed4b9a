"""A run killed at random moments, resumed until it ends: the same to the last bit, and nothing is left over.

Two processes train together, and one of them is killed. One process alone dies at each of its operations on files in
tests/test_training.py. KILLS=70 python -m pytest -n 2 tests/test_kills.py does it seventy times; by default once.
"""
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers import begin, loads_or_says_how, metrics, same_run, train

from transformer_nbdev.tools.files import find_checkpoints
from transformer_nbdev.transformer import Transformer

# The linear schedule depends on the whole length of a run, the paper's does not.
options = ["--schedule=paper", "--warmup=10", "--dropout=0.1", "--accumulate=2", "--save-every=2"]
steps, world, n_runs = 40, 2, int(os.environ.get("KILLS", "1"))


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory) -> tuple[Path, float]:
    "A run that nothing disturbed, and the seconds it took."
    folder, begun = tmp_path_factory.mktemp("runs") / "whole", time.monotonic()
    texts = ended(begin(folder.parent, *[train(corpus, folder, *options, f"--steps={steps}")] * world))
    assert list(metrics(folder)) == list(range(1, steps + 1)), texts
    return folder, time.monotonic() - begun


def ended(processes) -> list[str]:
    "What they said. When one was killed, the others are ended after a while, as torchrun does."
    end = time.monotonic() + 120
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        if any(process.poll() == -signal.SIGKILL for process in processes):
            end = min(end, time.monotonic() + 10)
        time.sleep(0.02)
    for process in processes:
        process.kill()
    return [process.communicate()[1] for process in processes]


def seen(folder: Path) -> bool:
    "Whether the training has begun to write."
    return (folder / "metrics.jsonl").exists()


@pytest.mark.parametrize("number", range(n_runs))
def test_a_run_killed_at_random_ends_like_an_undisturbed_one(corpus, whole, tmp_path, number):
    rng, (undisturbed, seconds), kills = random.Random(number), whole, 0
    done, out = False, tmp_path / "out"
    while not done:
        more = ["--resume"] if find_checkpoints(out) else [*options, f"--steps={steps}"]
        processes = begin(tmp_path, *[train(corpus, out, *more)] * world)
        if kills < 1 and rng.random() < 0.8:  # while it trains and saves
            end = time.monotonic() + 60
            while not seen(out) and processes[0].poll() is None and time.monotonic() < end:
                time.sleep(0.002)
            moment = rng.uniform(0, seconds / 3)
        else:  # at any time, its start included
            moment = rng.uniform(0, seconds) if kills < 1 else 120.0
        victim = processes[rng.randrange(world)]
        try:
            victim.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            victim.kill()
        texts = ended(processes)
        assert "Traceback" not in "".join(texts), texts
        if any(process.returncode == -signal.SIGKILL for process in processes):
            kills += 1
            for checkpoint in find_checkpoints(out):
                Transformer.from_pretrained(checkpoint)
            if (out / "tokenizer.json").exists():
                loads_or_says_how(out)
        else:
            assert [process.returncode for process in processes] == [0] * world, texts
            done = True
    print(kills, "kills")
    same_run(undisturbed, out)
    assert not list(out.rglob(".*"))
