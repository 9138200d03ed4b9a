"Standard streams that are closed: one sentence, nothing is lost in silence."
import os
import subprocess

import pytest
from helpers import cli, environment

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.tools.corpora import cut_words


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_stream_is_closed(saved, number):
    streams = {name: subprocess.PIPE for fd, name in ((1, "stdout"), (2, "stderr")) if fd != number}
    done = subprocess.run(
        [*cli, "translate", "--model", str(saved)], input=None if number == 0 else b"one two\n", env=environment(),
        preexec_fn=lambda: os.close(number), **streams,
    )
    if number == 2:
        assert done.returncode == 0 and done.stdout.count(b"\n") == 1
    else:
        assert done.returncode == 1
        assert done.stderr.decode() == "error: standard input or standard output is closed\n"


def test_a_word_without_an_end_is_cut_for_learning(capsys):
    text = "ab" * 200_000
    tokenizer = Tokenizer.train(["one two three"] * 9 + [text], 300)
    assert "cut, 1,562 times" in capsys.readouterr().err
    assert tokenizer.decode(tokenizer.encode(text[:999])) == text[:999]
    assert [*cut_words(["a dog", "x" * 256])] == ["a dog", "x" * 256]
