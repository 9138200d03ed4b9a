"What a user can get wrong ends in one clear sentence, and nothing already written is lost."
import contextlib
import errno
import functools
import gzip
import hashlib
import http.server
import json
import os
import random
import resource
import subprocess
import threading
from pathlib import Path

import pytest
import torch
from helpers import (
    cli,
    environment,
    refused,
    sentences,
    sizes,
    tiny_model,
    train_options,
)
from torch import Tensor, nn, randn

from transformer_nbdev import data
from transformer_nbdev.attention import (
    attention,
    check_causal,
    fused_attention,
    padding_mask,
)
from transformer_nbdev.classification import TransformerClassifier
from transformer_nbdev.data import (
    Report,
    TokenBatches,
    Tokenizer,
    encode_pairs,
    number_pairs,
    number_split,
    read_lines,
    read_parallel,
    read_tsv,
)
from transformer_nbdev.decoder import DecoderLayer, shift_right
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.encoder import FeedForward
from transformer_nbdev.inference import Translator, corpus_scores
from transformer_nbdev.multi_head import KeyValueCache, MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection, smoothed_cross_entropy
from transformer_nbdev.positional_encoding import LearnedPositionalEncoding, PositionalEncoding
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer, TransformerConfig

ids = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])


def raises(case: str, function, kind, *words):
    "One row of a table: a name, a call that must be refused, the error, words of its message."
    return pytest.param(function, kind, words, id=case)


def table(*rows):
    "A test for each row."
    return pytest.mark.parametrize(("function", "kind", "words"), rows)


# Layers ------------------------------------------------------------------------------------------

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


# Models ------------------------------------------------------------------------------------------


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
        ("optimizer", "sgd"), ("schedule", "cosine"), ("precision", "fp16"), ("lr", 0),
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


# Fuzz --------------------------------------------------------------------------------------------

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


# Model folders -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    "A folder with a model and its tokenizer."
    folder = tmp_path_factory.mktemp("saved")
    tokenizer = Tokenizer.train([s for pair in sentences(60) for s in pair], 280)
    Translator(tiny_model(vocab_size=tokenizer.vocab_size), tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture
def copied(saved, tmp_path) -> Path:
    "A copy to damage."
    folder = tmp_path / "copied"
    folder.mkdir()
    for path in saved.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    "All files under a folder."
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def edit(folder: Path, **values) -> None:
    "Change config.json; None removes a field."
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def foreign_weights(folder: Path) -> None:
    tiny_model(vocab_size=30).save_pretrained(folder / "other")
    os.replace(folder / "other" / "model.safetensors", folder / "model.safetensors")


def cut(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


damages = {
    "no config": (lambda f: (f / "config.json").unlink(), ["config.json", "model folder"]),
    "config cut": (lambda f: cut(f / "config.json", 0.5), ["config.json"]),
    "config empty": (lambda f: cut(f / "config.json", 0), ["config.json"]),
    "config a list": (lambda f: (f / "config.json").write_text("[1]"), ["config.json"]),
    "config a number": (lambda f: (f / "config.json").write_text("5"), ["config.json"]),
    "config binary": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), ["config.json"]),
    "config of others": (lambda f: edit(f, model_type="marian"), ["config.json"]),
    "field unknown": (lambda f: edit(f, rotary=True), ["config.json", "rotary"]),
    "field missing": (lambda f: edit(f, vocab_size=None), ["config.json", "vocab_size"]),
    "field wrong": (lambda f: edit(f, d_model="wide"), ["config.json", "d_model", "wide"]),
    "field impossible": (lambda f: edit(f, n_heads=5), ["config.json", "n_heads", "5"]),
    "field odd": (lambda f: edit(f, d_model=15, n_heads=1), ["config.json", "15"]),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ["model.safetensors"]),
    "weights cut": (lambda f: cut(f / "model.safetensors", 0.9), ["model.safetensors"]),
    "weights almost gone": (lambda f: cut(f / "model.safetensors", 0.01), ["model.safetensors"]),
    "weights empty": (lambda f: cut(f / "model.safetensors", 0), ["model.safetensors"]),
    "weights pickled": (
        lambda f: torch.save({"a": torch.ones(1)}, f / "model.safetensors"), ["model.safetensors"]
    ),
    "weights of others": (foreign_weights, ["model.safetensors", "embedding.weight", "(30, 16)"]),
    "model smaller": (lambda f: edit(f, n_encoder_layers=2), ["model.safetensors", "layers.1"]),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), ["tokenizer.json"]),
    "tokenizer cut": (lambda f: cut(f / "tokenizer.json", 0.5), ["tokenizer.json"]),
    "tokenizer of others": (lambda f: (f / "tokenizer.json").write_text("{}"), ["tokenizer.json"]),
}


