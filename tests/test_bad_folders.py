"Model folders that are damaged, mixed, foreign or not there are refused in one sentence that names the file."
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from helpers import checkpoint, cut, refused, sentences, sizes, tiny_model

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator, corpus_scores


def edit(folder: Path, **values) -> None:
    "Change config.json; None removes a field."
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def foreign_weights(folder: Path) -> None:
    tiny_model(vocab_size=30).save_pretrained(folder / "other")
    os.replace(folder / "other" / "model.safetensors", folder / "model.safetensors")


@pytest.mark.parametrize("change, words", [
    (lambda f: (f / "config.json").unlink(), ["config.json", "model folder"]),
    (lambda f: cut(f / "config.json", 0.5), ["config.json"]),
    (lambda f: (f / "config.json").write_text("[1]"), ["config.json"]),
    (lambda f: edit(f, model_type="marian"), ["config.json"]),
    (lambda f: edit(f, rotary=True), ["config.json", "rotary"]),
    (lambda f: edit(f, vocab_size=None), ["config.json", "vocab_size"]),
    (lambda f: edit(f, d_model="wide"), ["config.json", "d_model", "wide"]),
    (lambda f: edit(f, n_heads=5), ["config.json", "n_heads", "5"]),
    (lambda f: edit(f, n_encoder_layers=2), ["model.safetensors", "layers.1"]),
    (lambda f: (f / "model.safetensors").unlink(), ["model.safetensors"]),
    (lambda f: cut(f / "model.safetensors", 0.9), ["model.safetensors"]),
    (lambda f: torch.save({"a": torch.ones(1)}, f / "model.safetensors"), ["model.safetensors"]),
    (foreign_weights, ["model.safetensors", "embedding.weight", "(30, 16)"]),
    (lambda f: (f / "tokenizer.json").unlink(), ["tokenizer.json"]),
    (lambda f: cut(f / "tokenizer.json", 0.5), ["tokenizer.json"]),
    (lambda f: (f / "tokenizer.json").write_text("{}"), ["tokenizer.json"]),
])
def test_a_damaged_folder_without_a_manifest(copied, change, words):
    (copied / "manifest.json").unlink()
    change(copied)
    with refused(ValueError, copied, *words):
        Translator.from_pretrained(copied)


def trainer(folder: Path, seed: int) -> Trainer:
    "A tiny run of two updates."
    config = TrainingConfig(precision="fp32", steps=2, batch_tokens=200, seed=seed)
    return Trainer.from_pairs(sentences(40, seed), config, folder, None, "tiny", 280, "cpu", quiet=True, **sizes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    "Two runs that differ in their data and random numbers."
    folders = [tmp_path_factory.mktemp("runs") / str(seed) for seed in (0, 1)]
    for seed, folder in enumerate(folders):
        trainer(folder, seed).fit()
    return tuple(folders)


def flip(path: Path, other: Path) -> None:
    "Change one bit in the middle."
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


damages = [flip, lambda path, _: cut(path, 0.99), lambda path, other: shutil.copy(other, path)]


@pytest.mark.parametrize("damage", damages, ids=["a bit", "cut", "of the other run"])
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "state.pt"])
def test_the_manifest_sees_a_damaged_or_exchanged_file(runs, tmp_path, damage, name):
    run = shutil.copytree(runs[0], tmp_path / "run")
    paths = [(checkpoint(folder) if name == "state.pt" else folder) / name for folder in (run, runs[1])]
    damage(*paths)
    with refused(ValueError, f"{paths[0]} is not the file that manifest.json lists", "--resume", "copy the folder"):
        trainer(run, 0).resume() if name == "state.pt" else Translator.from_pretrained(run)
    if name != "state.pt":
        trainer(run, 0).resume().fit()
        assert (run / name).read_bytes() == (runs[0] / name).read_bytes()
        Translator.from_pretrained(run)


def test_a_damaged_manifest_is_named_and_made_anew(copied):
    translator = Translator.from_pretrained(copied)
    (copied / "manifest.json").write_text("{")
    with refused(ValueError, copied / "manifest.json", "damaged"):
        Translator.from_pretrained(copied)
    translator.save_pretrained(copied)
    Translator.from_pretrained(copied)


@pytest.mark.parametrize("name", ["nowhere", "file", "empty"])
def test_not_a_model_folder(tmp_path, name):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    with refused(ValueError, tmp_path / name, "model folder"):
        Transformer.from_pretrained(tmp_path / name)
    with refused(ValueError, tmp_path / name, "tokenizer.json"):
        Tokenizer.load(tmp_path / name)


def test_texts_that_are_not_text(saved):
    translator = Translator.from_pretrained(saved)
    for wrong, words in ((["one", None], ["text 2", "NoneType"]), ("one two", ["texts", "list"])):
        with refused(TypeError, *words):
            translator.translate(wrong)
    with refused(ValueError, "2 hypotheses", "1 references"):
        corpus_scores(["a", "b"], ["a"])
