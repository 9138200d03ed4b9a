"Layers, models and their settings refuse what does not fit, in one clear sentence."

import pytest
import torch
from helpers import (
    ids,
    raises,
    refused,
    sizes,
    table,
    tiny_model,
)
from torch import Tensor, nn, randn

from transformer_nbdev.attention import (
    attention,
    check_causal,
    fused_attention,
    padding_mask,
)
from transformer_nbdev.classification import TransformerClassifier
from transformer_nbdev.decoder import DecoderLayer, shift_right
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.encoder import FeedForward
from transformer_nbdev.multi_head import KeyValueCache, MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection, smoothed_cross_entropy
from transformer_nbdev.positional_encoding import LearnedPositionalEncoding, PositionalEncoding
from transformer_nbdev.training import TrainingConfig
from transformer_nbdev.transformer import TransformerConfig

x = randn(2, 4, 8)
long = randn(2, 80, 8)


@table(
    raises("width", lambda f, q: f(q, q[..., :6], q), ValueError, "d_k", 8, 6),
    raises("no width", lambda f, q: f(q[..., :0], q[..., :0], q), ValueError, "d_k", 0),
    raises("length", lambda f, q: f(q, q, q[:, :3]), ValueError, "value", 3),
    raises("batch", lambda f, q: f(q, q[:1].repeat(3, 1, 1), q), ValueError, "(3, ", "(2, "),
    raises("rank", lambda f, q: f(q[0, 0], q[0, 0], q[0, 0]), ValueError, "(8,)"),
    raises("integers", lambda f, q: f(q.long(), q.long(), q.long()), TypeError, "int64"),
    raises("types", lambda f, q: f(q, q.double(), q), TypeError, "float32", "float64"),
    raises("float mask", lambda f, q: f(q, q, q, torch.ones(2, 4, 4)), TypeError, ".bool()"),
    raises("mask shape", lambda f, q: f(q, q, q, torch.ones(2, 4, 5) > 0), ValueError, 5),
    raises("mask rank", lambda f, q: f(q, q, q, torch.ones(1, 1, 1, 1) > 0), ValueError, "mask"),
)
def test_attention(function, kind, words):
    for call in (attention, fused_attention):
        for q in (x, long):
            with refused(kind, *words):
                function(call, q)


layer = MultiHeadAttention(8, 2)
embed = TokenEmbedding(10, 8)


@table(
    raises("heads", lambda: MultiHeadAttention(16, 3), ValueError, "n_heads", 16, 3),
    raises("no head", lambda: MultiHeadAttention(16, 0), ValueError, "n_heads", 0),
    raises("rank", lambda: layer(x[0]), ValueError, "(4, 8)"),
    raises("width", lambda: layer(x[..., :6]), ValueError, 8, 6),
    raises("dtype", lambda: layer(x.double()), TypeError, "float64"),
    raises("integers", lambda: layer(x.long()), TypeError, "int64"),
    raises("memory rank", lambda: layer(x, x[0]), ValueError, "(4, 8)"),
    raises("memory batch", lambda: layer(x, x[:1].repeat(3, 1, 1)), ValueError, 2, 3),
    raises("float mask", lambda: layer(x, mask=torch.ones(4, 4)), TypeError, "bool"),
    raises("mask shape", lambda: layer(x, mask=torch.ones(3, 4) > 0), ValueError, "(3, 4)"),
    raises("full cache", lambda: layer(x, cache=KeyValueCache(3)), ValueError, "max_len", 3, 4),
    raises("memory", lambda: DecoderLayer(8, 2, 16)(x, randn(3, 5, 8)), ValueError, 2, 3),
    raises("float ids", lambda: embed(x[0]), TypeError, "ids", "float32", "ids.long()"),
    raises("small ids", lambda: embed(ids.to(torch.int8)), TypeError, "int8"),
    raises("high id", lambda: embed(torch.tensor([[10]])), ValueError, "vocab_size", 10),
    raises("negative id", lambda: embed(torch.tensor([[-1]])), ValueError, -1),
    raises("odd width", lambda: PositionalEncoding(7), ValueError, "even", 7),
    raises("too long", lambda: PositionalEncoding(8, 3)(x), ValueError, "max_len", 3, 4),
    raises("too late", lambda: PositionalEncoding(8, 9)(x, 6), ValueError, "max_len", 9, 10),
    raises("learned", lambda: LearnedPositionalEncoding(8, 3)(x), ValueError, "max_len"),
    raises("activation", lambda: FeedForward(8, 16, "tanh"), ValueError, "relu", "tanh"),
    raises("dropout", lambda: nn.Dropout(1.5), ValueError, "dropout", 1.5),
    raises("leak in a row", lambda: check_causal(nn.Identity(), x[0]), ValueError, "(4, 8)"),
    raises("leak or dropout", lambda: check_causal(nn.Dropout(0.5), x), ValueError, "eval()"),
    raises("mask of a row", lambda: padding_mask(ids[0]), ValueError, "ids", "(4,)"),
    raises("shifted row", lambda: shift_right(ids[0]), ValueError, "ids", "(4,)"),
    raises("weight", lambda: OutputProjection(8, 9, embed.weight), ValueError, "weight", "(9, 8)"),
)
def test_layers(function, kind, words):
    with refused(kind, *words):
        function()