@pytest.mark.parametrize("damage", damages)
def test_damaged_model_folder(copied, damage):
    change, words = damages[damage]
    change(copied)
    with refused(ValueError, copied, *words):
        Translator.from_pretrained(copied)


@pytest.mark.parametrize("name", ["nowhere", "file", "empty"])
def test_not_a_model_folder(tmp_path, name):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    with refused(ValueError, tmp_path / name, "model folder"):
        Transformer.from_pretrained(tmp_path / name)
    with refused(ValueError, tmp_path / name, "tokenizer.json"):
        Tokenizer.load(tmp_path / name)


def test_translator_arguments(saved):
    translator = Translator.from_pretrained(saved)
    with refused(TypeError, "texts", "list"):
        translator.translate("one two")
    with refused(ValueError, "text 2", "64", "split"):
        translator.translate(["one", "four " * 80])


def test_texts_that_are_not_text(saved):
    for wrong in (2, None, float("nan")):
        with refused(TypeError, "text 2", type(wrong).__name__):
            Translator.from_pretrained(saved).translate(["one", wrong])


def test_scores_need_pairs():
    with refused(ValueError, "2 hypotheses", "1 references"):
        corpus_scores(["a", "b"], ["a"])
    with refused(ValueError, "0 hypotheses"):
        corpus_scores([], [])


# Text --------------------------------------------------------------------------------------------


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parallel(folder: Path, source: str | bytes, target: str | bytes):
    write(folder / "train.en", source), write(folder / "train.de", target)
    return read_parallel(folder, "train")


def flipped(folder: Path) -> Path:
    "A gzip file with damage in its middle."
    packed = bytearray(gzip.compress(os.urandom(3000)))
    packed[1000:1100] = bytes(100)
    return write(folder / "a.gz", bytes(packed))


whole_gz = gzip.compress(b"one\ntwo\n" * 100)


@table(
    raises("no folder", lambda f: read_parallel(f / "x", "train"), ValueError, "no folder", "x"),
    raises("no file", lambda f: read_parallel(f, "train"), ValueError, "train.en", "nothing"),
    raises("counts", lambda f: parallel(f, "a\nb\n", "c\n"), ValueError, "train.en", 2, 1),
    raises("only empty", lambda f: parallel(f, "a\n\n", "\nb\n"), ValueError, "no sentence pair"),
    raises("no line", lambda f: parallel(f, "", ""), ValueError, "no sentence pair"),
    raises(
        "not UTF-8", lambda f: parallel(f, b"a\nb\xff\n", "c\nd\n"),
        ValueError, "train.en:2", "UTF-8", "iconv",
    ),
    raises("UTF-16", lambda f: parallel(f, "ä".encode("utf-16"), "c"), ValueError, "train.en:1"),
    raises("columns", lambda f: read_tsv(write(f / "a.tsv", "a\tb\nc\n")), ValueError, "a.tsv:2"),
    raises("3 columns", lambda f: read_tsv(write(f / "a.tsv", "a\tb\tc")), ValueError, "3"),
    raises("no tsv", lambda f: read_tsv(f / "a.tsv"), ValueError, "a.tsv"),
    raises("gz cut", lambda f: read_lines(write(f / "a.gz", whole_gz[:-9])), ValueError, "a.gz"),
    raises("not gz", lambda f: read_lines(write(f / "a.gz", "text")), ValueError, "a.gz"),
    raises("gz damaged", lambda f: read_lines(flipped(f)), ValueError, "a.gz"),
    raises("language", lambda f: number_pairs([1], "en", "xx"), ValueError, "xx"),
    raises("numbers", lambda f: number_split(10, 8, 3), ValueError, "limit", 10, 8, 3),
    raises("vocabulary", lambda f: Tokenizer.train(["a"], 100), ValueError, "vocab_size", 259, 100),
)
def test_text(tmp_path, function, kind, words):
    with refused(kind, *words):
        function(tmp_path)


