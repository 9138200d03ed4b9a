"The house keeps its order: imports, docstrings, type hints, links, what importing costs."
import ast
import importlib
import json
import re
import statistics
import sys
from pathlib import Path

import pytest
from helpers import package, root, run

import transformer_nbdev

notebooks = sorted(p for p in (root / "nbs").rglob("[!.]*.ipynb") if ".ipynb_checkpoints" not in p.parts)
modules = sorted(p for p in package.rglob("*.py") if p.name not in ("_modidx.py", "__main__.py"))
modules = [path for path in modules if path.name != "__init__.py" or path.parent == package]


def name_of(path: Path) -> str:
    "A module's name inside the package: `attention`, `tools.files`."
    return ".".join(path.relative_to(package).with_suffix("").parts)


each_notebook = pytest.mark.parametrize("path", notebooks, ids=lambda p: p.stem)
each_module = pytest.mark.parametrize("path", modules, ids=name_of)


def cells(path: Path, kind: str) -> list[dict]:
    "The cells of one kind in a notebook."
    content = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == kind]


def code(path: Path) -> str:
    "All code of a notebook, without magics and shell lines."
    lines = "\n".join("".join(c["source"]) for c in cells(path, "code")).splitlines()
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def makers() -> dict[str, Path]:
    "Which notebook exports which module."
    found = {}
    for path in notebooks:
        for cell in cells(path, "code"):
            if match := re.search(r"^#\| *default_exp +(\S+)", "".join(cell["source"]), re.M):
                found[match[1]] = path
    return found


def homes() -> dict[str, str]:
    "The module that each name of the package's face comes from."
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    return {
        alias.name: node.module.removeprefix("transformer_nbdev.")
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("transformer_nbdev.")
        for alias in node.names
    }


# From the ground up. Each room imports its own modules and those of the rooms before it.
rooms = ["tools", "course", "speed", "convert", "cli"]
# Methods of one line that call a function of a later room, and import it when they are called.
forwarded = {
    "training": {"speed.muon"}, "translator": {"convert.marian", "convert.onnx", "convert.folders"},
}


def room(name: str) -> str:
    "The room of a module."
    first = name.partition(".")[0]
    return "cli" if name.startswith("cli") else first if "." in name else "course"


def own_imports(path: Path, at_top: bool = False) -> set[str]:
    "The modules of this package that a module imports, anywhere or only when it is imported itself."
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own, parts, names = {name_of(p) for p in modules}, path.relative_to(package).parts[:-1], set()
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.If) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (at_top and id(node) in inside):
            base = list(parts[: len(parts) - node.level + 1]) if node.level else ["transformer_nbdev"]
            base = base[1:] if base[:1] == ["transformer_nbdev"] else base
            module = (node.module or "").removeprefix("transformer_nbdev").lstrip(".")
            if node.level or (node.module or "").startswith("transformer_nbdev"):
                dotted = ".".join([*base, *([module] if module else [])])
                names |= {dotted} if dotted in own else {f"{dotted}.{a.name}".lstrip(".") for a in node.names}
    return names & own


@each_module
def test_imports_point_one_way(path):
    name = name_of(path)
    if name == "__init__":
        return
    floor, allowed = rooms.index(room(name)), forwarded.get(name, set())
    above = {m for m in own_imports(path) if rooms.index(room(m)) > floor} - allowed
    assert not above, f"{name} imports {above}, which stand above it"


def test_no_module_needs_itself():
    needs = {name_of(path): own_imports(path, at_top=True) for path in modules if name_of(path) != "__init__"}
    while free := {name for name, needed in needs.items() if not needed}:
        needs = {name: needed - free for name, needed in needs.items() if name not in free}
    assert not needs, f"a circle of imports: {needs}"


def test_every_module_comes_from_a_notebook():
    assert {name_of(path) for path in modules} - {"__init__"} == set(makers())


course = [
    "embedding", "positional_encoding", "attention", "multi_head", "encoder", "decoder", "output_loss", "optimisation",
    "transformer", "data", "training", "search", "classification",
]


