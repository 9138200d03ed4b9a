"The engine: twins give the numbers of the plain parts, and the model stays the same object."
import copy
import itertools
import sys

import pytest
import torch
from helpers import needs_gpu, run, tiny_model
from torch import nn

from transformer_nbdev.engine import (
    ByteDropout,
    PiecewiseOutput,
    _choose_for_training,
    accelerate,
    candidates,
    choose,
    keep_mask,
    plain,
    plain_class,
    twin_names,
    twins_named,
)
from transformer_nbdev.interop import to_torch
from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection
from transformer_nbdev.quantization import eight_bits, quantize
from transformer_nbdev.transformer import Transformer

everything = {kind: twins[-1] for kind, twins in candidates.items()}
all_twins = [(kind, twin) for kind, twins in candidates.items() for twin in twins]
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
    assert len(a) == len(b)
    for x, y in zip(a, b):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind, twin", all_twins, ids=lambda k: k.__name__)
@pytest.mark.parametrize("norm_first, output_bias", [(True, False), (False, True)])
def test_a_twin_gives_the_same_values_and_gradients(kind, twin, norm_first, output_bias):
    model = tiny_model(norm_first=norm_first, output_bias=output_bias, dropout=0.0).double().train()
    before = results(model)
    accelerate(model, {kind: twin})
    assert twin_names(model) == [twin.__name__]
    equal(before, results(model))
    plain(model)
    assert twin_names(model) == []
    equal(before, results(model), 0.0)


large = [  # a layer and an input that oneDNN takes, in float32
    (nn.Linear(256, 128), (64, 256), lambda m, x: m(x)), (nn.Linear(128, 256), (64, 128), lambda m, x: m(x)),
    (MultiHeadAttention(64, 4), (16, 24, 64), lambda m, x: m(x, causal=True)),
    (OutputProjection(64, 500, bias=True), (4, 16, 64), lambda m, x: m.loss(x, torch.ones(4, 16).long())),
]


@pytest.mark.parametrize("layer, shape, call", large, ids=["narrow", "wide", "attention", "loss"])
def test_onednn_gives_the_values_and_gradients_of_64_bits(layer, shape, call):
    torch.manual_seed(0)
    x, found = torch.randn(shape, dtype=torch.float64), []
    exact, twin = copy.deepcopy(layer).double(), copy.deepcopy(layer)
    twin.__class__ = candidates[type(layer)][-1]
    for module in (exact, twin):
        inputs = x.to(next(module.parameters()).dtype).requires_grad_()
        with torch.profiler.profile() as record:
            out = call(module, inputs)
            found.append([out, *torch.autograd.grad(out.sin().sum(), [inputs, *module.parameters()])])
    by_onednn = sum("_linear_pointwise" in event.key for event in record.key_averages())
    assert by_onednn or not torch.backends.mkldnn.is_available(), "the twin fell back: nothing was compared"
    for a, b in zip(*found):
        torch.testing.assert_close(b.double(), a, rtol=1e-4, atol=1e-4)


masks = {
    "none": dict(), "causal": dict(causal=True), "padding": dict(mask=(src != 0)[:, None, None]),
    "both": dict(mask=(src != 0)[:, None, None], causal=True),
    "an empty row": dict(mask=torch.ones(3, 1, 5, 5).bool().index_fill(2, torch.tensor(2), False)),
}
devices = ["cpu", pytest.param("cuda", marks=needs_gpu)]


@pytest.mark.parametrize("mask", masks)
@pytest.mark.parametrize("device", devices)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("twin", candidates[MultiHeadAttention], ids=lambda k: k.__name__)
def test_fast_is_plain_for_each_type_device_and_mask(dtype, device, mask, twin):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(32, 4).to(device, dtype), torch.randn(3, 5, 32, dtype=dtype, device=device)
    options = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in masks[mask].items()}
    found = []
    for layer.__class__ in (MultiHeadAttention, twin):
        inputs = x.clone().requires_grad_()
        out = layer(inputs, **options)
        out.float().sin().sum().backward()
        weighted, _ = layer(inputs, **options, need_weights=True)
        found.append([out.detach(), weighted.detach(), inputs.grad])
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    equal(*found, tolerance)


