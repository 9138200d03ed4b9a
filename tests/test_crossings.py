"""Ordinary options of `train`, crossed: every pair of their values occurs in one of the runs.

    CROSSINGS=all pytest tests/test_crossings.py    all rows of the covering array, not only the first ones

The id of a test is what to type after `transformer-nbdev train`, except that `--resume` means two runs: one that
stops after half of the updates, and one that resumes it. What follows the comma is how the model then translates.
"""
import json
import os
import re
import warnings
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from allpairspy import AllPairs
from helpers import sentences, typed
from sacrebleu.metrics import BLEU

from transformer_nbdev.tools.corpora import load_pairs
from transformer_nbdev.translator import Translator

steps = 12  # with the recipe's rising dropout, a new rate for each of them
base = (
    "--preset=tiny --n-encoder-layers=1 --n-decoder-layers=1 --n-heads=2 --vocab-size=400 --batch-tokens=200 "
    "--save-every=4 --log-every=4 --device=cpu"
).split()
factors = {  # the first value of each is the default of these tests
    "data": ["--data=files", "--data=tsv", ""],  # "": numbers in words
    "targets": ["", "--tgt=de,ko"],
    "stream": ["", "--stream"],
    "width": ["--d-model=16 --d-ff=32", "--d-model=36 --d-ff=50"],
    "max_len": ["--max-len=64", "--max-len=12"],
    "norm": ["", "--norm-first"],
    "tie": ["", "--no-tie-embeddings"],
    "bias": ["", "--bias"],
    "dropout": ["", "--dropout=0.1"],
    "precision": ["--precision=fp32", "--precision=bf16", ""],
    "compile": ["", "--compile"],
    "plain": ["", "--plain"],
    "optimizer": ["", "--optimizer=adamw", "--optimizer=adam"],
    "schedule": ["--warmup=4", "--schedule=paper --warmup=40"],
    "accumulate": ["", "--accumulate=2"],
    "smoothing": ["", "--label-smoothing=0"],
    "ema": ["--ema=0.9", "--ema=0"],
    "average": ["", "--average-last=2"],
    "validation": ["", "--validate-every=2", "--valid-split=none"],  # "": at the end only
    "patience": ["", "--patience=2"],
    "bleu": ["", "--bleu-sentences=3"],
    "resume": ["", "--resume"],
    "translate": ["translate", "translate --int8", "translate --engine=plain", "translate --precision=bf16"],
}
excluded = [
    ("--data=tsv", "--tgt=de,ko"),  # a .tsv has two columns, one target language
    ("--valid-split=none", "--patience=2"),  # there is no loss to be patient about
    ("--valid-split=none", "--bleu-sentences=3"),  # there are no sentences to translate
]
known = [  # what failed once, with everything else as it is by default
    {"patience": "--patience=2"}, {"average": "--average-last=2"}, {"compile": "--compile"}, {"stream": "--stream"},
    {"max_len": "--max-len=12"}, {"width": "--d-model=36 --d-ff=50", "translate": "translate --int8"},
]


def sensible(values) -> bool:
    "Whether a row, or its beginning, has none of the excluded pairs."
    return not any(set(pair) <= set(values) for pair in excluded)


def array() -> list[tuple[str, ...]]:
    "The known rows, then others until every sensible pair of values occurs."
    default = {name: values[0] for name, values in factors.items()}
    found = [tuple({**default, **changes}.values()) for changes in known]
    n_known, names = len(found), [*factors]
    found += map(tuple, AllPairs([*factors.values()], filter_func=sensible, previously_tested=found[:n_known]))
    for a, b in combinations(range(len(names)), 2):  # the library may stop before the last ones
        missing = {*product(factors[names[a]], factors[names[b]])} - {(row[a], row[b]) for row in found}
        found += [tuple({**default, names[a]: x, names[b]: y}.values()) for x, y in sorted(missing) if sensible((x, y))]
    return found if os.environ.get("CROSSINGS") == "all" else found[: n_known + 4]


def title(row: tuple[str, ...]) -> str:
    "The words to type."
    return f"{' '.join(filter(None, row[:-1]))}, {row[-1]}"


