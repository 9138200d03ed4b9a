"Full disks and folders that cannot be written: nothing already written is lost."
import contextlib
import errno
import os
import resource
from pathlib import Path

import pytest
import torch
from helpers import contents, loads_or_says_how, refused, sentences, sizes, tiny_model, write

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.translator import Translator


@contextlib.contextmanager
def full_disk(monkeypatch, free: int = 0):
    "After `free` files, nothing reaches the disk."
    left = [free]

    def fsync(_):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@contextlib.contextmanager
def small_files(limit: int):
    "The system itself refuses to let any file grow over `limit` bytes."
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("free", range(6))  # three files of the model, the tokenizer, and the manifest after each
def test_full_disk_while_saving_a_model(copied, monkeypatch, free):
    before = contents(copied)
    translator = Translator.from_pretrained(copied)
    with torch.no_grad():
        translator.model.output.weight += 1
    with full_disk(monkeypatch, free), refused(OSError, copied, "No space left"):
        translator.save_pretrained(copied)
    assert set(before) == set(contents(copied)) and (free or before == contents(copied))
    loads_or_says_how(copied)
    translator.save_pretrained(copied)
    assert torch.equal(Translator.from_pretrained(copied).model.output.weight, translator.model.output.weight)


def test_writes_that_really_fail(copied):
    before = contents(copied)
    translator = Translator.from_pretrained(copied)
    with small_files(1000), refused(OSError, copied / "model.safetensors"):
        translator.model.save_pretrained(copied)
    with small_files(1000), refused(OSError, copied / "tokenizer.json"):
        translator.tokenizer.save(copied)
    assert contents(copied) == before


def trainer(folder: Path, **config) -> Trainer:
    "A tiny run that saves every two updates."
    settings = {"steps": 6, "save_every": 2, "log_every": 1, "batch_tokens": 200, **config}
    return Trainer.from_pairs(
        sentences(40), TrainingConfig(precision="fp32", **settings), folder, None, "tiny", 280,
        "cpu", quiet=True, **sizes,
    )


def weights(folder: Path) -> list[bytes]:
    "Of the model and of the last checkpoint."
    places = folder, sorted(folder.glob("checkpoints/step-*"))[-1]
    return [(place / "model.safetensors").read_bytes() for place in places]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[bytes]:
    "The weights of a run that nothing disturbed."
    folder = tmp_path_factory.mktemp("undisturbed")
    trainer(folder).fit()
    return weights(folder)


@pytest.mark.parametrize("free", range(12, 24))
def test_full_disk_while_training(tmp_path, monkeypatch, undisturbed, free):
    # A save writes 12 files, manifests included; the disk fills up during the second one.
    with full_disk(monkeypatch, free), refused(OSError, tmp_path, "No space left"):
        trainer(tmp_path).fit()
    loads_or_says_how(tmp_path)
    trainer(tmp_path).resume().fit()
    Translator.from_pretrained(tmp_path)
    assert weights(tmp_path) == undisturbed
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_run_that_does_not_fit_on_the_disk_can_be_resumed(tmp_path):
    trainer(tmp_path, steps=2, schedule="paper").fit()
    before, path = contents(tmp_path / "checkpoints"), tmp_path / "metrics.jsonl"
    with small_files(path.stat().st_size + 10), refused(OSError, path):
        trainer(tmp_path, schedule="paper").resume().log(loss=1.0, lr=1.0, tokens_per_second=1)
    with small_files((tmp_path / "model.safetensors").stat().st_size + 5000), refused(OSError, tmp_path, "state.pt"):
        trainer(tmp_path, schedule="paper").resume().fit()
    assert before.items() <= contents(tmp_path / "checkpoints").items()
    resumed = trainer(tmp_path, schedule="paper").resume()
    assert resumed.step == 2 and [record["step"] for record in resumed.history] == [1, 2]


def test_a_folder_that_cannot_be_written(tmp_path, saved):
    below = write(tmp_path / "file", "text") / "run"
    for begin in (trainer, tiny_model().save_pretrained):
        with refused(ValueError, below, "choose another"):
            begin(below)
    with refused(OSError, below, "another folder"):
        Tokenizer.load(saved).save(below)


def test_a_new_run_does_not_mix_with_an_old_one(tmp_path):
    trainer(tmp_path, steps=2).fit()
    before = contents(tmp_path)
    with refused(ValueError, tmp_path, "resume"):
        trainer(tmp_path, steps=4).fit()
    assert contents(tmp_path) == before
    with refused(ValueError, "nothing to resume", tmp_path / "new"):
        trainer(tmp_path / "new").resume()
