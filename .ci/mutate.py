#!/usr/bin/env python3
"""Plant bugs by machine in the exported cells of notebooks, one at a time, and see whether the notebook notices.

    .ci/mutate.py 03_attention 04_multi_head --bugs 12 --seed 0

A bug is an operator, number, axis, comparison or argument exchanged, or a term dropped, in an exported cell. The
notebook runs as in the tests, in a copy; it has noticed if a cell fails or prints something else. Survivors are shown:
each needs a check, or a reason why nothing changes. Prints one line a bug; a run of a notebook is the price of each.
"""
import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from transformer_nbdev.exercises import wrong_answers

root = Path(__file__).resolve().parent.parent


def bugs(path: Path) -> list[tuple[int, str]]:
    "All single changes of exported cells: the cell's index and its new source."
    found = []
    for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or not source.startswith("#| export"):
            continue
        first, body = source.split("\n", 1)
        kinds = (ast.FunctionDef, ast.ClassDef)
        if any(isinstance(node, kinds) for node in ast.parse(body).body):
            found += [(i, f"{first}\n{program}") for program in wrong_answers(body)]
    return found


def notices(name: str, index: int, source: str) -> str | None:
    "The first complaint of the notebook with this cell changed; None if there is none."
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for item in root.iterdir():
            if item.name != "nbs":
                (copy / item.name).symlink_to(item)
        (copy / "nbs").mkdir()
        for item in (root / "nbs").iterdir():
            if item.name != f"{name}.ipynb":
                (copy / "nbs" / item.name).symlink_to(item)
        notebook = json.loads((root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8"))
        notebook["cells"][index]["source"] = source.splitlines(keepends=True)
        (copy / "nbs" / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env",
                   "--nbval-cell-timeout=120", "--nbval-sanitize-with", ".ci/sanitize.cfg", f"nbs/{name}.ipynb"]
        done = subprocess.run(command, cwd=copy, env={**os.environ, "PYTHONPATH": str(root)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return (failed or done.stdout.splitlines()[-1:] or ["no output"])[0][:100]


def changed_line(old: str, new: str) -> str:
    "What the bug looks like: the lines of the new program that the old one has not."
    plain = {line.strip() for line in ast.unparse(ast.parse(old.split("\n", 1)[1])).splitlines()}
    return " / ".join(line.strip() for line in new.splitlines()[1:] if line.strip() not in plain)[:160]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+")
    parser.add_argument("--bugs", type=int, default=12, help="of each notebook, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tried = survived = 0
    for name in arguments.notebooks:
        path = root / "nbs" / f"{name}.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        everything = bugs(path)
        for index, source in random.Random(arguments.seed).sample(everything, min(arguments.bugs, len(everything))):
            complaint = notices(name, index, source)
            tried, survived = tried + 1, survived + (complaint is None)
            line = changed_line("".join(cells[index]["source"]), source)
            print("caught  " if complaint else "SURVIVES", name, "|", line, "|", complaint or "", flush=True)
    print(f"{tried} bugs, {survived} survive")


if __name__ == "__main__":
    main()
