"A model folder written by an earlier version loads, and computes what it computed then."
import json
from pathlib import Path

import torch
from helpers import tiny_model

from transformer_nbdev.transformer import Transformer

folder = Path(__file__).parent / "old_model"
src = torch.tensor([[5, 8, 3, 2], [7, 2, 0, 0]])


def test_logits():
    tgt = torch.tensor([[1, 4, 9], [1, 6, 2]])
    wanted = [
        [0.3665083, 0.4692596, -0.6352515, -0.0793458],
        [0.3528798, 0.4427148, -0.6353565, -0.0748335],
    ]
    with torch.no_grad():
        found = Transformer.from_pretrained(folder)(src, tgt)[:, -1, :4]
    torch.testing.assert_close(found, torch.tensor(wanted), rtol=0, atol=1e-5)


def test_decoding():
    found = Transformer.from_pretrained(folder).generate(src, max_new_tokens=6, beam_size=3)
    assert found.tolist() == [[13, 16, 13, 16, 13, 16]] * 2


def test_settings_of_a_search_that_stood_in_the_models_config(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    for name in ("generation_config.json", "manifest.json"):
        (tmp_path / name).unlink()
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "length_penalty": 1.2, "force_end": True}))
    model = Transformer.from_pretrained(tmp_path)
    assert (model.generation.length_penalty, model.generation.force_end) == (1.2, True)
    model.save_pretrained(tmp_path)
    assert "length_penalty" not in json.loads(path.read_text())
    assert Transformer.from_pretrained(tmp_path).generation == model.generation
