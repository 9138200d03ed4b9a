"Graphs: the same loss and the same translations in a few fixed shapes; on a GPU, as replays."
import pytest
import torch
from helpers import needs_gpu, tiny_model
from test_direct import double_model, searches, shapes, source

from transformer_nbdev.data import TokenBatches
from transformer_nbdev.search import _Search, generate
from transformer_nbdev.speed.bench import caption_like
from transformer_nbdev.speed.defaults import RampedDropout
from transformer_nbdev.speed.graphs import Graphed, GraphedLoss, StaticState, accelerate_training, few_shapes
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.training import Updater


def test_an_epoch_has_few_shapes_and_little_more_padding():
    batches = TokenBatches(*caption_like(29_000, 4000), 4096)
    found = [(batch.src, *few_shapes(batch.src, batch.tgt)) for batch in batches]
    assert all(src.shape == tgt.shape for _, src, tgt in found)
    assert len({src.shape for _, src, _ in found}) < 25
    assert sum(src.numel() for _, src, _ in found) < 1.5 * sum(src.numel() for src, _, _ in found)


def test_the_width_stays_within_the_models_positions():
    src, tgt = torch.ones(3, 17, dtype=torch.long), torch.ones(3, 20, dtype=torch.long)
    assert few_shapes(src, tgt, max_len=22)[0].shape == (3, 22)
    assert few_shapes(src, tgt, max_len=20)[1].shape == (3, 20)


@pytest.mark.parametrize("shape", shapes, ids=str)
def test_padding_changes_neither_loss_nor_gradient(shape):
    model = tiny_model(dropout=0.0, **shape).double().train()
    src, tgt = source.repeat(5, 1)[:17], source.flip(0).repeat(5, 1)[:17, :3]
    found = []
    for pair in ((src, tgt), few_shapes(src, tgt)):
        model.zero_grad()
        loss = model.loss(*pair, 0.1, "sum")
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
    for plain, padded in zip(*found):
        torch.testing.assert_close(padded, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("every", [1, 3, 100])
@pytest.mark.parametrize("search", searches, ids=str)
@pytest.mark.parametrize("shape", shapes, ids=str)
def test_fixed_shapes_write_the_same(shape, search, every, monkeypatch):
    model, limits = double_model(**shape), torch.tensor([3, 12, 24, 9])
    model.output.bias = torch.nn.Parameter(2.0 * (torch.arange(model.config.vocab_size) == 2).double())
    options = dict(max_new_tokens=limits, return_scores=True, **search)
    ids, scores = generate(model, source, **options)
    assert isinstance((engine := Graphed(model)).start(source, 24), StaticState)
    monkeypatch.setattr(_Search, "look_every", {"cpu": every})
    same, again = generate(engine, source, **options)
    assert torch.equal(ids, same[:, : ids.shape[1]]) and not same[:, ids.shape[1] :].any()
    torch.testing.assert_close(scores, again, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("limit, n_steps", [(8, 8), (11, 11), (1000, 64)])  # the model has 64 positions
def test_beyond_its_room_a_state_says_so(limit, n_steps):
    engine = Graphed(double_model())
    state = engine.start(source, limit)
    with torch.inference_mode():
        for _ in range(n_steps):
            engine.step(source[:, 0], state)
        with pytest.raises(ValueError, match="larger max_len"):
            engine.step(source[:, 0], state)


@needs_gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recorded_updates_are_those_of_the_plain_loss(precision):
    found = []
    for recorded in (False, True):
        torch.manual_seed(0)
        batches = TokenBatches(*caption_like(200, 300), 600)
        config = TrainingConfig(steps=60, lr=1e-3, warmup=5, batch_tokens=600, precision=precision)
        updater = Updater(tiny_model(vocab_size=300, dropout=0.0).train(), batches, config, "cuda")
        assert "GraphedLoss" in accelerate_training(updater) if recorded else True
        losses = [float(updater.update(0.0)[0]) for _ in range(60)]
        assert isinstance(updater.training_loss, GraphedLoss) is recorded
        found.append(torch.tensor(losses))
    assert len(updater.training_loss.graphs) < 30
    assert found[0][-5:].mean() < found[0][:5].mean()
    torch.testing.assert_close(*found, rtol=1e-3 if precision == "fp32" else 0.03, atol=0.0)


@needs_gpu
def test_a_recorded_dropout_draws_anew_and_at_the_present_rate():
    model = tiny_model(vocab_size=300).cuda().train()
    for module in [*model.modules()]:
        for name, part in module.named_children():
            if isinstance(part, torch.nn.Dropout):
                setattr(module, name, RampedDropout().cuda())
    loss, ids = GraphedLoss(model), torch.randint(3, 300, (8, 8), device="cuda")
    losses = {}
    for rate in (0.0, 0.5, 0.0):
        for part in model.modules():
            if isinstance(part, RampedDropout):
                part.p.fill_(rate)
        losses.setdefault(rate, []).extend(float(loss(ids, ids)) for _ in range(3))
    assert len(loss.graphs) == 1
    assert len({round(x, 3) for x in losses[0.0]}) == 1 and len(set(losses[0.5])) == 3


@needs_gpu
@pytest.mark.parametrize("search", [dict(), dict(beam_size=4)], ids=str)
def test_recorded_steps_write_the_same(search):
    model = double_model().cuda()
    engine = Graphed(model)
    limits = torch.tensor([3, 40, 24, 9])
    for n in (4, 2, 4):  # one batch after another
        options = dict(max_new_tokens=limits[:n], return_scores=True, **search)
        ids, scores = generate(model, source[:n].cuda(), **options)
        same, again = generate(engine, source[:n].cuda(), **options)
        assert torch.equal(ids, same)
        torch.testing.assert_close(scores, again)
    assert engine.newest is not None
