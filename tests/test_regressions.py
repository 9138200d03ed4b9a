"""Bugs that users met, each with a test that failed before its repair.

Those of two options that do not go together are rows of `test_crossings.py`: --patience without a validation before
the end, --average-last and --patience with a tuned length penalty, --compile with rising dropout, --stream and what it
leaves out, --max-len 12, --int8 with odd widths. What choosing an engine may cost is in `test_direct.py`.
"""
import copy
import os
import pathlib
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from helpers import cli, environment, run, sentences, tiny_model, train, typed
from torch.utils.flop_counter import FlopCounterMode

from transformer_nbdev.data import Sequences, TokenBatches
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection
from transformer_nbdev.search import generate
from transformer_nbdev.speed import bench
from transformer_nbdev.speed.direct import Direct
from transformer_nbdev.speed.parts import ByteDropout, PiecewiseOutput, accelerate, as_kind, fast_parts, plain
from transformer_nbdev.tools import devices, files
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.tools.corpora import LengthWarning
from transformer_nbdev.training import Trainer, Updater, optimizers
from transformer_nbdev.transformer import Transformer, TransformerConfig
from transformer_nbdev.translator import Translator

src = torch.tensor([[5, 8, 3, 9, 2], [7, 4, 2, 0, 0]])
laptop = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def test_8_bits_with_odd_widths(tmp_path, translator):
    "1: they crashed the interpreter, so it happens in another one."
    pytest.importorskip("ctranslate2")
    model = tiny_model(d_model=36, d_ff=50, n_heads=4, vocab_size=translator.tokenizer.vocab_size)
    Translator(model, translator.tokenizer).save_pretrained(tmp_path)
    texts = "one two three\nfour\n"
    done = run(*cli, "translate", "--model", tmp_path, "--int8", "--device", "cpu", "--max-new-tokens=8", stdin=texts)
    assert done.returncode == 0 and done.stdout.count("\n") == 2, done


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's PyTorch reads these variables")
def test_bfloat16_without_avx512(saved, monkeypatch):
    "2: oneDNN exists there, but takes no bfloat16."
    for name, value in laptop.items():
        monkeypatch.setenv(name, value)
    done = run(*cli, "translate", "--model", saved, "--precision", "bf16", "--device", "cpu", stdin="one two\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr
    assert done.stderr == "note: bf16 is slower than fp32 on this device\n"


def heads_seen(model: Transformer, engine=lambda model: model) -> int:
    "How often a hook on cross-attention is called while a sentence is translated."
    seen = []
    hook = model.decoder.layers[0].cross_attention.register_forward_hook(lambda *_: seen.append(1))
    generate(engine(model), src, 6, min_new_tokens=5)
    hook.remove()
    return len(seen)


def test_the_direct_step_calls_hooks():
    "7a: they were passed over."
    assert heads_seen(tiny_model(), Direct) == heads_seen(tiny_model()) > 0


class Silent(MultiHeadAttention):
    "Somebody's own: it says nothing."

    def forward(self, x, *args, **options):
        return torch.zeros_like(x)


class Learned(torch.nn.Module):
    "Positions as table 3 (E) of the paper has them."

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(max_len, d_model))

    def forward(self, x, start=0):
        return x + self.weight[start : start + x.shape[1]]


@pytest.mark.parametrize("change", ["7b: a subclass was passed over", "7c: learned positions: AttributeError"])
def test_the_direct_step_respects_layers_of_the_user(change):
    model = tiny_model()
    if "7b" in change:
        model.decoder.layers[0].cross_attention.__class__ = Silent
    else:
        model.positions = Learned(64, 16)
    expected = model.generate(src, 8, beam_size=2)
    assert torch.equal(generate(Direct(model), src, 8, beam_size=2), expected)


def test_methods_are_there_whatever_else_was_imported():
    "8: other modules attached them."
    statements = "from transformer_nbdev.transformer import Transformer; Transformer.generate; " \
        "from transformer_nbdev.translator import Translator; Translator.score, Translator.n_best"
    done = run(sys.executable, "-c", statements)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not bench.reset_peak_memory(torch.device("cpu")), reason="the peak cannot be reset here")
