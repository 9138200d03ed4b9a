"The rules of the house: imports, sizes, docstrings, type hints, links, and what importing changes."
import ast
import importlib
import json
import re
import sys
from pathlib import Path

import pytest
from helpers import package, root, run

import transformer_nbdev

notebooks = sorted(p for p in (root / "nbs").rglob("[!.]*.ipynb") if ".ipynb_checkpoints" not in p.parts)
modules = sorted(p for p in package.rglob("*.py") if p.name not in ("__init__.py", "_modidx.py", "__main__.py"))


def name_of(path: Path) -> str:
    "A module's name inside the package: `attention`, `tools.files`."
    return ".".join(path.relative_to(package).with_suffix("").parts)


names = [name_of(path) for path in modules]
each_notebook = pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
each_module = pytest.mark.parametrize("path", modules, ids=name_of)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def cells(path: Path, kind: str) -> list[dict]:
    "The cells of one kind in a notebook."
    content = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == kind]


# Imports ------------------------------------------------------------------------------------------

# From the ground up. Each room imports its own modules and those of the rooms before it.
rooms = ["tools", "course", "speed", "convert", "cli"]
# Methods of one line that call a function of a later room, and import it when they are called.
forwarded = {"training": ["speed"], "translator": ["convert"]}


def room(name: str) -> str:
    "The room of a module."
    first = name.partition(".")[0]
    return "cli" if name.startswith("cli") else first if "." in name else "course"


def own_imports(path: Path, at_top: bool = False) -> set[str]:
    "The modules of this package that a module imports, anywhere or only when it is imported itself."
    tree, parts, found = tree_of(path), path.relative_to(package).parts[:-1], set()
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.If) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (at_top and id(node) in inside):
            module = (node.module or "").split(".") if node.module else []
            if node.level:
                module = [*parts[: len(parts) - node.level + 1], *module]
            elif module[0] == "transformer_nbdev":
                module = module[1:]
            else:
                continue
            found |= {".".join(module)} | {".".join([*module, alias.name]) for alias in node.names}
    return found & set(names)


@each_module
def test_imports_point_one_way(path):
    name = name_of(path)
    allowed = {*rooms[: rooms.index(room(name)) + 1], *forwarded.get(name, [])}
    above = {module for module in own_imports(path) if room(module) not in allowed}
    assert not above, f"{name} imports {above}, which stand above it"


def test_imports_have_no_cycle():
    needs = {name_of(path): own_imports(path, at_top=True) for path in modules}
    while free := {name for name, needed in needs.items() if not needed}:
        needs = {name: needed - free for name, needed in needs.items() if name not in free}
    assert not needs, f"a circle of imports: {needs}"


@each_module
def test_no_module_sets_attributes_of_another(path):
    tree = tree_of(path)
    imported = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    attached = [ast.unparse(t) for t in targets if isinstance(t, ast.Attribute) and ast.unparse(t.value) in imported]
    assert not attached and "@patch" not in path.read_text(encoding="utf-8"), f"{path.name} changes {attached}"


@each_module
def test_no_development_package_is_imported(path):
    forbidden = {"nbdev", "fastcore", "IPython", "nbformat", "ipykernel", "execnb", "pytest"}
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Import | ast.ImportFrom)]
    found = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    found += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    assert not forbidden & {name.split(".")[0] for name in found}


def test_importing_changes_no_environment_variable():
    program = f"""
import importlib, os
before = dict(os.environ)
for name in {names}:
    importlib.import_module("transformer_nbdev." + name)
print({{name for name in os.environ if os.environ[name] != before.get(name) and not name.startswith("KMP_")}})
"""
    assert run(sys.executable, "-c", program).stdout == "set()\n"


def test_importing_and_translating_load_no_heavy_package(saved):
    heavy = {"IPython", "click", "datasets", "matplotlib", "num2words", "sacrebleu", "torch._dynamo", "transformers"}
    program = f"""
import sys, torch
before = set(sys.modules)
import transformer_nbdev
transformer_nbdev.Transformer  # loads everything
print({heavy | {'tokenizers', 'safetensors', 'tqdm'}} & set(sys.modules) - before)
transformer_nbdev.Translator.from_pretrained({str(saved)!r}).translate(["one"])
print({heavy} & set(sys.modules))
"""
    assert run(sys.executable, "-c", program).stdout == "set()\nset()\n"


def test_exercises_need_no_torch_and_no_pictures():
    program = "import sys, transformer_nbdev.tools.exercises; print({'torch', 'matplotlib'} & set(sys.modules))"
    assert run(sys.executable, "-c", program).stdout.strip() == "set()"


# Code ---------------------------------------------------------------------------------------------

course = [
    "embedding", "positional_encoding", "attention", "multi_head", "encoder", "decoder", "output_loss", "optimisation",
    "transformer", "data", "training", "search", "classification",
]
part_five = ["modern", "gpt", "bert", "reward", "scale"]


def test_every_module_comes_from_a_notebook():
    code = "\n".join("".join(cell["source"]) for path in notebooks for cell in cells(path, "code"))
    assert set(re.findall(r"^#\| *default_exp +(\S+)", code, re.M)) == set(names)


