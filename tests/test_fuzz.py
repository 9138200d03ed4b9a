"Random shapes and types: finite results or a refusal in words."
import functools
import random

import pytest
import torch
from helpers import (
    tiny_model,
)
from torch import Tensor

from transformer_nbdev.attention import (
    attention,
    fused_attention,
)
from transformer_nbdev.multi_head import MultiHeadAttention

lengths, types = [0, 1, 2, 3, 5, 70], [torch.float32, torch.float64, torch.bfloat16, torch.int64]


def some_tensor(rng: random.Random, *shape: int) -> Tensor:
    "Mostly this shape and float32; now and then another size, rank or type."
    sizes = [rng.choice(lengths) if rng.random() < 0.05 else n for n in shape]
    if rng.random() < 0.05:
        sizes = sizes[1:] if rng.random() < 0.5 else [2, *sizes]
    return (3 * torch.randn(sizes)).to(rng.choice(types) if rng.random() < 0.1 else torch.float32)


def some_mask(rng: random.Random, *shape: int) -> Tensor | None:
    "None, or a random mask that broadcasts to the shape, mostly."
    if rng.random() < 0.3:
        return None
    sizes = [rng.choice([n, n, 1]) for n in shape][rng.randint(0, len(shape)) :]
    if rng.random() < 0.1:
        sizes = [rng.choice(lengths) for _ in sizes]
    mask = torch.rand(sizes) < 0.7
    return mask.float() if rng.random() < 0.05 else mask


def some_attention(rng: random.Random) -> list[Tensor]:
    "Both functions must agree, also about what they refuse."
    n, t, s, d, v = (rng.choice(lengths) for _ in range(5))
    inputs = some_tensor(rng, n, t, d), some_tensor(rng, n, s, d), some_tensor(rng, n, s, v)
    mask, causal = some_mask(rng, n, t, s), rng.random() < 0.3
    results = []
    for call in (attention, fused_attention):
        try:
            results.append(call(*inputs, mask, causal))
        except (ValueError, TypeError) as error:
            results.append(error)
    if isinstance(results[0], Exception):
        assert type(results[0]) is type(results[1]), "one refuses what the other takes"
        raise results[0]
    (plain, weights), fused = results
    near = {torch.bfloat16: 0.05, torch.float32: 5e-5}.get(plain.dtype, 1e-7)
    torch.testing.assert_close(plain, fused, equal_nan=True, rtol=near, atol=near)
    return [plain, weights, fused]


def some_multi_head(rng: random.Random) -> list[Tensor]:
    d, n = rng.choice([4, 6, 8]), rng.choice(lengths)
    t, s, heads = rng.choice(lengths), rng.choice(lengths), rng.choice([1, 2, 3, 4])
    memory = some_tensor(rng, n, s, d) if rng.random() < 0.5 else None
    mask = some_mask(rng, n, heads, t, t if memory is None else s)
    layer = MultiHeadAttention(d, heads, bias=rng.random() < 0.5)
    query, causal, need = some_tensor(rng, n, t, d), rng.random() < 0.3, rng.random() < 0.5
    out = layer(query, memory, mask, causal, need_weights=need)
    return list(out) if need else [out]


def some_ids(rng: random.Random, rows: int) -> Tensor:
    shape = (rows if rng.random() < 0.9 else rng.choice(lengths), rng.choice(lengths))
    drawn = torch.randint(0, 20 if rng.random() < 0.9 else 25, shape)
    if rng.random() < 0.05:
        drawn = drawn.flatten() if rng.random() < 0.5 else drawn[None]
    if rng.random() < 0.1:
        drawn = drawn.to(rng.choice([torch.int32, torch.int16, torch.bool, torch.float32]))
    return drawn


def some_transformer(rng: random.Random) -> list[Tensor]:
    options = {
        "d_model": rng.choice([4, 6, 8, 8]), "n_heads": rng.choice([1, 2, 2, 2, 2, 2, 3]),
        "norm_first": rng.random() < 0.5, "tie_embeddings": rng.random() < 0.5,
        "activation": rng.choice(["relu", "gelu", "silu"]), "bias": rng.random() < 0.5,
        "max_len": rng.choice([3, 80, 80, 80]),
    }
    model, rows = tiny_model(rng.randrange(99), **options), rng.choice([0, 1, 2, 3, 5, 70])
    src, tgt = some_ids(rng, rows), some_ids(rng, rows)
    new, beams = rng.choice([0, *[1, 3, 5] * 5]), rng.choice([0, *[1, 2, 30] * 5])
    return [*model.generate(src, new, beam_size=beams, return_scores=True), model(src, tgt)]


@functools.cache
def fuzz(draw) -> tuple[int, list[str], list[str]]:
    "Of 300 random cases: how many went well, and where a result was not finite or an error bare."
    good, infinite, bare = 0, [], {}
    for seed in range(300):
        torch.manual_seed(seed)
        try:
            with torch.no_grad():
                if all(result.isfinite().all() for result in draw(random.Random(seed))):
                    good += 1
                else:
                    infinite.append(f"seed {seed}")
        except (ValueError, TypeError):
            pass
        except Exception as error:
            bare.setdefault(f"{type(error).__name__}: {error}"[:150], f"seed {seed}")
    return good, infinite, [f"{where}: {error}" for error, where in bare.items()]


draws = pytest.mark.parametrize("draw", [some_attention, some_multi_head, some_transformer])


@draws
def test_random_shapes_and_types_give_finite_results(draw):
    good, infinite, _ = fuzz(draw)
    assert not infinite
    assert good > 60, f"only {good} of 300 random cases were good ones: draw others"


@draws
def test_random_shapes_and_types_are_refused_in_words(draw):
    assert not fuzz(draw)[2]
