"Decoding: the direct step writes what the plain one writes, and nothing waits for a GPU but what must."
import contextlib
import itertools

import pytest
import torch
from helpers import tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_nbdev import inference
from transformer_nbdev.config import TrainingConfig
from transformer_nbdev.data import TokenBatches
from transformer_nbdev.decoding import (
    DirectState,
    DirectTransformer,
    decoding_twins,
    matrix_shapes,
    measure_products,
    possible_ways,
    product,
    ways,
)
from transformer_nbdev.engine import accelerate, candidates, exchange, plain
from transformer_nbdev.inference import BeamSearch, _Search
from transformer_nbdev.performance import caption_like
from transformer_nbdev.training import Updater
from transformer_nbdev.transformer import Transformer

source = torch.tensor([[5, 8, 3, 9, 2], [7, 4, 2, 0, 0], [4, 2, 0, 0, 0], [6, 6, 6, 2, 0]])
shapes = [{}, dict(norm_first=False), dict(bias=False, scale_embeddings=False), dict(activation="gelu")]
searches = [dict(), dict(beam_size=3), dict(beam_size=5, length_penalty=-1.0, min_new_tokens=3)]


def double_model(**options) -> Transformer:
    return tiny_model(dropout=0.2, **options).double().eval()


@pytest.mark.parametrize("search", searches, ids=str)
@pytest.mark.parametrize("shape", shapes, ids=str)
def test_the_twins_of_decoding_write_the_same(search, shape):
    model = double_model(**shape)
    options = dict(max_new_tokens=24, return_scores=True, **search)  # more than the room of sixteen
    ids, scores = model.generate(source, **options)
    accelerate(model, decoding_twins)
    assert type(model) is DirectTransformer
    same, again = model.generate(source, **options)
    assert torch.equal(ids, same)
    torch.testing.assert_close(scores, again, rtol=1e-12, atol=1e-12)
    assert type(plain(model)) is Transformer


@pytest.mark.parametrize("search", searches, ids=str)
@pytest.mark.parametrize("twins", [{}, decoding_twins], ids=["plain", "direct"])
@pytest.mark.parametrize("every", [2, 3, 8, 100])
def test_looking_seldom_who_has_ended_changes_nothing(search, twins, every, monkeypatch):
    model, limits = exchange(double_model(), twins), torch.tensor([3, 12, 7, 9])
    model.output.bias = torch.nn.Parameter(2.0 * (torch.arange(model.config.vocab_size) == 2).double())
    options = dict(max_new_tokens=limits, return_scores=True, **search)
    ids, scores = model.generate(source, **options)
    assert (ids == 2).any(1).sum() > 1, "the case is too easy: none ended early"
    monkeypatch.setattr(_Search, "look_every", {"cpu": every})
    late, again = model.generate(source, **options)
    assert torch.equal(ids, late[:, : ids.shape[1]]) and not late[:, ids.shape[1] :].any()
    torch.testing.assert_close(scores, again, rtol=1e-12, atol=1e-12)


def test_a_source_of_padding_alone_is_the_plain_steps_matter():
    model, empty = double_model(), torch.tensor([[5, 8, 2], [0, 0, 0]])
    expected = model.generate(empty, 6)
    assert torch.equal(exchange(model, decoding_twins).generate(empty, 6), expected)


def test_a_model_in_training_decodes_with_dropout():
    model = exchange(double_model(), decoding_twins).train()
    steps = [model.step(torch.tensor([1, 1]), model.start(source[:2], 4)) for _ in range(2)]
    assert not torch.equal(*steps)
    assert isinstance(model.eval().start(source, 4), DirectState)


def test_the_cache_refuses_more_than_it_was_made_for():
    model = exchange(double_model(), decoding_twins)
    state = model.start(source, 2)
    for _ in range(2):
        model.step(torch.ones(4, dtype=torch.int64), state)
    with pytest.raises(ValueError, match="max_len = 2"):
        model.step(torch.ones(4, dtype=torch.int64), state)


def test_no_weight_is_copied_into_the_twins():
    model = exchange(double_model(), decoding_twins)
    with torch.inference_mode():
        before = model.step(torch.tensor([1]), model.start(source[:1], 4))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
        after = model.step(torch.tensor([1]), model.start(source[:1], 4))
        expected = plain(model).step(torch.tensor([1]), model.start(source[:1], 4))
    assert not torch.allclose(before, after) and torch.allclose(after, expected)


@pytest.mark.parametrize("rows, dtype", list(itertools.product((1, 4, 8, 300), (torch.float32, torch.bfloat16))))
def test_every_way_to_multiply_is_the_product(rows, dtype):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(rows, 16).to(dtype), torch.randn(24, 16).to(dtype), torch.randn(24).to(dtype)
    close = dict(rtol=0.02, atol=0.05) if dtype == torch.bfloat16 else dict(rtol=1e-5, atol=1e-5)
    for way, b in itertools.product(possible_ways(dtype).values(), (None, bias)):
        expected = (x.double() @ weight.double().T + (0 if b is None else b.double())).to(dtype)
        torch.testing.assert_close(way(x, weight, b), expected, **close)
    measure_products({weight.shape}, dtype, rounds=1)
    with torch.no_grad():
        torch.testing.assert_close(product(x[:, None], weight, bias), expected[:, None], **close)


def test_products_keep_their_gradients():
    x, weight = torch.randn(3, 16, requires_grad=True), torch.randn(24, 16, requires_grad=True)
    product(x, weight).sum().backward()
    assert x.grad is not None and weight.grad is not None


def test_all_shapes_of_a_model_are_measured():
    model, seen = exchange(tiny_model().eval(), decoding_twins), set()
    found = inference.torch.nn.functional.linear

    def watch(x, weight, bias=None):
        seen.add(weight.shape)
        return found(x, weight, bias)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.nn.functional.linear", watch)
        patch.setitem(ways, "linear", watch)
        model.generate(source, 4, beam_size=2)
    assert seen and seen <= matrix_shapes(model)


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
    model = exchange(tiny_model().eval(), decoding_twins)
    monkeypatch.setattr(_Search, "look_every", {"cpu": every})
    options = (1, ) if kind is _Search else (3, 0.6)
    search = kind(model, source, 24, 24, *options)
    state = model.start(source, 24)
    monkeypatch.setattr(model, "start", lambda *_: state, raising=False)
    with Waits() as mode:
        search.run()
    assert len(mode.found) == waits, mode.found


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("parts", [{}, {kind: twins[-1] for kind, twins in candidates.items()}], ids=["plain", "twins"])
def test_an_update_needs_no_value_on_the_program_side(optimizer, parts, monkeypatch):
    "On the device meta tensors have no values: whatever asked for one would raise."
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it does not know meta
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    batches = TokenBatches(*caption_like(50, 300), 300)
    config = TrainingConfig(steps=3, precision="fp32", batch_tokens=300, optimizer=optimizer, accumulate=2)
    updater = Updater(exchange(tiny_model(vocab_size=300).train(), parts), batches, config, "meta")
    for group in updater.state.optimizer.param_groups:
        group["fused"] = False  # the fused kernel does not know meta either
    for _ in range(2):
        loss, n_tokens = updater.update(0.0)
    assert loss.device.type == "meta" and n_tokens > 0 and updater.state.step == 2
    with pytest.raises(RuntimeError):
        updater.check_finite(2)
