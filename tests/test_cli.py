"The command line: train, translate, evaluate, help and exit codes."
import gzip
import json

import pytest
from helpers import cli, run, sentences, train_options, write_pairs

import transformer_nbdev
from transformer_nbdev.cli import cli as commands

base = ["--device", "cpu"]


@pytest.mark.parametrize("name", ["", *commands.commands])
def test_help(command, name):
    done = command(*[name] * bool(name), "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("Usage: ") and "Options:" in done.stdout
    assert command(*[name] * bool(name), "-h").stdout == done.stdout
    if not name:
        assert all(known in done.stdout for known in ("train", "translate", "evaluate"))


def test_the_module_is_a_program():
    done = run(*cli, "--help")
    assert done.returncode == 0 and "translate" in done.stdout and done.stderr == ""


def test_version(command):
    done = command("--version")
    assert done.returncode == 0 and transformer_nbdev.__version__ in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"], ["--fast"], ["train"], ["train", "--out", "x", "--stepps", "3"],
        ["train", "--out", "x", "--steps", "many"], ["train", "--out", "x", "--preset", "huge"],
        ["translate"], ["translate", "--model"], ["evaluate", "--model", "x", "more"],
    ],
    ids=" ".join,
)
def test_wrong_options(command, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert "Error: " in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_error_is_one_line_without_a_traceback():
    done = run(*cli, "translate", "--model", "nowhere", stdin="one\n")
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: nowhere")


def test_plain_zipped_and_tabbed_files_train_the_same_model(command, tmp_path):
    plain = write_pairs(tmp_path / "plain")
    zipped, tabbed = tmp_path / "zipped", tmp_path / "tabbed"
    zipped.mkdir(), tabbed.mkdir()
    for path in plain.iterdir():
        (zipped / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    for split in ("train", "val"):
        sides = [(plain / f"{split}.{s}").read_text().splitlines() for s in ("en", "de")]
        lines = "".join(f"{a}\t{b}\n" for a, b in zip(*sides, strict=True))
        (tabbed / f"{split}.tsv").write_text(lines)
    results = []
    for data in (plain, zipped, tabbed):
        out = tmp_path / f"run-{data.name}"
        done = command("train", "--data", data, *train_options, "--steps", 4, "--out", out)
        assert done.returncode == 0 and done.stdout == "", done.stderr
        assert "60 sentence pairs" in done.stderr and f"--model {out}" in done.stderr
        names = {path.name for path in out.iterdir()}
        assert names == {
            "checkpoints", "config.json", "loss.png", "metrics.jsonl", "model.safetensors",
            "settings.json", "tokenizer.json",
        }
        results.append([(out / n).read_bytes() for n in ("model.safetensors", "tokenizer.json")])
        records = [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()]
        assert records[0]["step"] == 4 and records[0]["loss"] > 0 and "valid_loss" in records[-1]
    assert results[0] == results[1] == results[2]


def test_numbers_are_trained_without_data(command, tmp_path, monkeypatch):
    monkeypatch.setattr("transformer_nbdev.cli.number_split", lambda *_: (range(50), range(50, 90)))
    options = [o for o in train_options if "batch" not in o]
    done = command("train", *options, "--steps", 2, "--valid-split", "none", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "50 sentence pairs" in done.stderr


def test_translate_keeps_order_and_empty_lines(trained):
    lines = [source for source, _ in sentences(12, seed=9)]
    lines[3:3], lines[9:9] = ["", "   "], [""]
    done = run(*cli, "translate", "--model", trained, *base, stdin="\n".join(lines))
    assert done.returncode == 0 and done.stderr == ""
    found = done.stdout.split("\n")
    assert found.pop() == "", "the last line must end too"
    assert [not line for line in found] == [not line.strip() for line in lines]
    pairs = {"": "", **dict(sentences(12, seed=9))}
    right = sum(pairs[line.strip()] == out for line, out in zip(lines, found, strict=True))
    assert right >= 3 + 6


def test_translate_line_ends_and_scores(command, trained):
    search = ["translate", "--model", trained, *base]
    plain = command(*search, stdin="one two\nfour\n").stdout
    assert plain.count("\n") == 2
    assert command(*search, stdin="").stdout == ""
    scored = command(*search, "--scores", stdin="one two\nfour\n").stdout
    columns = [line.split("\t") for line in scored.splitlines()]
    assert [text for _, text in columns] == plain.splitlines()
    assert all(float(score) <= 0 for score, _ in columns)
    # The scores show whether the model saw the same.
    for same in ("one two\r\nfour", "one two\nfour", "\ufeffone two\nfour\n"):
        assert command(*search, "--scores", stdin=same).stdout == scored


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\x85", "\u2028"], ids=ascii)
def test_only_a_line_feed_ends_a_line(command, trained, mark):
    done = command("translate", "--model", trained, *base, stdin=f"one{mark}two\nfour\n")
    assert done.stdout.count("\n") == 2 and len(done.stdout.splitlines()) == 2


def test_evaluate(command, trained, tmp_path):
    data = write_pairs(tmp_path / "data", {"test": 25})
    output = tmp_path / "out.txt"
    search = ["evaluate", "--model", trained, *base, "--data", data]
    done = command(*search, "--output", output)
    assert done.returncode == 0 and done.stderr == ""
    scores = json.loads(done.stdout)
    assert scores["BLEU"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|")
    assert scores["chrF"]["signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
    assert 30 < scores["BLEU"]["score"] < 100.01 and 30 < scores["chrF"]["score"] < 100.01
    assert scores["sentences"] == 25 and scores["seconds"] >= 0
    source, reference = ((data / f"test.{s}").read_text() for s in ("en", "de"))
    found = output.read_text().splitlines()
    assert found == command("translate", "--model", trained, *base, stdin=source).stdout.split(
        "\n"
    )[:-1]
    exact = sum(a == b for a, b in zip(found, reference.splitlines(), strict=True)) / 25
    assert scores["exact_match"] == pytest.approx(exact)
    assert json.loads(command(*search, "--limit", 7).stdout)["sentences"] == 7
    perfect = (data / "test.de").write_text(output.read_text()), command(*search)
    assert json.loads(perfect[1].stdout)["BLEU"]["score"] == pytest.approx(100)
