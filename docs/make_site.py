"""Make the reading site in `docs/_build/site`: `python run.py site`, or `make site`.

The notebooks become pages as they are stored; nothing is executed. The search reads an index of their sections, and the
glass translator reads the model in `docs/glass/model`. With `--book` Chromium prints all chapters as one PDF.
"""
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from bs4 import BeautifulSoup
from make_pictures import fingerprint
from PIL import Image

docs = Path(__file__).resolve().parent
root, build = docs.parent, docs / "_build"
source, html, site = build / "source", build / "html", build / "site"
parts = {  # of the first page's map, by the beginnings of names
    "I. From words to vectors": "00 01 02",
    "II. Attention": "03 04 05 06",
    "III. Learning": "07 08 09 10",
    "IV. A translator": "11 12 13 14",
    "V. From 2017 to today": "15 16 17 18 19",
}
beside = {  # a page of their own
    "A translator to use": "translator glass command_line command_line_options",
    "Faster": "speed/",
    "Other forms": "convert/",
    "Tools": "tools/",
}
directive = re.compile(r"#\|\s*(export|hide|default_exp\b.*)\n?|# NBVAL_IGNORE_OUTPUT\n?")
notebook_url = "https://colab.research.google.com/github/transformer-nbdev/transformer_nbdev/blob/main/nbs/"
base = "https://transformer-nbdev.github.io/transformer_nbdev/"  # where the site is published
serif = "source-serif-4-latin-"
formula = re.compile(r"\\[a-zA-Z]+|\\.|[{}$]")  # what is left of one where it is read as text
code_cell = re.compile(r'(<div class="cell_input.*?<pre>).*?(?=</pre>)', re.S)
output_text = re.compile(r'(<div class="output (?:(?!<pre>).)*<pre)>(.*?)(?=</pre>)', re.S)
evening = re.compile(r"^(?=\**This is (?:an?|another|the end of the core path\W*and a) good place to stop)", re.M)
named = re.compile(r"(?<![`\[])`([\w/]+)`(?![`\]])")

live = """<iframe class="glass" src="glass/index.html?embed" title="The glass translator: type a number, cover a word">
</iframe>

**Type a number, or cover a word** and see what the model writes without it. <a href="glass/index.html">Look
inside</a>, or [begin with chapter 00](00_foundations.ipynb). Below, the same kind of model is still learning:"""

mended = {  # for people who use the keyboard or a screen reader
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    '<summary aria-label="Toggle hidden content">': "<summary>",
    'class="headerlink"': 'class="headerlink" tabindex="-1"',
}


def slug(heading: str) -> str:
    "The fragment of a heading, as JupyterLab makes it: the notebooks link to each other by these."
    return heading.replace(" ", "-")


def linked(text: str, page: str, names: list[str]) -> str:
    "Names of notebooks become links to them."
    def link(found: re.Match) -> str:
        to = os.path.relpath(found[1], os.path.dirname(page) or ".")
        return f"[`{found[1]}`]({to}.ipynb)" if found[1] in names and ("_" in found[1] or "/" in found[1]) else found[0]
    lines = [line if line.startswith("#") else named.sub(link, line) for line in text.split("\n")]
    return "\n".join(lines)


