"What Python refuses: layers, models, losses, searches and settings name the argument, in one line."
import pytest
import torch
from helpers import raises, refused, sizes, table, tiny_model
from torch import Tensor, randn

from transformer_nbdev.attention import attention, check_causal, fused_attention
from transformer_nbdev.classification import TransformerClassifier
from transformer_nbdev.decoder import Decoder
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.encoder import FeedForward
from transformer_nbdev.multi_head import KeyValueCache, MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection, smoothed_cross_entropy
from transformer_nbdev.positional_encoding import PositionalEncoding
from transformer_nbdev.search import beam_search
from transformer_nbdev.training import TrainingConfig
from transformer_nbdev.transformer import GenerationConfig, TransformerConfig

x = randn(2, 4, 8)
ids = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
layer = MultiHeadAttention(8, 2)
embed = TokenEmbedding(10, 8)


@pytest.mark.parametrize("call", [attention, fused_attention])
@table(
    raises("width", lambda f: f(x, x[..., :6], x), ValueError, "d_k", 8, 6),
    raises("length", lambda f: f(x, x, x[:, :3]), ValueError, "value", 3),
    raises("batch", lambda f: f(x, x[:1].repeat(3, 1, 1), x), ValueError, "(3, ", "(2, "),
    raises("types", lambda f: f(x, x.double(), x), TypeError, "float32", "float64"),
    raises("float mask", lambda f: f(x, x, x, torch.ones(2, 4, 4)), TypeError, ".bool()"),
    raises("mask shape", lambda f: f(x, x, x, torch.ones(2, 4, 5) > 0), ValueError, 5),
)
def test_attention(call, function, kind, words):
    with refused(kind, *words):
        function(call)


logits = randn(2, 4, 10)


@table(
    raises("heads", lambda: MultiHeadAttention(16, 3), ValueError, "n_heads", 16, 3),
    raises("rank", lambda: layer(x[0]), ValueError, "(4, 8)"),
    raises("width", lambda: layer(x[..., :6]), ValueError, 8, 6),
    raises("mask shape", lambda: layer(x, mask=torch.ones(3, 4) > 0), ValueError, "(3, 4)"),
    raises("full cache", lambda: layer(x, cache=KeyValueCache(3)), ValueError, "max_len", 3, 4),
    raises("decoder mask", lambda: Decoder(1, 8, 2, 16)(x, x[:, :3], torch.ones(4, 4) > 0), ValueError, "(4, 4)"),
    raises("float ids", lambda: embed(x[0]), TypeError, "ids", "float32", "ids.long()"),
    raises("high id", lambda: embed(torch.tensor([[10]])), ValueError, "vocab_size", 10),
    raises("odd width", lambda: PositionalEncoding(7), ValueError, "even", 7),
    raises("too long", lambda: PositionalEncoding(8, 3)(x), ValueError, "max_len", 3, 4),
    raises("activation", lambda: FeedForward(8, 16, "tanh"), ValueError, "relu", "tanh"),
    raises("leak or dropout", lambda: check_causal(torch.nn.Dropout(0.5), x), ValueError, "eval()"),
    raises("weight", lambda: OutputProjection(8, 9, embed.weight), ValueError, "weight", "(9, 8)"),
    raises("targets", lambda: smoothed_cross_entropy(logits, ids[:1]), ValueError, "logits", "(1, 4)"),
    raises("high target", lambda: smoothed_cross_entropy(logits, ids + 5), ValueError, "targets", 10),
    raises("epsilon", lambda: smoothed_cross_entropy(logits, ids, 1.0), ValueError, "epsilon", 1.0),
)
def test_layers_and_loss(function, kind, words):
    with refused(kind, *words):
        function()


sampled = {"do_sample": True}


