"No NaN is called a model, nothing of the user's is removed, printing ends no run, errors save first."
import math
import os
import subprocess
from pathlib import Path

import pytest
import torch
from helpers import checkpoint, environment, metrics, sentences, sizes, train

from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator


def small_run(folder: Path | None, callbacks=(), **config) -> Trainer:
    "Eight updates, a checkpoint every two."
    settings = {"steps": 8, "save_every": 2, "log_every": 1, "batch_tokens": 200, **config}
    return Trainer.from_pairs(
        sentences(40), TrainingConfig(precision="fp32", **settings), folder, None, "tiny", 280,
        "cpu", quiet=True, callbacks=callbacks, **sizes,
    )


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    "Copies."
    return [p.detach().clone() for p in model.parameters()]


def at(step: int, do):
    "A callback that acts after one update."
    def callback(trainer):
        if trainer.step == step:
            do(trainer)
    return callback


def poison(trainer) -> None:
    "From here on the loss is NaN."
    with torch.no_grad():
        trainer.model.output.weight[0, 0] = math.nan


def test_a_loss_that_is_not_finite_stops_before_the_step(tmp_path):
    trainer = small_run(tmp_path, [at(5, poison)])
    with pytest.raises(ValueError, match=r"update 6 .*last finite loss .* update 5.* lr") as caught:
        trainer.fit()
    assert "\n" not in str(caught.value)
    assert trainer.step == 5, "the optimiser made the step"
    names = sorted(path.name for path in tmp_path.glob("checkpoints/*"))
    assert names == ["step-00000002", "step-00000004"]
    for folder in (tmp_path, checkpoint(tmp_path)):
        assert all(p.isfinite().all() for p in Transformer.from_pretrained(folder).parameters())
    assert Translator.from_pretrained(tmp_path).translate(["one"]) is not None
    # The run can go on from there.
    assert small_run(tmp_path).resume().fit()[-1]["step"] == 8


def test_a_gradient_that_is_not_finite_leaves_the_weights(tmp_path):
    trainer = small_run(None, steps=2, ema=0)
    trainer.updater.update(0.0)
    before, place = weights(trainer.model), trainer.batches.state_dict()
    hook = trainer.model.output.weight.register_hook(lambda g: g * math.inf)
    with pytest.raises(ValueError, match="not finite"):
        trainer.updater.update(0.5)
    hook.remove()
    assert all(map(torch.equal, before, weights(trainer.model)))
    assert trainer.batches.state_dict() == place and trainer.step == 1
    trainer.updater.update(0.5)
    assert trainer.step == 2


@pytest.mark.parametrize("steps", [5, 8])
def test_an_absurd_rate_never_replaces_the_good_model(tmp_path, steps):
    small_run(tmp_path, steps=4).fit()
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.safetensors")}
    with pytest.raises(ValueError, match="finite"):
        small_run(tmp_path, steps=steps, lr=1e30, warmup=0, clip_norm=0).resume().fit()
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*.safetensors")}


def test_two_checkpoints_are_kept_and_nothing_of_the_user_is_touched(tmp_path):
    own = [".notes.tmp", "checkpoints/step-00000001-keep/a", "checkpoints/.mine.tmp",
           "checkpoints/step-1/a", "checkpoints/step-00000003.bak"]
    for name in own:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    small_run(tmp_path, steps=4).fit()
    resumed = small_run(tmp_path).resume()
    assert resumed.step == 4
    resumed.fit()
    assert all((tmp_path / name).read_text() == "mine" for name in own)
    left = {path.name for path in tmp_path.glob("checkpoints/step-????????")}
    assert left == {"step-00000006", "step-00000008"}


@pytest.mark.parametrize("where", ["a callback", "an update"])
def test_an_error_saves_first_and_loses_nothing(tmp_path, where):
    def out_of_memory(*_):
        trainer.updater.loss_sum = loss_sum
        torch.rand(3)
        raise RuntimeError("out of memory")

    def fail(trainer):
        if where == "a callback":
            raise RuntimeError("out of memory")
        trainer.updater.loss_sum = out_of_memory

    trainer = small_run(tmp_path, [at(3, fail)], save_every=0)
    loss_sum = trainer.updater.loss_sum
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.fit()
    resumed = small_run(tmp_path, save_every=0).resume()
    assert resumed.step == 3
    resumed.fit()
    small_run(tmp_path / "whole", save_every=0).fit()
    assert metrics(tmp_path) == metrics(tmp_path / "whole")
    a, b = (Transformer.from_pretrained(p) for p in (tmp_path, tmp_path / "whole"))
    assert all(map(torch.equal, weights(a), weights(b)))


def test_the_reader_of_the_log_dies(corpus, tmp_path):
    read, write = os.pipe()
    command = [str(c) for c in train(corpus, tmp_path, "--steps=60", "--save-every=20")]
    process = subprocess.Popen(command, env=environment(), stdout=write, stderr=write)
    os.close(write)
    assert os.read(read, 1)
    os.close(read)
    assert process.wait(120) == 0
    assert checkpoint(tmp_path).name == "step-00000060"
