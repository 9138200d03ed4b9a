"""Damaged folders, drawn by Hypothesis: what is loaded is what was saved, or one sentence names what is not.

    CASES=2000 pytest tests/test_damage.py    many more of them
"""
import contextlib
import hashlib
import json
import os
import resource
import shutil
import time

import pytest
import torch
from helpers import sentences, sizes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer_nbdev.cli_options import read_settings
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.translator import Translator

cases = int(os.environ.get("CASES", 60))
drawn = settings(max_examples=cases, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
model_files = ["model.safetensors", "config.json", "tokenizer.json", "manifest.json"]
checkpoint_files = ["model.safetensors", "config.json", "state.pt", "manifest.json"]


def trainer(folder, seed=0):
    "A tiny run of four updates with two checkpoints."
    config = TrainingConfig(precision="fp32", steps=4, save_every=2, log_every=1, batch_tokens=200, seed=seed)
    return Trainer.from_pairs(sentences(40), config, folder, None, "tiny", 280, "cpu", quiet=True, **sizes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    "Two runs that differ in their random numbers, and a place for copies."
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        trainer(folder / f"{seed}", seed).fit()
        told = {"src": "en", "tgt": "de", "preset": "tiny", "vocab_size": 280, "model": sizes, "training": {"steps": 4}}
        (folder / f"{seed}" / "settings.json").write_text(json.dumps(told))
    return folder


def checkpoint(run):
    return sorted(run.glob("checkpoints/step-*"))[-1]


def digest(tensors) -> str:
    "One number for many tensors."
    return hashlib.sha256(b"".join(x.detach().numpy().tobytes() for x in tensors)).hexdigest()


def loaded(run) -> str:
    "What a translator in the folder is."
    translator = Translator.from_pretrained(run)
    ids = translator.tokenizer.encode("one two three")
    return f"{digest(translator.model.parameters())} {translator.model.config} {ids}"


def resumed(run) -> str:
    "Where a run goes on."
    state = trainer(run).resume().state.state_dict()
    moments = [x for slot in state["optimizer"]["state"].values() for x in slot.values()]
    weights = [x for part in (state["model"].values(), state["average"], moments) for x in part]
    return f"{state['step']} {digest(weights)} {state['batches']}"


@contextlib.contextmanager
def half_as_much_again():
    "Who asks for more memory than that, 200 MB beside PyTorch's 400, gets an error (on Linux)."
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def answer(load, run) -> str:
    "What comes of loading it; a refusal must be one sentence about this folder, and not take long."
    began = time.monotonic()
    try:
        with half_as_much_again():
            return load(run)
    except (ValueError, OSError) as error:
        assert str(run) in str(error) and "\n" not in str(error), f"not one sentence about the folder: {error!r}"
        return "refused"
    finally:
        assert time.monotonic() - began < 2, "slow"


ways = {
    "overwritten": lambda whole, other, place, some: whole[:place] + some + whole[place + len(some) :],
    "cut": lambda whole, other, place, some: whole[:place],
    "inserted": lambda whole, other, place, some: whole[:place] + some + whole[place:],
    "zeros": lambda whole, other, place, some: whole[:place] + bytes(64) + whole[place + 64 :],
    "beginning lost": lambda whole, other, place, some: whole[place:],
    "twice": lambda whole, other, place, some: whole + whole,
    "of another run": lambda whole, other, place, some: other,
    "deep": lambda whole, other, place, some: b"[" * 100_000,
}
damages = st.tuples(st.sampled_from(sorted(ways)), st.integers(0, 10**6), st.binary(min_size=1, max_size=16))


def damage(path, other, drawn) -> None:
    "Another content of a file; the place is counted in millionths of its length."
    way, place, some = drawn
    whole = path.read_bytes()
    path.write_bytes(ways[way](whole, other.read_bytes(), place * len(whole) // 10**6, some))


def copied(runs):
    "A fresh copy of the first run."
    shutil.rmtree(runs / "copy", ignore_errors=True)
    shutil.copytree(runs / "0", runs / "copy")
    return runs / "copy"


@drawn
@given(name=st.sampled_from(model_files), how=damages)
def test_a_damaged_model_is_refused_or_whole(runs, name, how):
    run = copied(runs)
    damage(run / name, runs / "1" / name, how)
    assert answer(loaded, run) in ("refused", loaded(runs / "0"))


@drawn
@given(name=st.sampled_from(checkpoint_files), how=damages)
def test_a_damaged_checkpoint_is_refused_or_whole(runs, name, how):
    run = copied(runs)
    damage(checkpoint(run) / name, checkpoint(runs / "1") / name, how)
    assert answer(resumed, run) in ("refused", resumed(runs / "0"))


@drawn
@given(how=damages)
def test_damaged_metrics_never_keep_a_run_from_going_on(runs, how):
    run = copied(runs)
    damage(run / "metrics.jsonl", runs / "1" / "metrics.jsonl", how)
    assert answer(resumed, run) == resumed(runs / "0")


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([0, -1, 1, 2**31, 10**9, 10**12, 10**400, 1e308, "", "relu", "BPE"]),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3), max_leaves=5,
)


@st.composite
def changed(draw, values):
    "JSON values in which something has another value, is missing or is new."
    if isinstance(values, dict) and values and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(values)))
        kind = draw(st.integers(0, 9))
        rest = {key: value for key, value in values.items() if key != name}
        return rest if kind == 0 else {**values, "new": draw(odd)} if kind == 1 else {
            **values, name: draw(changed(values[name]))}
    return draw(odd)


@drawn
@given(data=st.data())
@pytest.mark.parametrize("name, load", [
    ("config.json", loaded), ("tokenizer.json", loaded), ("settings.json", read_settings), ("manifest.json", loaded)])
def test_odd_values_are_refused_or_usable(runs, name, load, data):
    run = copied(runs)
    values = data.draw(changed(json.loads((run / name).read_text())))
    if name != "manifest.json":
        (run / "manifest.json").unlink()  # by what is in the file
    (run / name).write_text(json.dumps(values))
    found = answer(load, run)
    if found != "refused" and load is loaded:
        with contextlib.suppress(ValueError):  # such as a max_len that is shorter than the text
            assert Translator.from_pretrained(run).translate(["one two"], max_new_tokens=3)


def test_the_checks_above_see_a_change(runs):
    run = copied(runs)
    path = run / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + torch.ones(1).numpy().tobytes())
    (run / "manifest.json").unlink()
    assert loaded(run) != loaded(runs / "0")
