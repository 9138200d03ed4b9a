"`run.py`, which sets the course up, `.ci/check.py`, which tests it, and the pins of both."
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

import pytest
from helpers import root, run, train_options


def module(path):
    "A program as a module of its own, so that a test may change it."
    spec = importlib.util.spec_from_file_location(f"{path.stem}_under_test", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def runner(monkeypatch):
    "`run.py`, whose environment is that of the tests."
    found = module(root / "run.py")
    monkeypatch.setattr(found, "python", sys.executable)
    return found


@pytest.fixture
def checker():
    return module(root / ".ci" / "check.py")


@pytest.mark.parametrize("words", ["", "lap", "lab x"])
def test_a_wrong_call_shows_the_right_ones(words):
    done = run(sys.executable, root / "run.py", *words.split())
    assert done.returncode == 1 and "python run.py lab" in done.stderr


def test_help_exits_with_0():
    done = run(sys.executable, root / "run.py", "--help")
    assert done.returncode == 0 and "python run.py translate" in done.stdout and not done.stderr


def test_run_needs_nothing_but_python():
    text = (root / "run.py").read_text(encoding="utf-8")
    assert not re.findall(r"bash|/bin/(?!python\b)|/tmp|/usr|os\.fork|shell=True|import (?:fcntl|resource|pwd)", text)
    tree = ast.parse(text, feature_version=(3, 7))  # older ones can say what they lack
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set(names) <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("said, code", [("ERROR: No matching distribution", 0), ("ERROR: no space", 1)])
def test_installation_survives_a_pin_that_has_vanished(runner, monkeypatch, capsys, said, code):
    def pip(*words, first):
        return (1, said) if "constraints.txt" in words else (0, "")

    monkeypatch.setattr(runner, "pip", pip)
    ended = 0
    try:
        runner.pip_install("dev")
    except SystemExit as end:
        ended = end.code
    assert ended == code
    assert ("a version of constraints.txt cannot be had here" in capsys.readouterr().out) == (not code)


@pytest.mark.parametrize("platform, settings, gpu, answers, chosen, words", [
    ("linux", [], False, True, True, "about 2 GB .* no NVIDIA GPU here"),
    ("linux", [], False, False, False, "about 6 GB .* does not answer"),
    ("linux", [], True, True, False, "about 6 GB .* for your NVIDIA GPU"),
    ("linux", ["find-links"], False, True, False, "your setting of pip's find-links"),
    ("darwin", [], False, True, False, "about 2 GB"),
])
def test_machines_without_a_gpu_get_the_cpu_build(runner, monkeypatch, platform, settings, gpu, answers, chosen, words):
    monkeypatch.setattr(runner.sys, "platform", platform)
    monkeypatch.setattr(runner, "told", lambda: settings)
    monkeypatch.setattr(runner, "has_gpu", lambda: gpu)
    monkeypatch.setattr(runner, "reachable", lambda index: answers)
    monkeypatch.setattr(runner.os, "environ", {})
    assert re.search(words, runner.choose_pytorch(), re.DOTALL)
    assert runner.os.environ.get("PIP_EXTRA_INDEX_URL") == (runner.cpu_index if chosen else None)


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
    assert "run by the reader" in (mine / "03.ipynb").read_text()  # nothing is newer: these outputs stay
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


def test_a_notebook_that_moves_takes_an_untouched_copy_along(runner, shelf):
    nbs, mine = shelf
    (mine / "04.ipynb").write_text("half a fi")  # damaged by the reader, so the reader's own
    (nbs / "tools").mkdir()
    for name in ("03.ipynb", "04.ipynb"):
        (nbs / name).rename(nbs / "tools" / name)
    assert runner.renew_copies() == []
    assert not (mine / "03.ipynb").exists() and (mine / "tools" / "03.ipynb").exists()
    assert (mine / "04.ipynb").read_text() == "half a fi" and (mine / "tools" / "04.ipynb").exists()


@pytest.mark.parametrize("words, port, page", [
    ("", 8888, "my_notebooks"), ("--no-browser 9000", 9000, "my_notebooks"), ("--edit", 8888, "nbs"),
])
def test_lab_takes_a_port_and_options_of_jupyter(runner, shelf, monkeypatch, words, port, page):
    commands = []
    monkeypatch.setattr(runner, "call", lambda *command: commands.append(command))
    monkeypatch.setattr(runner, "free", lambda port: port)
    runner.lab(*words.split())
    (command,) = commands
    assert f"--port={port}" in command and f"--LabApp.default_url=/lab/tree/{page}/index.ipynb" in command
    assert ("--no-browser" in command) == ("--no-browser" in words) and "--edit" not in command


def test_a_port_in_use_is_reported_in_one_line(runner):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit, match=f"port {port} cannot be used .* run.py lab {port + 1}"):
            runner.free(port)
    assert runner.free(port) == port


def test_translate_trains_once_and_resumes_after_an_interruption(runner, tmp_path, monkeypatch):
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
def test_ctrl_c_lets_the_program_finish():
    "A training that saves for a second must not be killed by `run.py`, which started it."
    slow = "import time\ntry: print('ready', flush=True); time.sleep(60)\n" \
        "except KeyboardInterrupt: time.sleep(0.5); print('saved', flush=True); raise SystemExit(7)"
    program = f"import sys; sys.path.insert(0, {str(root)!r}); import run; run.call(sys.executable, '-c', {slow!r})"
    listen = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a shell starts with & does not
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True, "preexec_fn": listen}
    with subprocess.Popen([sys.executable, "-c", program], **options) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "saved\n"
    assert process.returncode == 7


def test_a_run_without_matplotlib_ends_well(command, corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = command("train", "--data", corpus, *train_options, "--steps", 2, "--out", tmp_path / "run")
    assert done.returncode == 0 and "pip install matplotlib" in done.stderr, done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists() and not (tmp_path / "run" / "loss.png").exists()


def test_the_notebooks_and_tests_listed_exist(checker):
    there = {path.stem for path in (*checker.notebooks, *checker.tests)}
    assert {*checker.longest, *checker.processor} <= there


def test_a_failure_stops_no_other_stage_and_is_summed_up(checker, monkeypatch, capfdbinary):
    said = "import sys; print('.F'); print('FAILED tests/test_x.py::test_y - 1 != 2\\n1 failed'); sys.exit(1)"
    broken, whole = {"broken": [sys.executable, "-c", said]}, {"whole": [sys.executable, "-c", "print('fine')"]}
    monkeypatch.setattr(checker, "stages_for", lambda names: (broken, whole))
    with pytest.raises(SystemExit) as end:
        checker.main([])
    details, summary = capfdbinary.readouterr().out.decode().split("== summary")
    assert end.value.code == 1 and ".F" in details and "fine" in details
    assert "✗ broken" in summary and "    FAILED tests/test_x.py::test_y - 1 != 2" in summary and "✓ whole" in summary
    assert "1 of 2 stages failed" in summary


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
