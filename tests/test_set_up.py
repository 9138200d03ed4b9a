"The one program that sets the course up: what it does when something is missing, and that it runs anywhere."
import ast
import importlib.metadata
import importlib.util
import os
import re
import socket
import subprocess
import sys
import venv

import pytest
from helpers import root, run


@pytest.fixture
def runner():
    "run.py as a module of its own, so that a test may change it."
    spec = importlib.util.spec_from_file_location("runner", root / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("arguments", [[], ["help"], ["lab", "x"], ["lab", "1", "2"], ["test", "1"]])
def test_a_wrong_call_shows_the_right_ones(arguments):
    done = run(sys.executable, str(root / "run.py"), *arguments)
    assert done.returncode == 1 and "python run.py lab [PORT]" in done.stderr


def test_a_port_in_use_is_told_in_one_line(runner):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=f"port {port} cannot be used .* run.py lab {port + 1}"):
            runner.free(port)
    assert runner.free(port) == port
    with pytest.raises(SystemExit, match="port 70000 cannot be used"):
        runner.free(70000)


def wheel(folder, name, version, needs=""):
    "A wheel without any code, as small as they get."
    import zipfile

    info = f"{name}-{version}.dist-info"
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (f"Requires-Dist: {needs}\n" if needs else "")
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", text)
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    "The Python of an empty environment."
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.mark.parametrize("there, pin, code", [("2.0", "leaf==2.0", 0), ("2.0", "leaf==1.0", 0), ("", "leaf==2.0", 1)])
def test_a_pin_that_has_vanished_stops_nobody(runner, environment, tmp_path, monkeypatch, capfd, there, pin, code):
    wheel(tmp_path, "tree", "1.0", needs="leaf>=1")
    if there:
        wheel(tmp_path, "leaf", there)
    (tmp_path / "constraints.txt").write_text(pin + "\n")
    real = subprocess.run

    def install_tree(command, **options):
        "The same command, for the package tree instead of this one."
        command = [word for word in command if word != "-e"]
        return real(["tree" if word == ".[dev]" else word for word in command], **options)

    monkeypatch.setattr(runner, "root", tmp_path)
    monkeypatch.setattr(runner, "python", environment)
    monkeypatch.setattr(runner.subprocess, "run", install_tree)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    real([environment, "-m", "pip", "uninstall", "--quiet", "--yes", "leaf", "tree"], check=True)
    ended = 0
    try:
        runner.pip_install("dev")
    except SystemExit as end:
        ended = end.code
    out, err = capfd.readouterr()
    assert ended == code, err
    assert ("a version of constraints.txt cannot be had here" in out) == (pin != f"leaf=={there}")
    shown = real([environment, "-m", "pip", "show", "leaf"], capture_output=True, text=True).stdout
    assert f"Version: {there}" in shown if there else "No matching distribution found for leaf" in err


def test_nothing_on_the_way_needs_more_than_python():
    "No shell, no folder of one system, no fork; and only the standard library before anything is installed."
    for name in ("run.py", ".ci/check.py", ".ci/drift.py", ".ci/readme.py"):
        text = (root / name).read_text(encoding="utf-8")
        found = re.findall(r"bash|/bin/(?!python\b)|/tmp|/usr|os\.fork|shell=True|import (?:fcntl|resource|pwd)", text)
        assert not found, f"{name}: {found}"
    tree = ast.parse((root / "run.py").read_text(encoding="utf-8"))
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    names += [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert set(names) <= set(sys.stdlib_module_names)
    ast.parse((root / "run.py").read_text(encoding="utf-8"), feature_version=(3, 7))  # which can say what it lacks


def test_a_run_without_matplotlib_ends_well(tmp_path):
    program = "import sys; sys.modules['matplotlib'] = None; from transformer_nbdev.cli import main; main()"
    small = ["--plain", "--steps", "2", "--batch-tokens", "300", "--d-model", "8", "--d-ff", "8", "--n-heads", "1"]
    done = run(sys.executable, "-c", program, "train", *small, "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "pip install 'transformer-nbdev[plot]'" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists() and not (tmp_path / "run" / "loss.png").exists()


@pytest.mark.parametrize("path", sorted((root / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_may_read_only(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.+)", text)
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", line) for line in used), used
    assert re.search(r"^permissions: {contents: read}$", text, re.M)


def test_the_lock_has_the_pins_and_a_hash_for_each_file():
    pins = {line.split("==")[0]: line for line in (root / "constraints.txt").read_text().splitlines()}
    blocks = re.split(r"(?m)^(?=\S)", (root / ".ci" / "lock.txt").read_text())[1:]
    locked = {block.split("==")[0]: block.split(" \\")[0] for block in blocks}
    assert len(locked) > 100
    for name, line in locked.items():
        assert line.split(" ;")[0] == pins[name].split(" ;")[0], f"python .ci/pins.py makes both anew: {line}"
    for block in blocks:
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)) == len(block.splitlines()) - 1 > 0, block
    needs = importlib.metadata.requires("transformer-nbdev")
    for need in (n for n in needs if "extra" not in n or '"dev"' in n):
        name = re.match(r"[\w-]+", need)[0].lower().replace("_", "-")
        assert name in locked or name == "torch", f"{name} is new: python .ci/pins.py"
