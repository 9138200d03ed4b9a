"""Planted faults are named; sound models raise no alarm.

`CHECKS=all` tries every structure with every fault and every sound model; otherwise it is a sample.
"""
import math
import os

import pytest
import torch
import torch.nn.functional as F
from planted import V, arguments, faults, loss_with, make, named, of_losses
from sound_models import hugging, make_sound, ours
from torch import nn

from transformer_nbdev.tools.check import check, made_by
from transformer_nbdev.transformer import Transformer, TransformerConfig

whole = os.environ.get("CHECKS") == "all"
pairs = [(structure, fault) for structure in faults for fault in faults[structure]]
sound = [*ours, *hugging]


def names(report):
    return [finding.name for finding in report.faults]


@pytest.mark.parametrize("structure", faults if whole else ["gpt", "rnn"])
def test_a_sound_structure_raises_no_alarm(structure):
    assert names(check(**arguments(structure))) == []


@pytest.mark.parametrize("name", sound if whole else ["GPT", "Bert", "nn.Transformer", "LlamaForCausalLM"])
def test_a_sound_model_raises_no_alarm(name):
    report = check(make_sound(name))
    assert names(report) == [] and len(report.findings) > 5


@pytest.mark.parametrize("structure,fault", pairs if whole else pairs[::6])
def test_a_planted_fault_is_named(structure, fault):
    report = check(**arguments(structure, fault))
    assert named.get(fault, fault) in names(report)
    assert all(finding.look for finding in report.faults)


@pytest.mark.parametrize("fault,name", [
    ("heads", "heads"), ("queries", "softmax"), ("plain list", "unregistered"), ("probabilities", "logits"),
])
def test_the_first_fault_named_is_the_cause(fault, name):
    assert names(check(**arguments("annotated", fault)))[0] == name


@pytest.mark.parametrize("structure", ["annotated", "gpt"])
def test_a_softmax_over_the_heads_is_named(structure):
    first = check(make(structure, "over heads"), pad_id=0).faults[0]
    assert first.name == "softmax" and "runs over the heads" in first.text


def test_what_was_not_tested_is_in_the_last_line():
    last = str(check(make("torch"), pad_id=0)).splitlines()[-1]
    assert last.startswith("no fault found, but cache, loss and shift were not tested"), last
    assert str(check(**arguments("annotated", "heads"))).count("? future: cannot be told: mend that first") == 1


def test_messages_say_in_which_part_the_fault_is():
    for fault, words in {"positions": "missing in the encoder", "padding": "attention from the decoder"}.items():
        assert any(words in str(finding) for finding in check(**arguments("annotated", fault)).faults), words


@pytest.mark.parametrize("fault", of_losses)
def test_a_fault_of_the_loss_is_named(fault):
    assert names(check(make("rnn"), loss_with(fault), pad_id=0, eos_id=2)) == [fault]


def test_our_own_model_is_sound_and_left_as_it_was():
    model = Transformer(TransformerConfig.preset("tiny", 100)).train()
    before = {name: p.clone() for name, p in model.named_parameters()}
    assert names(check(model, training_loss=lambda src, tgt: model(src, tgt[:, :-1]).logsumexp(-1).sum())) == []
    assert model.training and model.decoder.training
    assert all(before[name].equal(p) and p.grad is None for name, p in model.named_parameters())


class Odd(nn.Module):
    "A model that returns anything, from a vocabulary of which nobody told the size."

    def __init__(self, answer):
        super().__init__()
        self.answer, self.words = answer, nn.Embedding(30, 8)

    def forward(self, ids):
        return self.answer(self.words(ids))


class Tiny(Odd):
    "A causal mean behind a layer scale that starts tiny."

    def __init__(self):
        super().__init__(lambda x: x + self.scale * x.cumsum(1))
        self.places, self.scale, self.out = nn.Embedding(64, 8), nn.Parameter(torch.tensor(1e-7)), nn.Linear(8, 30)

    def forward(self, ids):
        return self.out(self.answer(self.words(ids) + self.places.weight[: ids.shape[1]]))


class Forgetful(Odd):
    "A decoder whose logits depend on the source alone."

    def __init__(self):
        super().__init__(nn.Linear(8, 30))

    def forward(self, src, tgt):
        return super().forward(src).mean(1, keepdim=True) + 0 * self.words(tgt).sum(-1, keepdim=True)


class Headless(Odd):
    "The hidden states of a decoder, whose last layer is called elsewhere."

    def __init__(self):
        super().__init__(lambda x: x)

    def forward(self, src, tgt):
        return self.words(tgt) + self.words(src).mean(1, keepdim=True)


