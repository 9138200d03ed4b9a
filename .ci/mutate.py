#!/usr/bin/env python3
"""Plant bugs by machine in the exported cells of notebooks, one at a time, and see whether anything notices.

    .ci/mutate.py 03_attention 04_multi_head --bugs 12 --seed 0      some notebooks
    .ci/mutate.py --bugs 12 --store                                  all, results into .ci/mutants.tsv (hours)
    .ci/mutate.py --bugs 12 --store --again                          only what survived and has no reason yet

A bug is an operator, number, axis, comparison or argument exchanged, or a term dropped, in an exported cell. In a copy
of the project with the bug in notebook and package, the notebook runs as in the tests; it has noticed if a cell fails
or prints something else. If it has not, the tests run that name the module or something that it exports. Who survives
needs a check, or a reason why nothing changes: the last column of the table, kept when the same bug is tried again.
"""
import argparse
import ast
import csv
import functools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from transformer_nbdev.tools.exercises import wrong_answers

root = Path(__file__).resolve().parent.parent
stored = root / ".ci" / "mutants.tsv"
columns = ["notebook", "cell", "bug", "noticed by", "reason"]
not_about_code = {"test_pages", "test_set_up", "test_kills", "test_structure"}


@functools.cache
def cells(name: str) -> list[dict]:
    "The cells of a notebook."
    return json.loads((root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def bugs(name: str) -> list[tuple[int, str]]:
    "All single changes of exported cells: the cell's index and its new source."
    found = []
    for i, cell in enumerate(cells(name)):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or not source.startswith("#| export"):
            continue
        first, body = source.split("\n", 1)
        kinds = (ast.FunctionDef, ast.ClassDef)
        if any(isinstance(node, kinds) for node in ast.parse(body).body):
            found += [(i, f"{first}\n{program}") for program in wrong_answers(body)]
    return found


def module(name: str) -> str | None:
    "The module that a notebook compiles into."
    for cell in cells(name):
        if line := re.match(r"#\| default_exp ([\w.]+)", "".join(cell["source"])):
            return line[1]
    return None


def copied(folder: Path, name: str, index: int | None, source: str) -> None:
    "A project of links, but for this notebook and the package, which have the bug."
    for item in root.iterdir():
        if item.name not in ("nbs", "transformer_nbdev"):
            (folder / item.name).symlink_to(item)
    for item in [*(root / "nbs").rglob("*"), *(root / "transformer_nbdev").rglob("*")]:
        if item.is_file():
            (place := folder / item.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(item)
    if index is None:
        return
    notebook = json.loads((root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8"))
    notebook["cells"][index]["source"] = source.splitlines(keepends=True)
    (folder / "nbs" / f"{name}.ipynb").unlink()
    (folder / "nbs" / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    code = folder / "transformer_nbdev" / f"{module(name).replace('.', '/')}.py"
    parts = re.split(r"(?m)^(?=# %% )", code.read_text(encoding="utf-8"))
    mark = f"#{notebook['cells'][index]['id']}\n"
    assert sum((part.partition("\n")[0] + "\n").endswith(f"/nbs/{name}.ipynb {mark}") for part in parts) == 1
    body = source.split("\n", 1)[1]
    changed = [part.partition("\n")[0] + f"\n{body}\n\n" if part.partition("\n")[0].endswith(mark.strip()) else part
               for part in parts]
    code.unlink()
    code.write_text("".join(changed), encoding="utf-8")


def tests_of(name: str) -> list[str]:
    "The test files that name the module or something that it exports."
    code = (root / "transformer_nbdev" / f"{module(name).replace('.', '/')}.py").read_text(encoding="utf-8")
    exports = re.search(r"__all__ = \[(.*?)\]", code, re.DOTALL)
    names = [module(name).split(".")[-1], *re.findall(r"'(\w+)'", exports[1] if exports else "")]
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    files = [path for path in (root / "tests").glob("test_*.py") if path.stem not in not_about_code]
    details = root / "tests" / "test_details.py"  # written for such bugs: first
    files = [details, *sorted(path for path in files if path != details and pattern.search(path.read_text("utf-8")))]
    return [f"tests/{path.name}" for path in files]


def first_complaint(folder: Path, arguments: list[str]) -> str | None:
    "What the first failed cell or test is called; None if there is none."
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode == 0:
        return None
    failed = re.findall(r"(?m)^(?:FAILED|ERROR) (?:\S*/)?(\S+)", done.stdout)
    return (failed or done.stdout.splitlines()[-1:] or ["no output"])[0][:80]


def noticed(name: str, index: int | None = None, source: str = "") -> str | None:
    "What the notebook, then the tests, say to this bug."
    with tempfile.TemporaryDirectory() as place:
        copied(Path(place), name, index, source)
        notebook = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600", "--nbval-sanitize-with",
                    ".ci/sanitize.cfg", f"nbs/{name}.ipynb"]
        return first_complaint(Path(place), notebook) or first_complaint(Path(place), tests_of(name))


def changed_line(old: str, new: str) -> str:
    "What the bug looks like: the lines of the new program that the old one has not."
    plain = {line.strip() for line in ast.unparse(ast.parse(old.split("\n", 1)[1])).splitlines()}
    return " / ".join(line.strip() for line in new.splitlines()[1:] if line.strip() not in plain)[:160]


def key(name: str, index: int, source: str) -> tuple[str, str, str]:
    "What the table calls a bug."
    cell = cells(name)[index]
    return name, cell["id"], changed_line("".join(cell["source"]), source)


def store(table: dict[tuple[str, str, str], dict]) -> None:
    "Write the table anew."
    with stored.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(table[found] for found in sorted(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="default: all that export")
    parser.add_argument("--bugs", type=int, default=12, help="of each notebook, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", action="store_true", help=f"add what is found to {stored.relative_to(root)}")
    parser.add_argument("--again", action="store_true", help="only bugs that survived before, without a reason")
    arguments = parser.parse_args()
    rows = list(csv.DictReader(stored.open(encoding="utf-8"), delimiter="\t")) if stored.exists() else []
    table = {(row["notebook"], row["cell"], row["bug"]): row for row in rows}
    tried = survived = 0
    for name in arguments.notebooks or sorted(
        path.relative_to(root / "nbs").with_suffix("").as_posix() for path in (root / "nbs").rglob("[!.]*.ipynb")
    ):
        everything = bugs(name)
        if everything and not arguments.again and (complaint := noticed(name)):
            sys.exit(f"{name} fails without a bug: {complaint}")
        keys = [key(name, *bug) for bug in everything]
        table = {old: row for old, row in table.items() if old[0] != name or old in keys}  # the code has changed
        some = random.Random(arguments.seed).sample(range(len(keys)), min(arguments.bugs, len(keys)))
        for i in range(len(keys)) if arguments.again else some:
            row = table.get(keys[i], {"noticed by": "", "reason": "none" if arguments.again else ""})
            if arguments.again and (row["noticed by"] or row["reason"]):
                continue
            complaint = noticed(name, *everything[i])
            tried, survived = tried + 1, survived + (complaint is None)
            print("caught  " if complaint else "SURVIVES", *keys[i], complaint or "", sep=" | ", flush=True)
            table[keys[i]] = row | dict(zip(columns, (*keys[i], complaint or "")))
            if arguments.store:
                store(table)
        if arguments.store:
            store(table)
    print(f"{tried} bugs, {survived} survive")


if __name__ == "__main__":
    main()
