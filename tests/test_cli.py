"The command line: what it does, and what it refuses with exit code 1 or 2 and one line."
import gzip
import importlib.util
import json
import os
import random
import shutil
import subprocess

import click
import pytest
from helpers import (
    cli,
    contents,
    only_translates,
    run,
    same_run,
    sentences,
    tiny_model,
    train_options,
    typed,
    write,
    write_pairs,
)

import transformer_nbdev
from transformer_nbdev import cli as command_line
from transformer_nbdev.cli import cli as commands
from transformer_nbdev.cli_options import new_settings
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.speed import bench as performance
from transformer_nbdev.translator import Translator

base = ["--device", "cpu"]


@pytest.mark.parametrize("name", ["", *commands.commands])
def test_help(command, name):
    done = command(*[name] * bool(name), "--help")
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("Usage: ")
    assert command(*[name] * bool(name), "-h").stdout == done.stdout


def test_version_and_errors_of_the_program_itself():
    done = run(*cli, "--version")
    assert done.returncode == 0 and transformer_nbdev.__version__ in done.stdout and done.stderr == ""
    done = run(*cli, "translate", "--model", "nowhere", stdin="one\n")
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no folder nowhere")


@pytest.mark.parametrize("words", [
    "fly", "--fast", "train", "train --out x --stepps 3", "train --out x --steps many", "translate --model",
    "evaluate --model x more",
])
def test_wrong_words_exit_with_2(command, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*words.split())
    assert done.returncode == 2 and done.stdout == "" and "Error: " in done.stderr and not list(tmp_path.iterdir())


# Refusals -----------------------------------------------------------------------------------------


def assert_refused(done: subprocess.CompletedProcess, *words: object) -> None:
    "The command ended with one line `error: …`, or click's for a wrong option, with these words."
    lines = done.stderr.splitlines()
    prefix = {1: "error: ", 2: "Error: Invalid value for "}[done.returncode]
    assert [i for i, line in enumerate(lines) if line.startswith(prefix)] == [len(lines) - 1], done.stderr
    missing = [word for word in words if str(word) not in lines[-1]]
    assert "Traceback" not in done.stderr and not missing, f"nothing of {missing}: {lines[-1]!r}"


@pytest.fixture(scope="session")
def odd_data(tmp_path_factory) -> dict:
    "Folders of data that cannot be used: empty files, UTF-16, no validation."
    folder = tmp_path_factory.mktemp("odd")
    for name in ("EMPTY", "WIDE", "FEW"):
        (folder / name).mkdir()
        for language in ("en", "de"):
            write(folder / name / f"train.{language}", "" if name == "EMPTY" else "one\ntwo\n")
    for language in ("en", "de"):
        (folder / "WIDE" / f"train.{language}").write_text("one\ntwo\n", encoding="utf-16")
    write(folder / "WIDE" / "few.json", '{"training": {"lrr": 1}}')
    return {name: folder / name for name in ("EMPTY", "WIDE", "FEW")}


