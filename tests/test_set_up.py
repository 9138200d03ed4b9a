"The one program that sets the course up: what it does when something is missing, and that it runs anywhere."
import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from helpers import root, run


def module(path):
    "A program as a module of its own, so that a test may change it."
    spec = importlib.util.spec_from_file_location(f"{path.stem}_under_test", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def runner():
    return module(root / "run.py")


@pytest.fixture
def checker():
    return module(root / ".ci" / "check.py")


@pytest.mark.parametrize("arguments", [[], ["lap"], ["lab", "x"], ["lab", "1", "2"], ["bench", "1"]])
def test_a_wrong_call_shows_the_right_ones(arguments):
    done = run(sys.executable, str(root / "run.py"), *arguments)
    assert done.returncode == 1 and "python run.py lab" in done.stderr


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_no_mistake(word):
    done = run(sys.executable, str(root / "run.py"), word)
    assert done.returncode == 0 and "python run.py translate" in done.stdout and not done.stderr


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


@pytest.mark.parametrize("there, pin, code, first", [
    ("2.0", "leaf==2.0", 0, True), ("2.0", "leaf==1.0", 0, False), ("", "leaf==2.0", 1, True),
])
def test_a_pin_that_has_vanished_stops_nobody(
    runner, environment, tmp_path, monkeypatch, capfd, there, pin, code, first
):
    wheel(tmp_path, "tree", "1.0", needs="leaf>=1")
    if there:
        wheel(tmp_path, "leaf", there)
    (tmp_path / "constraints.txt").write_text(pin + "\n")
    real = runner.pip

    def pip(*words, first):
        "The same command, for the package tree instead of this one."
        return real(*("tree" if word == ".[dev]" else word for word in words if word != "-e"), first=first)

    monkeypatch.setattr(runner, "root", tmp_path)
    monkeypatch.setattr(runner, "python", environment)
    monkeypatch.setattr(runner, "pip", pip)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    subprocess.run([environment, "-m", "pip", "uninstall", "--quiet", "--yes", "leaf", "tree"], check=True)
    ended = 0
    try:
        runner.pip_install("dev", first)
        runner.pip_install("dev", first)
    except SystemExit as end:
        ended = end.code
    out = capfd.readouterr().out
    assert ended == code, out
    assert ("a version of constraints.txt cannot be had here" in out) == (pin != f"leaf=={there}")
    assert ("Requirement already satisfied" in out) == (first and not code)
    shown = subprocess.run([environment, "-m", "pip", "show", "leaf"], capture_output=True, text=True).stdout
    assert f"Version: {there}" in shown if there else "No matching distribution found for leaf" in out


@pytest.mark.parametrize("platform, settings, gpu, answers, chosen, words", [
    ("linux", [], False, True, True, "about 2 GB .* no NVIDIA GPU here"),
    ("linux", [], False, False, False, "about 6 GB .* does not answer"),
    ("linux", [], True, True, False, "about 6 GB .* for your NVIDIA GPU"),
    ("linux", ["find-links"], False, True, False, "your setting of pip's find-links"),
    ("darwin", [], False, True, False, "about 2 GB"),
])
def test_without_a_gpu_it_is_the_cpu_build(runner, monkeypatch, platform, settings, gpu, answers, chosen, words):
    monkeypatch.setattr(runner.sys, "platform", platform)
    monkeypatch.setattr(runner, "told", lambda: settings)
    monkeypatch.setattr(runner, "has_gpu", lambda: gpu)
    monkeypatch.setattr(runner, "reachable", lambda index: answers)
    monkeypatch.setattr(runner.os, "environ", {})
    assert re.search(words, runner.choose_pytorch(), re.DOTALL)
    assert runner.os.environ.get("PIP_EXTRA_INDEX_URL") == (runner.cpu_index if chosen else None)


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"])
def test_what_the_user_told_pip_is_found(runner, environment, monkeypatch, name):
    monkeypatch.setattr(runner, "python", environment)
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # that of this machine does not count
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "9")
    assert runner.told() == []
    monkeypatch.setenv(name, "https://example.org/simple")
    assert runner.told() == [name[4:].lower().replace("_", "-")]


@pytest.mark.parametrize("version, answers", [("2.0+cpu", True), ("2.0", False)])
def test_an_index_is_asked_for_a_cpu_build(runner, environment, tmp_path, monkeypatch, version, answers):
    monkeypatch.setattr(runner, "python", environment)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    (tmp_path / "torch").mkdir()
    wheel(tmp_path / "torch", "torch", version)
    name = f"torch-{version}-py3-none-any.whl"
    (tmp_path / "torch" / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')
    assert runner.reachable(tmp_path.as_uri()) == answers
    assert not runner.reachable("http://127.0.0.1:9/")


def write_notebook(path, *sources, output="1"):
    "A notebook as JupyterLab would store it."
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}]
    cells = [{"cell_type": "code", "source": source, "outputs": outputs} for source in sources]
    path.write_text(json.dumps({"cells": cells}))


