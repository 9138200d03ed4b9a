"Details that are easy to break unnoticed: defaults, first values, edges of ranges."
import inspect
import io
import json
import sys
import threading

import numpy as np
import pytest
import torch
from helpers import run, sentences, sizes, tiny_model

import transformer_nbdev
from transformer_nbdev.attention import attention, fused_attention
from transformer_nbdev.cli import cli
from transformer_nbdev.convert.marian import from_marian, to_marian
from transformer_nbdev.data import Tokenizer, _encode
from transformer_nbdev.optimisation import linear_schedule
from transformer_nbdev.output_loss import OutputProjection
from transformer_nbdev.speed import bench as performance
from transformer_nbdev.tools import devices
from transformer_nbdev.tools.diagnoses import _sorted, formula, relation
from transformer_nbdev.tools.exercises import Exercise
from transformer_nbdev.tools.files import Progress, cache_folder, say
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import TransformerConfig
from transformer_nbdev.translator import Translator


def trainer(folder=None, quiet=True, valid=None, **config) -> Trainer:
    config = TrainingConfig(precision="fp32", steps=2, log_every=1, batch_tokens=200, **config)
    return Trainer.from_pairs(sentences(40), config, folder, valid, "tiny", 280, "cpu", quiet=quiet, **sizes)


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


def test_progress_ends_with_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # there is a bar instead
    progress = Progress()
    progress.update(0.5, "too early for a line")
    progress.update(1.0, "the end")
    assert sys.stderr.getvalue().splitlines() == ["100%       0 s,     0 s left  the end"]


def test_relations_say_what_was_found_of_what_was_expected():
    right = [np.array([1.0, 2.0, 0.0]), np.array([3.0, 0.0, 5.0])]
    assert "it is 2 times the right result" in relation([2 * x for x in right], right)
    assert relation([2 * x + (x == 0) for x in right], right) is None  # not a factor: something where 0 belongs
    assert relation(["a"], ["b"]) is None
    exercise = Exercise("double", lambda x: 2 * x, lambda rng: (rng.random(3),), {})
    assert "it is 2 times the right result" in exercise.diagnose(lambda x: 4 * x)
    pair = Exercise("pair", lambda x: (x, 2 * x), lambda rng: (rng.random(3),), {})
    assert "part 2 of the result: it is 2 times the right result" in pair.diagnose(lambda x: (x, 4 * x))


def test_formulas_need_enough_cases_and_few_names():
    cases = [(2, 3), (4, 5), (3, 7), (5, 2)]
    areas = [a * b for a, b in cases]
    wrong = [x + a for x, (a, _) in zip(areas, cases)]
    assert formula(wrong, areas, ["a", "b"], cases) == "it is too large by a, in every case"
    assert formula(wrong[:3], areas[:3], ["a", "b"], cases[:3]) is None
    assert formula(wrong, areas, [*"abcdef"], [(*case, 1, 1, 1, 1) for case in cases]) is None
    assert formula(["a"] * 4, areas, ["a", "b"], cases) is None


def test_rows_are_sorted_up_to_rounding():
    rows = np.array([[1.0, 3.0], [1.0 + 1e-8, 2.0]])
    assert np.allclose(_sorted(rows, 0)[:, 1], [2.0, 3.0])


def test_fewer_queries_than_keys_see_the_same_whatever_the_width():
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 5, 5), torch.randn(2, 5, 5)  # width = number of keys
    slow = attention(query, key, value, causal=True)[0]
    assert torch.allclose(fused_attention(query, key, value, causal=True), slow, atol=1e-6)


def test_a_warm_up_of_one_update_ends_with_it():
    assert linear_schedule(1, 0.0, 2.0, 1) == linear_schedule(1, 0.0, 2.0, 0) == 2.0


def test_texts_are_encoded_block_by_block_and_all_of_them():
    tokenizer = Tokenizer.train(["one two three"], 280)
    texts = [f"one {n}" for n in range(7)]
    assert [*_encode(texts, tokenizer, block=3)] == [ids + [tokenizer.eos_id] for ids in tokenizer.encode_batch(texts)]


def test_batches_may_hold_a_single_position():
    tokenizer = Tokenizer.train([text for pair in sentences(40) for text in pair], 280)
    translator = Translator(tiny_model(vocab_size=tokenizer.vocab_size), tokenizer)
    texts = ["one two", "three", "four four zero"]
    assert translator.translate(texts, max_tokens=1) == translator.translate(texts)


def test_defaults_are_the_papers_and_the_documented_ones():
    for name in ("Encoder", "EncoderLayer", "Decoder", "DecoderLayer", "TransformerConfig", "MultiHeadAttention"):
        parameters = inspect.signature(getattr(transformer_nbdev, name)).parameters
        assert name == "MultiHeadAttention" or parameters["dropout"].default == 0.1, name
    config = TrainingConfig(steps=1)
    assert (config.beta1, config.beta2, config.eps, config.label_smoothing) == (0.9, 0.98, 1e-9, 0.1)
    assert config.save_every == 500


