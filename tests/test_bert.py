"Our Bert against the transformers library: the same hidden states, logits, loss gradients, in float64."
import pytest
import torch
import torch.nn.functional as F

from transformer_nbdev.bert import Bert, MaskedLM, bert_weights, mask_tokens

transformers = pytest.importorskip("transformers")


def draw_pair(seed: int):
    "A random small configuration, their masked model with random weights, and a padded batch with token types."
    pick = torch.Generator().manual_seed(seed)

    def among(*values):
        return values[int(torch.randint(len(values), (), generator=pick))]

    heads, width = among(1, 2, 4), among(4, 8)
    config = transformers.BertConfig(
        vocab_size=among(11, 30), hidden_size=heads * width, num_attention_heads=heads,
        num_hidden_layers=among(1, 2, 3), intermediate_size=among(8, 20), max_position_embeddings=among(9, 16),
        type_vocab_size=among(1, 2, 3), layer_norm_eps=among(1e-12, 1e-5), hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.5,
    )
    torch.manual_seed(seed)
    theirs = transformers.BertForMaskedLM(config).double().eval()
    for name, parameter in theirs.named_parameters():  # biases too: as made, they are zero
        if "bias" in name or "LayerNorm" in name:
            torch.nn.init.normal_(parameter, mean=0.3, std=0.5)
    ids = torch.randint(1, config.vocab_size, (3, 9), generator=pick)
    ids[1, 6:] = ids[2, 4:] = 0
    return theirs, ids, torch.randint(config.type_vocab_size, (3, 9), generator=pick)


@pytest.mark.parametrize("seed", range(5))
def test_hidden_states_logits_and_gradients_are_those_of_transformers(seed):
    theirs, ids, types = draw_pair(seed)
    ours = MaskedLM.from_bert(theirs)
    real = ids != 0
    arguments = dict(input_ids=ids, attention_mask=real.long(), token_type_ids=types)
    hidden = theirs.bert(**arguments).last_hidden_state
    assert (ours.bert(ids, types) - hidden)[real].abs().max() <= 1e-9
    base = transformers.BertModel(theirs.config).double().eval()
    base.load_state_dict(theirs.bert.state_dict(), strict=False)  # all but the pooler
    assert (Bert.from_bert(base)(ids, types) - hidden)[real].abs().max() <= 1e-9
    logits = theirs(**arguments).logits
    assert (ours(ids, types) - logits)[real].abs().max() <= 1e-9
    F.cross_entropy(logits[real], ids[real]).backward()
    F.cross_entropy(ours(ids, types)[real], ids[real]).backward()
    expected = bert_weights({name: p.grad for name, p in theirs.named_parameters()})
    found = {name: p.grad for name, p in ours.named_parameters()}
    assert {*found} == {*expected}
    assert max((found[name] - expected[name]).abs().max() for name in found) <= 1e-9


def test_what_it_cannot_load_is_refused():
    theirs, _, _ = draw_pair(0)
    theirs.config.hidden_act = "relu"
    with pytest.raises(ValueError, match="gelu"):
        Bert.from_bert(theirs.bert)
    with pytest.raises(ValueError, match="BertForMaskedLM"):
        MaskedLM.from_bert(draw_pair(0)[0].bert)


def test_masking_keeps_its_shares_and_leaves_special_tokens():
    torch.manual_seed(0)
    ids = torch.randint(3, 103, (500, 200))
    ids[:, 0], ids[:, 150:] = 1, 0
    shown, targets = mask_tokens(ids, mask_id=2, vocab_size=103, n_special=3)
    chosen = targets != 0
    assert torch.equal(targets[chosen], ids[chosen]) and torch.equal(shown[~chosen], ids[~chosen])
    assert not chosen[:, 0].any() and not chosen[:, 150:].any()
    assert abs(chosen[:, 1:150].float().mean() - 0.15) < 0.01
    assert abs((shown[chosen] == 2).float().mean() - 0.8) < 0.02
    assert abs((shown[chosen] == ids[chosen]).float().mean() - 0.101) < 0.02
