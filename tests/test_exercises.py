"What a checker says to a reader, what `progress` counts, and who proves the solutions."
import json
import os
import re
import sys
from itertools import takewhile

import numpy as np
import pytest
from helpers import root

from transformer_nbdev.tools import exercises
from transformer_nbdev.tools.exercises import Exercise, begin, check_solutions, progress

double = Exercise("double", lambda x: 2 * x, lambda rng: (rng.random((2, 3)),))


def notebook_cells(path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_a_forgotten_return_is_not_a_stub():
    def stub(x): ...

    def begun(x):
        "The first line is there, the rest is not."
        x *= 2
        ...

    def forgot(x):
        x[..., :] *= 2  # dots of another kind

    def sorts(x):
        return x.sort()

    scope = {}
    exec("def unseen(x):\n    y = 2 * x", scope)
    for attempt in (stub, begun, lambda x: ...):
        assert double.diagnose(attempt) == "double returns nothing yet: replace the dots"
    assert double.diagnose(forgot) == "the function returns None: a `return` is missing"
    for attempt in (sorts, lambda x: None, scope["unseen"]):  # there is one, or the source is not at hand
        assert double.diagnose(attempt) == "the function returns None"


def test_a_tuple_is_called_a_tuple():
    one_row = "expected an array of shape (2, 3)"
    assert double.diagnose(lambda x: (x, 2 * x[0])) == f"you returned a tuple of 2, {one_row}"
    assert double.diagnose(lambda x: (x[0], 2 * x)) == f"you returned a tuple of 2, {one_row}"
    assert double.diagnose(lambda x: (2 * x.T, x.T, x.T)) == f"you returned a tuple of 3, {one_row}"
    assert double.diagnose(lambda x: 2 * x.T) == "the result has shape (3, 2), expected (2, 3): transpose it"
    assert double.diagnose(lambda x: x[0] if x[0, 0] < 0.6 else None) == f"you returned None, {one_row}"
    first_two = Exercise("first_two", lambda x: x[:2], lambda rng: (rng.random(4),))
    assert first_two.diagnose(lambda x: (x, x[:2])) == "you returned a tuple of 2, expected an array of shape (2,)"
    assert "in reverse order" in first_two.diagnose(lambda x: (x[1], x[0]))  # as good as an array
    pair = Exercise("pair", lambda x: (x.min(), x.max()), lambda rng: (rng.random(4),))
    assert pair.diagnose(lambda x: (x.min(), x.mean(), x.max())) == "you returned a tuple of 3, expected a tuple of 2"
    assert pair.diagnose(lambda x: x) == "you returned an array of shape (4,), expected a tuple of 2"
    single = Exercise("single", lambda x: x.max(), lambda rng: (rng.random(4),))
    assert single.diagnose(lambda x: (x.max(), 1)) == "you returned a tuple of 2, expected a single value"


def test_arrays_that_are_not_tensors_are_named_as_such():
    torch = pytest.importorskip("torch")
    hint = "The arrays here are NumPy arrays, not tensors"
    for attempt in (lambda x: x.softmax(-1), lambda x: torch.softmax(x, -1), torch.nn.functional.relu):
        assert (found := double.diagnose(attempt)).endswith(hint), found
    for attempt in (lambda x: x + None, lambda x: x @ x, lambda x: x.shape.dim):
        assert "NumPy arrays" not in double.diagnose(attempt)
    of_tensors = Exercise("own", lambda x: x, lambda rng: (torch.ones(3),))
    assert "NumPy arrays" not in of_tensors.diagnose(lambda x: x.numpy().dim())


def test_the_case_of_an_unknown_mistake_can_be_called_again(capsys, monkeypatch):
    table = Exercise("table", lambda x: x.round(1), lambda rng: (rng.random((8, 9)),))
    monkeypatch.setattr(sys.modules["__main__"], "table_exercise", table, raising=False)

    def attempt(x):
        x[3] = x[3].round(2) + 1
        return x.round(1)

    table.check(attempt)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("✗ table: for one random case the result[3, 0] is")
    again = "  the arguments of this case are in {0}.case; to run it again: table(*{0}.case)"
    assert second == again.format("table_exercise")
    wrong = [not np.allclose(attempt(x.copy()), x.round(1)) for x, in table._cases()]
    assert wrong.index(True) == 0 and np.array_equal(table.case[0], table._cases()[0][0])  # as drawn, not as left


def test_the_case_is_the_one_that_failed(capsys):
    at_times = Exercise("big", lambda n: n, lambda rng: (int(rng.integers(0, 10)),), n_cases=20)
    at_times.check(lambda n: 1 / 0 if n == 7 else n)
    assert at_times.case == (7,)
    assert "to run it again: big(*exercise.case)" in capsys.readouterr().out
    at_times.diagnose(lambda n: -1 if n == 3 else n)
    assert at_times.case == (3,)
    at_times.check(lambda n: n + 1)  # a sentence that needs no case
    assert "again" not in capsys.readouterr().out


def test_progress_has_a_total(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_NBDEV_HOME", str(tmp_path))
    progress()
    first, not_begun = capsys.readouterr().out.splitlines()
    assert first == "solved: 0 of 143 exercises in the chapters"
    assert not_begun.startswith("not begun: 00_foundations, 01_embedding, ") and "14_" in not_begun
    try:
        for chapter in ("03_attention", "translator"):
            begin(chapter)
            for name in ("one", "two"):
                Exercise(name, double.reference, double.draw).check(lambda x: 2 * x)
            Exercise("three", double.reference, double.draw)
    finally:
        begin("")
    capsys.readouterr()
    progress()
    first, attention, search, not_begun = capsys.readouterr().out.splitlines()
    assert first == "solved: 2 of 143 exercises in the chapters, 2 of 36 in the guides"
    assert attention.split(maxsplit=4) == ["03_attention", "2", "of", "11", "open: three"]
    assert search.split() == ["translator", "2", "of", "3", "open:", "three"]
    assert "03_attention" not in not_begun and "15_" not in not_begun


def test_the_counts_are_those_of_the_notebooks():
    found = {}
    for path in sorted((root / "nbs").rglob("[!.]*.ipynb")):
        name = path.relative_to(root / "nbs").with_suffix("").as_posix()
        code = "\n".join("".join(c["source"]) for c in notebook_cells(path) if c["cell_type"] == "code")
        if chapter := re.search(r'^begin\("([\w/]+)"\)', code, re.M):
            assert chapter[1] == name
            found[name] = len(re.findall(r"= Exercise\(", code))
    assert exercises._counts == found


def write_notebook(path, solution: str) -> str:
    "A notebook of one folded solution."
    text = f"<details>\n```python\n{solution}```\n</details>"
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": [text]}]}), encoding="utf-8")
    return str(path)


def test_solutions_are_proved_by_the_tests_and_nobody_else(capsys, monkeypatch, tmp_path):
    assert os.environ["TRANSFORMER_NBDEV_CHECK_SOLUTIONS"]  # conftest.py
    wrong = write_notebook(tmp_path / "wrong.ipynb", "def double(x):\n    return 3 * x\n")
    right = write_notebook(tmp_path / "right.ipynb", "def double(x):\n    return 2 * x\n")
    with pytest.raises(AssertionError, match="the solution of double fails: it is 1.5 times"):
        check_solutions(wrong, {"exercise": double})
    check_solutions(right, {"exercise": double})
    monkeypatch.delenv("TRANSFORMER_NBDEV_CHECK_SOLUTIONS")
    check_solutions(wrong, {"exercise": double})
    assert capsys.readouterr() == ("", "")


def test_machine_made_wrong_answers_are_silent(recwarn):
    exercise = Exercise("middle", lambda x: np.mean(x[1:]), lambda rng: (rng.random(2),))
    exercises.attack(exercise, "def middle(x):\n    return np.mean(x[1:])\n", {"np": np})
    assert [str(warning.message) for warning in recwarn] == []


with_exercises = [path for path in sorted((root / "nbs").rglob("[!.]*.ipynb")) if "check_solutions(" in
                  path.read_text(encoding="utf-8") and path.stem != "exercises"]


@pytest.mark.parametrize("path", with_exercises, ids=lambda p: p.stem)
def test_the_proof_is_the_last_cell_and_out_of_sight(path):
    *_, last = cells = notebook_cells(path)
    first, second = "".join(last["source"]).splitlines()[:2]
    assert first == "# For the project's tests: every solution passes, every listed mistake is caught."
    assert second == f'check_solutions("{path.name}", globals())'
    assert last["outputs"] == []
    assert last["metadata"] == {"jupyter": {"outputs_hidden": True, "source_hidden": True}, "tags": ["remove-cell"]}
    assert sum("check_solutions(" in "".join(cell["source"]) for cell in cells) == 1


every = [path for path in sorted((root / "nbs").rglob("[!.]*.ipynb")) if path.stem != "index"]


@pytest.mark.parametrize("path", every, ids=lambda p: p.stem)
def test_a_notebook_begins_with_its_title_and_folds_the_machinery(path):
    title, *cells = notebook_cells(path)
    assert title["cell_type"] == "markdown" and "".join(title["source"]).startswith("# ")
    first, *rest = takewhile(lambda cell: cell["cell_type"] == "code", cells)
    assert "".join(first["source"]).startswith("# Only on Google Colab")
    imports = [cell for cell in rest if re.match(r"(#\|.*\n)*(import|from) ", "".join(cell["source"]))]
    assert all(cell["metadata"].get("jupyter", {}).get("source_hidden") for cell in [first, *imports])