def test_what_is_left_out_is_counted_with_its_place(tmp_path):
    pairs, report = parallel(tmp_path, "\ufeffone\r\n\ntwo\n  \nthree", "eins\nx\nzwei\ny\ndrei\n")
    assert pairs == [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert report.read == 3 and report.left_out == {"empty line": ["train.en:2", "train.en:4"]}
    tokenizer = Tokenizer.train(["one two"], 259)
    report = Report()
    source, _ = encode_pairs([("one", "eins"), ("o" * 40, "x")], tokenizer, 8, report)
    assert len(source) == 1 and report.left_out == {"over 8 tokens": ["pair 2"]}
    with refused(ValueError, "max_len", 2):
        encode_pairs([("one", "eins")], tokenizer, 2)


def test_batches_smaller_than_a_sentence():
    tokenizer = Tokenizer.train(["one two"], 259)
    encoded = encode_pairs([("one", "eins")], tokenizer)
    with refused(ValueError, "max_tokens", 4, 5):
        TokenBatches(*encoded, max_tokens=4)


# Downloads ---------------------------------------------------------------------------------------

body = random.Random(0).randbytes(300_000)


class Server(http.server.BaseHTTPRequestHandler):
    "Serves `body`, knows ranges, and can break off."

    breaks_at = len(body)
    asked: list[str | None] = []

    def do_GET(self):
        wanted = self.headers["Range"]
        Server.asked.append(wanted)
        first = int(wanted[6:-1]) if wanted else 0
        if first >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        self.wfile.write(body[first : max(first, Server.breaks_at)])

    def log_message(self, *_):
        pass


@pytest.fixture
def url(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Server, "breaks_at", len(body))
    monkeypatch.setattr(Server, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file"
        server.shutdown()


right = hashlib.sha256(body).hexdigest()


def test_a_broken_download_goes_on_where_it_was(url, tmp_path, monkeypatch):
    monkeypatch.setattr(Server, "breaks_at", 100_000)
    with refused(OSError, url, tmp_path):
        data.download(url, tmp_path / "file", right)
    assert not (tmp_path / "file").exists()
    monkeypatch.setattr(Server, "breaks_at", len(body))
    assert data.download(url, tmp_path / "file", right).read_bytes() == body
    assert Server.asked == [None, "bytes=100000-"]


def test_a_download_stopped_before_it_was_renamed(url, tmp_path):
    write(tmp_path / "file.part", body)
    assert data.download(url, tmp_path / "file", right).read_bytes() == body


def test_a_wrong_download_is_refused_and_the_old_file_stays(url, tmp_path):
    old = write(tmp_path / "file", "old")
    with refused(OSError, url, "SHA-256"):
        data.download(url, old, "0" * 64)
    assert old.read_bytes() == b"old" and not list(tmp_path.glob("*.part"))
    with refused(OSError, "127.0.0.1:9", "online", tmp_path):
        data.download("http://127.0.0.1:9/file", old, right)
    assert old.read_bytes() == b"old"


# Full disks and folders that cannot be written ---------------------------------------------------


@contextlib.contextmanager
def full_disk(monkeypatch, free: int = 0):
    "After `free` files, nothing reaches the disk."
    left = [free]

    def fsync(_):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@contextlib.contextmanager
def small_files(limit: int):
    "The system itself refuses to let any file grow over `limit` bytes."
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("free", range(3))
def test_full_disk_while_saving_a_model(copied, monkeypatch, free):
    before = contents(copied)
    translator = Translator.from_pretrained(copied)
    with torch.no_grad():
        translator.model.output.weight += 1
    name = ["config.json", "model.safetensors", "tokenizer.json"][free]
    with full_disk(monkeypatch, free), refused(OSError, copied / name, "No space left"):
        translator.save_pretrained(copied)
    changed = {n for n, b in contents(copied).items() if before.get(n) != b}
    assert changed <= {"model.safetensors"} and set(before) == set(contents(copied))
    Translator.from_pretrained(copied)


def test_writes_that_really_fail(copied):
    before = contents(copied)
    translator = Translator.from_pretrained(copied)
    with small_files(100), refused(OSError, copied / "config.json"):
        translator.model.save_pretrained(copied)
    with small_files(1000), refused(OSError, copied / "model.safetensors"):
        translator.model.save_pretrained(copied)
    with small_files(1000), refused(OSError, copied / "tokenizer.json"):
        translator.tokenizer.save(copied)
    assert contents(copied) == before


def trainer(folder: Path, **config) -> Trainer:
    "A tiny run that saves every two updates."
    settings = {"steps": 6, "save_every": 2, "log_every": 1, "batch_tokens": 200, **config}
    return Trainer.from_pairs(
        sentences(40), TrainingConfig(precision="fp32", **settings), folder, None, "tiny", 280,
        "cpu", quiet=True, **sizes,
    )


def weights(folder: Path) -> bytes:
    "Of the last checkpoint."
    return sorted(folder.glob("checkpoints/step-*"))[-1].joinpath("model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> bytes:
    "The weights of a run that nothing disturbed."
    folder = tmp_path_factory.mktemp("undisturbed")
    trainer(folder).fit()
    return weights(folder)


@pytest.mark.parametrize("free", range(6, 12))
def test_full_disk_while_training(tmp_path, monkeypatch, undisturbed, free):
    # A save makes six files; the disk fills up during the second one.
    with full_disk(monkeypatch, free), refused(OSError, tmp_path, "No space left"):
        trainer(tmp_path).fit()
    trainer(tmp_path).resume().fit()
    assert weights(tmp_path) == undisturbed
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_state_of_a_run_does_not_fit_on_the_disk(tmp_path, undisturbed):
    trainer(tmp_path, steps=2, schedule="paper").fit()
    before = contents(tmp_path / "checkpoints")
    size = (tmp_path / "model.safetensors").stat().st_size
    with small_files(size + 5000), refused(OSError, tmp_path, "state.pt"):
        trainer(tmp_path, schedule="paper").resume().fit()
    assert before.items() <= contents(tmp_path / "checkpoints").items()
    assert trainer(tmp_path, schedule="paper").resume().step == 2


def test_the_metrics_do_not_fit_on_the_disk(tmp_path):
    trainer(tmp_path, steps=2).fit()
    path = tmp_path / "metrics.jsonl"
    lines = path.read_text().splitlines()
    with small_files(path.stat().st_size + 10), refused(OSError, path):
        resumed = trainer(tmp_path)
        resumed.state.step = 2
        resumed.log(loss=1.0, lr=1.0, tokens_per_second=1)
    assert [r["step"] for r in trainer(tmp_path).resume().history] == [1, 2]
    assert path.read_text().splitlines() == lines


def test_a_folder_that_cannot_be_written(tmp_path, saved):
    below = write(tmp_path / "file", "text") / "run"
    with refused(ValueError, below, "choose another"):
        trainer(below)
    with refused(ValueError, below, "choose another"):
        tiny_model().save_pretrained(below)
    with refused(OSError, below, "another folder"):
        Tokenizer.load(saved).save(below)
    assert (tmp_path / "file").read_text() == "text"


def test_a_new_run_does_not_mix_with_an_old_one(tmp_path):
    trainer(tmp_path).fit()
    before = contents(tmp_path)
    with refused(ValueError, tmp_path, "resume"):
        trainer(tmp_path, steps=4).fit()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_damaged_checkpoint(tmp_path, share):
    trainer(tmp_path, steps=2).fit()
    cut(tmp_path / "checkpoints" / "step-00000002" / "state.pt", share)
    with refused(ValueError, tmp_path, "state.pt"):
        trainer(tmp_path).resume()


def test_nothing_to_resume(tmp_path):
    with refused(ValueError, "nothing to resume", tmp_path):
        trainer(tmp_path).resume()


def test_validation_pairs_need_a_tokenizer(tmp_path):
    tokenizer = Tokenizer.train(["one two"], 259)
    batches = TokenBatches(*encode_pairs([("one", "eins")], tokenizer))
    with refused(ValueError, "tokenizer"):
        Trainer(tiny_model(), batches, TrainingConfig(steps=1), valid=sentences(2), device="cpu")


# The command line: exit code 1 and one line ------------------------------------------------------


def one_line(done: subprocess.CompletedProcess, *words: object) -> None:
    "The command ended with one line `error: …`, or click's for a wrong option, with these words."
    lines = done.stderr.splitlines()
    prefix = {1: "error: ", 2: "Error: Invalid value for "}[done.returncode]
    assert [i for i, line in enumerate(lines) if line.startswith(prefix)] == [len(lines) - 1]
    assert "Traceback" not in done.stderr
    missing = [word for word in words if str(word) not in lines[-1]]
    assert not missing, f"the message says nothing of {missing}: {lines[-1]!r}"


bad_training = {
    "no data": (["--data", "nowhere"], ["no folder", "nowhere"]),
    "no split": (["--train-split", "tra"], ["tra.en", "train.en"]),
    "language": (["--tgt", "fr"], ["train.fr", "train.de"]),
    "heads": (["--n-heads", 3], ["n_heads", 16, 3]),
    "odd width": (["--d-model", 15, "--n-heads", 1], ["d_model", 15]),
    "dropout": (["--dropout", 2], ["dropout", 2]),
    "steps": (["--steps", 0], ["steps", 0]),
    "vocabulary": (["--vocab-size", 100], ["vocab_size", 259, 100]),
    "batch": (["--batch-tokens", 3], ["tokens", 3]),
    "all too long": (["--max-len", 1], ["max_len", 1]),
    "device": (["--device", "gpu"], ["device", "gpu"]),
    "device number": (["--device", "cuda:77"], ["device"]),
    "multi30k": (["--data", "multi30k", "--tgt", "fr"], ["Multi30k", "fr"]),
    "nothing to resume": (["--resume"], ["nothing to resume"]),
}


@pytest.mark.parametrize("case", bad_training)
def test_train_refuses(command, corpus, tmp_path, case, monkeypatch):
    monkeypatch.delenv("MULTI30K", raising=False)
    monkeypatch.setenv("TRANSFORMER_NBDEV_CACHE", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    options, words = bad_training[case]
    out = tmp_path / "run"
    base = ["train", "--data", corpus, *train_options, "--steps", 2, "--out", out]
    one_line(command(*base, *options), *words)
    # The same folder can be used for the next try.
    if case in ("heads", "all too long"):
        assert command(*base).returncode == 0


def test_train_refuses_unknown_number_words(command, tmp_path):
    one_line(command("train", "--tgt", "xx", "--out", tmp_path / "run"), "xx", "en, de")


def test_train_refuses_a_folder_below_a_file(command, corpus, tmp_path):
    below = write(tmp_path / "file", "text") / "run"
    done = command("train", "--data", corpus, *train_options, "--steps", 2, "--out", below)
    one_line(done, below, "choose another")


def test_train_refuses_a_used_folder_and_damaged_settings(command, corpus, tmp_path):
    base = ["train", "--data", corpus, *train_options, "--steps", 2, "--out", tmp_path / "run"]
    assert command(*base).returncode == 0
    one_line(command(*base), tmp_path / "run", "--resume")
    for content in ("", "5", '{"src": "en"}'):
        (tmp_path / "run" / "settings.json").write_text(content)
        one_line(command(*base, "--resume"), tmp_path / "run", "settings.json")


bad_searches = {
    "not a model": (["--model", "nowhere"], ["nowhere", "config.json"]),
    "beam": (["--beam-size", 0], ["beam", 0]),
    "limit": (["--max-new-tokens", 65], ["max_new_tokens", 64, 65]),
    "device": (["--device", "gpu"], ["device", "gpu"]),
}


@pytest.mark.parametrize("case", bad_searches)
def test_translate_refuses(command, saved, case):
    options, words = bad_searches[case]
    base = ["translate", "--model", saved, "--device", "cpu"]
    one_line(command(*base, *options, stdin="one\n"), *words)


def test_translate_refuses_bytes_that_are_not_text(command, saved):
    base = ["translate", "--model", saved, "--device", "cpu"]
    one_line(command(*base, stdin=b"one\ntwo \xff\n"), "2", "UTF-8")


def test_translate_refuses_a_long_line(command, saved):
    base = ["translate", "--model", saved, "--device", "cpu"]
    one_line(command(*base, stdin="one\n" + "four " * 80 + "\n"), "2", "max_len", "64", "split")


bad_evaluations = {
    "no data": (["--data", "nowhere"], ["no folder", "nowhere"]),
    "no split": (["--split", "tset"], ["tset.en", "test.en"]),
    "none": (["--limit", 0], ["limit", 0]),
    "negative": (["--limit", -1], ["limit", -1]),
    "output": (["--output", "/dev/null/out.txt"], ["/dev/null/out.txt"]),
}


@pytest.mark.parametrize("case", bad_evaluations)
def test_evaluate_refuses(command, saved, corpus, case):
    options, words = bad_evaluations[case]
    base = ["evaluate", "--model", saved, "--device", "cpu", "--data", corpus]
    one_line(command(*base, *options), *words)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_is_full(saved, unbuffered):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*cli, "translate", "--model", saved, "--device", "cpu"], input=b"one\ntwo\n",
            stdout=full, stderr=subprocess.PIPE, timeout=60,
            env={**environment(), "PYTHONUNBUFFERED": unbuffered},
        )
    done.stderr = done.stderr.decode()
    one_line(done, "No space left")