def test_marian_folders_without_some_values(tmp_path):
    model = tiny_model(output_bias=True)
    model.generation.force_end = True
    to_marian(model, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    values = json.loads(path.read_text())
    for name in ("dropout", "forced_eos_token_id"):  # newer folders have the second in generation_config.json
        values.pop(name, None)
    path.write_text(json.dumps(values))
    found = from_marian(tmp_path / "model")
    assert found.config.dropout == 0.1 and found.generation.force_end


def test_a_ctranslate2_folder_without_its_longest_text(tmp_path):
    pytest.importorskip("ctranslate2")
    from transformer_nbdev.convert.ctranslate2 import CTranslate2Translator, to_ctranslate2

    tokenizer = Tokenizer.train(["one two three"], 280)
    to_ctranslate2(tiny_model(vocab_size=tokenizer.vocab_size), tmp_path / "model", tokenizer)
    path = tmp_path / "model" / "config.json"
    values = json.loads(path.read_text())
    assert CTranslate2Translator(tmp_path / "model").max_len == values.pop("max_len") != 512
    path.write_text(json.dumps(values))
    assert CTranslate2Translator(tmp_path / "model").max_len == 512


def test_only_the_last_piece_of_a_path_has_a_head():
    from matplotlib import pyplot as plt

    from transformer_nbdev.tools.drawing import flow

    axes = plt.figure().add_subplot()
    flow(axes, {"a": (0, 0)}, [("a", (1, 0), (1, 1))])
    patches = [note.arrow_patch for note in axes.texts if getattr(note, "arrowprops", None)]
    assert [type(patch.get_arrowstyle()).__name__ for patch in patches] == ["Curve", "CurveFilledB"]
    plt.close("all")


def test_what_is_true_or_false_has_two_options():
    options = {option for parameter in cli.commands["train"].params for option in parameter.secondary_opts}
    assert {"--no-bias", "--no-norm-first", "--no-compile"} <= options




def test_downloads_lie_in_the_home_folder_unless_told_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("TRANSFORMER_NBDEV_CACHE", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "transformer_nbdev"
    monkeypatch.setenv("TRANSFORMER_NBDEV_CACHE", "elsewhere")
    assert str(cache_folder()) == "elsewhere"


def test_loading_and_translating_does_not_import_the_compiler_of_pytorch(saved):
    program = f"from transformer_nbdev import Translator; Translator.from_pretrained({str(saved)!r}).translate(['one'])"
    done = run(sys.executable, "-c", f"import sys; {program}; sys.exit('torch._dynamo' in sys.modules)")
    assert done.returncode == 0, "it takes longer than the rest of the start"


def test_the_rate_is_operations_a_second(monkeypatch):
    monkeypatch.setattr(performance, "seconds_of", lambda call, *_: 0.5)
    assert performance.matmul_rate() == 2 * 1536**3 / 0.5


tiny_bench = dict(config=TransformerConfig(300, 16, 2, 1, 1, 32), batch_tokens=100, steps=1, device="cpu")


@pytest.mark.skipif(not performance.reset_peak_memory(torch.device("cpu")), reason="the peak cannot be reset here")
def test_the_peak_of_a_bench_is_its_own(monkeypatch):
    monkeypatch.setattr(performance, "matmul_rate", lambda *_: 1.0)
    used = torch.ones(2**27)
    before = performance.peak_memory(torch.device("cpu"))
    del used
    assert performance.bench(**tiny_bench, accelerated=False)["peak_mib"] < before - 256


def test_a_peak_that_cannot_be_reset_is_not_told(monkeypatch):
    monkeypatch.setattr(performance, "matmul_rate", lambda *_: 1.0)
    monkeypatch.setattr(performance, "reset_peak_memory", lambda device: False)
    assert performance.bench(**tiny_bench, accelerated=False)["peak_mib"] is None


@pytest.mark.parametrize(
    ("told", "usable", "pays"),
    [
        ("vendor_id: GenuineIntel, flags: avx512_bf16 amx_bf16", True, True),
        ("vendor_id: GenuineIntel, flags: avx512_bf16", True, False),  # slower than float32
        ("vendor_id: AuthenticAMD, flags: avx512_bf16", True, True),
        ("vendor_id: AuthenticAMD, flags: avx512_bf16", False, False),  # ONEDNN_MAX_CPU_ISA=AVX2
        ("vendor_id: AuthenticAMD, flags: avx2", False, False),
    ],
)
def test_bfloat16_where_the_chip_is_faster_at_it(monkeypatch, told, usable, pays):
    monkeypatch.setattr(devices, "_processor", lambda: told)
    monkeypatch.setattr(devices, "onednn_takes", lambda dtype: usable)
    assert devices.bf16_pays(torch.device("cpu")) is pays


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