@table(
    raises("float", lambda m: m(ids.float(), ids), TypeError, "float32", ".long()"),
    raises("one row", lambda m: m(ids[0], ids[0]), ValueError, "src", "(4,)"),
    raises("high id", lambda m: m(ids + 15, ids), ValueError, "vocab_size", 23),
    raises("too long", lambda m: m(torch.full((1, 65), 5), ids[:1]), ValueError, "max_len", 64),
    raises("no row", lambda m: m(ids[:0], ids[:0]), ValueError, "src", "(0, 4)"),
    raises("unpaired", lambda m: m(ids, ids[:1]), ValueError, "src", 2, "tgt", 1),
    raises("generate: nothing", lambda m: m.generate(ids, 0), ValueError, "max_new_tokens", 0),
    raises("generate: long", lambda m: m.generate(ids, 65), ValueError, "max_new_tokens", 64, 65),
    raises("generate: min", lambda m: m.generate(ids, 4, 5), ValueError, "min_new_tokens", 5),
    raises("beam", lambda m: m.generate(ids, beam_size=0), ValueError, "beam_size", 0),
    raises("beam drawn", lambda m: m.generate(ids, beam_size=2, **sampled), ValueError, "beam_size", 2, "do_sample"),
    raises("temperature", lambda m: m.generate(ids, temperature=0, **sampled), ValueError, "temperature", 0),
    raises("top_k", lambda m: m.generate(ids, top_k=0, **sampled), ValueError, "top_k", 0),
    raises("top_p", lambda m: m.generate(ids, top_p=1.5, **sampled), ValueError, "top_p", 1.5),
    raises("length penalty", lambda m: beam_search(m, ids, length_penalty=99.0), ValueError, "length_penalty", 99),
    raises("kept penalty", lambda m: GenerationConfig(length_penalty=99.0), ValueError, "length_penalty", 99),
)
def test_model_and_search(function, kind, words):
    with refused(kind, *words), torch.no_grad():
        function(tiny_model())


@pytest.mark.parametrize(("options", "words"), [
    ({"n_heads": 3}, ["n_heads", 16, 3]),
    ({"d_model": 15, "n_heads": 3}, ["d_model", "even", 15]),
    ({"dropout": 1}, ["dropout", 1]),
    ({"activation": "tanh"}, ["activation", "relu", "tanh"]),
    ({"vocab_size": 0}, ["vocab_size", 0]),
], ids=str)
def test_settings_of_a_model(options, words):
    with refused(ValueError, *words):
        tiny_model(**options)


def test_unknown_preset():
    with refused(ValueError, "preset", "tiny", "huge"):
        TransformerConfig.preset("huge", 100)


@pytest.mark.parametrize(("name", "value"), [
    ("steps", 0), ("minutes", 0), ("batch_tokens", 0), ("schedule", "cosine"), ("precision", "fp16"), ("lr", 0),
    ("lr", float("nan")), ("warmup", 0), ("eps", 0), ("label_smoothing", 1), ("ema", 1), ("patience", -1),
])
def test_settings_of_a_training(name, value):
    with refused(ValueError, name, value):
        TrainingConfig(**{"steps": 5, "schedule": "paper", name: value})


def test_a_training_needs_an_end():
    with refused(ValueError, "steps", "epochs", "minutes"):
        TrainingConfig()


# A row of nothing but padding is odd, but it is not refused.


def check_finite(model: torch.nn.Module, *batch: Tensor) -> None:
    "Outputs and gradients are finite."
    out = model(*batch)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert [n for n, p in model.named_parameters() if not p.grad.isfinite().all()] == []


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("length", [4, 64])  # plain and fused attention
def test_a_row_of_padding_stays_finite(norm_first, length):
    src = torch.randint(3, 20, (2, length))
    src[1] = 0
    for tgt in (src, torch.randint(3, 20, (2, length))):
        check_finite(tiny_model(norm_first=norm_first).train(), src, tgt)
    config = TransformerConfig(20, **{**sizes, "norm_first": norm_first, "max_len": 65})
    for pooling in ("mean", "cls"):
        check_finite(TransformerClassifier(config, 3, pooling), src)


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"do_sample": True}], ids=str)
def test_a_row_of_padding_is_translated_to_something(options):
    src = torch.stack([ids[0], torch.zeros(4, dtype=torch.int64)])
    out, scores = tiny_model().generate(src, 6, return_scores=True, **options)
    assert out.shape[0] == 2 and scores.isfinite().all()
