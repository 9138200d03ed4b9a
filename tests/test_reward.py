"""The policy gradient and one update from a verdict."""
import torch

from transformer_nbdev.reward import exact_match, policy_loss, reward_step, token_log_probs
from transformer_nbdev.search import log_probabilities
from transformer_nbdev.transformer import Transformer, TransformerConfig


def small_model(seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig.preset("tiny", 8, d_model=16, d_ff=32, dropout=0.0))


def test_a_rewarded_token_becomes_frequent():
    model = small_model(1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    src = torch.full((4, 2), 5)
    means = []
    for _ in range(20):
        _, rewards = reward_step(model, optimizer, src, lambda ids: (ids[:, 0] == 6).float(), max_new_tokens=4)
        means.append(float(rewards.mean()))
    assert means[0] < 0.5 and means[-1] > 0.8


def test_a_source_that_is_encoded_once_gives_every_target_its_probability():
    model, src = small_model(0), torch.tensor([[3, 4, 2], [5, 2, 0]])
    tgt = torch.tensor([[6, 2, 0], [3, 3, 2], [7, 2, 0], [2, 0, 0]])
    chosen, _ = token_log_probs(model, src, tgt)
    torch.testing.assert_close(chosen.sum(1), log_probabilities(model, src.repeat_interleave(2, 0), tgt))


def test_the_leash_costs_nothing_at_the_start_and_something_elsewhere():
    model, start = small_model(0), small_model(1)
    src, tgt, zeros = torch.tensor([[3, 2]]), torch.tensor([[4, 2], [5, 2]]), torch.zeros(2)
    assert policy_loss(model, src, tgt, zeros, model, 1.0).item() == 0
    assert policy_loss(model, src, tgt, zeros, start, 1.0).item() > 0.01


def test_an_answer_that_equals_what_was_wanted_is_rewarded():
    assert exact_match(["acht", "neun", 3], ["acht", "acht", 3]).tolist() == [1, 0, 1]


def test_references_teach_what_no_verdict_praises():
    model, src = small_model(1), torch.full((2, 2), 5)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    references = src[:1], torch.tensor([[6, 2]])
    for _ in range(20):
        reward_step(model, optimizer, src, lambda ids: torch.zeros(len(ids)), max_new_tokens=4, references=references)
    assert log_probabilities(model, *references).exp().item() > 0.9
