"The command line: train, translate, evaluate, help and exit codes."
import gzip
import importlib.util
import json

import pytest
from helpers import cli, run, same_run, sentences, train_options, write_pairs

import transformer_nbdev
from transformer_nbdev.cli import cli as commands
from transformer_nbdev.cli_options import new_settings
from transformer_nbdev.speed import bench as performance

base = ["--device", "cpu"]


@pytest.mark.parametrize("name", ["", *commands.commands])
def test_help(command, name):
    done = command(*[name] * bool(name), "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("Usage: ") and ("Options:" in done.stdout or "Training:" in done.stdout)
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
    assert line.startswith("error: no folder nowhere")


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
            "checkpoints", "config.json", "generation_config.json", "loss.png", "manifest.json", "metrics.jsonl",
            "model.safetensors", "settings.json", "tokenizer.json",
        }
        results.append([(out / n).read_bytes() for n in ("model.safetensors", "tokenizer.json")])
        records = [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()]
        assert records[0]["step"] == 4 and records[0]["loss"] > 0 and "valid_loss" in records[-1]
    assert results[0] == results[1] == results[2]


def test_numbers_are_trained_without_data(command, tmp_path, monkeypatch):
    monkeypatch.setattr("transformer_nbdev.tools.corpora.number_split", lambda *_: (range(50), range(50, 90)))
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


# Settings -----------------------------------------------------------------------------------------


def settings_of(folder) -> dict:
    return json.loads((folder / "settings.json").read_text())


def test_the_command_line_wins_over_the_task(tmp_path):
    names = "data src tgt train_split valid_split numbers_below preset vocab_size plain".split()
    nothing = {"out": tmp_path, **dict.fromkeys(names)}
    assert new_settings(nothing)["training"]["steps"] == 1000
    asked = new_settings({**nothing, "steps": 40, "lr": 0.0})
    assert asked["training"]["lr"] == 0.0 and asked["training"]["steps"] == 40
    assert new_settings({**nothing, "epochs": 100.0})["training"].get("steps") is None
    text = new_settings({**nothing, "data": "x"})
    assert text["training"]["epochs"] == 20.0 and text["training"]["optimizer"] == "muon"
    assert text["dropout_per_epoch"] > 0 == new_settings({**nothing, "data": "x", "dropout": 0.1})["dropout_per_epoch"]
    assert not new_settings(nothing)["plain"] and new_settings({**nothing, "plain": True})["plain"]


@pytest.mark.parametrize("change", [["--d-model", 32], ["--n-heads", 1], ["--src", "de"], ["--data", "other"]])
def test_a_run_cannot_become_another_one(command, corpus, tmp_path, change, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = ["train", *train_options, "--out", "run"]
    assert command(*base, "--data", corpus, "--steps", 1).returncode == 0
    before = settings_of(tmp_path / "run")
    done = command(*base, "--resume", "--steps", 2, *change)
    assert done.returncode == 1 and "cannot go on with" in done.stderr and str(change[1]) in done.stderr
    assert settings_of(tmp_path / "run") == before
    assert command(*base, "--resume", "--data", corpus, "--steps", 2).returncode == 0


def test_a_run_is_not_resumed_on_other_text(command, tmp_path):
    data = write_pairs(tmp_path / "data")
    base = ["train", "--data", data, *train_options, "--out", tmp_path / "run"]
    assert command(*base, "--steps", 1).returncode == 0
    for language in ("en", "de"):
        with open(data / f"train.{language}", "a", encoding="utf-8") as file:
            file.write("something else\n" * 50)
    done = command(*base, "--resume", "--steps", 2)
    assert done.returncode == 1 and "are not those" in done.stderr


def test_what_evaluation_leaves_out_is_told(command, trained, tmp_path):
    (tmp_path / "test.tsv").write_text("one\teins\n\ntwo\tzwei\nthree\tdrei\n")
    done = command("evaluate", "--model", trained, *base, "--data", tmp_path, "--limit", 2)
    assert json.loads(done.stdout)["sentences"] == 2 and "test.tsv:2" in done.stderr


# Faster parts -------------------------------------------------------------------------------------

accelerated = [o for o in train_options if o != "--plain"]


@pytest.mark.parametrize(("before", "plain"), [({}, True), ({"twins": []}, True), ({"twins": ["ByteDropout"]}, False)])
def test_a_run_of_an_earlier_version_goes_on_as_it_began(command, corpus, tmp_path, before, plain):
    begin = ["train", "--data", corpus, *accelerated, "--out", tmp_path]
    assert "faster parts: ByteDropout" in command(*begin, "--steps", 1).stderr
    settings = settings_of(tmp_path)
    assert settings.pop("plain") is False
    (tmp_path / "settings.json").write_text(json.dumps({**settings, **before}))
    done = command(*begin, "--resume", "--steps", 2)
    assert done.returncode == 0 and settings_of(tmp_path)["plain"] is plain
    assert ("faster parts" in done.stderr) is not plain


def test_an_accelerated_run_is_resumed_to_the_last_bit(command, corpus, tmp_path):
    begin = ["train", "--data", corpus, *accelerated, "--schedule", "paper", "--warmup", 4, "--log-every", 1,
             "--dropout", 0.3]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    for out, steps in ((whole, 6), (halves, 3)):
        assert command(*begin, "--steps", steps, "--out", out).returncode == 0
    assert command("train", *accelerated, "--out", halves, "--resume", "--steps", 6).returncode == 0
    same_run(whole, halves)


def test_every_engine_translates_the_same(command, trained):
    text = "".join(f"{source}\n" for source, _ in sentences(8, seed=3))
    engines = ["direct", "plain"] + ["ctranslate2"] * bool(importlib.util.find_spec("ctranslate2"))
    found = [command("translate", "--model", trained, *base, "--engine", engine, stdin=text) for engine in engines]
    assert {done.stdout for done in found} == {found[0].stdout} and found[0].stdout.count("\n") == 8, found


@pytest.mark.parametrize("plain", [False, True])
def test_bench_prints_both(command, plain, monkeypatch):
    monkeypatch.setattr(performance, "matmul_rate", lambda *_: 1e9)  # a second each time
    done = command("bench", "--preset", "tiny", "--vocab-size", 300, "--batch-tokens", 100, "--steps", 1, *base,
                   "--precision", "fp32", *["--plain"] * plain)
    found = json.loads(done.stdout)
    assert list(found) == (["plain"] if plain else ["plain", "accelerated", "ratio"])
    assert found["plain"]["tokens_per_second"] > 0 and found["plain"]["device"] == "cpu"
