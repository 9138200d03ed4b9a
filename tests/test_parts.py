"Faster parts give the numbers of the plain ones, and the model stays the same object."
import copy
import itertools

import pytest
import torch
from helpers import tiny_model
from torch import nn

from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection
from transformer_nbdev.speed.parts import (
    ByteDropout,
    PiecewiseOutput,
    ShortAttention,
    accelerate,
    as_kind,
    fast_parts,
    parts_that_pay,
    plain,
    replace,
    training_parts,
)
from transformer_nbdev.transformer import Transformer

src = torch.tensor([[5, 8, 3, 2, 0], [7, 4, 9, 6, 2], [4, 2, 0, 0, 0]])
tgt = torch.tensor([[4, 9, 2, 0], [6, 2, 0, 0], [3, 3, 8, 2]])


def results(model: Transformer) -> list[torch.Tensor]:
    "Logits, loss and every gradient."
    model.zero_grad()
    loss = model.loss(src, tgt)
    loss.backward()
    return [model(src, tgt).detach(), loss.detach(), *(p.grad.clone() for p in model.parameters())]


def equal(a: list[torch.Tensor], b: list[torch.Tensor], tolerance: float = 1e-10) -> None:
    "Equal to an absolute and relative tolerance."
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind, fast", training_parts.items(), ids=lambda k: k.__name__)
@pytest.mark.parametrize("norm_first, output_bias", [(True, False), (False, True)])
def test_a_faster_part_gives_the_same_values_and_gradients(kind, fast, norm_first, output_bias):
    model = tiny_model(norm_first=norm_first, output_bias=output_bias, dropout=0.0).double().train()
    before = results(model)
    replace(model, {kind: fast})
    assert fast_parts(model) == [fast.__name__]
    equal(before, results(model))
    plain(model)
    assert fast_parts(model) == []
    equal(before, results(model), 0.0)


masks = {
    "none": dict(), "padding and causal": dict(mask=(src != 0)[:, None, None], causal=True),
    "an empty row": dict(mask=torch.ones(3, 1, 5, 5).bool().index_fill(2, torch.tensor(2), False)),
}


@pytest.mark.parametrize("mask", masks)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.bfloat16, 3e-2)])
def test_attention_in_two_products_for_each_type_and_mask(dtype, tolerance, mask):
    torch.manual_seed(0)
    layer, x, found = MultiHeadAttention(32, 4).to(dtype), torch.randn(3, 5, 32, dtype=dtype), []
    for version in (layer, as_kind(layer, ShortAttention)):
        inputs = x.clone().requires_grad_()
        out = version(inputs, **masks[mask])
        out.float().sin().sum().backward()
        weighted, _ = version(inputs, **masks[mask], need_weights=True)
        found.append([out.detach(), weighted.detach(), inputs.grad])
    equal(*found, tolerance)


def test_loss_in_pieces_for_any_number_of_pieces_and_under_autocast(monkeypatch):
    torch.manual_seed(0)
    layer, x = OutputProjection(8, 50, bias=True), torch.randn(3, 4, 8)
    for n_rows, autocast in itertools.product((1, 5, 100), (False, True)):
        monkeypatch.setattr(PiecewiseOutput, "max_bytes", {"cpu": n_rows * 50 * (2 if autocast else 4)})
        for reduction, epsilon in (("mean", 0.1), ("sum", 0.0)):
            found = []
            for version in (layer, as_kind(layer, PiecewiseOutput)):
                layer.zero_grad()
                inputs = x.clone().requires_grad_()
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    loss = version.loss(inputs, tgt, epsilon, reduction=reduction)
                loss.backward()
                found.append([loss.detach(), inputs.grad, layer.weight.grad, layer.bias.grad])
            equal(*found, 5e-2 if autocast else 1e-5)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_has_the_rate_the_expectation_and_independent_elements(p):
    torch.manual_seed(0)
    n = 1 << 20
    x = torch.ones(n, requires_grad=True)
    y = ByteDropout(p)(x)
    kept = y.detach() != 0
    rate, deviation = round(p * 256) / 256, (p * (1 - p) / n) ** 0.5
    assert abs((~kept).float().mean() - rate) < 5 * deviation
    assert abs(y.mean() - 1) < 5 * deviation / (1 - p)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    signs = kept.float() - kept.float().mean()
    for lag in (1, 7, 8, 64):
        assert abs((signs[lag:] * signs[:-lag]).mean()) < 5 * rate * (1 - rate) / n**0.5, lag
    assert torch.equal(ByteDropout(p).eval()(x), x)
    for odd in (torch.ones(5, 3).t(), torch.ones(1), torch.ones(0), torch.ones(7)[::2]):
        assert ByteDropout(p)(odd).shape == odd.shape


def test_the_model_stays_the_same_object(tmp_path):
    "Names, sharing, copies, saved folders, hooks and an optimizer in the middle of its work."
    model = tiny_model(dropout=0.0).train()
    names, plain_copy, seen = list(model.state_dict()), copy.deepcopy(model), []
    models = [(m, torch.optim.SGD(m.parameters(), 1e-2, momentum=0.9)) for m in (plain_copy, model)]
    model.output.register_forward_hook(lambda *_: seen.append(1))
    for step in range(6):
        if step == 3:
            assert replace(model, training_parts) is model
        for m, optimizer in models:
            optimizer.zero_grad()
            m.loss(src, tgt).backward()
            optimizer.step()
    equal(list(model.parameters()), list(plain_copy.parameters()), 1e-5)
    assert len(seen) == 6 and list(model.state_dict()) == names and model.output.weight is model.embedding.weight
    copied = copy.deepcopy(model)
    assert fast_parts(copied) == fast_parts(model) and copied.output.weight is copied.embedding.weight
    model.eval().save_pretrained(tmp_path)
    loaded = Transformer.from_pretrained(tmp_path)
    assert fast_parts(loaded) == []
    assert torch.equal(loaded.generate(src, 6, beam_size=3), model.generate(src, 6, beam_size=3))


def test_compile_takes_an_accelerated_model():
    model = tiny_model(dropout=0.0)
    expected = model(src, tgt)
    replace(model, training_parts)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    equal([compiled(src, tgt)], [expected], 1e-5)
    loss = torch.compile(model.loss, backend="aot_eager", fullgraph=True)
    equal([loss(src, tgt)], [plain(model).loss(src, tgt)], 1e-5)


def test_the_parts_that_pay_follow_from_the_device():
    model = tiny_model(vocab_size=1000)
    assert fast_parts(accelerate(model, bf16=True)) == ["ByteDropout", "PiecewiseOutput", "ShortAttention"]
    assert parts_that_pay(model.to("meta"), bf16=True) == {}


def test_classes_of_others_are_left_alone():
    class Mine(nn.Dropout):
        pass

    model = nn.Sequential(nn.Dropout(0.1), Mine(0.1))
    assert [type(m) for m in replace(model, training_parts)] == [ByteDropout, Mine]
    assert [type(m) for m in plain(model)] == [nn.Dropout, Mine]