def test_loss_in_pieces_for_any_number_of_pieces_and_under_autocast(monkeypatch):
    torch.manual_seed(0)
    layer, x = OutputProjection(8, 50, bias=True), torch.randn(3, 4, 8)
    for n_rows, autocast in itertools.product((1, 5, 100), (False, True)):
        monkeypatch.setattr(PiecewiseOutput, "max_bytes", {"cpu": n_rows * 50 * (2 if autocast else 4)})
        for reduction, epsilon in (("mean", 0.1), ("sum", 0.0)):
            found = []
            for layer.__class__ in (OutputProjection, PiecewiseOutput):
                layer.zero_grad()
                inputs = x.clone().requires_grad_()
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    loss = layer.loss(inputs, tgt, epsilon, reduction=reduction)
                loss.backward()
                found.append([loss.detach(), inputs.grad, layer.weight.grad, layer.bias.grad])
            equal(*found, 5e-2 if autocast else 1e-5)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
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
    for lag in (1, 2, 7, 8, 64):
        assert abs((signs[lag:] * signs[:-lag]).mean()) < 5 * rate * (1 - rate) / n**0.5, lag
    again = ByteDropout(p)(torch.ones(n)) != 0
    assert abs(((again == kept).float().mean()) - (rate**2 + (1 - rate) ** 2)) < 0.005
    assert torch.equal(ByteDropout(p).eval()(x), x)


def test_dropout_takes_any_shape_and_stride():
    torch.manual_seed(0)
    for x in (torch.ones(3, 5), torch.ones(5, 3).t(), torch.ones(1), torch.ones(0), torch.ones(7)[::2]):
        assert ByteDropout(0.5)(x).shape == x.shape
    keep, factor = keep_mask(torch.ones(1000), 0.5)
    assert keep.dtype == torch.bool and factor == 2


def test_the_model_stays_the_same_object(tmp_path):
    "Names, sharing, copies, saved folders, hooks and an optimiser in the middle of its work."
    model = tiny_model(dropout=0.0).train()
    twin, seen = copy.deepcopy(model), []
    names, ids = list(model.state_dict()), [id(p) for p in model.parameters()]
    optimizers = [torch.optim.SGD(m.parameters(), 1e-2, momentum=0.9) for m in (model, twin)]
    twin.encoder.layers[0].feed_forward.linear1.register_forward_hook(lambda *a: seen.append(1))

    def steps(n):
        for m, optimizer in zip((model, twin), optimizers):
            for _ in range(n):
                optimizer.zero_grad()
                m.loss(src, tgt).backward()
                optimizer.step()

    steps(3)
    assert accelerate(twin, everything) is twin
    steps(3)
    assert len(seen) == 6
    assert list(twin.state_dict()) == names and twin.output.weight is twin.embedding.weight
    accelerate(model, everything)
    assert [id(p) for p in model.parameters()] == ids
    plain(model)
    equal(list(model.parameters()), list(twin.parameters()), 1e-5)
    copied = copy.deepcopy(twin)
    assert twin_names(copied) == twin_names(twin) and copied.output.weight is copied.embedding.weight
    twin.eval().save_pretrained(tmp_path)
    loaded = Transformer.from_pretrained(tmp_path)
    assert twin_names(loaded) == []
    equal([loaded(src, tgt)], [twin(src, tgt)], 1e-5)
    assert torch.equal(loaded.generate(src, 6, beam_size=3), twin.generate(src, 6, beam_size=3))


def test_torch_nn_and_compile_take_an_accelerated_model():
    model = tiny_model(dropout=0.0)
    expected = model(src, tgt)
    accelerate(model, everything)
    equal([to_torch(model)(src, tgt)], [expected], 1e-5)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    equal([compiled(src, tgt)], [expected], 1e-5)
    loss = torch.compile(model.loss, backend="aot_eager", fullgraph=True)
    equal([loss(src, tgt)], [plain(model).loss(src, tgt)], 1e-5)


