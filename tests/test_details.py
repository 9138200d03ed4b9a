"Defaults, first values and edges of ranges: small changes of the code that no other test would notice."
import io
import sys
import threading

import numpy as np
import pytest
import torch
from helpers import sentences, sizes

from transformer_nbdev.data import Sequences
from transformer_nbdev.optimisation import linear_schedule
from transformer_nbdev.output_loss import OutputProjection
from transformer_nbdev.tools import devices
from transformer_nbdev.tools.files import Progress, say
from transformer_nbdev.training import Trainer, TrainingConfig


def trainer(quiet=True, valid=None, **config) -> Trainer:
    config = TrainingConfig(precision="fp32", steps=2, log_every=1, batch_tokens=200, **config)
    return Trainer.from_pairs(sentences(40), config, None, valid, "tiny", 280, "cpu", quiet=quiet, **sizes)


def test_first_logits_of_unit_vectors_have_unit_spread():
    torch.manual_seed(0)
    assert OutputProjection(64, 1000).weight.std().item() == pytest.approx(1 / 8, rel=0.02)


def test_only_adamw_decays():
    for name, decays in (("adamw", [0.0, 0.1]), ("adam", [0.0])):
        groups = trainer(optimizer=name, weight_decay=0.1).state.optimizer.param_groups
        assert sorted({group["weight_decay"] for group in groups}) == decays


def test_the_validation_loss_is_the_mean_over_all_tokens():
    run = trainer(valid=sentences(9, seed=1))
    total = tokens = 0.0
    model = run.model.eval()
    for rows in run.valid_batches.plan:
        batch = run.valid_batches.batch(rows)
        logits = model(batch.src, torch.cat([torch.full_like(batch.tgt[:, :1], 1), batch.tgt[:, :-1]], 1))
        total += torch.nn.functional.cross_entropy(logits.mT, batch.tgt, ignore_index=0, reduction="sum").item()
        tokens += (batch.tgt != 0).sum().item()
    assert run.measure()["valid_loss"] == pytest.approx(total / tokens, rel=1e-5)


def test_the_bar_says_where_the_run_is_unless_it_is_quiet(capsys):
    for quiet in (False, True):
        trainer(quiet=quiet).fit()
        assert ("100%" in capsys.readouterr().err) != quiet


@pytest.mark.parametrize("early", [False, True])
def test_a_bar_on_a_broken_terminal_stops_no_other_thread(monkeypatch, early):
    "tqdm kept the lock of all bars after an error, so the next message waited for ever."
    class Terminal(io.StringIO):
        broken = early

        def isatty(self):
            return True

        def write(self, text):
            if self.broken:
                raise OSError("the terminal is gone")
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = Progress()
    sys.stderr.broken = True
    progress.last = -1.0
    progress.update(0.5, "half")
    said = threading.Thread(target=say, args=("something",), daemon=True)
    said.start()
    said.join(2)
    assert not said.is_alive()
    progress.close()


def test_a_warm_up_of_one_update_ends_with_it():
    assert linear_schedule(1, 0.0, 2.0, 1) == linear_schedule(1, 0.0, 2.0, 0) == 2.0


@pytest.mark.parametrize(("told", "usable", "pays"), [
    ("vendor_id: GenuineIntel, flags: avx512_bf16 amx_bf16", True, True),
    ("vendor_id: GenuineIntel, flags: avx512_bf16", True, False),  # slower than float32
    ("vendor_id: AuthenticAMD, flags: avx512_bf16", True, True),
    ("vendor_id: AuthenticAMD, flags: avx512_bf16", False, False),  # ONEDNN_MAX_CPU_ISA=AVX2
    ("vendor_id: AuthenticAMD, flags: avx2", False, False),
])
def test_bfloat16_is_chosen_where_the_chip_is_faster_at_it(monkeypatch, told, usable, pays):
    monkeypatch.setattr(devices, "_processor", lambda: told)
    monkeypatch.setattr(devices, "onednn_takes", lambda dtype: usable)
    assert devices.bf16_pays(torch.device("cpu")) is pays


def test_rows_in_any_order_are_padded_as_pytorch_does():
    lists = [[5], [6, 7, 8], [9, 10]]
    rows, padded = [2, 0, 1], torch.nn.utils.rnn.pad_sequence
    wanted = padded([torch.tensor(lists[i]) for i in rows], batch_first=True, padding_value=4)
    assert Sequences(lists).padded(np.array(rows), pad_id=4).equal(wanted)
