"""What the text says about a run is what the run says, and an exercise does not give itself away.

A number in Markdown beside a cell whose output is not compared (`NBVAL_IGNORE_OUTPUT`) must occur in the source or the
stored output of a cell nearby, perhaps rounded or as a share; a whole number may be a setting of any cell. The others
are facts of the text, from a paper or from arithmetic that the text explains, and `prose_facts/NOTEBOOK.tsv` lists
them: the number, a tab, the reason.
"""
import json
import re
from pathlib import Path

import pytest
from helpers import root

notebooks = sorted((root / "nbs").rglob("[!.]*.ipynb"))
facts = root / "tests" / "prose_facts"
number = re.compile(r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d*\.\d+|\d+)(\s?%| percent)?")
no_claim = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\[[^\]]*\]\([^)]*\)|<[^>]*>|\b[Ss]eeds? \d+", re.S)


def text_of(output: dict) -> str:
    "What an output shows as text."
    data = output.get("data", {})
    kinds = (output.get("text", ""), data.get("text/plain", ""), data.get("text/markdown", ""))
    return "\n".join(map("".join, kinds))


def near_text(cell: dict) -> str:
    "The source of a cell and the text of its outputs, without thousands separators."
    parts = ["".join(cell["source"]), *map(text_of, cell["outputs"])]
    return "\n".join(parts).replace(",", "")


def is_shown(claim: str, percent: bool, text: str) -> bool:
    "Whether the text has this number, rounded to its digits, or as a share."
    value, digits = float(claim), len(claim.partition(".")[2])
    shown = [float(found) for found in re.findall(r"\d*\.?\d+", text)]
    shown += [100 * x for x in shown] if percent else []
    return any(abs(x - value) <= 0.500001 * 10**-digits for x in shown)


def unshown(cells: list[dict]) -> list[tuple[str, str]]:
    "Numbers of the text beside uncompared outputs that nothing nearby shows, each with its surroundings."
    found = []
    source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    settings = set(re.findall(r"(?<![\w.])\d+(?![\w.])", source.replace("_", "")))
    for i, cell in enumerate(cells):
        near = [other for other in cells[max(0, i - 4) : i + 3] if other["cell_type"] == "code"]
        sources = ["".join(c["source"]) for c in near]
        varies = any("NBVAL_IGNORE_OUTPUT" in source and not source.startswith("#| hide") for source in sources)
        if cell["cell_type"] == "code" or not varies:
            continue
        text, shown = no_claim.sub(" ", "".join(cell["source"])), "\n".join(map(near_text, near))
        for match in number.finditer(text):
            claim, percent = match[1].replace(",", ""), bool(match[2])
            whole = not percent and "." not in claim
            free = whole and (int(claim) <= 12 or 1900 <= int(claim) < 2100 or claim in settings)
            if not free and not is_shown(claim, percent, shown):
                found.append((match[0].strip(), " ".join(text[max(0, match.start() - 60) : match.end() + 30].split())))
    return found


def listed(path: Path) -> set[str]:
    "The numbers that a notebook's list declares to be facts of its text."
    rows = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    assert all(re.fullmatch(r"[^\t]+\t.{10,}", row) for row in rows), f"{path.name}: number, tab, reason"
    return {row.split("\t")[0] for row in rows}


@pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
def test_numbers_in_the_text_are_those_of_the_run(path):
    found, known = unshown(json.loads(path.read_text(encoding="utf-8"))["cells"]), listed(facts / f"{path.stem}.tsv")
    assert [row for row in found if row[0] not in known] == []
    assert known <= {claim for claim, _ in found}, "no longer in the text"


def test_a_number_of_another_run_is_noticed():
    code = {"cell_type": "code", "source": ["# NBVAL_IGNORE_OUTPUT"], "outputs": [{"text": ["right: 0.842 of 1,200"]}]}
    for text, alone in (("84 % of 1,200", []), ("0.84, by six heads", []), ("85 %", ["85 %"]), ("13 heads", ["13"])):
        cells = [code, {"cell_type": "markdown", "source": [text]}]
        assert [claim for claim, _ in unshown(cells)] == alone


@pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
def test_a_stored_answer_to_a_stub_does_not_name_the_bug(path):
    if path.stem in ("exercises", "check"):  # they show what a checker says
        return
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    shown = "\n".join(text_of(output) for cell in cells for output in cell.get("outputs", []))
    said = [line for line in shown.splitlines() if line.startswith("✗")]
    assert [line for line in said if not re.search("replace the dots$|: as given: ", line)] == []


def test_every_stored_experiment_can_be_run_again():
    for script in sorted((root / "benchmarks" / "starts").glob("[0-9]*.py")):
        before = re.search(r'^before = "(\w+)"', script.read_text(encoding="utf-8"), re.M)[1]
        cells = json.loads((root / "nbs" / f"{script.stem}.ipynb").read_text(encoding="utf-8"))["cells"]
        stored = json.loads(script.with_suffix(".json").read_text(encoding="utf-8"))
        assert before in [cell["id"] for cell in cells]
        starts = [len(results) for results in stored["runs"].values()]
        if script.stem < "15":  # one: chosen beforehand, or a first start
            assert 20 in starts and {*starts} <= {1, 20}
        else:  # a start of part five trains many models
            assert max(starts) >= 5
