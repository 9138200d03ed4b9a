"Standard streams that are closed, and input that is none: one sentence, nothing lost in silence."
import os
import subprocess

import pytest
from helpers import cli, environment, run


def closed(saved, number: int, *words: str) -> subprocess.CompletedProcess:
    "A command that begins without one of its standard streams."
    streams = {fd: subprocess.PIPE for fd in (1, 2) if fd != number}
    return subprocess.run(
        [*cli, *words, "--model", str(saved)], input=None if number == 0 else b"one two\n", env=environment(),
        preexec_fn=lambda: os.close(number), **{{1: "stdout", 2: "stderr"}[fd]: pipe for fd, pipe in streams.items()},
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_closed_stream_is_told(saved, number):
    done = closed(saved, number, "translate")
    assert done.returncode == 1
    assert done.stderr.decode() == "error: standard input or standard output is closed\n"


def test_without_standard_error_the_answer_comes(saved):
    done = closed(saved, 2, "translate")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1


def test_an_empty_folder_name_is_refused(tmp_path):
    done = run(*cli, "train", "--out", " ", "--steps=1", cwd=tmp_path)
    assert done.returncode == 2 and "it must name a folder" in done.stderr and not [*tmp_path.iterdir()]