@pytest.mark.parametrize(("words", "told"), [
    ("train --data nowhere", ["no folder", "nowhere"]),
    ("train --data DATA --train-split tra", ["tra.en", "train.en"]),
    ("train --data DATA --tgt fr", ["train.fr", "train.de"]),
    ("train --tgt xx", ["xx", "en, de"]),
    ("train --data DATA --n-heads 3", ["n_heads", 16, 3]),
    ("train --data DATA --d-model 15 --n-heads 1", ["d_model", 15]),
    ("train --data DATA --steps 0", ["steps", 0]),
    ("train --data DATA --vocab-size 100", ["vocab_size", 259, 100]),
    ("train --data DATA --batch-tokens 3", ["tokens", 3]),
    ("train --data DATA --max-len 1", ["max_len", 1]),
    ("train --data DATA --device gpu", ["device", "gpu"]),
    ("train --data DATA --resume", ["nothing to resume"]),
    ("train --data DATA --out FILE/run", ["FILE/run", "choose another"]),
    ("train --data DATA --out DATA", ["DATA", "holds the training data", "--out"]),
    ("train --data EMPTY", ["no sentence pair", "train.en:1"]),
    ("train --data EMPTY --train-split val", ["val.en", "train.de"]),
    ("train --data WIDE", ["WIDE/train.en:1", "iconv -f UTF-16"]),
    ("train --data FEW", ["val.en", "--valid-split none"]),
    ("train --data DATA --config WIDE/few.json", ["few.json", "has no 'preset'"]),
    ("translate --model nowhere", ["no folder nowhere", "organisation/model"]),
    ("translate --model SAVED --max-new-tokens 65", ["max_new_tokens", 64, 65]),
    ("translate --model SAVED --beam-size 0", ["beam-size", 0]),
    ("evaluate --model SAVED", ["settings.json", "--data"]),
    ("evaluate --model SAVED --data nowhere", ["no folder", "nowhere"]),
    ("evaluate --model SAVED --data DATA --split tset", ["tset.en", "test.en"]),
    ("evaluate --model SAVED --data DATA --limit 0", ["limit", 0]),
    ("evaluate --model SAVED --data nowhere --output FILE/out.txt", ["FILE/out.txt"]),  # before the data are read
])
def test_a_refusal_is_one_line(command, corpus, saved, odd_data, tmp_path, words, told):
    write(tmp_path / "file", "text")
    places = {"DATA": corpus, "SAVED": saved, "FILE": tmp_path / "file", **odd_data}
    for name, place in places.items():
        words, told = words.replace(name, str(place)), [str(word).replace(name, str(place)) for word in told]
    first, *rest = words.split()
    more = [*train_options, "--steps=2", "--out", tmp_path / "run"] if first == "train" else base
    assert_refused(command(first, *more, *rest, stdin="one\n"), *told)
    assert contents(tmp_path) == {"file": b"text"}


def test_bytes_that_are_not_text_are_refused_by_line(command, saved):
    assert_refused(command("translate", "--model", saved, *base, stdin=b"one\ntwo \xff\n"), "standard input:2", "UTF-8")


def test_what_was_answered_stays_when_a_later_line_is_not_text(command, saved):
    search = ["translate", "--model", saved, *base]
    done = command(*search, stdin=b"one\n" + b" " * 2**20 + b"\xff\n")  # read in two blocks
    assert_refused(done, "standard input:2", "UTF-8")
    assert done.stdout == command(*search, stdin="one\n").stdout and done.stdout.count("\n") == 1


def test_a_run_cannot_become_another_one(command, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    again = ["train", *train_options, "--data", corpus, "--out", "run"]
    assert command(*again, "--steps", 1).returncode == 0
    assert_refused(command(*again, "--steps", 1), "run", "--resume")
    before = contents(tmp_path)
    for name, value in (("--d-model", 32), ("--seed", 201), ("--src", "de"), ("--data", "other")):
        rest = [word for word in again if word not in ("--data", corpus)] if name == "--data" else again
        done = command(*rest, "--resume", "--steps", 2, name, value)
        assert_refused(done, "cannot go on with", value, "leave that option out")
    (tmp_path / "run" / "settings.json").write_text('{"src": "en"}')
    assert_refused(command(*again, "--resume"), "run/settings.json")
    (tmp_path / "run" / "settings.json").write_bytes(before["run/settings.json"])
    assert contents(tmp_path) == before
    assert command(*again, "--resume", "--steps", 2).returncode == 0


def test_a_run_is_not_resumed_on_other_text(command, tmp_path):
    data = write_pairs(tmp_path / "data")
    again = ["train", "--data", data, *train_options, "--out", tmp_path / "run"]
    assert command(*again, "--steps", 1).returncode == 0
    for language in ("en", "de"):
        with open(data / f"train.{language}", "a", encoding="utf-8") as file:
            file.write("something else\n" * 50)
    assert_refused(command(*again, "--resume", "--steps", 2), "are not those")


def test_a_model_without_a_run_is_not_overwritten(command, corpus, trained, tmp_path):
    shutil.copy(trained / "model.safetensors", tmp_path)
    before = contents(tmp_path)
    done = command("train", "--data", corpus, *train_options, "--steps", 2, "--out", tmp_path)
    assert_refused(done, "holds a model", tmp_path)
    assert contents(tmp_path) == before


values = ["0", "1", "2", "12", "-1", "0.5", "3.5", "nan", "inf", "abc", "é", "/dev/null", "cuda", "fp32", "en"]
unused = {"--data", "--seed", "--minutes", "--epochs", "--steps", "--out", "--output"}


@pytest.mark.parametrize("name", ["train", "translate", "score", "evaluate"])
def test_any_two_options_are_taken_or_named_in_a_refusal(corpus, saved, tmp_path, monkeypatch, name):
    "CASES=1000 for as many; values that must be taken are crossed in `test_crossings.py`."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    options = [option for option in commands.commands[name].params if isinstance(option, click.Option)]
    names = sorted({option.opts[0] for option in options if not option.is_flag} - unused)
    own = [*train_options, "--data", corpus, "--steps=1", "--out=run"] if name == "train" else ["--model", saved]
    own += ["--data", corpus, "--limit=2"] if name == "evaluate" else []
    text = "one\teins\n" if name == "score" else "one\n"
    for seed in range(int(os.environ.get("CASES", 20))):
        rng = random.Random(seed)
        words = [word for option in rng.sample(names, 2) for word in (option, rng.choice(values))]
        done = typed(name, *own, *words, stdin=text)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1].replace("_", "-")
            assert done.returncode in (1, 2) and "Traceback" not in done.stderr, (words, done)
            assert last.lower().startswith("error: ") and any(w.strip("-") in last for w in words), (words, last)
        shutil.rmtree("run", ignore_errors=True)