@pytest.mark.parametrize("model,message", [
    (nn.Transformer(16, 2, 1, 1, batch_first=True), "takes vectors"),
    (Odd(lambda x: x.argmax(-1)), "returned torch.int64: it must return logits"),
    (Odd(lambda x: None), "returned NoneType"),
    (Odd(lambda x: x.transpose(0, 1)), r"returned \(5, 1, 8\): it must return logits"),
    (Odd(nn.TransformerEncoderLayer(8, 2, dim_feedforward=8)).train(), None),
    (lambda ids: torch.zeros(1, 5, 9), "vocabulary is unknown: give vocab_size"),
    (lambda src, tgt, src_mask, tgt_mask: src, "needs 4 arguments"),
    (Headless(), "returns 8 numbers per token, but its vocabulary has 30"),
    (Odd(lambda x: x[:, -1:]), "only the last position .* nanoGPT"),
    (Odd, r"is the class Odd: call it"),
])
def test_a_model_that_cannot_be_checked_is_refused_in_a_sentence(model, message):
    if message is None:  # batch_first forgotten: a fault, not a refusal
        assert "neighbors" in names(check(model))
    else:
        with pytest.raises(ValueError, match=message):
            check(model)


def test_ids_out_of_range_and_a_wrong_kind_are_refused():
    with pytest.raises(ValueError, match=r"\(give vocab_size\)"):
        check(make("gpt"), vocab_size=90)
    with pytest.raises(ValueError, match="kind is 'gpt'"):
        check(make("gpt"), kind="gpt")


@pytest.mark.parametrize("given,message", [
    ({"pad_id": 999}, "pad_id 999 is outside the vocabulary of 40"), ({"pad_id": -1}, "pad_id -1 is outside"),
    ({"eos_id": V}, "eos_id 40 is outside"), ({"pad_id": "0"}, "pad_id is '0': it must be an int"),
    ({"pad_id": True}, "pad_id is True"),
])
def test_a_special_id_that_the_vocabulary_does_not_have_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check(make("gpt"), **given)


def test_ids_come_batch_first_and_the_refusal_says_so():
    model = make("annotated")
    with pytest.raises(ValueError, match=r"wrap a model that expects \(T, B\)"):
        check(lambda src, tgt: model(src.T, tgt[:, :1].expand(3, 2)), vocab_size=V)


def step_of(model, gap=1):
    "A training step whose target is so many places later."
    def step(ids):
        read = ids[:, max(0, -gap) : ids.shape[1] - max(0, gap)]
        wanted = ids[:, max(0, gap) : ids.shape[1] + min(0, gap)]
        return F.cross_entropy(model(read).flatten(0, 1), wanted.flatten())
    return step


def last_of(report):
    return next(finding for finding in report.findings if finding.name == "shift")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_shift_is_told_in_half_precision(dtype):
    model = make("gpt").to(dtype)
    assert last_of(check(model, training_loss=step_of(model))).verdict == "sound"


def test_logits_that_are_not_finite_are_no_wrong_loss():
    model = make("gpt")
    model.norm.register_forward_hook(lambda module, args, out: out * math.nan)
    assert "not finite" in last_of(check(model, training_loss=step_of(model))).text


@pytest.mark.parametrize("gap,words", [(-1, "the token 1 place earlier"), (2, "the token 2 places later")])
def test_a_wrong_shift_is_told_with_its_direction(gap, words):
    model = make("gpt")
    finding = last_of(check(model, training_loss=step_of(model, gap)))
    assert words in finding.text and ("Hugging Face" in finding.look) == (gap > 0)


def test_a_tiny_layer_scale_is_no_fault():
    torch.manual_seed(0)
    assert names(check(Tiny())) == []


def test_target_tokens_that_are_ignored_are_named():
    torch.manual_seed(0)
    first = check(Forgetful()).faults[0]
    assert first.name == "reach" and "no target token" in first.text and "residual" in first.look


def test_a_decoder_may_leave_positions_out_on_purpose():
    look = {structure: check(make(structure, "positions")).faults[0].look for structure in ("gpt", "annotated")}
    assert "on purpose" in look["gpt"] and "on purpose" not in look["annotated"]  # an encoder may not


def test_a_step_that_asks_for_the_model_is_refused_with_the_way_to_write_it():
    model = make("gpt")
    with pytest.raises(TypeError, match="lambda ids: training_loss"):
        check(model, training_loss=lambda model, ids: model(ids).sum())


def test_the_function_for_the_command_line_is_found_or_refused(tmp_path, monkeypatch):
    (tmp_path / "mine_41.py").write_text("from torch import nn\nmodel = nn.Linear(2, 2)\ndef make(): return model\n"
                                         "def empty(): pass\ndef odd(): return {'model': make, 'pad': 0}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    assert made_by("mine_41.py:make")["model"] is made_by("mine_41:model")["model"]
    for place, message in {"mine_41": "names no function", "nothing_41:make": "No module named", "mine_41:no": "no",
                           "mine_41:empty": "gave NoneType", "mine_41:odd": "a dict with model, pad"}.items():
        with pytest.raises(ValueError, match=message):
            made_by(place)
