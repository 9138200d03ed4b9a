"""Run a chapter's headline experiment from many starts: the notebook shows one of them, the JSON file here holds all.

    python benchmarks/starts/run.py 10_data [--seeds 20]

`10_data.py` beside this file names the cell of the notebook at which to stop (`before`) and trains from one
seed (`run`) with the names that the cells before it define: what runs is the code that the reader sees.
"""
import argparse
import contextlib
import io
import json
import runpy
import sys
import time
from pathlib import Path

import matplotlib

here = Path(__file__).parent
sys.path.insert(0, str(here.parent))
from common import record, root  # noqa: E402


def cells_before(notebook: Path, cell: str) -> dict:
    "Execute a notebook's code cells before the one with this id; return the names that they define."
    matplotlib.use("Agg")
    names: dict = {"__name__": "notebook"}
    for one in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if one["id"] == cell:
            return names
        if one["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(root / "nbs"):
                exec("".join(one["source"]), names)
    raise ValueError(f"{notebook.name} has no cell with the id {cell}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapter", help="for example 10_data")
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    experiment = runpy.run_path(str(here / f"{args.chapter}.py"))
    names = cells_before(root / "nbs" / f"{args.chapter}.ipynb", experiment["before"])
    runs: dict[str, list] = {}  # for each name, one result per seed
    for seed in range(args.seeds):
        start = time.perf_counter()
        with contextlib.chdir(root / "nbs"):
            results = experiment["run"](names, seed)
        for name, result in results.items():
            runs.setdefault(name, []).append(result)
        print(f"seed {seed}: {time.perf_counter() - start:.1f} s", flush=True)
    command = f"python benchmarks/starts/run.py {args.chapter} --seeds {args.seeds}"
    write(here / f"{args.chapter}.json", record({"command": command, "what": experiment["__doc__"]}), runs)


def write(path: Path, about: dict, runs: dict[str, list]) -> None:
    "Write the results as JSON, one line for each start."
    lists = []
    for name, results in runs.items():
        lists.append(f"{json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, results)) + "]")
    text = json.dumps(about, ensure_ascii=False, indent=1).removesuffix("\n}")
    path.write_text(text + ',\n "runs": {' + ",\n ".join(lists) + "}}\n", encoding="utf-8")
    print(f"wrote {path.relative_to(root)}")


if __name__ == "__main__":
    main()