# Training -----------------------------------------------------------------------------------------


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
        results.append([(out / n).read_bytes() for n in ("model.safetensors", "tokenizer.json")])
    assert results[0] == results[1] == results[2]


def test_numbers_are_trained_without_data(command, tmp_path, monkeypatch):
    monkeypatch.setattr("transformer_nbdev.tools.corpora.number_split", lambda *_: (range(50), range(50, 90)))
    options = [o for o in train_options if "batch" not in o]
    done = command("train", *options, "--steps", 2, "--valid-split", "none", "--out", tmp_path)
    assert done.returncode == 0 and "50 sentence pairs" in done.stderr, done.stderr


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


def test_an_accelerated_run_is_resumed_to_the_last_bit(command, corpus, tmp_path):
    accelerated = [option for option in train_options if option != "--plain"]
    begin = ["train", "--data", corpus, *accelerated, "--schedule", "paper", "--warmup", 4, "--log-every", 1,
             "--dropout", 0.3]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    for out, steps in ((whole, 6), (halves, 3)):
        done = command(*begin, "--steps", steps, "--out", out)
        assert done.returncode == 0 and "faster parts: ByteDropout" in done.stderr
    assert command("train", *accelerated, "--out", halves, "--resume", "--steps", 6).returncode == 0
    same_run(whole, halves)


# Translating --------------------------------------------------------------------------------------


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


def test_line_ends_and_scores(command, trained):
    search = ["translate", "--model", trained, *base]
    plain = command(*search, stdin="one two\nfour\n").stdout
    assert plain.count("\n") == 2 and command(*search, stdin="").stdout == ""
    scored = command(*search, "--scores", stdin="one two\nfour\n").stdout
    columns = [line.split("\t") for line in scored.splitlines()]
    assert [text for _, text in columns] == plain.splitlines()
    assert all(float(score) <= 0 for score, _ in columns)
    # The scores show whether the model saw the same.
    for same in ("one two\r\nfour", "one two\nfour", "\ufeffone two\nfour\n"):
        assert command(*search, "--scores", stdin=same).stdout == scored
    for mark in ("\r", "\x0c", "\u2028"):  # these end no line
        done = command(*search, stdin=f"one{mark}two\nfour\n")
        assert done.stdout.count("\n") == len(done.stdout.splitlines()) == 2