logits, targets = randn(2, 4, 10), torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])


@table(
    raises("shape", lambda f: f(logits, targets[:1]), ValueError, "logits", "(1, 4)"),
    raises("high target", lambda f: f(logits, targets + 5), ValueError, "targets", 10),
    raises("low target", lambda f: f(logits, targets - 9), ValueError, "targets", -4),
    raises("float target", lambda f: f(logits, targets.float()), TypeError, "targets", "float32"),
    raises("epsilon", lambda f: f(logits, targets, 1.0), ValueError, "epsilon", 1.0),
    raises("reduction", lambda f: f(logits, targets, reduction="x"), ValueError, "reduction", "x"),
)
def test_loss(function, kind, words):
    with refused(kind, *words):
        function(smoothed_cross_entropy)

@table(
    raises("float", lambda m: m(ids.float(), ids), TypeError, "float32", ".long()"),
    raises("rank 1", lambda m: m(ids[0], ids[0]), ValueError, "src", "(4,)"),
    raises("rank 3", lambda m: m(ids, ids[None].repeat(2, 1, 1)), ValueError, "tgt", "(2, 2, 4)"),
    raises("number", lambda m: m(torch.tensor(1), ids), ValueError, "src"),
    raises("high id", lambda m: m(ids + 15, ids), ValueError, "vocab_size", 23),
    raises("negative id", lambda m: m(ids, ids - 9), ValueError, "vocab_size", -9),
    raises("too long", lambda m: m(torch.full((1, 65), 5), ids[:1]), ValueError, "max_len", 64),
    raises("no row", lambda m: m(ids[:0], ids[:0]), ValueError, "src", "(0, 4)"),
    raises("no token", lambda m: m(ids, ids[:, :0]), ValueError, "tgt", "(2, 0)"),
    raises("unpaired", lambda m: m(ids, ids[:1]), ValueError, "src", 2, "tgt", 1),
    raises("memory", lambda m: m.decode(ids, randn(3, 4, 16)), ValueError, 2, 3),
    raises("g: float", lambda m: m.generate(ids.float()), TypeError, "float32", ".long()"),
    raises("g: rank", lambda m: m.generate(ids[0]), ValueError, "src", "(4,)"),
    raises("g: no row", lambda m: m.generate(ids[:0]), ValueError, "src", "(0, 4)"),
    raises("g: none", lambda m: m.generate(ids, 0), ValueError, "max_new_tokens", 0),
    raises("g: long", lambda m: m.generate(ids, 65), ValueError, "max_new_tokens", 64, 65),
    raises("g: limits", lambda m: m.generate(ids, torch.tensor([1, 2, 3])), ValueError, "(3,)"),
    raises("g: min", lambda m: m.generate(ids, 4, 5), ValueError, "min_new_tokens", 5),
    raises("g: beam", lambda m: m.generate(ids, beam_size=0), ValueError, "beam_size", 0),
    raises(
        "g: beams drawn", lambda m: m.generate(ids, beam_size=2, do_sample=True),
        ValueError, "beam_size", 2, "do_sample",
    ),
    raises(
        "g: temperature", lambda m: m.generate(ids, do_sample=True, temperature=0),
        ValueError, "temperature", 0,
    ),
    raises("g: top_k", lambda m: m.generate(ids, do_sample=True, top_k=0), ValueError, "top_k", 0),
    raises(
        "g: top_p", lambda m: m.generate(ids, do_sample=True, top_p=1.5), ValueError, "top_p", 1.5
    ),
)
def test_model(function, kind, words):
    with refused(kind, *words), torch.no_grad():
        function(tiny_model())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_heads": 3}, ["n_heads", 16, 3]),
        ({"d_model": 15, "n_heads": 3}, ["d_model", "even", 15]),
        ({"d_model": 16.0}, ["d_model", 16.0]),
        ({"max_len": 0}, ["max_len", 0]),
        ({"dropout": 1}, ["dropout", 1]),
        ({"activation": "tanh"}, ["activation", "relu", "tanh"]),
        ({"eos_id": 20}, ["eos_id", 20]),
        ({"eos_id": 0}, ["eos_id", 0]),
        ({"vocab_size": 0}, ["vocab_size", 0]),
        ({"max_len": 2**24 + 1}, ["max_len", 2**24 + 1]),
    ],
    ids=lambda o: next(iter(o)) if isinstance(o, dict) else "",
)
def test_model_configuration(options, words):
    with refused(ValueError, *words):
        tiny_model(**options)


