"Fixtures of the tests."
import shutil
from pathlib import Path

import pytest
import torch
from helpers import sentences, sizes, tiny_model, typed, write_pairs

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.translator import Translator


@pytest.fixture
def command():
    "The command line in this process: `command(*arguments, stdin=…)` → code, stdout, stderr."
    return typed


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    "The folder of a small model that has learned to translate a few digits."
    folder = tmp_path_factory.mktemp("trained")
    config = TrainingConfig(
        steps=300, batch_tokens=400, lr=1e-2, warmup=40, precision="fp32", ema=0.98, save_every=0
    )
    options = {**sizes, "d_model": 32, "d_ff": 64, "dropout": 0.0}
    Trainer.from_pairs(
        sentences(500), config, folder, None, "tiny", 280, "cpu", quiet=True, **options
    ).fit()
    return folder


@pytest.fixture(scope="session")
def translator(trained) -> Translator:
    "The trained model, loaded."
    torch.set_num_threads(1)
    return Translator.from_pretrained(trained)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    "A folder with a few sentence pairs: train, val and test."
    return write_pairs(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def saved(tmp_path_factory) -> Path:
    "A folder with a model and its tokenizer."
    folder = tmp_path_factory.mktemp("saved")
    tokenizer = Tokenizer.train([s for pair in sentences(60) for s in pair], 280)
    Translator(tiny_model(vocab_size=tokenizer.vocab_size), tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture
def copied(saved, tmp_path) -> Path:
    "A copy to damage."
    return Path(shutil.copytree(saved, tmp_path / "copied"))
