"What a checker says to a reader, what `progress` prints, and who proves the solutions."
import json
import os
import re
import sys
from itertools import takewhile

import pytest
from helpers import root

from transformer_nbdev.tools.exercises import Exercise, begin, check_solutions, progress

double = Exercise("double", lambda x: 2 * x, lambda rng: (rng.random((2, 3)),))


def test_a_forgotten_return_is_not_a_stub():
    def stub(x): ...

    def begun(x):
        "The first line is there, the rest is not."
        x *= 2
        ...

    def forgot(x):
        x[..., :] *= 2  # dots of another kind

    for attempt in (stub, begun):
        assert double.diagnose(attempt) == "double returns nothing yet: replace the dots"
    assert double.diagnose(forgot) == "the function returns None: a `return` is missing"
    assert double.diagnose(lambda x: x.sort()) == "the function returns None"


pair = Exercise("pair", lambda x: (x.min(), x.max()), lambda rng: (rng.random(4),))


@pytest.mark.parametrize(("exercise", "attempt", "sentence"), [
    (double, lambda x: (x, 2 * x[0]), "you returned a tuple of 2, expected an array of shape (2, 3)"),
    (double, lambda x: 2 * x.T, "the result has shape (3, 2), expected (2, 3): transpose it"),
    (double, lambda x: x[0] if x[0, 0] < 0.6 else None, "you returned None, expected an array of shape (2, 3)"),
    (pair, lambda x: (x.min(), x.mean(), x.max()), "you returned a tuple of 3, expected a tuple of 2"),
    (pair, lambda x: (x.min(), -x.max()), "part 2 of the result: the sign is wrong everywhere"),
])
def test_a_tuple_is_called_a_tuple(exercise, attempt, sentence):
    assert exercise.diagnose(attempt) == sentence


def test_arrays_that_are_not_tensors_are_named_as_such():
    torch = pytest.importorskip("torch")
    hint = "The arrays here are NumPy arrays, not tensors"
    for attempt in (lambda x: x.softmax(-1), lambda x: torch.softmax(x, -1)):
        assert double.diagnose(attempt).endswith(hint)
    for attempt in (lambda x: x + None, lambda x: x @ x):
        assert "NumPy arrays" not in double.diagnose(attempt)


def test_the_case_that_failed_can_be_run_again(capsys, monkeypatch):
    big = Exercise("big", lambda n: n, lambda rng: (int(rng.integers(0, 10)),), n_cases=20)
    monkeypatch.setattr(sys.modules["__main__"], "big_exercise", big, raising=False)
    big.check(lambda n: 1 / 0 if n == 7 else n)
    assert big.case == (7,)
    assert "to run it again: big(*big_exercise.case)" in capsys.readouterr().out
    big.check(lambda n: n + 1)  # a sentence that needs no case
    assert "again" not in capsys.readouterr().out


def test_progress_remembers_what_was_solved(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_NBDEV_HOME", str(tmp_path))
    try:
        for chapter in ("03_attention", "translator"):
            begin(chapter)
            for name in ("one", "two", "three"):
                exercise = Exercise(name, double.reference, double.draw)
                exercise.check(lambda x: (2 if name != "three" else 3) * x)
            Exercise("one", double.reference, double.draw)  # the cell is run again
    finally:
        begin("")
    capsys.readouterr()
    progress()
    first, attention, search = capsys.readouterr().out.splitlines()
    assert first == "solved: 4 of the 6 exercises in the notebooks that you have run"
    assert attention.split() == ["03_attention", "2", "of", "3", "open:", "three"] and search.startswith("translator")


def test_solutions_are_proved_by_the_tests_and_nobody_else(monkeypatch, tmp_path):
    assert os.environ["TRANSFORMER_NBDEV_CHECK_SOLUTIONS"]  # conftest.py
    text = "<details>\n```python\ndef double(x):\n    return 3 * x\n```\n</details>"
    wrong = tmp_path / "wrong.ipynb"
    wrong.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": [text]}]}), encoding="utf-8")
    with pytest.raises(AssertionError, match="the solution of double fails: it is 1.5 times"):
        check_solutions(str(wrong), {"exercise": double})
    monkeypatch.delenv("TRANSFORMER_NBDEV_CHECK_SOLUTIONS")
    check_solutions(str(wrong), {"exercise": double})


every = [path for path in sorted((root / "nbs").rglob("[!.]*.ipynb")) if path.stem != "index"]


@pytest.mark.parametrize("path", every, ids=lambda p: p.stem)
def test_a_notebook_begins_with_its_title_folds_the_machinery_and_proves_its_solutions_last(path):
    title, *cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert title["cell_type"] == "markdown" and "".join(title["source"]).startswith("# ")
    first, *rest = takewhile(lambda cell: cell["cell_type"] == "code", cells)
    assert "".join(first["source"]).startswith("# Only on Google Colab")
    imports = [cell for cell in rest if re.match(r"(#\|.*\n)*(import|from) ", "".join(cell["source"]))]
    assert all(cell["metadata"].get("jupyter", {}).get("source_hidden") for cell in [first, *imports])
    proofs = [cell for cell in cells if f'\ncheck_solutions("{path.name}", globals())' in "".join(cell["source"])]
    if any("= Exercise(" in "".join(cell["source"]) for cell in cells) and path.stem != "exercises":
        assert proofs == cells[-1:] and "remove-cell" in cells[-1]["metadata"]["tags"]
