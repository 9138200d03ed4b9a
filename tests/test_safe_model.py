"What is no model is neither saved nor loaded; what is one comes back as it was."
import pytest
import torch
from helpers import refused, tiny_model
from safetensors.torch import load_file, save_file

from transformer_nbdev.transformer import Transformer

name = "decoder.layers.0.feed_forward.linear1.weight"


def test_a_weight_that_is_not_finite_is_not_saved(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    before, diverged = {path: path.read_bytes() for path in tmp_path.iterdir()}, tiny_model(seed=1, norm_first=True)
    with torch.no_grad():
        diverged.get_parameter(name)[3, 1] = torch.nan
    with refused(ValueError, tmp_path / "model.safetensors", name):
        diverged.save_pretrained(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before  # config.json, too


@pytest.mark.parametrize("damage", [
    lambda tensor: tensor.index_fill(0, torch.tensor(3), torch.inf), lambda tensor: tensor.to(torch.int64),
], ids=["infinite", "integers"])
def test_weights_that_are_no_finite_floats_are_not_loaded(tmp_path, damage):
    tiny_model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, name: damage(tensors[name])}, path)
    (tmp_path / "manifest.json").unlink()
    with refused(ValueError, path, name):
        Transformer.from_pretrained(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tie_embeddings", [True, False])
def test_a_model_comes_back_as_it_was(tmp_path, dtype, tie_embeddings):
    model = tiny_model(tie_embeddings=tie_embeddings, pad_id=4, scale_embeddings=False).to(dtype)
    model.save_pretrained(tmp_path)
    loaded = Transformer.from_pretrained(tmp_path)
    assert loaded.config == model.config
    for (key, old), new in zip(model.named_parameters(), loaded.parameters(), strict=True):
        assert new.dtype == dtype and torch.equal(old, new), key
    assert (loaded.output.weight is loaded.embedding.weight) == tie_embeddings
    other = Transformer.from_pretrained(tmp_path, dtype=torch.float32)
    assert {p.dtype for p in other.parameters()} == {torch.float32}
