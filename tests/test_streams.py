"Standard streams that are closed, and input that is none: one sentence, nothing lost in silence."
import os
import subprocess

import pytest
from helpers import cli, environment, refused, run

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.tools.corpora import cut_words


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


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_character_is_refused(saved, text):
    with refused((ValueError, TypeError), "text 1"):
        from transformer_nbdev.translator import Translator

        Translator.from_pretrained(saved).translate([text])


def test_a_word_without_an_end_is_cut_for_learning(capsys):
    text = "ab" * 200_000
    tokenizer = Tokenizer.train(["one two three"] * 9 + [text], 300)
    assert "cut, 1,562 times" in capsys.readouterr().err
    assert tokenizer.decode(tokenizer.encode(text[:999])) == text[:999]
    assert [*cut_words(["a dog", "x" * 256])] == ["a dog", "x" * 256]