def as_page(name: str, names: list[str]) -> dict:
    "A notebook without what only the machinery reads; what is folded there, and imports, are folded here."
    notebook = json.loads((root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells, pictures = [], pictures_of(name)
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = evening.sub('<hr class="evening">\n\n', linked(text, name, names))
            if name == "index":
                text = text.replace("# transformer_nbdev\n", "# Transformer, from nothing\n", 1)
                text = text.replace("\n![", f"\n{live}\n\n![", 1)  # above the first picture
            if text.startswith("# ") and not cells:
                more = f" Or {{download}}`download the notebook </notebooks/{name}.ipynb>`."
                text = re.sub(r"(?<=\[Binder\]\()([^)]*\)\.)", lambda found: found[1] + more, text, count=1)
        else:
            if "#| hide" in text or "google.colab" in text or "remove-cell" in cell["metadata"].get("tags", []):
                continue
            if re.search(r"^\w+ = Exercise\(", text, re.M):  # holds the answer, and checks nothing without Python
                continue
            text = directive.sub("", text)
            imports = text.startswith(("import ", "from ")) and not cell["outputs"]
            if imports or cell["metadata"].get("jupyter", {}).get("source_hidden"):
                cell["metadata"] = {"tags": ["hide-input"]}
            if "#| echo: false" in text:
                cell["metadata"] = {"tags": ["remove-input"]}
            cell["outputs"] = as_outputs(cell, name, pictures.get(cell["id"], {}))
        if text.strip():
            cells.append({**cell, "source": text})
    notebook["metadata"] = {"kernelspec": notebook["metadata"]["kernelspec"], "tocdepth": 2}
    return {**notebook, "cells": cells}


def read_out(text: str) -> str:
    "Text with formulas, as a screen reader should meet it."
    return " ".join(formula.sub(" ", text).split())


def pictures_of(name: str) -> dict:
    "What `make_pictures.py` has kept of a notebook, by the id of the cell."
    path = docs / "pictures" / name / "about.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def raw(markup: str) -> dict:
    "An output that is HTML."
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": markup}}


def as_outputs(cell: dict, name: str, kept: dict) -> list[dict]:
    "The outputs of a cell for a page: figures sharp and in words, sliders that move, links to what needs Python."
    place = "../" * name.count("/") + f"_static/pictures/{name}"
    colab = f'<a href="{notebook_url}{name}.ipynb#scrollTo={cell["id"]}">'
    if kept.get("source") != fingerprint("".join(cell["source"])):
        kept = {"figures": [], "frames": None}
    figures, outputs = iter(kept["figures"]), []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "application/vnd.jupyter.widget-view+json" in data:
            if kept["frames"] and kept["frames"]["controls"]:
                about = json.dumps(kept["frames"], ensure_ascii=False).replace("</", "<\\/")
                outputs.append(raw(f'<div class="frames" data-source="{place}/{cell["id"]}.bin">'
                                   f'<script type="application/json">{about}</script></div>'))
            else:
                outputs.append(raw(f'<p class="live">This one needs Python: {colab}try it in Colab</a>.</p>'))
        elif "image/png" in data and (figure := next(figures, None)):
            width, height = (side // 2 for side in figure["size"])
            outputs.append(raw(f'<img src="{place}/{figure["file"]}" alt="{escape(read_out(figure["alt"]))}" '
                               f'width="{width}" height="{height}" loading="lazy">'))
        elif "returns nothing yet" in "".join(output.get("text", "")):
            link = f"{colab}solve it in Colab</a>, or in your own JupyterLab"
            outputs.append(raw(f'<p class="live">Your turn: {link}.</p>'))
        else:
            outputs.append(output)
    return outputs


def toctree(names: list[str], caption: str = "", *options: str) -> str:
    "What Sphinx makes the sidebar from."
    lines = [*([f":caption: {caption}"] if caption else []), *options, "", *names]
    return "\n".join(["```{toctree}", *lines, "```", ""])


def trees_of(groups: dict[str, str], names: list[str], *options: str) -> Iterator[str]:
    "A toctree for each group of notebooks."
    for group, starts in groups.items():
        yield toctree([numbered(one) for one in names if belongs(one, starts.split())], group, *options)


def numbered(name: str) -> str:
    "A chapter as an entry of the sidebar: its number, its title and its page."
    if not name[:2].isdigit():
        return name
    cells = json.loads((root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    title = "".join(cells[0]["source"]).split("\n")[0].removeprefix("# ")
    return f"{name[:2]} {title} <{name}>"


def write_reference(names: list[str]) -> None:
    "A page for each module, from its docstrings."
    (source / "reference").mkdir()
    modules = {}
    for name in names:
        text = (root / "nbs" / f"{name}.ipynb").read_text(encoding="utf-8")
        if made := re.search(r'"#\| *default_exp +([\w.]+)', text):
            modules[made[1]] = name
    for module, name in modules.items():
        text = f"# {module}\n\nDerived and tested in [{name}](../{name}.ipynb).\n\n"
        text += f"```{{eval-rst}}\n.. automodule:: transformer_nbdev.{module}\n```\n"
        (source / "reference" / f"{module}.md").write_text(text, encoding="utf-8")
    text = "# Reference\n\nEvery module of the package, and what it is for.\n\n"
    for module in modules:
        code = (root / "transformer_nbdev" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        text += f"- [{module}]({module}.md): {ast.get_docstring(ast.parse(code)).splitlines()[0]}\n"
    text += "\n" + toctree([*modules], "", ":hidden:")
    (source / "reference" / "index.md").write_text(text, encoding="utf-8")


def belongs(name: str, starts: list[str]) -> bool:
    "Whether a notebook is of this part: its number, its folder or its name says so."
    return name in starts or name.split("_")[0] in starts or any(x.endswith("/") and name.startswith(x) for x in starts)


def prepare() -> None:
    "Write what Sphinx reads; what is as before keeps its time, and Sphinx leaves its page alone."
    before = source.with_name("source-before")
    shutil.rmtree(before, ignore_errors=True)
    if source.exists():
        source.rename(before)
    source.mkdir(parents=True)
    paths = sorted(path for path in (root / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    names = [path.relative_to(root / "nbs").with_suffix("").as_posix() for path in paths]
    for name in names:
        page = as_page(name, names)
        if name == "index":
            trees = [*trees_of(parts, names, ":hidden:")]
            package = ["beside", "reference/index", "coming_from", "promises", "changes"]
            trees.append(toctree(package, "The package", ":hidden:"))
            contents = {"cell_type": "markdown", "id": "contents", "metadata": {}, "source": "\n".join(trees)}
            page["cells"].append(contents)
        (source / name).parent.mkdir(exist_ok=True)
        (source / f"{name}.ipynb").write_text(json.dumps(page), encoding="utf-8")
    write_reference(names)
    trees = trees_of(beside, names, ":maxdepth: 1")
    text = "\n".join(["# Beside the course", "", "Guides, and how the package works.", "", *trees])
    (source / "beside.md").write_text(text, encoding="utf-8")
    for path in (root / "nbs" / "first_look.gif", docs / "conf.py", docs / "promises.md", docs / "coming_from.md"):
        shutil.copy(path, source)
    shutil.copy(root / "CHANGELOG.md", source / "changes.md")
    no_notebook = shutil.ignore_patterns(".*", "*.png", "*.gif", "*.json", "*.tsv")
    shutil.copytree(root / "nbs", source / "notebooks", ignore=no_notebook)
    for folder in ("_static", "_templates"):
        shutil.copytree(docs / folder, source / folder)
    if (docs / "pictures").is_dir():
        shutil.copytree(docs / "pictures", source / "_static" / "pictures", ignore=shutil.ignore_patterns("*.json"))
    now, then = ({p.relative_to(folder) for p in folder.rglob("*") if p.is_file()} for folder in (source, before))
    anew = bool(then - now)  # Sphinx would leave the page of a file that has gone
    for path in now:
        if path in then and (before / path).read_bytes() == (source / path).read_bytes():
            shutil.copystat(before / path, source / path)
        elif path.name == "conf.py" or path.parent.name == "_templates":  # of all pages
            anew = True
    if anew:
        shutil.rmtree(html, ignore_errors=True)
        shutil.rmtree(build / "doctrees", ignore_errors=True)


def sections() -> list[dict]:
    "Each section of the pages with its own text, code and subsections left out: what the search finds."
    found = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if path.stem == "404" or name.startswith(("glass/", "_")) or name == "search.html":
            continue
        text = path.read_text(encoding="utf-8")  # the code of a long chapter takes most of the time, and is left out
        article = code_cell.sub(r"\1", text[text.find("<article"):text.find("</article>")])
        page = BeautifulSoup(article, "html.parser")
        for section in page.select("article section[id]"):
            for part in section.select("a.headerlink, div.cell_input, details summary"):
                part.extract()
            heading = section.find(re.compile("^h[1-4]$"), recursive=False)
            own = [part for part in section.children if part.name not in (None, "section", heading.name)]
            title, whole = (x.get_text(" ", strip=True) for x in (heading, page.h1))
            exercise = section["id"] == "exercises" or section.find_parent("section", id="exercises")
            weight = 0.3 if exercise else 0.5 if "deeper" in title or name.startswith("reference/") else 1
            found.append({
                "url": f"/{name}#{section['id']}", "page": whole, "title": title, "weight": weight,
                "text": read_out(" ".join(part.get_text(" ") for part in own)),
            })
        kinds = "dl:is(.function, .class, .method) > dt[id]"
        for entry in page.select(kinds) if name.startswith("reference/") else ():
            title = entry["id"].removeprefix("transformer_nbdev.")
            first = entry.find_next_sibling("dd").find("p")
            text = read_out(first.get_text(" ")) if first else ""
            found.append({"url": f"/{name}#{entry['id']}", "page": title, "title": title, "weight": 0.4, "text": text})
    glass = "The glass translator"
    about = "Type a number, cover a word, silence heads: a small Transformer that shows all it computes."
    return [*found, {"url": "/glass/index.html", "page": glass, "title": glass, "weight": 1, "text": about}]


def still_contents() -> None:
    "The theme's table of contents lays out the whole page to know where its headings are; ours waits (`frames.js`)."
    script = site / "_static" / "scripts" / "furo.js"
    theirs, text = 'null!==o&&new(e())(".toc-tree a"', script.read_text(encoding="utf-8")
    if theirs not in text:
        sys.exit("furo.js has changed: look for what follows the headings")
    script.write_text(text.replace(theirs, theirs.replace("null!==o", "!1")), encoding="utf-8")


def reachable(found: re.Match) -> str:
    "A printed text that is too wide to be seen whole can be scrolled by the keyboard, too."
    wide = max(map(len, re.sub("<[^>]*>", "", found[2]).split("\n"))) > 88
    return f'{found[1]} tabindex="0">{found[2]}' if wide else found[0]


def still_picture() -> None:
    "The first page's moving picture stands still for readers who have asked for no motion."
    path, moving = site / "index.html", "_images/first_look.gif"
    with Image.open(site / moving) as film:
        film.seek(film.n_frames - 1)
        film.convert("RGB").save(site / "_images" / "first_look.png")
    page = path.read_text(encoding="utf-8")
    image = re.search(rf'<img [^>]*src="{moving}"[^>]*>', page)[0]
    still = '<source media="(prefers-reduced-motion: reduce)" srcset="_images/first_look.png">'
    path.write_text(page.replace(image, f"<picture>{still}{image}</picture>"), encoding="utf-8")


def mend_pages() -> None:
    "Give the pages what the generator leaves out."
    (site / "search.html").unlink()  # ours is in the sidebar
    still_picture()
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        for old, new in mended.items():
            page = page.replace(old, new)
        page = re.sub(r'<link rel="search"[^>]*>', "", page)
        page = output_text.sub(reachable, page)
        here = "../" * (len(path.relative_to(site).parts) - 1)  # links to the published site become local
        published = rf'(<a [^>]*href="){base}((?:[^".]+[.]html[^"]*)?)(?=")'
        page = re.sub(published, lambda link: link[1] + here + (link[2] or "index.html"), page)
        fonts = [f"{here}_static/fonts/{serif}{style}.woff2" for style in ("400-normal", "600-normal", "400-italic")]
        early = "".join(f'<link rel="preload" href="{font}" as="font" crossorigin>' for font in fonts)
        path.write_text(page.replace("<head>", f"<head>{early}", 1), encoding="utf-8")


def add_feed() -> None:
    "What has changed, for feed readers."
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## ([\d-]+): (.+)\n\n(.+?)\n*(?=^## |\Z)", changes, re.M | re.S)
    feed = ElementTree.Element("feed", xmlns="http://www.w3.org/2005/Atom")

    def add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
        child = ElementTree.SubElement(parent, tag, attributes)
        child.text = text or None
        return child

    add(feed, "title", "Transformer, from nothing")
    add(feed, "id", base)
    add(feed, "link", href=base + "feed.xml", rel="self")
    add(feed, "updated", entries[0][0] + "T00:00:00Z")
    add(add(feed, "author"), "name", "The transformer_nbdev authors")
    for day, title, text in entries:
        entry, page = add(feed, "entry"), base + "changes.html"
        add(entry, "title", title)
        add(entry, "id", f"{page}#{day}")
        add(entry, "link", href=page)
        add(entry, "updated", day + "T00:00:00Z")
        add(entry, "summary", " ".join(text.split()))
    ElementTree.ElementTree(feed).write(site / "feed.xml", encoding="utf-8", xml_declaration=True)


def from_npm() -> Path:
    "The folder of what npm brings."
    if not (docs / "node_modules").is_dir():
        if not shutil.which("npm"):
            sys.exit("npm is needed for the search and the glass translator: install Node.js 20 or newer")
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=docs, check=True)
    return docs / "node_modules"


def set_type(packages: Path) -> None:
    "Turn TeX into what a browser shows, here rather than on every reader's phone; and bring the letters."
    subprocess.run(["node", docs / "render_math.mjs", site], check=True)
    katex = site / "_static" / "katex"
    (katex / "fonts").mkdir(parents=True)
    shutil.copy(packages / "katex" / "dist" / "katex.min.css", katex)
    for font in (packages / "katex" / "dist" / "fonts").glob("*.woff2"):
        shutil.copy(font, katex / "fonts")
    fonts = packages / "@fontsource" / "source-serif-4" / "files"
    (site / "_static" / "fonts").mkdir()
    for style in ("400-normal", "400-italic", "600-normal"):
        shutil.copy(fonts / f"{serif}{style}.woff2", site / "_static" / "fonts")


def add_search(packages: Path) -> None:
    "The index of sections, and the library that searches it."
    (site / "_static" / "sections.json").write_text(json.dumps(sections(), ensure_ascii=False), encoding="utf-8")
    shutil.copy(packages / "minisearch" / "dist" / "es" / "index.js", site / "_static" / "minisearch.js")


def add_glass(packages: Path) -> None:
    "The glass translator: its files, its model, and the one library that it takes from npm."
    place = site / "glass"
    shutil.copytree(docs / "glass", place, ignore=shutil.ignore_patterns("*.py", "__pycache__", "model", "first.html"))
    page = (place / "index.html").read_text(encoding="utf-8")
    first = (docs / "glass" / "first.html").read_text(encoding="utf-8")  # what the page shows until its model has come
    (place / "index.html").write_text(page.replace("<!-- first -->", first), encoding="utf-8")
    for name in ("weights.bin.gz", "model.json"):
        shutil.copy(docs / "glass" / "model" / name, place)
    (place / "vendor").mkdir()
    shutil.copy(packages / "htm" / "preact" / "standalone.module.js", place / "vendor" / "preact.js")


def main() -> None:
    "All of it."
    prepare()
    strict = ["-q", "-W", "--keep-going"]
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", *strict, "-d", build / "doctrees", source, html]
    if subprocess.run(sphinx, env={**os.environ, "COURSE_DOCS": str(docs)}).returncode:
        sys.exit("Sphinx has complained: a warning is an error here")
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(html, site)
    mend_pages()
    still_contents()
    add_feed()
    packages = from_npm()
    add_search(packages)
    set_type(packages)
    add_glass(packages)
    print(f"{sum(1 for _ in site.rglob('*.html'))} pages: {site / 'index.html'}")
    if "--book" in sys.argv:
        subprocess.run(["node", docs / "make_pdf.mjs", site, site / "course.pdf"], check=True)


if __name__ == "__main__":
    main()