def test_the_peak_of_a_bench_is_its_own(monkeypatch):
    "10: it was that of the process."
    monkeypatch.setattr(bench, "matmul_rate", lambda *_: 1.0)
    used = torch.ones(2**27)
    before = bench.peak_memory(torch.device("cpu"))
    del used
    config = TransformerConfig(300, 16, 2, 1, 1, 32)
    measured = bench.bench(config, batch_tokens=100, steps=1, device="cpu", accelerated=False)
    assert measured["peak_mib"] < before - 256


def test_a_model_can_be_accelerated_while_others_translate_with_it():
    "11: the state of one kind of step met the other."
    model, errors, over = tiny_model(d_model=32, d_ff=64), [], threading.Event()
    expected = model.generate(src, 12, min_new_tokens=11)

    def translate():
        try:
            for _ in range(20):
                assert torch.equal(model.generate(src, 12, min_new_tokens=11), expected)
        except Exception as error:  # reported by the test, in the main thread
            errors.append(error)
        over.set()

    thread = threading.Thread(target=translate)
    thread.start()
    while not over.is_set():
        accelerate(model)
        plain(model)
    thread.join()
    assert not errors


def test_the_averaged_model_has_the_faster_parts(corpus, tmp_path, monkeypatch):
    "12: every validation ran plain, with all logits at once."
    seen, measure = [], Trainer.valid_loss
    watched = lambda self, model: seen.append(fast_parts(model)) or measure(self, model)  # noqa: E731
    monkeypatch.setattr(Trainer, "valid_loss", watched)
    options = [word for word in train(corpus, tmp_path / "run", "--steps=2")[3:] if word != "--plain"]
    assert typed(*options).returncode == 0
    assert seen and all(names == ["ByteDropout"] for names in seen)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_no_gradients_are_computed_where_none_are_wanted(off):
    "12: the loss in pieces computed them all the same."
    output = as_kind(OutputProjection(8, 20), PiecewiseOutput)
    with off(), FlopCounterMode(display=False) as count:
        assert output.loss(torch.randn(2, 3, 8), torch.randint(3, 20, (2, 3))) > 0
    assert count.get_total_flops() == 2 * (2 * 3) * 8 * 20, "more than the one product for the logits"


def test_the_loss_in_pieces_keeps_its_digits_in_bfloat16():
    "13: its softmax was rounded, so that confident tokens had gradients 2 % off."
    torch.manual_seed(0)
    x, targets = torch.randn(1, 64, 32), torch.randint(3, 50, (1, 64))
    output = OutputProjection(32, 50)
    with torch.no_grad():  # p(target) near 0.99
        output.weight.mul_(0.1)
        for token in range(50):
            mean = x[0, targets[0] == token].sum(0)
            output.weight[token] += mean / mean.norm().clamp(min=1e-6) * 1.6

    def gradient(module, dtype):
        z = x.to(torch.float64 if dtype is None else torch.float32, copy=True).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
            module.loss(z, targets, 0.0).backward()
        return z.grad.double()

    exact = gradient(copy.deepcopy(output).double(), None)
    fast = as_kind(output, PiecewiseOutput)
    errors = [float((gradient(module, torch.bfloat16) - exact).norm() / exact.norm()) for module in (output, fast)]
    assert errors[1] < 1.3 * errors[0], errors


def test_torch_func_takes_the_faster_parts():
    "14: RuntimeError, no setup_context."
    torch.manual_seed(0)
    x, targets = torch.randn(4, 80, 256), torch.randint(3, 900, (4, 80))
    output, dropout = OutputProjection(256, 900), torch.nn.Dropout(0.5)
    uses = {
        PiecewiseOutput: (output, lambda layer, z: layer.loss(z, targets[: len(z)])),
        ByteDropout: (dropout, lambda layer, z: layer(z).sum()),
    }
    for kind, (layer, loss) in uses.items():
        found = []
        for version in (layer, as_kind(layer, kind)):
            with torch.random.fork_rng():
                torch.manual_seed(1)
                found.append(torch.func.grad(lambda z, loss=loss, version=version: loss(version, z))(x))
        torch.testing.assert_close(*found)


def test_files_that_another_process_is_writing_stay(tmp_path):
    "15: a training that saved deleted it."
    mine, gone, at_work = (tmp_path / f"{files._marker}x.{pid}.tmp" for pid in (os.getpid(), 2**22 + 1, os.getppid()))
    for path in (mine, gone, at_work):
        path.touch()
    files.remove_leftovers(tmp_path)
    assert [path.exists() for path in (mine, gone, at_work)] == [False, False, True]