def test_every_engine_translates_the_same(command, trained):
    text = "".join(f"{source}\n" for source, _ in sentences(8, seed=3))
    engines = ["direct", "plain"] + ["ctranslate2"] * bool(importlib.util.find_spec("ctranslate2"))
    found = [command("translate", "--model", trained, *base, "--engine", engine, stdin=text) for engine in engines]
    assert {done.stdout for done in found} == {found[0].stdout} and found[0].stdout.count("\n") == 8, found


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
    assert output.read_text() == command("translate", "--model", trained, *base, stdin=source).stdout
    found = output.read_text().splitlines()
    exact = sum(a == b for a, b in zip(found, reference.splitlines(), strict=True)) / 25
    assert scores["exact_match"] == pytest.approx(exact)
    assert json.loads(command(*search, "--limit", 7).stdout)["sentences"] == 7
    (data / "test.de").write_text(output.read_text())
    assert json.loads(command(*search).stdout)["BLEU"]["score"] == pytest.approx(100)


def test_evaluate_reports_what_it_leaves_out(command, trained, tmp_path):
    (tmp_path / "test.tsv").write_text("one\teins\n\ntwo\tzwei\nthree\tdrei\n")
    done = command("evaluate", "--model", trained, *base, "--data", tmp_path, "--limit", 2)
    assert json.loads(done.stdout)["sentences"] == 2 and "test.tsv:2" in done.stderr


def test_bench_prints_both(command, monkeypatch):
    monkeypatch.setattr(performance, "matmul_rate", lambda *_: 1e9)  # a second each time
    options = ["--preset", "tiny", "--vocab-size", 300, "--batch-tokens", 100, "--steps", 1, "--precision", "fp32"]
    found = json.loads(command("bench", *options, *base).stdout)
    assert list(found) == ["plain", "accelerated", "ratio"]
    assert found["plain"]["tokens_per_second"] > 0 and found["plain"]["device"] == "cpu"


@pytest.mark.parametrize("pays, more, engine", [
    (True, [], "direct"), (False, [], "ctranslate2"), (False, ["--n-best=2"], "direct"),
    (False, ["--precision=bf16"], "direct"),
])
def test_the_processor_chooses_the_engine(saved, monkeypatch, pays, more, engine):
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr(command_line, "bf16_pays", lambda device: pays)
    short = ["--device=cpu", "--max-new-tokens=6"]
    used, kind, direct = [], command_line.CTranslate2Translator, command_line.Direct
    converted = kind.converted
    monkeypatch.setattr(kind, "converted", lambda *a: used.append("ctranslate2") or converted(*a))
    monkeypatch.setattr(command_line, "Direct", lambda model: used.append("direct") or direct(model))
    done = typed("translate", "--model", saved, *short, *more, stdin="one two\n\nthree\n")
    assert done.returncode == 0 and used == [engine]
    if engine == "ctranslate2":
        plain = typed("translate", "--model", saved, *short, "--engine=plain", stdin="one two\n\nthree\n")
        assert done.stdout == plain.stdout


@pytest.mark.parametrize("to", ["marian", "ctranslate2"])  # exported graphs: test_onnx.py
def test_translate_reads_what_convert_writes(tmp_path, to):
    tokenizer = Tokenizer.train(["one two three"] * 9, 280)
    model = tiny_model(vocab_size=tokenizer.vocab_size, max_len=64)
    Translator(model, tokenizer).save_pretrained(tmp_path / "ours")
    assert typed("convert", "--to", to, tmp_path / "ours", tmp_path / to).returncode == 0
    search = ["--beam-size=2", "--length-penalty=0.6", "--max-new-tokens=6", "--precision=fp32", "--device=cpu"]
    found = [typed("translate", "--model", tmp_path / name, *search, stdin="one\ntwo\n") for name in ("ours", to)]
    assert found[0].stdout == found[1].stdout and found[1].stdout.count("\n") == 2
    if to == "marian":
        assert typed("convert", "--to", "native", tmp_path / to, tmp_path / "a copy").stderr.endswith("copy'\n")
        return
    only_translates(tmp_path / to)
    done = typed("translate", "--n-best=2", "--model", tmp_path / to, "--device=cpu", stdin="one\n")
    assert done.returncode == 1 and done.stderr.startswith("error: CTranslate2 only translates"), done.stderr