def test_unknown_preset():
    with refused(ValueError, "preset", "tiny", "huge"):
        TransformerConfig.preset("huge", 100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0), ("epochs", -1), ("minutes", 0), ("batch_tokens", 0), ("accumulate", 0),
        ("keep", "first"), ("schedule", "cosine"), ("precision", "fp16"), ("lr", 0),
        ("lr", float("nan")), ("warmup", 0), ("warmup", -1), ("beta1", 1.5), ("beta2", -0.1),
        ("eps", -1), ("weight_decay", -0.1), ("clip_norm", -1), ("label_smoothing", 1), ("ema", 1),
        ("ema", -0.5), ("average_last", -1), ("validate_every", -1), ("bleu_sentences", -1),
        ("patience", -1), ("save_every", -1), ("log_every", 0),
    ],
)
def test_training_configuration(name, value):
    with refused(ValueError, name, value):
        TrainingConfig(**{"steps": 5, "schedule": "paper", name: value})


def test_training_needs_an_end():
    with refused(ValueError, "steps", "epochs", "minutes"):
        TrainingConfig()


def padded(model: torch.nn.Module, *batch: Tensor) -> None:
    "Outputs and gradients are finite."
    out = model(*batch)
    assert out.isfinite().all()
    out.square().sum().backward()
    bad = [n for n, p in model.named_parameters() if not p.grad.isfinite().all()]
    assert not bad


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("length", [4, 64])  # plain and fused path (64 · 65 positions with cls)
def test_a_row_of_padding_stays_finite(norm_first, length):
    src = torch.randint(3, 20, (2, length))
    src[1] = 0
    for tgt in (src, torch.randint(3, 20, (2, length))):
        padded(tiny_model(norm_first=norm_first).train(), src, tgt)
    loss = smoothed_cross_entropy(torch.randn(2, length, 20), torch.zeros_like(src))
    assert loss == 0
    config = TransformerConfig(20, **{**sizes, "norm_first": norm_first, "max_len": 65})
    for pooling in ("mean", "cls"):
        padded(TransformerClassifier(config, 3, pooling), src)


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"do_sample": True}], ids=str)
def test_a_row_of_padding_is_translated_to_something(options):
    src = torch.stack([ids[0], torch.zeros(4, dtype=torch.int64)])
    out, scores = tiny_model().generate(src, 6, return_scores=True, **options)
    assert out.shape[0] == 2 and scores.isfinite().all()
    assert ((0 <= out) & (out < 20)).all()
