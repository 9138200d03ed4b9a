"""Check everything, or only what belongs to the names given.

    python .ci/check.py                       everything, the quick stages first
    python .ci/check.py 05 tests/test_cli.py  a notebook with its tests, a file of tests
    python .ci/check.py processor             what may depend on the processor
    … --as-laptop                             the same as on a processor without AVX-512

A stage that fails does not stop the others; the end sums up.
"""
import os
import re
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

root = Path(__file__).resolve().parent.parent
python = sys.executable
workers = min(4, os.cpu_count() or 1)  # each needs a gigabyte of memory, and one thread
# These start first, so that all processes end at about the same time.
longest = [
    "11_training", "18_reward", "16_gpt", "13_translation", "12_inference", "14_classification", "19_scale",
    "06_decoder", "17_bert", "05_encoder", "fine_tuning", "bench", "test_training", "test_processes", "test_kills",
    "15_modern", "08_optimisation", "command_line", "02_positional_encoding", "01_embedding", "09_transformer", "muon",
    "test_init", "10_data", "00_foundations", "04_multi_head", "03_attention", "test_crossings", "test_cli", "onnx",
    "translator", "test_onnx", "test_structure", "test_regressions",
]
# What CI runs a second time as on a laptop: everything that compares numbers from kernels chosen by instruction set.
# Tests that refuse bad input, survive kills or read files give the same answer on every processor, so they run once.
processor = ["08_optimisation", "12_inference", "direct", "parts", "bench", "quantization", "test_direct",
             "test_details", "test_parts", "test_fuzz", "test_search", "test_convert", "test_translator"]
laptop = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def order(path: Path) -> int:
    "The place in `longest`; what is not there comes last."
    return longest.index(path.stem) if path.stem in longest else len(longest)


notebooks = sorted(p for p in (root / "nbs").rglob("[!.]*.ipynb") if ".ipynb_checkpoints" not in p.parts)
tests = sorted((root / "tests").glob("test_*.py"))


def pytest(*paths: Path) -> list:
    "The command that runs these notebooks and tests."
    options = ["-q", "-rfEs", "-p", "no:cacheprovider", "-n", workers if len(paths) > 1 else 0]
    options += ["--dist", "loadfile", "--no-loadscope-reorder"]  # in the order given
    nbval = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", ".ci/sanitize.cfg", "--nbval-cell-timeout=600"]
    return [python, "-m", "pytest", *options, *nbval, *paths]


def module(notebook: Path) -> str | None:
    "The module that a notebook exports."
    found = re.search(r'"#\| *default_exp +([\w.]+)', notebook.read_text(encoding="utf-8"))
    return found and found[1].split(".")[-1]


def chosen(name: str) -> list[Path]:
    "The notebooks that a name, number or path means, with the tests of their modules; or a file of tests."
    if name == "processor":
        return [path for path in (*notebooks, *tests) if path.stem in processor]
    stem = Path(name).stem
    found = [path for path in notebooks if path.stem == stem] or [p for p in notebooks if p.stem.startswith(stem)]
    modules = [made for path in found if (made := module(path))]
    own = [path for path in tests if path.stem == stem or any(path.stem.startswith(f"test_{m}") for m in modules)]
    if not found + own:
        there = ("  ".join(sorted(path.stem for path in paths)) for paths in (notebooks, tests))
        listed = "\n\n".join(textwrap.fill(line, 110, break_on_hyphens=False) for line in there)
        sys.exit(f"no notebook or test is called {name}. Name some of these, or the start of a notebook:\n\n{listed}")
    return found + own


def stages_for(names: list[str]) -> tuple[dict[str, list], dict[str, list]]:
    "What is run, under the name it is reported by: what needs one core, and what uses them all."
    quick = {
        "the package is what the notebooks export": [python, ".ci/drift.py"],
        "README.md is what nbs/index.ipynb says": [python, ".ci/readme.py", "--check"],
        "lint": [python, "-m", "ruff", "check", "."],
    }
    if names:
        paths = list(dict.fromkeys(path for name in names for path in chosen(name)))
        title = ", ".join(path.name for path in paths) if len(paths) < 6 else f"{len(paths)} notebooks and test files"
        return quick, {title: pytest(*paths)}
    return {"types": [python, "-m", "mypy"]} | quick, {
        "tests and notebooks, with outputs and figures": pytest(*sorted([*notebooks, *tests], key=order)),
    }


def show(text: bytes) -> None:
    "Write output of a stage at once."
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def run(name: str, command: list, env: dict[str, str], live: bool = True) -> tuple[bool, list[str]]:
    "Run one stage and show its output, `live` or at its end; whether it passed, and its lines for the summary."
    began, output = time.monotonic(), b""
    title = f"\n== {name}\n".encode()
    show(title if live else b"")
    words = [str(word) for word in command]
    with subprocess.Popen(words, cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while part := process.stdout.read1():
            show(part if live else b"")
            output += part
    show(b"" if live else title + output)
    lines = output.decode("utf-8", "replace").split("\n")
    counts = next((line for line in reversed(lines) if line.strip()), "") if "pytest" in words else ""
    told = [f"{'✗' if process.returncode else '✓'} {name}  {time.monotonic() - began:.0f} s  {counts}".rstrip()]
    if process.returncode:
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        told += [f"    {line}" for line in failed or [line for line in lines if line.strip()][-5:]]
    return not process.returncode, told


def main(words: list[str]) -> None:
    "Run the stages, then sum up."
    names = [word for word in words if word != "--as-laptop"]
    if any(name.startswith("-") for name in names):
        sys.exit(__doc__)
    # The notebooks must not need the network: requests go to a port where nobody listens.
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "JUPYTER_PLATFORM_DIRS": "1", "HF_HUB_OFFLINE": "1",
           **{k: "http://127.0.0.1:9" for k in ("http_proxy", "https_proxy")}}
    env.setdefault("GOMP_SPINCOUNT", "10000")  # threads that wait for each other leave the core to the other kernel
    env["OMP_NUM_THREADS"] = "1"
    env |= laptop if "--as-laptop" in words else {}
    start = time.monotonic()
    quick, long = stages_for(names)
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(lambda stage: run(*stage, env, live=False), quick.items())
        results = [*[run(name, command, env) for name, command in long.items()], *results]
    print("\n== summary" + ", as on a processor without AVX-512" * ("--as-laptop" in words))
    print(*(line for _, told in results for line in told), sep="\n")
    failed = sum(not passed for passed, _ in results)
    print(f"{failed or 'none'} of {len(results)} stages failed, {time.monotonic() - start:.0f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
