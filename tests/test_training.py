"A run that dies, is interrupted, or is split into batches or processes gives the same result."
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import cli, environment, metrics, needs_gpu, same_run, sentences, sizes, tiny_model, train

from transformer_nbdev.data import Batch, TokenBatches, Tokenizer, encode_pairs
from transformer_nbdev.tools import callbacks as runs
from transformer_nbdev.training import Trainer, TrainingConfig, Updater
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator


class Killed(BaseException):
    "Stands for the death of the process."


@pytest.fixture(scope="module")
def encoded():
    tokenizer = Tokenizer.train([s for pair in sentences(40) for s in pair], 280)
    return tokenizer, encode_pairs(sentences(40), tokenizer)


def small_run(encoded, folder: Path | None = None, options: dict | None = None, **config) -> Trainer:
    "Four updates and a checkpoint every two, unless `config` says otherwise; `options` are those of `Trainer`."
    tokenizer, pairs = encoded
    model = tiny_model(vocab_size=tokenizer.vocab_size)
    config = TrainingConfig(precision="fp32", **{"steps": 4, "save_every": 2, "log_every": 1, **config})
    batches = TokenBatches(*pairs, 200)
    return Trainer(model, batches, config, folder, tokenizer=tokenizer, device="cpu", quiet=True, **(options or {}))


class Mortal:
    "Notes what is done to which file, and dies at one of these operations."

    def __init__(self, dies_at: int = -1):
        self.done, self.place, self.dies_at = [], "", dies_at

    def watch(self, function):
        "The function, watched. What it does is named without step, process or parent folder."
        def call(*args, **kwargs):
            if isinstance(args[0], str | Path):
                self.place = re.sub(r"[0-9]+", "", "/".join(Path(args[0]).parts[-2:]))
            if len(self.done) == self.dies_at:
                raise Killed
            self.done.append((function.__name__, self.place))
            return function(*args, **kwargs)
        return call

    def fit(self, trainer: Trainer, monkeypatch) -> None:
        def fsync(_):
            "No disk is waited for."

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", self.watch(fsync))
            for owner, name in ((os, "replace"), (shutil, "rmtree"), (Path, "write_text"), (torch, "save")):
                patch.setattr(owner, name, self.watch(getattr(owner, name)))
            trainer.fit()


def test_a_run_can_die_at_any_operation_on_files(encoded, tmp_path, monkeypatch):
    "Once at each kind of operation, the first time and the last; DEATHS=all: every time."
    monkeypatch.setattr(runs, "plot_history", lambda *_: None)
    whole, undisturbed, three_saves = Mortal(), tmp_path / "0", {"steps": 3, "save_every": 1}
    whole.fit(small_run(encoded, undisturbed, **three_saves), monkeypatch)
    first = {kind: n for n, kind in reversed([*enumerate(whole.done)])}
    last = {kind: n for n, kind in enumerate(whole.done)}
    assert len(first) > 20, first
    chosen = sorted({*first.values(), *last.values()})
    for n in range(len(whole.done)) if os.environ.get("DEATHS") == "all" else chosen:
        folder = tmp_path / str(n + 1)
        with pytest.raises(Killed):
            Mortal(n).fit(small_run(encoded, folder, **three_saves), monkeypatch)
        again = small_run(encoded, folder, **three_saves)
        if (folder / "tokenizer.json").exists():
            try:
                Translator.from_pretrained(folder)
            except ValueError as error:  # of two saves
                assert "--resume" in str(error)
        if list(folder.glob("checkpoints/step-*")):
            again.resume()
        else:
            (folder / "metrics.jsonl").unlink(missing_ok=True)
        again.fit()
        same_run(undisturbed, folder)
        shutil.rmtree(folder)


def die(*_, **__):
    raise Killed