@pytest.fixture
def shelf(runner, tmp_path, monkeypatch):
    "A checkout with two notebooks and a picture, and the reader's copies of them."
    monkeypatch.setattr(runner, "root", tmp_path)
    monkeypatch.setattr(runner, "copies", tmp_path / "my_notebooks")
    (tmp_path / "nbs" / ".ipynb_checkpoints").mkdir(parents=True)
    write_notebook(tmp_path / "nbs" / "03.ipynb", "attention = ...")
    write_notebook(tmp_path / "nbs" / "04.ipynb", "heads = ...")
    (tmp_path / "nbs" / "look.png").write_bytes(b"a picture")
    assert runner.renew_copies() == []
    mine = tmp_path / "my_notebooks"
    assert sorted(path.name for path in mine.iterdir()) == [".copied", "03.ipynb", "04.ipynb", "look.png"]
    return tmp_path / "nbs", mine


def test_a_copy_that_was_only_run_is_renewed_and_one_that_was_changed_is_kept(runner, shelf):
    nbs, mine = shelf
    write_notebook(mine / "03.ipynb", "attention = ...", output="run by the reader")
    write_notebook(mine / "04.ipynb", "heads = 8")
    assert runner.renew_copies() == []
    assert "run by the reader" in (mine / "03.ipynb").read_text()  # nothing is newer: his outputs stay
    write_notebook(nbs / "03.ipynb", "attention = ...", "a new cell")
    write_notebook(nbs / "04.ipynb", "heads = ...", "a new cell")
    (nbs / "look.png").write_bytes(b"a better picture")
    for _ in range(2):  # told at each start, until the reader has decided
        assert runner.renew_copies() == ["04.ipynb"]
        assert (mine / "03.ipynb").read_bytes() == (nbs / "03.ipynb").read_bytes()
        assert "heads = 8" in (mine / "04.ipynb").read_text()
        assert (mine / "look.png").read_bytes() == b"a better picture"
    (mine / "04.ipynb").rename(mine / "04_mine.ipynb")
    assert runner.renew_copies() == []
    assert (mine / "04.ipynb").read_bytes() == (nbs / "04.ipynb").read_bytes()
    assert "heads = 8" in (mine / "04_mine.ipynb").read_text()


def test_new_outputs_reach_an_untouched_copy(runner, shelf):
    nbs, mine = shelf
    write_notebook(nbs / "03.ipynb", "attention = ...", output="2")
    assert runner.renew_copies() == []
    assert (mine / "03.ipynb").read_bytes() == (nbs / "03.ipynb").read_bytes()


def test_a_notebook_that_moves_takes_an_untouched_copy_along(runner, shelf):
    nbs, mine = shelf
    (mine / "04.ipynb").write_text("half a fi")  # broken by the reader, and his
    (nbs / "tools").mkdir()
    for name in ("03.ipynb", "04.ipynb"):
        (nbs / name).rename(nbs / "tools" / name)
    assert runner.renew_copies() == []
    assert not (mine / "03.ipynb").exists() and (mine / "tools" / "03.ipynb").exists()
    assert (mine / "04.ipynb").read_text() == "half a fi" and (mine / "tools" / "04.ipynb").exists()


@pytest.mark.parametrize("words, port, page, options", [
    ([], 8888, "my_notebooks", []),
    (["9000"], 9000, "my_notebooks", []),
    (["--no-browser", "9000"], 9000, "my_notebooks", ["--no-browser"]),
    (["--edit"], 8888, "nbs", []),
])
def test_lab_takes_a_port_and_what_jupyter_takes(runner, shelf, monkeypatch, words, port, page, options):
    commands = []
    monkeypatch.setattr(runner, "call", lambda *command: commands.append(command))
    monkeypatch.setattr(runner, "free", lambda port: port)
    runner.lab(*words)
    (command,) = commands
    assert f"--port={port}" in command and f"--LabApp.default_url=/lab/tree/{page}/index.ipynb" in command
    assert [word for word in command if word in ("--no-browser", "--edit")] == options


