"A run through the command line that is stopped or interrupted, and resumed, ends the same."
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers import checkpoint, cli, metrics, same_run, start, train, typed

# The linear schedule depends on the whole length of a run, the paper's does not.
options = ["--schedule=paper", "--warmup=10", "--dropout=0.1", "--accumulate=2", "--save-every=2"]


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory) -> Path:
    "A run of 60 updates that nothing disturbed."
    folder = tmp_path_factory.mktemp("runs") / "whole"
    done = typed(*train(corpus, folder, *options, "--steps=60")[len(cli) :])
    assert done.returncode == 0, done.stderr
    assert list(metrics(folder)) == list(range(1, 61))
    return folder


def test_a_resumed_run_is_the_same_to_the_last_bit(corpus, whole, tmp_path):
    done = typed(*train(corpus, tmp_path, *options, "--steps=26")[len(cli) :])
    assert done.returncode == 0 and checkpoint(tmp_path).name == "step-00000026", done.stderr
    done = typed(*train(corpus, tmp_path, "--resume", "--steps=60")[len(cli) :])
    assert done.returncode == 0, done.stderr
    same_run(whole, tmp_path)


def wait_for(condition, process: subprocess.Popen, seconds: float = 120) -> None:
    "Until the condition holds; the process must not end before."
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "a closed terminal"])
def test_an_interrupted_run_can_be_resumed(command, corpus, tmp_path, number):
    process = start(*train(corpus, tmp_path, "--steps=100000", "--save-every=0"))
    wait_for((tmp_path / "metrics.jsonl").exists, process)
    process.send_signal(number)
    try:
        _, text = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in text and text.splitlines()[-1].startswith("interrupted")
    step = int(checkpoint(tmp_path).name[5:])
    done = command(*train(corpus, tmp_path, "--resume", f"--steps={step + 2}")[len(cli) :])
    assert done.returncode == 0, done.stderr
    assert list(metrics(tmp_path)) == list(range(1, step + 3))
