"""The fit of a law, speculative decoding and low-rank updates."""
import copy

import pytest
import torch

from transformer_nbdev.scale import ScalingLaw, add_low_rank, keep_or_replace, speculative_step
from transformer_nbdev.transformer import Transformer, TransformerConfig


@pytest.mark.parametrize("floor", [None, 1.5])
def test_a_fit_finds_the_law_that_made_the_losses(floor):
    law = ScalingLaw(1.5, 300.0, 0.6, 90.0, 0.4)
    runs = [(n, d, law(n, d)) for n in (3e3, 1e4, 4e4) for d in (3e4, 1e5, 3e5)]
    assert ScalingLaw.fit(runs, floor) == pytest.approx(law, rel=1e-3)


def test_no_other_size_is_better_for_a_budget():
    law = ScalingLaw(1.5, 300.0, 0.6, 90.0, 0.4)
    n, d = law.best_size(1e11)
    assert 6 * n * d == pytest.approx(1e11)
    assert law(n, d) < min(law(0.9 * n, d / 0.9), law(1.1 * n, d / 1.1))


def test_a_kept_or_replaced_guess_has_the_distribution_of_the_target():
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.7, 0.1])
    luck = torch.Generator().manual_seed(0)
    guesses = torch.multinomial(q, 4000, replacement=True, generator=luck)
    tokens = torch.cat([keep_or_replace(guess[None], p, q, luck) for guess in guesses])
    torch.testing.assert_close(tokens.bincount() / 4000, p, atol=0.03, rtol=0)


def test_a_step_gives_the_pairs_of_the_target_their_probabilities():
    torch.manual_seed(0)
    tables = {"target": torch.randn(3, 3), "draft": torch.randn(3, 3)}  # the next token depends on the last
    target, draft = (lambda ids, name=name: tables[name][ids] for name in tables)
    luck, start = torch.Generator().manual_seed(0), torch.tensor([[0]])
    p, counts = tables["target"].softmax(-1), torch.zeros(3, 3)
    for _ in range(3000):
        ids = speculative_step(target, draft, start, 2, luck)
        if ids.shape[1] == 2:
            ids = speculative_step(target, draft, ids, 2, luck)
        counts[ids[0, 1], ids[0, 2]] += 1
    torch.testing.assert_close(counts / 3000, p[0][:, None] * p, atol=0.04, rtol=0)


def test_a_perfect_draft_is_always_kept():
    table = torch.randn(3, 3)
    assert speculative_step(lambda ids: table[ids], lambda ids: table[ids], torch.tensor([[0]]), 4).shape == (1, 6)


def test_low_rank_updates_change_nothing_at_first_and_train_little():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig.preset("tiny", 20, d_model=16, d_ff=32, dropout=0.0))
    adapted, src, tgt = copy.deepcopy(model), torch.tensor([[3, 4, 2]]), torch.tensor([[5, 2]])
    add_low_rank(adapted, 1)
    torch.testing.assert_close(adapted.loss(src, tgt), model.loss(src, tgt))
    adapted.loss(src, tgt).backward()
    trained = [name for name, p in adapted.named_parameters() if p.grad is not None]
    assert trained and all(name.endswith((".up", ".down")) for name in trained)
