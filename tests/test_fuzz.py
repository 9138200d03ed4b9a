"Random shapes: both attentions agree, also about what they refuse."
import random

import pytest
import torch

from transformer_nbdev.attention import attention, fused_attention

lengths = [0, 1, 2, 3, 5, 70]


def test_both_attentions_agree_on_random_shapes():
    good = 0
    for seed in range(300):
        torch.manual_seed(seed)
        rng = random.Random(seed)
        n, t, s, d, v = (rng.choice(lengths) for _ in range(5))
        inputs = 3 * torch.randn(n, t, d), 3 * torch.randn(n, s, d), 3 * torch.randn(n, s, v)
        of_mask = [rng.choice([i, i, i, 1]) for i in (n, t, s)][rng.randint(0, 2) :]
        mask, causal = torch.rand(of_mask) < 0.7 if rng.random() < 0.7 else None, rng.random() < 0.3
        try:
            plain, weights = attention(*inputs, mask, causal)
        except ValueError:
            with pytest.raises(ValueError):
                fused_attention(*inputs, mask, causal)
            continue
        good += 1
        torch.testing.assert_close(plain, fused_attention(*inputs, mask, causal), rtol=5e-5, atol=5e-5)
        assert plain.isfinite().all() and weights.isfinite().all()
    assert good > 100