def test_modules_and_the_course_are_short():
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {name: n for name, n in lines.items() if n > 400} == {}
    assert sum(lines[name] for name in course) <= 2500
    assert sum(lines[name] for name in part_five) <= 900


@each_module
def test_functions_are_short(path):
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]
    assert {f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno - f.lineno >= 40} == {}


@pytest.mark.parametrize("name", course + part_five)
def test_the_course_is_plain(name):
    "No private operator, no derivative written for speed, no question of which processor this is."
    text = (package / f"{name}.py").read_text(encoding="utf-8")
    assert not re.findall(r"torch\._\w+|torch\.ops\.\w+|autograd\.Function|mkldnn|get_cpu_capability", text)


def definitions(tree: ast.Module):
    "Public functions and classes of a module, and their public methods and `__init__`."
    todo = [("", node) for node in tree.body]
    while todo:
        prefix, node = todo.pop(0)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (node.name == "__init__" or node.name[0] != "_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                todo += [(f"{prefix}{node.name}.", child) for child in node.body]


@each_module
def test_everything_public_has_a_docstring_and_type_hints(path):
    missing = []
    for name, node in definitions(tree_of(path)):
        if node.name != "__init__" and not ast.get_docstring(node):
            missing.append(f"{name}: docstring")
        if isinstance(node, ast.FunctionDef):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls", "ctx")]
            missing += [f"{name}: type of {argument}" for argument in bare]
    assert not missing, f"{path.name} lacks {', '.join(missing)}"


def test_the_face_of_the_package():
    face = transformer_nbdev.__all__
    assert len(set(face)) == len(face) and [name for name in face if not hasattr(transformer_nbdev, name)] == []
    nodes = [node for node in ast.walk(tree_of(package / "__init__.py")) if isinstance(node, ast.ImportFrom)]
    own = [node for node in nodes if node.module.startswith("transformer_nbdev.")]
    assert {alias.name for node in own for alias in node.names} == set(face)
    for name in names:
        module = importlib.import_module(f"transformer_nbdev.{name}")
        assert [x for x in getattr(module, "__all__", []) if not hasattr(module, x)] == [], name
    assert (package / "py.typed").is_file()


# Pages --------------------------------------------------------------------------------------------


def prose(path: Path) -> str:
    "The Markdown of a page, without blocks of code."
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def sections(path: Path) -> set[str]:
    "What JupyterLab calls the headings: their text, dashes for spaces. Only ASCII without maths arrives there."
    titles = re.findall(r"^#{1,6} +(.+?) *$", prose(path), re.M)
    return {t.replace("`", "").replace(" ", "-") for t in titles if t.replace("·", "").isascii() and "$" not in t}


@pytest.mark.parametrize("path", [*root.glob("*.md"), *notebooks], ids=lambda p: p.name)
def test_links_arrive(path):
    text = re.sub(r"`[^`\n]*`", "", prose(path))
    links = re.findall(r"\]\(\s*<?([^)\s>]+)", text) + re.findall(r"""(?:href|src)\s*=\s*["']([^"']+)""", text)
    lost = []
    for link in links:
        name, _, section = link.partition("#")
        file = path.parent / name.split("?")[0] if name else path
        if not re.match(r"[a-z]+:|//", link) and not (
            file.exists() and (file.suffix != ".ipynb" or not section or section in sections(file))
        ):
            lost.append(link)
    assert not lost, f"{path.name} links to {lost}"


def test_the_map_counts_the_exercises():
    "The last column of the chapters is the number of checkers that the notebook has."
    page = prose(root / "nbs" / "index.ipynb")
    rows = re.findall(r"^\| \[(\d\d_\w+)\]\(\1\.ipynb\) \| .* \| (\d+) \|$", page, re.M)
    assert len(rows) == 20
    for name, said in rows:
        code = "\n".join("".join(cell["source"]) for cell in cells(root / "nbs" / f"{name}.ipynb", "code"))
        assert len(re.findall(r"= Exercise\(", code)) == int(said), name
    assert f"{sum(int(said) for _, said in rows)} exercises" in " ".join(page.split())


@each_notebook
def test_a_code_block_ends_on_a_line_of_its_own(path):
    for cell in cells(path, "markdown"):
        assert not re.findall(r"^``` +\S.*", "".join(cell["source"]), re.M), cell["id"]


@each_notebook
def test_a_notebook_stores_outputs_without_errors(path):
    outputs = [output for cell in cells(path, "code") for output in cell["outputs"]]
    assert outputs, "no output is stored: the notebook was never run"
    assert [output["ename"] for output in outputs if output["output_type"] == "error"] == []


@each_notebook
def test_the_checkers_of_exercises_are_folded(path):
    "They hold the answers; a reader sees the stub first."
    checkers = [cell for cell in cells(path, "code") if re.search(r"^\w+ = Exercise\(", "".join(cell["source"]), re.M)]
    for cell in checkers if re.search(r"^## Exercises$", prose(path), re.M) else []:
        source = "".join(cell["source"])
        assert cell["metadata"].get("jupyter", {}).get("source_hidden"), source[:40]
        assert ".check(" not in source, "the stub needs a cell of its own"
