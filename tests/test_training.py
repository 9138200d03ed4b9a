"A run can be killed, interrupted, resumed, split into batches or processes: the result is the same."
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from helpers import (
    cli,
    environment,
    needs_gpu,
    run,
    sentences,
    sizes,
    start,
    tiny_model,
    train_options,
    write_pairs,
)

from transformer_nbdev import training
from transformer_nbdev.data import Batch, Tokenizer, TokenBatches, encode_pairs
from transformer_nbdev.inference import Translator
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("corpus"))


def train(corpus: Path, out: Path, *options) -> list[str]:
    "A command that trains the tiny model."
    return [*cli, "train", "--data", corpus, *train_options, "--log-every=1", "--out", out, *options]


def metrics(out: Path, name: str = "loss") -> dict[int, float]:
    "One of the logged numbers by step; every step must be logged once only."
    lines = (out / "metrics.jsonl").read_text().splitlines()
    found = [(r["step"], r[name]) for r in map(json.loads, lines) if name in r]
    assert len(dict(found)) == len(found), f"logged twice: {found}"
    return dict(found)


def checkpoint(out: Path) -> Path:
    "The newest one."
    return sorted(out.glob("checkpoints/step-*"))[-1]


def same(a, b) -> bool:
    "Equal to the last bit, in nested dictionaries and lists of tensors and numbers."
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def same_run(a: Path, b: Path) -> None:
    "Two folders hold the same model, the same checkpoint and the same losses."
    assert checkpoint(a).name == checkpoint(b).name
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    name = "model.safetensors"
    assert (checkpoint(a) / name).read_bytes() == (checkpoint(b) / name).read_bytes()
    states = [torch.load(checkpoint(p) / "state.pt", weights_only=True) for p in (a, b)]
    wrong = [k for k in states[0] if k != "seconds" and not same(states[0][k], states[1][k])]
    assert not wrong, wrong
    assert metrics(a) == metrics(b) and metrics(a, "lr") == metrics(b, "lr")


# The linear schedule depends on the whole length of a run, the paper's does not.
options = ["--schedule=paper", "--warmup=10", "--dropout=0.1", "--accumulate=2", "--save-every=2"]


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory) -> Path:
    "A run of 120 updates that nothing disturbed."
    folder = tmp_path_factory.mktemp("runs") / "whole"
    done = run(*train(corpus, folder, *options, "--steps=120"))
    assert done.returncode == 0, done.stderr
    assert list(metrics(folder)) == list(range(1, 121))
    return folder


def test_a_resumed_run_is_the_same_to_the_last_bit(corpus, whole, tmp_path):
    done = run(*train(corpus, tmp_path, *options, "--steps=50"))
    assert done.returncode == 0 and checkpoint(tmp_path).name == "step-00000050", done.stderr
    done = run(*train(corpus, tmp_path, "--resume", "--steps=120"))
    assert done.returncode == 0, done.stderr
    same_run(whole, tmp_path)


def wait_for(condition, process: subprocess.Popen, seconds: float = 60) -> None:
    "Until the condition holds; the process must not end before."
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def test_a_run_killed_again_and_again_ends_like_an_undisturbed_one(corpus, whole, tmp_path):
    rng = random.Random(0)
    for attempt in range(3):
        before = set(tmp_path.glob("checkpoints/step-*"))
        more = ["--resume"] if attempt else [*options, "--steps=120"]
        process = start(*train(corpus, tmp_path, *more))
        wait_for(lambda old=before: set(tmp_path.glob("checkpoints/step-*")) - old, process)
        time.sleep(rng.uniform(0, 0.2))
        assert process.poll() is None, "it ended before it could be killed: give it more steps"
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stderr.close()
        Transformer.from_pretrained(checkpoint(tmp_path))
    done = run(*train(corpus, tmp_path, "--resume"))
    assert done.returncode == 0, done.stderr
    same_run(whole, tmp_path)


class Killed(BaseException):
    "Stands for the death of the process."


@pytest.fixture(scope="module")
def encoded():
    tokenizer = Tokenizer.train([s for pair in sentences(40) for s in pair], 280)
    return tokenizer, encode_pairs(sentences(40), tokenizer)


