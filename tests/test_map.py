"Every link into a notebook names a notebook and a section that exist."
import json
import re
from pathlib import Path

import pytest
from helpers import root

pages = [root / "README.md", *sorted((root / "nbs").rglob("[!.]*.ipynb"))]


def markdown(path: Path) -> str:
    "The prose of a page, without blocks of code."
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def sections(path: Path) -> set[str]:
    "What JupyterLab calls the headings: their text, dashes for spaces. Only ASCII without maths arrives there."
    titles = re.findall(r"^#{1,6} +(.+?) *$", markdown(path), re.M)
    return {t.replace("`", "").replace(" ", "-") for t in titles if t.replace("·", "").isascii() and "$" not in t}


@pytest.mark.parametrize("path", pages, ids=lambda p: p.name)
def test_links_into_notebooks_arrive(path):
    text = re.sub(r"`[^`\n]*`", "", markdown(path))
    lost = []
    for link in re.findall(r"\]\((?![a-z]+:)([^)\s]*)\)", text):
        name, _, section = link.partition("#")
        file = path.parent / name if name else path
        if name and not file.exists() or section and section not in sections(file):
            lost.append(link)
    assert not lost, f"{path.name} links to {lost}"


def test_the_map_names_sections_by_their_headings():
    page, wrong = markdown(root / "nbs" / "index.ipynb"), []
    for label, name, anchor in re.findall(r"\[(\d\d [^\]]*)\]\((\w+\.ipynb)#([^)\s]*)\)", page):
        heading = re.sub(r"-·-(deeper|easy|medium|hard)$", "", anchor)
        if label.replace("`", "").replace(" ", "-") != f"{name[:2]}-{heading}":
            wrong.append(label)
    assert not wrong, f"labels that are not the headings: {wrong}"


def test_the_map_is_there():
    links = re.findall(r"\]\(\w+\.ipynb#", markdown(root / "nbs" / "index.ipynb"))
    assert len(links) > 150, f"{len(links)} links from the map into sections"


def test_the_map_counts_the_exercises():
    "The last column of the chapters is the number of checkers that the notebook has."
    page = markdown(root / "nbs" / "index.ipynb")
    rows = re.findall(r"^\| \[(\d\d_\w+)\]\(\1\.ipynb\) \| .* \| (\d+) \|$", page, re.M)
    assert len(rows) == 15
    for name, said in rows:
        cells = json.loads((root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        assert len(re.findall(r"= Exercise\(", code)) == int(said), name
    assert f"{sum(int(said) for _, said in rows)} exercises" in " ".join(page.split())
