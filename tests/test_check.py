"Planted faults are named; sound models raise no alarm."
import pytest
from planted import faults, loss_with, make, of_losses
from planted import training_loss_with as step_of

from transformer_nbdev.tools.check import check
from transformer_nbdev.tools.probes import Subject
from transformer_nbdev.transformer import Transformer, TransformerConfig

named = {"padding mask": "mask", "future by one": "future"}


def names(report):
    return [finding.name for finding in report.faults]


@pytest.mark.parametrize("structure", faults)
def test_a_sound_model_raises_no_alarm(structure):
    assert names(check(make(structure), loss_with(), pad_id=0, eos_id=2)) == []


@pytest.mark.parametrize("structure,fault", [(s, f) for s in faults for f in faults[s]])
def test_a_planted_fault_is_named(structure, fault):
    assert named.get(fault, fault) in names(check(make(structure, fault), pad_id=0, eos_id=2))


@pytest.mark.parametrize("fault", of_losses)
def test_a_fault_of_the_loss_is_named(fault):
    assert names(check(make("rnn"), loss_with(fault), pad_id=0, eos_id=2)) == [fault]


@pytest.mark.parametrize("fault", [None, "not shifted", "shifted twice"])
def test_the_shift_is_told(fault):
    model = make("gpt")
    found = names(check(model, training_loss=step_of(model, True, fault), pad_id=0, eos_id=2))
    assert found == (["shift"] if fault else [])


def test_our_own_model_is_sound_and_left_as_it_was():
    model = Transformer(TransformerConfig.preset("tiny", 100)).train()
    before = {name: p.clone() for name, p in model.named_parameters()}
    assert names(check(model)) == [] and model.training and model.decoder.training
    assert all(before[name].equal(p) for name, p in model.named_parameters())


def test_what_takes_vectors_is_refused():
    from torch import nn
    with pytest.raises(ValueError, match="takes vectors"):
        Subject(nn.Transformer(16, 2), None, None, None, None)
