"The command line refuses with exit code 1 and one line."
import os
import subprocess

import pytest
from helpers import (
    cli,
    environment,
    train_options,
    write,
)


def one_line(done: subprocess.CompletedProcess, *words: object) -> None:
    "The command ended with one line `error: …`, or click's for a wrong option, with these words."
    lines = done.stderr.splitlines()
    prefix = {1: "error: ", 2: "Error: Invalid value for "}[done.returncode]
    assert [i for i, line in enumerate(lines) if line.startswith(prefix)] == [len(lines) - 1]
    assert "Traceback" not in done.stderr
    missing = [word for word in words if str(word) not in lines[-1]]
    assert not missing, f"the message says nothing of {missing}: {lines[-1]!r}"


bad_training = {
    "no data": (["--data", "nowhere"], ["no folder", "nowhere"]),
    "no split": (["--train-split", "tra"], ["tra.en", "train.en"]),
    "language": (["--tgt", "fr"], ["train.fr", "train.de"]),
    "heads": (["--n-heads", 3], ["n_heads", 16, 3]),
    "odd width": (["--d-model", 15, "--n-heads", 1], ["d_model", 15]),
    "dropout": (["--dropout", 2], ["dropout", 2]),
    "steps": (["--steps", 0], ["steps", 0]),
    "vocabulary": (["--vocab-size", 100], ["vocab_size", 259, 100]),
    "batch": (["--batch-tokens", 3], ["tokens", 3]),
    "all too long": (["--max-len", 1], ["max_len", 1]),
    "device": (["--device", "gpu"], ["device", "gpu"]),
    "device number": (["--device", "cuda:77"], ["device"]),
    "multi30k": (["--data", "multi30k", "--tgt", "fr"], ["Multi30k", "fr"]),
    "nothing to resume": (["--resume"], ["nothing to resume"]),
}


@pytest.mark.parametrize("case", bad_training)
def test_train_refuses(command, corpus, tmp_path, case, monkeypatch):
    monkeypatch.delenv("MULTI30K", raising=False)
    monkeypatch.setenv("TRANSFORMER_NBDEV_CACHE", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    options, words = bad_training[case]
    out = tmp_path / "run"
    data = [] if "--data" in options else ["--data", corpus]
    base = ["train", *data, *train_options, "--steps", 2, "--out", out]
    one_line(command(*base, *options), *words)
    # The same folder can be used for the next try.
    if case in ("heads", "all too long"):
        assert command(*base).returncode == 0


def test_train_refuses_unknown_number_words(command, tmp_path):
    one_line(command("train", "--tgt", "xx", "--out", tmp_path / "run"), "xx", "en, de")


def test_train_refuses_a_folder_below_a_file(command, corpus, tmp_path):
    below = write(tmp_path / "file", "text") / "run"
    done = command("train", "--data", corpus, *train_options, "--steps", 2, "--out", below)
    one_line(done, below, "choose another")


def test_train_refuses_a_used_folder_and_damaged_settings(command, corpus, tmp_path):
    base = ["train", "--data", corpus, *train_options, "--steps", 2, "--out", tmp_path / "run"]
    assert command(*base).returncode == 0
    one_line(command(*base), tmp_path / "run", "--resume")
    for option in ("--seed", "--batch-tokens"):  # they decide which batch is due
        one_line(command(*base, "--resume", option, 201), "cannot go on with 201", "leave that option out")
    for content in ("", "5", '{"src": "en"}'):
        (tmp_path / "run" / "settings.json").write_text(content)
        one_line(command(*base, "--resume"), tmp_path / "run", "settings.json")


bad_searches = {
    "not a model": (["--model", "nowhere"], ["no folder nowhere", "organisation/model"]),
    "beam": (["--beam-size", 0], ["beam", 0]),
    "limit": (["--max-new-tokens", 65], ["max_new_tokens", 64, 65]),
    "device": (["--device", "gpu"], ["device", "gpu"]),
}


@pytest.mark.parametrize("case", bad_searches)
def test_translate_refuses(command, saved, case):
    options, words = bad_searches[case]
    base = ["translate", "--model", saved, "--device", "cpu"]
    one_line(command(*base, *options, stdin="one\n"), *words)


def test_translate_refuses_bytes_that_are_not_text(command, saved):
    base = ["translate", "--model", saved, "--device", "cpu"]
    one_line(command(*base, stdin=b"one\ntwo \xff\n"), "2", "UTF-8")


bad_evaluations = {
    "no data": (["--data", "nowhere"], ["no folder", "nowhere"]),
    "no split": (["--split", "tset"], ["tset.en", "test.en"]),
    "none": (["--limit", 0], ["limit", 0]),
    "negative": (["--limit", -1], ["limit", -1]),
    "output": (["--output", "/dev/null/out.txt"], ["/dev/null/out.txt"]),
}


@pytest.mark.parametrize("case", bad_evaluations)
def test_evaluate_refuses(command, saved, corpus, case):
    options, words = bad_evaluations[case]
    base = ["evaluate", "--model", saved, "--device", "cpu", "--data", corpus]
    one_line(command(*base, *options), *words)


def test_evaluate_asks_for_the_data_where_no_settings_name_them(command, saved):
    done = command("evaluate", "--model", saved, "--device", "cpu")
    one_line(done, saved, "settings.json", "--data")
    assert done.stdout == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_is_full(saved, unbuffered):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*cli, "translate", "--model", saved, "--device", "cpu"], input=b"one\ntwo\n",
            stdout=full, stderr=subprocess.PIPE, timeout=60,
            env={**environment(), "PYTHONUNBUFFERED": unbuffered},
        )
    done.stderr = done.stderr.decode()
    one_line(done, "No space left")
