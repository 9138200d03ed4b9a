"""The policy gradient and one update from a verdict."""
import torch

from transformer_nbdev.reward import reward_step
from transformer_nbdev.transformer import Transformer, TransformerConfig


def test_a_rewarded_token_becomes_frequent():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig.preset("tiny", 8, d_model=16, d_ff=32, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    src = torch.full((4, 2), 5)
    means = []
    for _ in range(40):
        _, rewards = reward_step(model, optimizer, src, lambda ids: (ids[:, 0] == 6).float(), max_new_tokens=4)
        means.append(float(rewards.mean()))
    assert means[0] < 0.5 and means[-1] > 0.9
