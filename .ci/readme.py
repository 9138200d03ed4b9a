"Make README.md from nbs/index.ipynb; with --check, only say whether it is up to date."
import re
import sys
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

root = Path(__file__).parent.parent


def readme() -> str:
    "The index as Markdown, less what is marked #| hide or not in README, and the code of #| echo: false."
    nb = nbformat.read(root / "nbs" / "index.ipynb", as_version=4)
    nb.cells = [cell for cell in nb.cells if not cell.source.startswith(("#| hide", "<!-- not in README -->"))]
    for cell in nb.cells:
        if cell.source.startswith("#| echo: false"):
            texts = ["".join(o["data"]["text/markdown"]) for o in cell.outputs if "data" in o]
            cell.update(nbformat.v4.new_markdown_cell("\n".join(texts), id=cell.id))
            cell.pop("outputs"), cell.pop("execution_count")
    text, _ = MarkdownExporter().from_notebook_node(nb)
    text = re.sub(r"\]\(([\w/]+\.(?:ipynb|png|gif))(#[^)]*)?\)", r"](nbs/\1\2)", text)
    return "<!-- made from nbs/index.ipynb by `python run.py readme` -->\n\n" + text.strip() + "\n"


if __name__ == "__main__":
    path, text = root / "README.md", readme()
    if "--check" not in sys.argv:
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        sys.exit("README.md is not what nbs/index.ipynb says: run: python run.py readme")
