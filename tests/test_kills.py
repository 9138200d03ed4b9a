"""A run killed at random moments, resumed until it ends: the same to the last bit, and nothing is left over.

KILLS=70 python -m pytest -n 2 tests/test_kills.py does it seventy times; by default once.
"""
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers import metrics, run, same_run, start, train

from transformer_nbdev.files import find_checkpoints
from transformer_nbdev.transformer import Transformer

# The linear schedule depends on the whole length of a run, the paper's does not.
options = ["--schedule=paper", "--warmup=10", "--dropout=0.1", "--accumulate=2", "--save-every=2"]
steps, n_runs = 40, int(os.environ.get("KILLS", "1"))


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory) -> tuple[Path, float]:
    "A run that nothing disturbed, and the seconds it took."
    folder, begun = tmp_path_factory.mktemp("runs") / "whole", time.monotonic()
    done = run(*train(corpus, folder, *options, f"--steps={steps}"))
    assert done.returncode == 0, done.stderr
    assert list(metrics(folder)) == list(range(1, steps + 1))
    return folder, time.monotonic() - begun


def seen(folder: Path) -> bool:
    "Whether the training has begun to write."
    return (folder / "metrics.jsonl").exists()


@pytest.mark.parametrize("number", range(n_runs))
def test_a_run_killed_at_random_ends_like_an_undisturbed_one(corpus, whole, tmp_path, number):
    rng, (undisturbed, seconds), kills = random.Random(number), whole, 0
    done = False
    while not done:
        more = ["--resume"] if find_checkpoints(tmp_path) else [*options, f"--steps={steps}"]
        process = start(*train(corpus, tmp_path, *more))
        if kills < 2 and rng.random() < 0.8:  # while it trains and saves
            end = time.monotonic() + 60
            while not seen(tmp_path) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.002)
            moment = rng.uniform(0, seconds / 3)
        else:  # at any time, its start included
            moment = rng.uniform(0, seconds) if kills < 2 else 120.0
        try:
            _, text = process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            process.kill()
            _, text = process.communicate()
        if process.returncode == -signal.SIGKILL:
            kills += 1
            for checkpoint in find_checkpoints(tmp_path):
                Transformer.from_pretrained(checkpoint)
            if (tmp_path / "model.safetensors").exists():  # the manifest is true at every moment
                Transformer.from_pretrained(tmp_path)
        else:
            assert process.returncode == 0, text
            done = True
    print(kills, "kills")
    same_run(undisturbed, tmp_path)
    assert not list(tmp_path.rglob(".*"))
