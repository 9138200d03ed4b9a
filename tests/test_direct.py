"Decoding: the direct step writes what the plain one writes, and nothing waits for a GPU but what must."
import contextlib
import copy
import time

import pytest
import torch
from helpers import tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_nbdev.data import TokenBatches
from transformer_nbdev.search import BeamSearch, _Search, generate
from transformer_nbdev.speed import direct as direct_module
from transformer_nbdev.speed.bench import caption_like
from transformer_nbdev.speed.direct import Direct, DirectState
from transformer_nbdev.speed.parts import replace, training_parts
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.training import Trainer, Updater, _move_average
from transformer_nbdev.transformer import Transformer, TransformerConfig

source = torch.tensor([[5, 8, 3, 9, 2], [7, 4, 2, 0, 0], [4, 2, 0, 0, 0], [6, 6, 6, 2, 0]])
shapes = [{}, dict(norm_first=True, tie_embeddings=False), dict(bias=False, scale_embeddings=False, activation="gelu")]
searches = [dict(), dict(beam_size=4, length_penalty=-1.0, min_new_tokens=3)]


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
@pytest.mark.parametrize("every", [3, 100])
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
    model = double_model().train()
    direct = Direct(model)
    assert model.training and not direct.refused
    steps = [direct.step(torch.tensor([1, 1]), direct.start(source[:2], 4)) for _ in range(2)]
    assert not torch.equal(*steps)
    model.eval()
    assert isinstance(direct.start(source, 4), DirectState)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_planted_error_is_noticed_and_the_model_decodes(dtype, monkeypatch, capfd):
    model = double_model().to(dtype)
    assert not Direct(model).refused and not capfd.readouterr().err
    monkeypatch.setattr(direct_module, "_normed", lambda block, x: x.flip(-1))
    direct = Direct(model)
    said = capfd.readouterr().err
    assert said.startswith("note: the direct engine is not used: ") and said.count("\n") == 1
    assert torch.equal(generate(direct, source, 8), model.generate(source, 8))


def test_a_cache_that_grows_wrongly_is_noticed(monkeypatch):
    append = DirectState.append
    monkeypatch.setattr(DirectState, "append", lambda self, layer, new: append(self, layer, new)[:, :, :, -1:])
    assert Direct(double_model()).refused


def test_choosing_the_engine_is_quick():
    "Under 0.2 s of a processor for the preset base; here for one of its size in a third of the layers."
    model = Transformer(TransformerConfig.preset("base", 37_000, n_encoder_layers=2, n_decoder_layers=2)).eval()
    seconds = []
    for _ in range(3):
        start = time.process_time()
        Direct(model)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.2


def test_a_hook_that_comes_later_is_called():
    model, seen = double_model(), []
    direct = Direct(model)
    model.decoder.layers[0].cross_attention.register_forward_hook(lambda *_: seen.append(1))
    generate(direct, source, 3, min_new_tokens=3)
    assert len(seen) == 3


class Waits(TorchDispatchMode):
    "Counts the operations whose result the program itself must see: on a GPU it waits for the device."

    kinds = ("item", "_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique")

    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self.launches = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function).split(".")[1]
        self.launches += 1
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
    options = (1,) if kind is _Search else (3, 0.6)
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


def test_a_validation_asks_for_values_only_at_its_end(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    batches, losses = TokenBatches(*caption_like(50, 300), 300), []
    config = TrainingConfig(steps=1, precision="fp32", batch_tokens=300)
    run = Trainer(tiny_model(vocab_size=300).eval(), batches, config, device="meta", quiet=True)
    run.valid_batches, one_loss = batches, run.model.loss
    monkeypatch.setattr(run.model, "loss", lambda *args: losses.append(one_loss(*args)) or losses[-1])
    with pytest.raises(RuntimeError):  # meta tensors have none
        run.valid_loss(run.model)
    assert len(losses) == len(batches.plan) > 2


def test_the_averages_of_all_weights_move_in_one_launch():
    model = tiny_model()
    average = copy.deepcopy(model)
    with Waits() as mode:
        _move_average(average, model, 0.9, 5)
    assert mode.launches == 1