def test_data_parallel_takes_an_accelerated_model():
    done = run(sys.executable, "-c", """
import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
from transformer_nbdev.engine import accelerate, candidates
from transformer_nbdev.transformer import Transformer, TransformerConfig
model = Transformer(TransformerConfig(20, 16, 2, 1, 1, 32, dropout=0.0)).train()
src, tgt = torch.tensor([[5, 8, 2]]), torch.tensor([[4, 9, 2]])
model(src, tgt).sum().backward()
expected = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
parallel = torch.nn.parallel.DistributedDataParallel(accelerate(model, {k: t[-1] for k, t in candidates.items()}))
parallel(src, tgt).sum().backward()
for p, e in zip(model.parameters(), expected):
    torch.testing.assert_close(p.grad, e, rtol=1e-4, atol=1e-4)
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n_words, wanted", [(999, {nn.Dropout}), (1000, {nn.Dropout, OutputProjection})])
def test_for_many_words_the_loss_is_taken_in_pieces_whatever_its_race_says(monkeypatch, n_words, wanted):
    times = {ByteDropout: (1.0, 0.5), PiecewiseOutput: (1.0, 2.0)}
    monkeypatch.setattr("transformer_nbdev.engine._times_in_training", lambda layers: times)
    assert set(_choose_for_training([(OutputProjection(8, n_words), 1)])) == wanted


def test_the_choice_is_made_once_and_can_be_named():
    model, alike = tiny_model().train(), tiny_model(seed=1).train()
    state = torch.get_rng_state()
    chosen = choose(model)
    assert choose(alike) is chosen, "the same shapes are measured twice"
    assert torch.equal(state, torch.get_rng_state()), "the measurement draws from the user's random numbers"
    assert all(p.grad is None for p in model.parameters()) and twin_names(model) == []
    assert twins_named([twin.__name__ for twin in chosen.values()]) == chosen
    with pytest.raises(ValueError, match="no twin is called Faster"):
        twins_named(["Faster"])


def test_classes_of_others_are_left_alone():
    class Mine(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(4, 4), Mine(4, 4), nn.Dropout(0.1))
    accelerate(model, everything)
    assert type(model[1]) is Mine and plain_class(type(model[0])) is nn.Linear is not type(model[0])
    plain(model)
    assert [type(m) for m in model] == [nn.Linear, Mine, nn.Dropout]


def test_eight_bits_round_each_row_to_its_own_scale():
    torch.manual_seed(0)
    weight = torch.randn(6, 64) * torch.tensor([1e-3, 0.1, 1, 10, 100, 0])[:, None]
    codes, factors = eight_bits(weight)
    assert codes.dtype == torch.int8 and int(codes.min()) >= -127
    error = (codes * factors[:, None].float() - weight).abs().amax(1)
    assert (error <= 0.51 * factors.float() + 0.005 * weight.abs().amax(1)).all()


def test_a_quantized_model_computes_with_the_rounded_weights(tmp_path):
    model = tiny_model(d_model=64, d_ff=128, n_heads=4)
    small, rounded = quantize(accelerate(model, everything)), copy.deepcopy(plain(model))
    assert twin_names(model) == [] and model.output.weight.dtype == torch.float32
    matrices = [m.in_proj_weight if isinstance(m, MultiHeadAttention) else m.weight for m in rounded.modules()
                if isinstance(m, (nn.Linear, MultiHeadAttention, OutputProjection))]
    with torch.no_grad():
        for matrix in matrices:
            codes, factors = eight_bits(matrix)
            matrix.copy_(codes * factors[:, None].float())
    for rows in (slice(0, 1), slice(0, 3)):  # few rows read the codes, many the rounded weights
        with torch.no_grad():
            found, expected = small(src[rows], tgt[rows]).float(), rounded(src[rows], tgt[rows])
        assert float((found - expected).abs().max()) < 0.05 * float(expected.std())
    with pytest.raises(ValueError, match="cannot be saved"):
        small.save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_int8_translates_like_the_model_it_was_made_from(translator):
    texts = ["one two three", "four", "zero zero one"]
    small = copy.copy(translator)
    small.model = quantize(translator.model)
    assert small.translate(texts) == translator.translate(texts) != ["", "", ""]
