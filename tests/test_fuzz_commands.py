"""Options, standard input, data folders and failing files, drawn by Hypothesis.

What is right must succeed; what is wrong, or may be, may also end in a sentence that says so. Both soon.

    CASES=1000 pytest tests/test_fuzz_commands.py    many more of them
"""
import contextlib
import errno
import gzip
import os
import shutil
import signal
import sys

import click
import pytest
import torch
from helpers import contents, train, typed, write_pairs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer_nbdev.cli import cli
from transformer_nbdev.translator import Translator

cases = int(os.environ.get("CASES", 25))
drawn = settings(max_examples=cases, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@contextlib.contextmanager
def within(seconds: int):
    "The test fails if it takes longer; no error, since the command line turns errors into sentences."
    def late(*_):
        pytest.fail(f"not within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answered(*words, stdin: bytes = b"", seconds: int = 20, right: bool = False):
    "What the command line says: done, or, if the input may be wrong, what is wrong with it, in a line."
    with within(seconds):
        done = typed(*words, stdin=stdin)
    told = done.stderr.strip().splitlines()
    assert done.returncode == 0 or not right, ascii(done)
    assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr, ascii(done)
    assert not done.returncode or told[-1].lower().startswith("error: ") and len(told[-1]) > 15, ascii(done)
    return done


odd = st.sampled_from([
    "", " ", "0", "1", "2", "-1", "3.5", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "9" * 30, "１２", "1_0",
    "0x10", "abc", "true", "None", "é", "\udcff", "\n", "a" * 5000, ".", "/", "..", "*", "[", "/dev/null", "-", "--",
    "[]", "{}", "%s", "auto", "fp32", "bf16", "cpu", "cpu:5", "cuda", "meta", "mps", "en", "de", "none", "hub:",
    "multi30k/", "adamw", "muon",
])
never = {"--help", "--resume", "--compile", "--minutes", "--epochs", "--steps", "--accumulate", "--out", "--output"}
valid = {  # values that are right with these data and models, and with each other
    "precision": "auto fp32 bf16", "batch-tokens": "100 3000", "device": "cpu", "beam-size": "2 7",
    "length-penalty": "-1 0 3.5", "max-new-tokens": "1 9", "no-repeat-ngram": "0 1 3", "n-best": "1 2",
    "split": "train val test", "src": "en", "tgt": "de", "limit": "1 5", "preset": "tiny small",
    "vocab-size": "280 300", "train-split": "train test", "valid-split": "val test", "numbers-below": "30200",
    "d-model": "16 36", "n-heads": "1 2", "n-encoder-layers": "1 2", "n-decoder-layers": "1 2", "d-ff": "1 50",
    "dropout": "0 0.5", "activation": "relu gelu silu", "max-len": "12 64 200", "optimizer": "adamw adam muon",
    "lr": "1e-5 0.01", "schedule": "linear paper", "warmup": "1 200", "beta1": "0 0.9", "beta2": "0.5 0.999",
    "eps": "1e-6", "weight-decay": "0 0.1", "clip-norm": "0 1", "label-smoothing": "0 0.3", "ema": "0 0.9",
    "average-last": "0 2", "validate-every": "0 1 5", "bleu-sentences": "0 2", "patience": "0 1", "save-every": "0 1",
    "log-every": "1 5", "seed": "0 7", "from": "native",
}


def options(command: str):
    "Up to three options of a command, and whether all have valid values, flags among them; else all have odd ones."
    found = [p for p in cli.commands[command].params if isinstance(p, click.Option) and p.opts[0] not in never]
    flags, names = [p.opts[0] for p in found if p.is_flag], [p.opts[0] for p in found if not p.is_flag]
    right = [(name, value) for name in names for value in valid.get(name[2:], "").split()]
    valid_rows = st.sampled_from([(flag,) for flag in flags] + right)
    odd_rows = st.tuples(st.sampled_from(names), odd)
    return st.one_of(
        st.lists(rows, max_size=3).map(lambda rows, right=right: ([word for row in rows for word in row], right))
        for rows, right in ((valid_rows, True), (odd_rows, False))
    )


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    "Whatever is written under a relative name is not written here. On one thread: other work must not slow it."
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@drawn
@given(command=st.sampled_from(["translate", "score"]), chosen=options("translate"), more=options("score"))
def test_options_of_translation(saved, command, chosen, more):
    words, right = chosen if command == "translate" else more
    text = b"one two\nthree\n" if command == "translate" else b"one two\teins zwei\nthree\tdrei\n"
    done = answered(command, "--model", saved, *words, stdin=text, right=right)
    if done.returncode == 0 and not any(word.startswith("--n-best") for word in words):
        assert done.stdout.count("\n") == 2, ascii(done)


@drawn
@given(chosen=options("evaluate"))
def test_options_of_evaluation(saved, corpus, chosen):
    base = ["evaluate", "--model", saved, "--data", corpus, "--src", "en", "--tgt", "de", "--limit", "3"]
    answered(*base, *chosen[0], right=chosen[1])


@drawn
@given(chosen=options("train"))
def test_options_of_training(corpus, tmp_path, chosen):
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    base = train(corpus, tmp_path / "out")[3:]
    answered(*base, *chosen[0], "--steps", "2", seconds=60, right=chosen[1])
    if (tmp_path / "out" / "model.safetensors").exists():
        Translator.from_pretrained(tmp_path / "out")


@drawn
@given(chosen=options("convert"), kind=st.sampled_from(["native", "marian", "abc", ""]))
def test_options_of_conversion(saved, tmp_path, chosen, kind):
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    before = contents(saved)
    words, right = chosen
    answered("convert", saved, tmp_path / "new", "--to", kind, *words, right=right and kind == "native")
    assert contents(saved) == before


pieces = st.one_of(
    st.text(max_size=20).map(str.encode), st.binary(max_size=8),
    st.sampled_from([
        b"\n", b"\r\n", b"\r", b"\t", b"\0", b"\xed\xa0\x80", b"\xff\xfe", b"\xef\xbb\xbf", "\u2028\u2029\x85".encode(),
        b" " * 70, b"one two three", "한국어 ①".encode(), b"e" + "\u0301".encode() * 300, b">>de<< one",
    ]),
)
inputs = st.lists(pieces, max_size=12).map(b"".join)


def is_text(data: bytes) -> bool:
    "Whether it is UTF-8, in lines that surely have at most 64 tokens."
    with contextlib.suppress(UnicodeDecodeError):
        return bool(data.decode()) and max(map(len, data.split(b"\n"))) < 60
    return False


def check_lines(saved, command: str, text: bytes, seconds: int = 20) -> None:
    "A line for each line; a sentence only for what is wrong: to translate, text is not."
    right = command == "translate" and is_text(text)
    done = answered(command, "--model", saved, stdin=text, seconds=seconds, right=right)
    if done.returncode == 0:
        lines = text.count(b"\n") + (not text.endswith(b"\n") and text != b"")
        assert done.stdout.count("\n") == lines, ascii((text, done))


@drawn
@given(command=st.sampled_from(["translate", "score"]), text=inputs)
def test_standard_input(saved, command, text):
    check_lines(saved, command, text)


much = {"a word": b"x" * 10**6, "a line": b"one " * 250_000, "empty lines": b"\n" * 100_000}


@pytest.mark.parametrize("what", much)
def test_much_standard_input(saved, what):
    check_lines(saved, "translate", much[what], seconds=60)


def spoil(folder, name: str, how: str, text: bytes) -> None:
    "Another thing where the file was."
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    {
        "gone": lambda: None,
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "loop": lambda: path.symlink_to(path),
        "dangling": lambda: path.symlink_to(folder / "nothing"),
        "empty": path.touch,
        "other text": lambda: path.write_bytes(text),
        "more text": lambda: path.write_bytes(whole + text),
        "half": lambda: path.write_bytes(whole[: len(whole) // 2]),
        "latin-1": lambda: path.write_bytes(whole + "größer\n".encode("latin-1")),
        "utf-16": lambda: path.write_bytes(whole.decode().encode("utf-16")),
        "gz": lambda: path.with_name(f"{name}.gz").write_bytes(gzip.compress(whole)),
        "broken gz": lambda: path.with_name(f"{name}.gz").write_bytes(gzip.compress(whole)[:-9]),
        "no gz": lambda: path.with_name(f"{name}.gz").write_bytes(whole),
        "tsv, too": lambda: (path.write_bytes(whole), (folder / "train.tsv").write_bytes(text)),
    }[how]()


kinds = st.sampled_from([
    "gone", "fifo", "folder", "loop", "dangling", "empty", "other text", "more text", "half", "latin-1", "utf-16", "gz",
    "broken gz", "no gz", "tsv, too"
])
names = st.sampled_from(["train.en", "train.de", "val.de"])


@drawn
@given(name=names, how=kinds, text=inputs, stream=st.booleans())
def test_data_folders(tmp_path, name, how, text, stream):
    shutil.rmtree(tmp_path, ignore_errors=True)
    corpus = write_pairs(tmp_path / "data")
    os.chdir(tmp_path)
    spoil(corpus, name, how, text)
    words = train(corpus, tmp_path / "out", "--steps=1", *(["--stream"] if stream else []))[3:]
    answered(*words, seconds=60, right=how == "gz")


class Faults:
    "Counts what is done to files below a folder, and lets one of these fail: an audit hook of the interpreter."

    events = {"open", *(f"os.{what}" for what in ("rename", "mkdir", "remove", "rmdir", "listdir", "scandir", "chmod"))}

    def __init__(self):
        self.folder, self.left, self.number = None, -1, errno.EIO
        sys.addaudithook(self)

    def __call__(self, event, arguments):
        if self.folder is None or event not in self.events or not str(arguments[0]).startswith(self.folder):
            return
        self.left -= 1
        if self.left == 0:
            raise OSError(self.number, os.strerror(self.number), str(arguments[0]))

    @contextlib.contextmanager
    def at(self, folder, place: int = -1, number: int = errno.EIO):
        "The one at this place, counted from 1, fails; -1: none does."
        self.folder, self.left, self.number = str(folder), place, number
        try:
            yield
        finally:
            self.folder = None


faults = Faults()
commands = {
    "train": lambda room: train(room / "data", room / "run", "--steps=4", "--save-every=2")[3:],
    "resume": lambda room: train(room / "data", room / "old", "--resume", "--steps=8", "--save-every=2")[3:],
    "translate": lambda room: ["translate", "--model", room / "old"],
    "evaluate": lambda room: ["evaluate", "--model", room / "old", "--output", room / "out.txt"],
    "native": lambda room: ["convert", room / "old", room / "new", "--to", "native"],
}


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    "A place with data and a run; how to have it as it was; and how much each command does to files there, undisturbed."
    room = tmp_path_factory.mktemp("rooms") / "room"
    write_pairs(room / "data")
    first = train(room / "data", room / "old", "--steps=4", "--save-every=2", "--schedule=paper")
    assert typed(*first[3:]).returncode == 0
    shutil.copytree(room, room.parent / "kept")

    def restore():
        shutil.rmtree(room)
        shutil.copytree(room.parent / "kept", room)

    counts = {}
    for name in commands:
        restore()
        with faults.at(room):
            done = typed(*commands[name](room), stdin=b"one\n")
            counts[name] = -1 - faults.left
        assert done.returncode == 0, ascii(done)
    return room, restore, counts


numbers = st.sampled_from([errno.EIO, errno.EACCES, errno.ENOSPC, errno.ENOENT, errno.EROFS, errno.EMFILE])


@drawn
@given(name=st.sampled_from(sorted(commands)), place=st.integers(0, 10**6), number=numbers)
def test_something_done_to_a_file_fails(rooms, name, place, number):
    room, restore, counts = rooms
    restore()
    with faults.at(room, 1 + place % counts[name], number):
        done = answered(*commands[name](room), stdin=b"one\n")
    if done.returncode:
        assert str(room) in done.stderr or os.strerror(number) in done.stderr, ascii(done)
    Translator.from_pretrained(room / "old")
    if name in ("train", "resume"):  # nothing is lost: it begins or goes on
        begun = name == "train" and list(room.glob("run/checkpoints/step-*"))
        again = answered(*commands[name](room), *(["--resume"] if begun else []))
        assert again.returncode == 0 or done.returncode == 0, ascii(again)
