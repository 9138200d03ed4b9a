"What every benchmark records: the machine, the versions, the command, the date."
import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

root = Path(__file__).parent.parent
results = Path(__file__).parent / "results"
# For the processes that a benchmark starts.
env = {"OMP_NUM_THREADS": "2", "THP_MEM_ALLOC_ENABLE": "1", **os.environ, "PYTHONPATH": str(root)}


def machine() -> str:
    "Processor, cores and memory in one line."
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        flags = {key.strip(): value.strip() for key, value in lines.items()}
        name = flags.get("model name", name)
        name += " with" + ("" if "avx512_bf16" in flags.get("flags", "") else "out") + " AVX512-BF16"
        name += ", AMX" if "amx_bf16" in flags.get("flags", "") else ""
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def save(name: str, values: dict) -> None:
    "Write results/NAME.json with what is needed to repeat the measurement."
    packages = ("torch", "tokenizers", "sacrebleu", "numpy", "num2words")
    record = {"date": str(date.today()), "machine": machine(),
              "versions": {p: version(p) for p in packages}, **values}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (results / f"{name}.json").write_text(text, encoding="utf-8")
    print(f"wrote benchmarks/results/{name}.json")


def cli(*arguments: str, stdin: str | None = None) -> str:
    "Run the command line in a process of its own; its standard output."
    command = [sys.executable, "-m", "transformer_nbdev.cli", *arguments]
    return subprocess.run(command, env=env, check=True, text=True, input=stdin, stdout=subprocess.PIPE).stdout