def test_score_names_the_line_and_the_side(saved):
    "16: empty lines were not counted."
    text = "\n\none\teins\n\n\none\t" + "eins " * 80 + "\ntwo\tzwei\n"
    done = typed("score", "--model", saved, "--device", "cpu", stdin=text)
    assert done.returncode == 0 and done.stderr.startswith("warning: line 6 has no score: its target has ")
    lines = done.stdout.split("\n")
    assert [bool(line) for line in lines] == [False, False, True, False, False, True, True, False] and lines[5] == "nan"


def test_users_can_add_an_optimizer(monkeypatch):
    "17: the table looked open and was closed."
    def sgd(model, config):
        return torch.optim.SGD(model.parameters(), config.lr)

    monkeypatch.setitem(optimizers, "sgd", sgd)
    batches = TokenBatches(Sequences([[3, 2]] * 4), Sequences([[4, 2]] * 4), 64)
    updater = Updater(tiny_model(), batches, TrainingConfig(steps=1, optimizer="sgd", precision="fp32"), "cpu")
    updater.update(0.0)
    assert isinstance(updater.state.optimizer, torch.optim.SGD)
    with pytest.raises(ValueError, match="optimizer 'sdg' is not known"):
        Updater(tiny_model(), batches, TrainingConfig(steps=1, optimizer="sdg"), "cpu")


def test_the_processor_is_looked_up_only_once(monkeypatch):
    "18: three times in every step of Muon."
    reads, read = [], pathlib.Path.read_text
    monkeypatch.setattr(pathlib.Path, "exists", lambda self: True)
    monkeypatch.setattr(pathlib.Path, "read_text", lambda self, *a, **o: reads.append(self) or "flags: none")
    getattr(devices, "_processor", lambda: None).cache_clear()
    for _ in range(3):
        assert not devices.bf16_pays(torch.device("cpu"))
    monkeypatch.setattr(pathlib.Path, "read_text", read)
    devices._processor.cache_clear()
    assert len(reads) == 1


def test_the_row_of_padding_starts_at_zero_and_then_moves():
    "19: that it is zero, which the first update of a tied model ends."
    batches = TokenBatches(Sequences([[3, 2]] * 4), Sequences([[4, 2]] * 4), 64)
    model = tiny_model()
    assert not model.embedding.weight[0].any() and "starts at zero" in TokenEmbedding.__doc__
    Updater(model, batches, TrainingConfig(steps=1, precision="fp32", warmup=1), "cpu").update(0.0)
    assert model.embedding.weight[0].any()


def test_a_line_that_is_too_long_does_not_stop_the_others(saved, translator):
    "20: nothing of the file was translated."
    text = "one\n" + "two " * 80 + "\nthree\n"
    done = typed("translate", "--model", saved, "--device", "cpu", stdin=text)
    assert done.returncode == 0 and done.stdout.count("\n") == 3
    assert done.stderr.startswith("warning: line 2 has ") and done.stderr.count("\n") == 1
    with pytest.warns(LengthWarning, match="text 2 has "):
        found = translator.translate(text.splitlines())
    with warnings.catch_warnings(action="error"):
        assert [found[0], found[2]] == translator.translate(["one", "three"])


def test_translate_answers_before_the_input_ends(saved):
    "It waited for the end of the file, at a terminal as well."
    process = subprocess.Popen([*cli, "translate", "--model", str(saved), "--device", "cpu"], env=environment(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for source, _ in sentences(3):
        process.stdin.write(f"{source}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    process.stdin.close()
    assert process.wait(60) == 0


def test_a_position_is_refused_by_another_plan():
    "Even one with as many batches."
    sides = Sequences([[3, 2]] * 4), Sequences([[4, 2]] * 4)
    place = TokenBatches(*sides, 64).state_dict()
    TokenBatches(*sides, 64).load_state_dict(place)
    for other in (dict(batch_tokens=65), dict(batch_tokens=64, multiple=8), dict(batch_tokens=64, shuffle=False)):
        with pytest.raises(ValueError, match="use the same as before"):
            TokenBatches(*sides, **other).load_state_dict(place)