def small_run(encoded, folder: Path | None, **config) -> Trainer:
    "Four updates, a checkpoint every two."
    tokenizer, pairs = encoded
    model = tiny_model(vocab_size=tokenizer.vocab_size)
    settings = {"steps": 4, "save_every": 2, "log_every": 1, **config}
    return Trainer(
        model, TokenBatches(*pairs, 200), TrainingConfig(precision="fp32", **settings), folder,
        tokenizer=tokenizer, device="cpu", quiet=True,
    )


def test_a_run_can_die_at_any_operation_on_files(encoded, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "plot_history", lambda *_: None)
    left = [0]

    def mortal(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return function(*args, **kwargs)
        return call

    def wound(patch) -> None:
        patch.setattr(os, "fsync", mortal(lambda _: None))
        for owner, name in ((os, "replace"), (shutil, "rmtree"), (Path, "write_text")):
            patch.setattr(owner, name, mortal(getattr(owner, name)))
        patch.setattr(torch, "save", mortal(torch.save))

    small_run(encoded, tmp_path / "0").fit()
    for n in range(1, 1000):
        folder, left[0] = tmp_path / str(n), n
        with monkeypatch.context() as patch:
            wound(patch)
            try:
                small_run(encoded, folder).fit()
                break
            except Killed:
                pass
        again = small_run(encoded, folder)
        if (folder / "tokenizer.json").exists():
            Translator.from_pretrained(folder)
        if list(folder.glob("checkpoints/step-*")):
            again.resume()
        else:
            (folder / "metrics.jsonl").unlink(missing_ok=True)
        again.fit()
        same_run(tmp_path / "0", folder)
        shutil.rmtree(folder)
    assert n > 30, f"a run with three checkpoints made only {n} operations"


def die(*_, **__):
    raise Killed


def test_a_run_started_again_does_not_keep_the_metrics_of_the_killed_one(
    encoded, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Trainer, "save", die)
        small_run(encoded, tmp_path).fit()
    small_run(encoded, tmp_path).fit()
    assert list(metrics(tmp_path)) == [1, 2, 3, 4]


def test_a_run_killed_in_its_first_save_can_be_started_again(command, corpus, tmp_path):
    arguments = [*train(corpus, tmp_path / "run", "--steps=2")][len(cli) :]
    assert command(*arguments).returncode == 0
    partial = tmp_path / "run" / "checkpoints" / ".step-00000002.tmp"
    checkpoint(tmp_path / "run").rename(partial)
    codes = [command(*arguments, *more).returncode for more in (["--resume"], [])]
    assert 0 in codes, "neither with nor without --resume"
    assert list(metrics(tmp_path / "run")) == [1, 2]


def test_nothing_is_left_behind_by_a_killed_write(encoded, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "getpid", lambda: 1)
        patch.setattr(os, "fsync", die)
        small_run(encoded, tmp_path).fit()
    small_run(encoded, tmp_path).fit()
    assert not [p for p in tmp_path.rglob("*") if p.name.endswith(".tmp")]


def test_an_interrupted_run_can_be_resumed(command, corpus, tmp_path):
    process = start(*train(corpus, tmp_path, "--steps=100000", "--save-every=0"))
    wait_for((tmp_path / "metrics.jsonl").exists, process)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in text and text.splitlines()[-1].startswith("interrupted. ")
    step = int(checkpoint(tmp_path).name[5:])
    done = command(*train(corpus, tmp_path, "--resume", f"--steps={step + 2}")[len(cli) :])
    assert done.returncode == 0, done.stderr
    assert list(metrics(tmp_path)) == list(range(1, step + 3))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_update_then_the_run(encoded, tmp_path, number, monkeypatch):
    trainer, update = small_run(encoded, tmp_path, steps=50, save_every=0), Trainer.update

    def interrupted(self, progress):
        if self.step == 2:
            os.kill(os.getpid(), number)
        return update(self, progress)

    before = signal.getsignal(number)
    monkeypatch.setattr(Trainer, "update", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 3"):
        trainer.fit()
    assert signal.getsignal(number) is before
    assert small_run(encoded, tmp_path).resume().step == 3


def test_the_command_line_says_where_it_stopped(command, monkeypatch, corpus, tmp_path):
    def fit(self):
        raise KeyboardInterrupt("stopped at step 7; resume goes on from there")

    monkeypatch.setattr(Trainer, "fit", fit)
    done = command(*train(corpus, tmp_path, "--steps=9")[len(cli) :])
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("interrupted. stopped at step 7; ")


def test_two_processes_learn_what_one_learns(command, corpus, tmp_path):
    log, site = tmp_path / "writers", tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"""
import os
replace = os.replace
def noted(*args, **kwargs):
    with open({str(log)!r}, "a") as file:
        file.write(os.environ.get("RANK", "none") + "\\n")
    return replace(*args, **kwargs)
os.replace = noted
""")
    # Batches of 24 positions: often fewer sentences than processes. With a large epsilon and no
    # clipping Adam's steps depend on the gradient's length.
    settings = [
        "--dropout=0", "--batch-tokens=24", "--schedule=paper", "--warmup=5", "--eps=1",
        "--clip-norm=0",
    ]
    one, two = tmp_path / "one", tmp_path / "two"
    env = environment()
    env["PYTHONPATH"] = f"{site}{os.pathsep}{env['PYTHONPATH']}"
    if sys.platform == "linux":
        env["GLOO_SOCKET_IFNAME"] = "lo"
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone",
        "--local-addr=127.0.0.1",
    ]
    arguments = train(corpus, two, *settings, "--steps=6")[1:]
    done = subprocess.run(
        [str(a) for a in torchrun + arguments], env=env, capture_output=True, text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "2 process(es)" in done.stderr and done.stderr.count("saved in ") == 1
    assert set(log.read_text().split()) == {"0"}
    # What two began, one can go on with.
    for more in (train(corpus, two, *settings, "--steps=12", "--resume"),
                 train(corpus, one, *settings, "--steps=12")):
        done = command(*more[len(cli) :])
        assert done.returncode == 0, done.stderr
    a, b = metrics(one), metrics(two)
    assert list(a) == list(b) == list(range(1, 13))
    assert max(abs(a[i] - b[i]) for i in a) <= 1e-4
    assert metrics(one, "valid_loss")[12] == pytest.approx(metrics(two, "valid_loss")[12], abs=1e-4)


class Given:
    "Batches that were made before."

    epoch, index = 0, 0

    def __init__(self, *batches: Batch):
        self.batches = list(batches)

    def __len__(self) -> int:
        return 9

    def next(self) -> Batch:
        return self.batches.pop(0)

    def state_dict(self) -> dict:
        return {}


def test_two_half_batches_are_one_batch(encoded):
    # Halves with unlike numbers of tokens: the mean of their means would be another number.
    tokenizer, (source, target) = encoded
    batch = TokenBatches(source, target, 400).next()
    order = (batch.tgt != 0).sum(1).argsort()
    rows = order[: len(order) // 3], order[len(order) // 3 :]
    halves = [
        Batch(batch.src[r], batch.tgt[r], int((batch.tgt[r] != 0).sum())) for r in rows
    ]
    assert halves[0].n_tokens * 2 < halves[1].n_tokens
    results = []
    for given, accumulate in (([batch], 1), (halves, 2)):
        model = tiny_model(vocab_size=tokenizer.vocab_size, dropout=0.0).double()
        # With a large epsilon Adam's first step is proportional to the gradient.
        config = TrainingConfig(
            steps=1, accumulate=accumulate, lr=1.0, eps=1.0, warmup=1, precision="fp32"
        )
        trainer = Trainer(model, Given(*given), config, device="cpu", quiet=True)
        trainer.fit()
        results.append((trainer.history[0]["loss"], *model.parameters()))
    (a, *first), (b, *second) = results
    assert a == pytest.approx(b, rel=1e-6)
    for p, q in zip(first, second):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-9)
    fresh = tiny_model(vocab_size=tokenizer.vocab_size, dropout=0.0).double().parameters()
    assert max(float((p - q).detach().abs().max()) for p, q in zip(first, fresh)) > 1e-3


@needs_gpu
def test_a_run_on_a_gpu_resumes_and_loads_on_a_cpu(tmp_path):
    def make(steps: int) -> Trainer:
        config = TrainingConfig(
            steps=steps, schedule="paper", warmup=50, batch_tokens=1000, log_every=10
        )
        return Trainer.from_pairs(
            sentences(200), config, tmp_path, None, "tiny", 280, "cuda", quiet=True, **sizes
        )

    make(50).fit()
    history = make(100).resume().fit()
    assert [r["step"] for r in history if "loss" in r] == list(range(10, 101, 10))
    assert history[-1]["loss"] < history[0]["loss"]
    assert Translator.from_pretrained(tmp_path).translate(["one"]) is not None
