"Decoding: the direct step writes what the plain one writes, and nothing waits for a GPU but what must."
import contextlib

import pytest
import torch
from helpers import tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_nbdev.data import TokenBatches
from transformer_nbdev.search import BeamSearch, _Search, generate
from transformer_nbdev.speed.bench import caption_like
from transformer_nbdev.speed.direct import Direct, DirectState
from transformer_nbdev.speed.parts import replace, training_parts
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.training import Updater
from transformer_nbdev.transformer import Transformer

source = torch.tensor([[5, 8, 3, 9, 2], [7, 4, 2, 0, 0], [4, 2, 0, 0, 0], [6, 6, 6, 2, 0]])
shapes = [{}, dict(norm_first=False), dict(bias=False, scale_embeddings=False), dict(activation="gelu")]
searches = [dict(), dict(beam_size=3), dict(beam_size=5, length_penalty=-1.0, min_new_tokens=3)]


def double_model(**options) -> Transformer:
    return tiny_model(dropout=0.2, **options).double().eval()


@pytest.mark.parametrize("search", searches, ids=str)
@pytest.mark.parametrize("shape", shapes, ids=str)
def test_the_direct_step_writes_the_same(search, shape):
    model = double_model(**shape)
    options = dict(max_new_tokens=24, return_scores=True, **search)  # more than the room of sixteen
    ids, scores = model.generate(source, **options)
    same, again = generate(Direct(model), source, **options)
    assert torch.equal(ids, same)
    torch.testing.assert_close(scores, again, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("search", searches, ids=str)
@pytest.mark.parametrize("engine", [lambda model: model, Direct], ids=["plain", "direct"])
@pytest.mark.parametrize("every", [2, 3, 8, 100])
def test_looking_seldom_who_has_ended_changes_nothing(search, engine, every, monkeypatch):
    model, limits = double_model(), torch.tensor([3, 12, 7, 9])
    model.output.bias = torch.nn.Parameter(2.0 * (torch.arange(model.config.vocab_size) == 2).double())
    options = dict(max_new_tokens=limits, return_scores=True, **search)
    ids, scores = generate(engine(model), source, **options)
    assert (ids == 2).any(1).sum() > 1, "the case is too easy: none ended early"
    monkeypatch.setattr(_Search, "look_every", {"cpu": every})
    late, again = generate(engine(model), source, **options)
    assert torch.equal(ids, late[:, : ids.shape[1]]) and not late[:, ids.shape[1] :].any()
    torch.testing.assert_close(scores, again, rtol=1e-12, atol=1e-12)


def test_a_source_of_padding_alone_is_the_plain_steps_matter():
    model, empty = double_model(), torch.tensor([[5, 8, 2], [0, 0, 0]])
    expected = model.generate(empty, 6)
    assert torch.equal(generate(Direct(model), empty, 6), expected)


def test_a_model_in_training_decodes_with_dropout():
    model = Direct(double_model()).train()
    steps = [model.step(torch.tensor([1, 1]), model.start(source[:2], 4)) for _ in range(2)]
    assert not torch.equal(*steps)
    assert isinstance(model.eval().start(source, 4), DirectState)


def test_the_cache_refuses_more_than_it_was_made_for():
    model = Direct(double_model())
    state = model.start(source, 2)
    for _ in range(2):
        model.step(torch.ones(4, dtype=torch.int64), state)
    with pytest.raises(ValueError, match="max_len = 2"):
        model.step(torch.ones(4, dtype=torch.int64), state)


def test_no_weight_is_copied():
    model = Direct(double_model())
    with torch.inference_mode():
        before = model.step(torch.tensor([1]), model.start(source[:1], 4))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
        after = model.step(torch.tensor([1]), model.start(source[:1], 4))
        expected = model.model.step(torch.tensor([1]), model.model.start(source[:1], 4))
    assert not torch.allclose(before, after) and torch.allclose(after, expected)


class Waits(TorchDispatchMode):
    "Counts the operations whose result the program itself must see: on a GPU it waits for the device."

    kinds = ("item", "_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique")

    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function).split(".")[1]
        self.found += [name] if name in self.kinds else []
        indices = args[1] if name in ("index", "index_put_", "index_put") else []
        if any(isinstance(i, torch.Tensor) and i.dtype == torch.bool for i in indices):
            self.found.append("boolean index")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", [_Search, BeamSearch])
@pytest.mark.parametrize("every, waits", [(1, 25), (8, 4)])  # one look more at the end
def test_a_search_waits_for_the_device_only_to_look_who_has_ended(kind, every, waits, monkeypatch):
    model = Direct(tiny_model())
    monkeypatch.setattr(_Search, "look_every", {"cpu": every})
    options = (1, ) if kind is _Search else (3, 0.6)
    search = kind(model, source, 24, 24, *options)
    state = model.start(source, 24)
    monkeypatch.setattr(model, "start", lambda *_: state, raising=False)
    with Waits() as mode:
        search.run()
    assert len(mode.found) == waits, mode.found


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("parts", [{}, training_parts], ids=["plain", "fast"])
def test_an_update_needs_no_value_on_the_program_side(optimizer, parts, monkeypatch):
    "On the device meta tensors have no values: whatever asked for one would raise."
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it does not know meta
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    batches = TokenBatches(*caption_like(50, 300), 300)
    config = TrainingConfig(steps=3, precision="fp32", batch_tokens=300, optimizer=optimizer, accumulate=2)
    updater = Updater(replace(tiny_model(vocab_size=300).train(), parts), batches, config, "meta")
    for group in updater.state.optimizer.param_groups:
        group["fused"] = False  # the fused kernel does not know meta either
    for _ in range(2):
        loss, n_tokens = updater.update(0.0)
    assert loss.device.type == "meta" and n_tokens > 0 and updater.state.step == 2
    with pytest.raises(RuntimeError):
        updater.check_finite(2)