def test_modules_are_short_and_the_course_is():
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {name: n for name, n in lines.items() if n > 400} == {}
    assert sum(lines[name] for name in course) <= 2500


@each_module
def test_functions_fit_in_the_eye(path):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, kinds)]
    long = {n.name: n.end_lineno - n.lineno + 1 for n in nodes if n.end_lineno - n.lineno + 1 > 40}
    assert not long, f"{path.name}: {long}"


@pytest.mark.parametrize("name", course)
def test_the_course_is_plain(name):
    "No private operator, no derivative written for speed, no question of which processor this is."
    text = (package / f"{name}.py").read_text(encoding="utf-8")
    found = re.findall(r"torch\._\w+|torch\.ops\.\w+|autograd\.Function|mkldnn|get_cpu_capability", text)
    assert not found, f"{name}: {found}"


def test_exercises_need_no_torch_and_no_pictures():
    program = "import sys, transformer_nbdev.tools.exercises; print({'torch', 'matplotlib'} & set(sys.modules))"
    assert run(sys.executable, "-c", program).stdout.strip() == "set()"


def test_importing_works_without_resource():
    "Windows has no such module."
    program = "import sys; sys.modules['resource'] = None; import transformer_nbdev as t; t.Transformer; " \
        "import transformer_nbdev.cli"
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