def test_translate_trains_once_and_goes_on_with_what_was_interrupted(runner, tmp_path, monkeypatch):
    calls = []

    def call(*command):
        "The first training is interrupted after its checkpoint."
        calls.append([word for word in command if word in ("train", "translate", "--resume")])
        (tmp_path / "runs" / "numbers" / "checkpoints" / "step-7").mkdir(parents=True, exist_ok=True)
        if len(calls) == 1:
            sys.exit(130)

    monkeypatch.setattr(runner, "root", tmp_path)
    monkeypatch.setattr(runner, "call", call)
    with pytest.raises(SystemExit):
        runner.translate()
    runner.translate()
    runner.translate()
    assert calls == [["train"], ["train", "--resume"], ["translate"], ["translate"]]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_lets_the_program_finish(tmp_path):
    "What saves its work for a second must not be killed by the one that started it."
    slow = "import time\ntry: print('ready', flush=True); time.sleep(60)\n" \
        "except KeyboardInterrupt: time.sleep(1); print('saved', flush=True); raise SystemExit(7)"
    program = f"import sys; sys.path.insert(0, {str(root)!r}); import run; run.call(sys.executable, '-c', {slow!r})"
    listen = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a shell starts with & does not
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True, "preexec_fn": listen}
    with subprocess.Popen([sys.executable, "-c", program], **options) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "saved\n"
    assert process.returncode == 7


@pytest.fixture
def small_checker(checker, tmp_path, monkeypatch):
    "The checker of a checkout with three notebooks."
    for name, exports in {"03_attention": "attention", "05_encoder": "encoder", "13_translation": ""}.items():
        write_notebook(tmp_path / f"{name}.ipynb", f"#| default_exp {exports}" if exports else "print(1)")
    monkeypatch.setattr(checker, "notebooks", sorted(tmp_path.glob("*.ipynb")))
    monkeypatch.setattr(checker, "tests", [Path("tests/test_cli.py"), Path("tests/test_encoder.py")])
    return checker


@pytest.mark.parametrize("name, files", [
    ("05", "05_encoder.ipynb test_encoder.py"),
    ("05_encoder", "05_encoder.ipynb test_encoder.py"),
    ("my_notebooks/03_attention.ipynb", "03_attention.ipynb"),
    ("13", "13_translation.ipynb"),
    ("tests/test_encoder.py", "test_encoder.py"),
    ("test_cli", "test_cli.py"),
])
def test_one_thing_can_be_checked_alone(small_checker, name, files):
    assert [path.name for path in small_checker.chosen(name)] == files.split()
    *quick, asked = small_checker.stages_for([name]).values()
    assert len(quick) == 3 and [Path(word).name for word in asked[-len(files.split()):]] == files.split()


def test_an_unknown_name_is_answered_with_those_that_exist(small_checker):
    with pytest.raises(SystemExit, match=r"(?s)is called 99.*03_attention  05_encoder.*test_cli"):
        small_checker.chosen("99")


def test_the_lists_of_notebooks_and_tests_are_of_this_checkout(checker):
    there = {path.stem for path in (*checker.notebooks, *checker.tests)}
    assert {*checker.longest, *checker.processor} <= there


def test_everything_is_checked_quick_stages_first(checker):
    stages = checker.stages_for([])
    *quick, types, tests, notebooks = stages.values()
    assert len(quick) == 3 and "mypy" in types
    assert {*checker.tests} <= {*tests} and {*checker.notebooks} <= {*notebooks}
    assert all(stage[stage.index("-n") + 1] == checker.workers for stage in (tests, notebooks))


def test_a_failure_stops_no_other_stage_and_is_told_at_the_end(checker, monkeypatch, capfdbinary):
    def stages(names):
        "One that fails, as pytest would say it, and one that passes."
        said = "import sys; print('.F'); print('FAILED tests/test_x.py::test_y - 1 != 2\\n1 failed'); sys.exit(1)"
        return {"broken": [sys.executable, "-c", said], "whole": [sys.executable, "-c", "print('fine')"]}

    monkeypatch.setattr(checker, "stages_for", stages)
    with pytest.raises(SystemExit) as end:
        checker.main([])
    output = capfdbinary.readouterr().out.decode()
    details, summary = output.split("== summary")
    assert end.value.code == 1 and ".F" in details and "fine" in details
    assert "✗ broken" in summary and "    FAILED tests/test_x.py::test_y - 1 != 2" in summary and "✓ whole" in summary
    assert "1 of 2 stages failed" in summary


def test_output_is_shown_as_it_comes():
    slow = "import time; print(1, flush=True); time.sleep(60)"
    check = f"import sys; sys.path.insert(0, {str(root / '.ci')!r}); import check, os; " \
        f"check.run('slow', [sys.executable, '-c', {slow!r}], dict(os.environ))"
    with subprocess.Popen([sys.executable, "-c", check], stdout=subprocess.PIPE, start_new_session=True) as process:
        began = time.monotonic()
        assert [process.stdout.readline().strip() for _ in range(3)] == [b"", b"== slow", b"1"]
        assert time.monotonic() - began < 30
        os.killpg(process.pid, signal.SIGKILL)


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
    assert "pip install matplotlib" in done.stderr and "Traceback" not in done.stderr
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