def test_nothing_is_left_behind_by_a_killed_write(encoded, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "getpid", lambda: 1)
        patch.setattr(os, "fsync", die)
        small_run(encoded, tmp_path).fit()
    small_run(encoded, tmp_path).fit()
    assert not [p for p in tmp_path.rglob("*") if p.name.endswith(".tmp")]
    assert list(metrics(tmp_path)) == [1, 2, 3, 4], "those of the killed run are still there"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_update_then_the_run(encoded, tmp_path, number, monkeypatch):
    trainer, update = small_run(encoded, tmp_path, steps=50, save_every=0), Updater.update

    def interrupted(self, progress):
        if self.state.step == 2:
            os.kill(os.getpid(), number)
        return update(self, progress)

    before = signal.getsignal(number)
    monkeypatch.setattr(Updater, "update", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 3"):
        trainer.fit()
    assert signal.getsignal(number) is before
    assert small_run(encoded, tmp_path).resume().step == 3


def test_two_processes_learn_what_one_learns(command, corpus, tmp_path):
    # Batches of 24 positions: often fewer sentences than processes. With a large epsilon and no
    # clipping Adam's steps depend on the gradient's length (Muon's never do).
    settings = [
        "--dropout=0", "--batch-tokens=24", "--schedule=paper", "--warmup=5", "--eps=1",
        "--clip-norm=0", "--optimizer=adamw",
    ]
    one, two = tmp_path / "one", tmp_path / "two"
    env = environment() | ({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {})
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone",
        "--local-addr=127.0.0.1", *train(corpus, two, *settings, "--steps=6")[1:],
    ]
    done = subprocess.run(map(str, torchrun), env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "2 process(es)" in done.stderr and done.stderr.count("saved in ") == 1
    # What two began, one can go on with.
    for more in (train(corpus, two, *settings, "--steps=12", "--resume"),
                 train(corpus, one, *settings, "--steps=12")):
        done = command(*more[len(cli) :])
        assert done.returncode == 0, done.stderr
    a, b = metrics(one), metrics(two)
    assert list(a) == list(b) == list(range(1, 13))
    assert max(abs(a[i] - b[i]) for i in a) <= 1e-4
    validations = [metrics(out, "valid_loss")[12] for out in (one, two)]
    assert validations[0] == pytest.approx(validations[1], abs=1e-4)


class Given:
    "Batches that were made before."

    epoch, index, progress = 0, 0, 0.0

    def __init__(self, *batches: Batch):
        self.batches = list(batches)

    def __len__(self) -> int:
        return 9

    def next(self) -> Batch:
        return self.batches.pop(0)

    def state_dict(self) -> dict:
        return {}


def test_two_half_batches_make_the_update_of_one(encoded):
    # Halves with unlike numbers of tokens: the mean of their means would be another number.
    tokenizer, (source, target) = encoded
    batch = TokenBatches(source, target, 400).next()
    order = (batch.tgt != 0).sum(1).argsort()
    rows = order[: len(order) // 3], order[len(order) // 3 :]
    halves = [Batch(batch.src[r], batch.tgt[r], int((batch.tgt[r] != 0).sum())) for r in rows]
    assert halves[0].n_tokens * 2 < halves[1].n_tokens
    results = []
    for given, accumulate in (([batch], 1), (halves, 2)):
        model = tiny_model(vocab_size=tokenizer.vocab_size, dropout=0.0).double()
        # With a large epsilon Adam's first step is proportional to the gradient.
        config = TrainingConfig(steps=1, accumulate=accumulate, lr=1.0, eps=1.0, warmup=1, precision="fp32")
        trainer = Trainer(model, Given(*given), config, device="cpu", quiet=True)
        trainer.fit()
        results.append((trainer.history[0]["loss"], *model.parameters()))
    (a, *first), (b, *second) = results
    assert a == pytest.approx(b, rel=1e-6)
    for p, q in zip(first, second, strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-9)
    fresh = tiny_model(vocab_size=tokenizer.vocab_size, dropout=0.0).double().parameters()
    assert max(float((p - q).detach().abs().max()) for p, q in zip(first, fresh)) > 1e-3, "nothing moved"


def test_patience_keeps_the_best_model_and_stops(encoded, tmp_path, monkeypatch):
    losses, saved, save_model = iter([3.0, 2.0, 2.5, 2.4, 1.0]), [], Trainer.save_model
    monkeypatch.setattr(Trainer, "measure", lambda self: {"valid_loss": next(losses)})
    monkeypatch.setattr(Trainer, "valid_loss", lambda self, model: 2.0)
    monkeypatch.setattr(Trainer, "save_model", lambda self, model: saved.append(self.step) or save_model(self, model))

    def patient() -> Trainer:
        settings = {"steps": 9, "patience": 2, "validate_every": 1, "save_every": 0}
        return small_run(encoded, tmp_path, {"valid": sentences(3)}, **settings)

    trainer = patient()
    trainer.fit()
    assert trainer.step == 4 and saved == [1, 2, 4] and trainer.stopped
    assert trainer.history[-1]["kept_step"] == 2
    kept = Transformer.from_pretrained(tmp_path).output.weight
    assert not torch.equal(kept, trainer.state.average.output.weight)
    again = patient().resume()  # with no more patience than before
    again.fit()
    assert again.step == 4 and saved == [1, 2, 4, 4]
    assert torch.equal(Transformer.from_pretrained(tmp_path).output.weight, kept)


def test_the_mean_of_the_last_checkpoints_is_the_model(encoded, tmp_path):
    small_run(encoded, tmp_path, steps=6, save_every=1, average_last=3).fit()
    found = sorted(tmp_path.glob("checkpoints/step-*"))
    assert [int(path.name[5:]) for path in found] == [4, 5, 6]
    models = [Transformer.from_pretrained(path) for path in (tmp_path, *found)]
    for mean, *rest in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(mean, torch.stack(rest).mean(0))


def test_the_score_is_measured_on_the_averaged_weights(encoded):
    seen = []

    def score(trainer: Trainer, model: Transformer) -> dict[str, float]:
        assert not model.training
        seen.append([p.detach().clone() for p in model.parameters()])
        return {"valid_bleu": 31.2}

    with pytest.raises(ValueError, match="score=validation_bleu"):
        small_run(encoded, None, {"valid": sentences(3)}, bleu_sentences=2)
    trainer = small_run(encoded, None, {"valid": sentences(3), "score": score}, bleu_sentences=2)
    assert trainer.fit()[-2]["valid_bleu"] == 31.2  # the last record is of the weights that were kept
    assert all(map(torch.equal, seen[-1], trainer.averaged_model().parameters()))
    assert not all(map(torch.equal, seen[-1], trainer.model.parameters()))


@needs_gpu
def test_a_run_on_a_gpu_resumes_and_loads_on_a_cpu(tmp_path):
    def make(steps: int) -> Trainer:
        config = TrainingConfig(steps=steps, schedule="paper", warmup=50, batch_tokens=1000, log_every=10)
        return Trainer.from_pairs(sentences(200), config, tmp_path, None, "tiny", 280, "cuda", quiet=True, **sizes)

    make(50).fit()
    history = make(100).resume().fit()
    assert [r["step"] for r in history if "loss" in r] == list(range(10, 101, 10))
    assert history[-1]["loss"] < history[0]["loss"]
    assert Translator.from_pretrained(tmp_path).translate(["one"]) is not None
