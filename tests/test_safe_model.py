"What is no model is neither saved nor loaded; what is one comes back as it was."
import json

import pytest
import torch
from helpers import refused, tiny_model
from safetensors.torch import load_file, save_file

from transformer_nbdev.transformer import Transformer

name = "decoder.layers.0.feed_forward.linear1.weight"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_finite_is_not_saved(tmp_path, value):
    tiny_model().save_pretrained(tmp_path)
    before, diverged = contents(tmp_path), tiny_model(seed=1, norm_first=True)
    with torch.no_grad():
        diverged.get_parameter(name)[3, 1] = value
    with refused(ValueError, tmp_path / "model.safetensors", name):
        diverged.save_pretrained(tmp_path)
    assert contents(tmp_path) == before  # config.json, too


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_finite_is_not_loaded(tmp_path, value):
    tiny_model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors[name][3, 1] = value
    save_file(tensors, path)
    (tmp_path / "manifest.json").unlink()
    with refused(ValueError, path, name):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8, torch.float8_e4m3fn], ids=str)
def test_weights_of_another_kind_are_not_loaded(tmp_path, dtype):
    tiny_model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, name: tensors[name].to(dtype)}, path)
    (tmp_path / "manifest.json").unlink()
    with refused(ValueError, path, name, dtype):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tie_embeddings", [True, False])
def test_the_type_of_the_file_is_kept(tmp_path, dtype, tie_embeddings):
    model = tiny_model(tie_embeddings=tie_embeddings).to(dtype)
    model.save_pretrained(tmp_path)
    loaded = Transformer.from_pretrained(tmp_path)
    for (key, old), new in zip(model.named_parameters(), loaded.parameters(), strict=True):
        assert new.dtype == dtype and torch.equal(old, new), key
    assert (loaded.output.weight is loaded.embedding.weight) == tie_embeddings
    ids = torch.tensor([[5, 6, 7, 2]])
    with torch.no_grad():
        assert torch.equal(model(ids, ids), loaded(ids, ids))
    other = Transformer.from_pretrained(tmp_path, dtype=torch.float32)
    assert {p.dtype for p in other.parameters()} == {torch.float32}


def test_a_loaded_model_does_not_change_with_its_file(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    loaded = Transformer.from_pretrained(tmp_path)
    before = [p.detach().clone() for p in loaded.parameters()]
    size = path.stat().st_size
    with open(path, "r+b") as file:  # in place, not by renaming
        file.write(b"\1" * size)
    assert all(torch.equal(old, new) for old, new in zip(before, loaded.parameters()))


def test_configuration_reads_as_it_was_written(tmp_path):
    model = tiny_model(pad_id=4, scale_embeddings=False, norm_first=True)
    model.save_pretrained(tmp_path)
    assert Transformer.from_pretrained(tmp_path).config == model.config
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "transformer_nbdev"
