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
# For the processes that a benchmark starts.
path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
env = {"OMP_NUM_THREADS": "2", "THP_MEM_ALLOC_ENABLE": "1", **os.environ, "PYTHONPATH": path}


def processor() -> dict[str, str]:
    "What Linux knows of the processor: name, maker, instruction sets; elsewhere the name alone."
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return {"model name": platform.processor() or platform.machine(), "vendor_id": "", "flags": ""}
    lines = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
    found = {key.strip(): value.strip() for key, value in lines.items()}
    return {"model name": platform.machine(), "vendor_id": "", "flags": "", **found}


def kind() -> str:
    "The kind of processor, a folder's name: maker and the widest products it has, as in intel-amx."
    maker = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(processor()["vendor_id"], platform.machine().lower())
    flags = processor()["flags"].split()
    sets = {"amx_bf16": "amx", "avx512_bf16": "avx512-bf16", "avx512f": "avx512", "avx2": "avx2"}
    return "-".join([maker, *[name for flag, name in sets.items() if flag in flags][:1]])


results = Path(__file__).parent / "results" / kind()


def machine() -> str:
    "Processor, cores and memory in one line."
    flags = processor()["flags"].split()
    name = processor()["model name"] + " with" + ("" if "avx512_bf16" in flags else "out") + " AVX512-BF16"
    name += ", AMX" if "amx_bf16" in flags else ""
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def record(values: dict) -> dict:
    "Values with what is needed to repeat the measurement: date, machine, versions."
    packages = ("torch", "tokenizers", "sacrebleu", "numpy", "num2words")
    return {"date": str(date.today()), "machine": machine(), "versions": {p: version(p) for p in packages}, **values}


def save(name: str, values: dict) -> None:
    "Write results/KIND/NAME.json. For values measured on a GPU, their `device`, KIND is its name."
    text = json.dumps(record(values), indent=1, ensure_ascii=False) + "\n"
    device = values.get("device", "cpu").lower().replace(" ", "-")
    folder = results if device == "cpu" else results.with_name(device)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    print(f"wrote {(folder / name).relative_to(root)}.json")


def cli(*arguments: str, stdin: str | None = None) -> str:
    "Run the command line in a process of its own; its standard output."
    command = [sys.executable, "-m", "transformer_nbdev", *arguments]
    return subprocess.run(command, env=env, check=True, text=True, input=stdin, stdout=subprocess.PIPE).stdout