def write_data(folder: Path) -> None:
    "Folders `files` and `tsv`, each with an empty line and a pair that is too long."
    for name in ("files", "tsv"):
        (folder / name).mkdir()
    for seed, (split, n) in enumerate({"train": 60, "val": 12}.items()):
        pairs = sentences(n, seed)
        pairs[3], pairs[5] = ("", ""), ("one " * 80 + "two", "eins " * 80 + "zwei")
        english, german = zip(*pairs)
        korean = [text.translate(str.maketrans("aeinsuvzwdrl", "가나다라마바사아자차카타")) for text in german]
        for language, texts in {"en": english, "de": german, "ko": korean}.items():
            (folder / f"files/{split}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        (folder / f"tsv/{split}.tsv").write_text("".join("\t".join(p) + "\n" if p[0] else "\n" for p in pairs))


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    "Data in the current folder, few numbers, a cheap compiler, and BLEU that always rises: the last penalty wins."
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    compiled, measured, bleu = torch.compile, BLEU.corpus_score, iter(range(1, 10**6))

    def rising(self, *texts):
        score = measured(self, *texts)
        score.score = float(next(bleu))
        return score

    monkeypatch.setattr(BLEU, "corpus_score", rising)
    monkeypatch.setattr(torch, "compile", lambda f, **options: compiled(f, **{**options, "backend": "eager"}))
    monkeypatch.setattr("transformer_nbdev.tools.corpora.number_split", lambda *_: (range(50), range(50, 62)))
    torch.compiler.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def done(*words: str) -> str:
    "Standard error of a `train` that must succeed."
    found = typed("train", *words)
    assert found.returncode == 0, found.stderr[-500:]
    return found.stderr


def train(row: dict[str, str]) -> str:
    "Train into `run` as the row says; standard error of the first command."
    words = [w for name, value in row.items() if name not in ("resume", "translate") for w in value.split()]
    first = done(*base, *words, "--out=run", f"--steps={steps // 2 if row['resume'] else steps}")
    if row["resume"]:
        done("--out=run", "--device=cpu", "--resume", f"--steps={steps}")
    return first


def logged(name: str) -> list[float]:
    "All values of one of the logged numbers, in order."
    records = map(json.loads, Path("run/metrics.jsonl").read_text().splitlines())
    return [record[name] for record in records if name in record]


def length_penalty_of(folder: Path) -> float:
    "The one that beam search uses if it is told no other."
    return json.loads((folder / "generation_config.json").read_text())["length_penalty"]


def check_left_out(row: dict[str, str], translator: Translator, stderr: str) -> list[tuple[str, str]]:
    "What was told is what was left out, of training and validation; the validation pairs that were used."
    data, languages = row["data"].removeprefix("--data=") or None, row["targets"].removeprefix("--tgt=") or "de"
    expected, used = {"empty line": 0, "over": 0}, []
    for split in ["train", "val"][: 1 if "none" in row["validation"] else 2]:
        pairs, _ = load_pairs(data, split, "en", languages)
        lengths = [max(len(translator.tokenizer.encode(text)) + 1 for text in pair) for pair in pairs]
        used = [pair for pair, n in zip(pairs, lengths) if n <= translator.model.config.max_len]
        expected["over"] += len(pairs) - len(used)
        expected["empty line"] += len(languages.split(",")) if data else 0
    told = dict.fromkeys(expected, 0)
    for reason, n, places in set(re.findall(r"left out, (empty line|over)[^:]*: (\d+) (.*)", stderr)):
        told[reason] += int(n)
    assert told == expected
    return used


def check_log(row: dict[str, str], translator: Translator, pairs: list[tuple[str, str]]) -> None:
    "Loss and length penalty that were logged are those of the folder."
    losses, penalties = logged("valid_loss"), logged("length_penalty")
    if "none" in row["validation"]:
        assert not losses and not penalties
        return
    tokens = sum(len(translator.tokenizer.encode(target)) + 1 for _, target in pairs)
    loss = -sum(translator.score(pairs)) / tokens
    near = pytest.approx(loss, abs=1e-3 if "fp32" in row["precision"] else 0.03)
    assert losses[-1] == near, (losses, loss)
    assert length_penalty_of(Path("run")) == penalties[-1]
    assert len(logged("valid_bleu")) == (len(losses) - 1 if row["bleu"] else 0)  # the last loss is the kept model's


def check_translation(row: dict[str, str]) -> None:
    "Three lines give three lines, by the command line; a long one is cut, with a word about it."
    lines = ["one two", "three " * 100, "four"]
    words = [*row["translate"].split(), "--model=run", "--device=cpu"]
    found = typed(*words, stdin="".join(f"{line}\n" for line in lines))
    assert found.returncode == 0 and found.stdout.count("\n") == 3, found
    told = [line for line in found.stderr.splitlines() if not line.startswith("note: bf16 is slower")]
    assert len(told) == 1 and told[0].startswith("warning: line 2 has "), found.stderr


@pytest.mark.parametrize("row", array(), ids=title)
def test_crossing(row, capfd):
    row = dict(zip(factors, row))
    with warnings.catch_warnings(record=True) as leaked:
        stderr = train(row)
        translator = Translator.from_pretrained("run")
        pairs = check_left_out(row, translator, stderr)
        check_log(row, translator, pairs)
        check_translation(row)
    told = [str(w.message) for w in leaked if not issubclass(w.category, DeprecationWarning)]
    assert not [text for text in told if "Python 3.13.0" not in text], told  # PyTorch asks for 3.13.1 when compiling
    assert "Traceback" not in stderr and "warning" not in stderr.lower(), stderr
    assert capfd.readouterr() == ("", ""), "written past sys.stderr, by a library"