@each_module
def test_no_development_package_is_imported(path):
    forbidden = {"nbdev", "fastcore", "IPython", "nbformat", "ipykernel", "execnb", "pytest"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        wrong = forbidden & {name.split(".")[0] for name in names}
        assert not wrong, f"{path.name}:{node.lineno} imports {wrong}"


def definitions(tree: ast.Module):
    "Public functions and classes of a module, and their public methods and `__init__`."
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    todo = [("", node) for node in tree.body]
    while todo:
        prefix, node = todo.pop(0)
        decorators = [d.id for d in getattr(node, "decorator_list", []) if isinstance(d, ast.Name)]
        public = isinstance(node, kinds) and (node.name == "__init__" or node.name[0] != "_")
        if public and "overload" not in decorators:
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                todo += [(f"{prefix}{node.name}.", child) for child in node.body]


@each_module
def test_everything_public_has_a_docstring_and_type_hints(path):
    missing = []
    for name, node in definitions(ast.parse(path.read_text(encoding="utf-8"))):
        if node.name != "__init__" and not ast.get_docstring(node):
            missing.append(f"{name}: docstring")
        if not isinstance(node, ast.ClassDef):
            a = node.args
            bare = [x.arg for x in a.posonlyargs + a.args + a.kwonlyargs if x.annotation is None]
            missing += [
                f"{name}: type of {x}" for x in bare if x not in ("self", "cls", "ctx")
            ]
    assert not missing, f"{path.name} lacks {', '.join(missing)}"


def test_the_face_of_the_package():
    names = transformer_nbdev.__all__
    assert sorted(set(names)) == sorted(names)
    assert [n for n in names if not hasattr(transformer_nbdev, n)] == []
    assert set(homes()) == set(names), "imported in __init__.py and listed in __all__ differ"
    for path in [path for path in modules if path.stem != "__init__"]:
        module = importlib.import_module(f"transformer_nbdev.{name_of(path)}")
        missing = [name for name in getattr(module, "__all__", []) if not hasattr(module, name)]
        assert not missing, f"{path.name} promises {missing}"


def test_py_typed_is_there():
    assert (package / "py.typed").is_file()


def test_every_module_can_be_imported_first():
    program = f"""
import importlib, sys, types
for name in {[name_of(path) for path in modules if path.stem != "__init__"]}:
    for old in [m for m in sys.modules if m.split(".")[0] == "transformer_nbdev"]:
        del sys.modules[old]
    stub = sys.modules["transformer_nbdev"] = types.ModuleType("transformer_nbdev")
    stub.__path__, stub.__version__ = [{str(package)!r}], "0"
    importlib.import_module("transformer_nbdev." + name)
"""
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_importing_changes_no_environment_variable():
    program = f"""
import os
before = dict(os.environ)
import importlib
for name in {[name_of(path) for path in modules if path.stem != "__init__"]}:
    importlib.import_module("transformer_nbdev." + name)
print({{name for name in os.environ if os.environ[name] != before.get(name) and not name.startswith("KMP_")}})
"""
    assert run(sys.executable, "-c", program).stdout == "set()\n"


def test_the_command_sets_what_threads_read_before_pytorch_starts(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    program = """
import os, sys
from transformer_nbdev.__main__ import main
assert "torch" not in sys.modules
sys.argv[1:] = ["--version"]
try:
    main()
finally:
    print(os.environ["GOMP_SPINCOUNT"])
"""
    assert run(sys.executable, "-c", program).stdout.endswith("\n10000\n")
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert run(sys.executable, "-c", program).stdout.endswith("\n7\n")  # who knows better is left alone


timing = """
import json, sys, time
began = time.perf_counter()
import torch
middle, before = time.perf_counter(), set(sys.modules)
import transformer_nbdev
transformer_nbdev.Transformer  # loads everything
whole = time.perf_counter() - began
print(json.dumps([middle - began, whole, sorted(set(sys.modules) - before)]))
"""


def imports() -> list[list]:
    "Three times in fresh processes: seconds for torch, seconds with the package, its modules."
    return [json.loads(run(sys.executable, "-c", timing).stdout) for _ in range(3)]


first_imports = pytest.fixture(scope="module")(imports)


def test_importing_loads_nothing_that_can_wait(first_imports):
    heavy = {
        "IPython", "click", "datasets", "matplotlib", "num2words", "sacrebleu", "safetensors",
        "tokenizers", "tqdm",
    }
    assert not heavy & set(first_imports[0][2])


def test_importing_takes_little_longer_than_torch(first_imports):
    def ratio(runs: list[list]) -> float:
        return statistics.median(whole / torch for torch, whole, _ in runs)

    found = ratio(first_imports)
    if found > 1.15:  # once more: the machine may have been busy
        found = ratio(imports())
    assert found <= 1.15, f"importing the package takes {found:.2f} times as long as torch"


def links(text: str) -> list[str]:
    "Targets of links and pictures in Markdown or HTML, outside code."
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    found = re.findall(r"\]\(\s*<?([^)\s>]+)", text)
    found += re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, re.M)
    return found + re.findall(r"""(?:href|src)\s*=\s*["']([^"']+)""", text)


@pytest.mark.parametrize("path", [*root.glob("*.md"), *notebooks], ids=lambda p: p.name)
def test_relative_links_point_at_something(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n\n".join("".join(c["source"]) for c in cells(path, "markdown"))
    targets = [t.split("#")[0].split("?")[0] for t in links(text)]
    local = [t for t in targets if t and not re.match(r"[a-z]+:|//", t)]
    broken = [t for t in local if not (path.parent / t).exists()]
    assert not broken, f"{path.name} links to {broken}"


@each_notebook
def test_a_notebook_stores_outputs_without_errors(path):
    outputs = [output for cell in cells(path, "code") for output in cell["outputs"]]
    assert outputs, "no output is stored: the notebook was never run"
    errors = [o["ename"] for o in outputs if o["output_type"] == "error"]
    assert not errors


@each_notebook
def test_the_checkers_of_exercises_are_folded(path):
    "They hold the answers; a reader sees the stub first."
    sources = [("".join(c["source"]), c["metadata"]) for c in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    begins = [n for n, (source, _) in enumerate(sources) if re.search(r"^## Exercises$", source, re.M)]
    exercises = sources[begins[0]:] if begins else []
    checkers = [(s, metadata) for s, metadata in exercises if re.search(r"^\w+ = Exercise\(", s, re.M)]
    assert [s[:40] for s, metadata in checkers if not metadata.get("jupyter", {}).get("source_hidden")] == []
    assert [s[:40] for s, _ in checkers if ".check(" in s] == [], "the stub needs a cell of its own"
