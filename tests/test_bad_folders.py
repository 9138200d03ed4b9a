"Model folders that are damaged, foreign or not there."
import json
import os
from pathlib import Path

import pytest
import torch
from helpers import (
    cut,
    refused,
    tiny_model,
)

from transformer_nbdev.data import Tokenizer
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


damages = {
    "no config": (lambda f: (f / "config.json").unlink(), ["config.json", "model folder"]),
    "config cut": (lambda f: cut(f / "config.json", 0.5), ["config.json"]),
    "config empty": (lambda f: cut(f / "config.json", 0), ["config.json"]),
    "config a list": (lambda f: (f / "config.json").write_text("[1]"), ["config.json"]),
    "config a number": (lambda f: (f / "config.json").write_text("5"), ["config.json"]),
    "config binary": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), ["config.json"]),
    "config of others": (lambda f: edit(f, model_type="marian"), ["config.json"]),
    "field unknown": (lambda f: edit(f, rotary=True), ["config.json", "rotary"]),
    "field missing": (lambda f: edit(f, vocab_size=None), ["config.json", "vocab_size"]),
    "field wrong": (lambda f: edit(f, d_model="wide"), ["config.json", "d_model", "wide"]),
    "field impossible": (lambda f: edit(f, n_heads=5), ["config.json", "n_heads", "5"]),
    "field odd": (lambda f: edit(f, d_model=15, n_heads=1), ["config.json", "15"]),
    "positions without end": (lambda f: edit(f, max_len=10**6), ["config.json", "16,000,000", "max_len"]),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ["model.safetensors"]),
    "weights cut": (lambda f: cut(f / "model.safetensors", 0.9), ["model.safetensors"]),
    "weights almost gone": (lambda f: cut(f / "model.safetensors", 0.01), ["model.safetensors"]),
    "weights empty": (lambda f: cut(f / "model.safetensors", 0), ["model.safetensors"]),
    "weights pickled": (
        lambda f: torch.save({"a": torch.ones(1)}, f / "model.safetensors"), ["model.safetensors"]
    ),
    "weights of others": (foreign_weights, ["model.safetensors", "embedding.weight", "(30, 16)"]),
    "model smaller": (lambda f: edit(f, n_encoder_layers=2), ["model.safetensors", "layers.1"]),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), ["tokenizer.json"]),
    "tokenizer cut": (lambda f: cut(f / "tokenizer.json", 0.5), ["tokenizer.json"]),
    "tokenizer of others": (lambda f: (f / "tokenizer.json").write_text("{}"), ["tokenizer.json"]),
}


@pytest.mark.parametrize("damage", damages)
def test_damaged_model_folder(copied, damage):
    change, words = damages[damage]
    (copied / "manifest.json").unlink()  # by what is in the file
    change(copied)
    with refused(ValueError, copied, *words):
        Translator.from_pretrained(copied)


@pytest.mark.parametrize("damage", [name for name in damages if not name.startswith("no ")])
def test_damage_is_seen_by_the_manifest(copied, damage):
    change, words = damages[damage]
    change(copied)
    with refused(ValueError, copied, words[0] if damage != "model smaller" else "config.json", "manifest.json"):
        Translator.from_pretrained(copied)


def test_many_positions_may_be_meant(tmp_path):
    tiny_model(max_len=600_000).save_pretrained(tmp_path / "long")
    assert Transformer.from_pretrained(tmp_path / "long").config.max_len == 600_000


@pytest.mark.parametrize("name", ["nowhere", "file", "empty"])
def test_not_a_model_folder(tmp_path, name):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    with refused(ValueError, tmp_path / name, "model folder"):
        Transformer.from_pretrained(tmp_path / name)
    with refused(ValueError, tmp_path / name, "tokenizer.json"):
        Tokenizer.load(tmp_path / name)


def test_translator_arguments(saved):
    translator = Translator.from_pretrained(saved)
    with refused(TypeError, "texts", "list"):
        translator.translate("one two")


def test_texts_that_are_not_text(saved):
    for wrong in (2, None, float("nan")):
        with refused(TypeError, "text 2", type(wrong).__name__):
            Translator.from_pretrained(saved).translate(["one", wrong])


def test_scores_need_pairs():
    with refused(ValueError, "2 hypotheses", "1 references"):
        corpus_scores(["a", "b"], ["a"])
    with refused(ValueError, "0 hypotheses"):
        corpus_scores([], [])
