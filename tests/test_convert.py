"Weights elsewhere: parity of parts with PyTorch, folders of other programs, and their refusals."
import stat
import sys
from dataclasses import replace as changed

import pytest
import torch
from allpairspy import AllPairs
from helpers import same, sentences, sizes, tiny_model
from torch import nn

from transformer_nbdev.convert.ctranslate2 import CTranslate2Translator, to_ctranslate2
from transformer_nbdev.convert.marian import from_marian, to_marian
from transformer_nbdev.convert.torch_nn import from_torch, to_torch, torch_name
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.decoder import Decoder, DecoderLayer
from transformer_nbdev.encoder import Encoder, EncoderLayer
from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.speed.parts import replace, training_parts
from transformer_nbdev.transformer import Transformer, TransformerConfig
from transformer_nbdev.translator import Translator

reason = "needs the extra: pip install transformers sentencepiece ctranslate2"
transformers = pytest.importorskip("transformers", reason=reason)
pytest.importorskip("ctranslate2", reason=reason)
both = (False, True)
switches = {"bias": both, "tie_embeddings": both, "scale_embeddings": both}


def pairwise(**factors):
    "A test for each of a few settings, in which every pair of values occurs."
    rows = [dict(zip(factors, values)) for values in AllPairs([*factors.values()])]
    return pytest.mark.parametrize("options", rows, ids=str)


def shaken(module: nn.Module, seed: int = 0) -> nn.Module:
    "Every parameter drawn at random, so that nothing agrees by being zero or one."
    torch.manual_seed(seed)
    for name, p in module.named_parameters():
        nn.init.normal_(p, mean=float("norm" in name and name.endswith("weight")), std=0.1)
    return module.eval()


def translator(**options) -> Translator:
    "A small post-norm model and its tokenizer."
    tokenizer = Tokenizer.train([text for pair in sentences(60) for text in pair], 280)
    config = TransformerConfig(tokenizer.vocab_size, **{**sizes, **options})
    return Translator(shaken(Transformer(config)), tokenizer)


def logits_of(marian: nn.Module, src: torch.Tensor, tgt: torch.Tensor) -> torch.Tensor:
    "What the library's model computes, without gradients."
    with torch.no_grad():
        mask = (src != marian.config.pad_token_id).long()
        return marian(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits


@pairwise(
    activation_function=("swish", "gelu", "relu"), scale_embedding=both, share_encoder_decoder_embeddings=both,
    tie_word_embeddings=both, file=("model.safetensors", "pytorch_model.bin"),
)
def test_a_marian_folder_gives_the_logits_of_transformers(tmp_path, options):
    file, sides = (options := {**options}).pop("file"), {"layers": 2, "attention_heads": 4, "ffn_dim": 32}
    config = transformers.MarianConfig(
        vocab_size=60, decoder_vocab_size=60, d_model=16, pad_token_id=59, decoder_start_token_id=59, eos_token_id=0,
        max_position_embeddings=64, **options,
        **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sides.items()},
    )
    theirs = transformers.MarianMTModel(config).eval()
    positions = {name: p.clone() for name, p in theirs.state_dict().items() if "embed_positions" in name}
    shaken(theirs).load_state_dict(positions, strict=False)
    theirs.final_logits_bias.normal_(0, 0.5)
    theirs.save_pretrained(tmp_path)
    if file == "pytorch_model.bin":
        torch.save(theirs.state_dict(), tmp_path / file)
        (tmp_path / "model.safetensors").unlink()
    src, tgt = torch.randint(1, 59, (2, 20)), torch.randint(1, 59, (2, 15))
    src[1, 12:], tgt[:, 0] = 59, 59
    ours = from_marian(tmp_path)
    for dtype, bar in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        logits = logits_of(theirs.to(dtype), src, tgt)
        assert (ours.to(dtype)(src, tgt) - logits).norm() < bar * logits.norm()


@pairwise(activation=("relu", "gelu", "silu"), output_bias=both, **switches)
def test_transformers_computes_our_logits_from_a_marian_folder(tmp_path, options):
    ours = shaken(tiny_model(n_decoder_layers=2, **options))
    to_marian(ours, tmp_path / "marian")
    src, tgt = torch.randint(3, 20, (2, 7)), torch.randint(3, 20, (2, 5))
    src[1, 4:] = 0
    logits = logits_of(transformers.MarianMTModel.from_pretrained(tmp_path / "marian").eval(), src, tgt)
    assert (ours(src, tgt) - logits).norm() < 1e-5 * logits.norm()
    again = from_marian(tmp_path / "marian")
    assert again.config == changed(ours.config, bias=True, output_bias=True)
    assert all(torch.equal(p, again.state_dict()[name]) for name, p in ours.named_parameters())


def gap(ours: nn.Module, theirs: nn.Module, out: tuple, inputs: tuple | list = ((), ())) -> float:
    "The largest relative difference between two outputs, or between gradients of a random sum of each."
    weights = torch.randn_like(out[0])
    for y in out:
        (y * weights).sum().backward()
    named = dict(theirs.named_parameters())
    pairs = [out, *((a.grad, b.grad) for a, b in zip(*inputs))]
    pairs += [(p.grad, named[torch_name(name)].grad) for name, p in ours.named_parameters()]
    return float(torch.stack([(a - b).norm() / b.norm() for a, b in pairs]).max().detach())


@pytest.mark.parametrize("activation, bias", [("relu", True), ("gelu", False), ("silu", True)])
@pytest.mark.parametrize("norm_first", [False, True])
def test_parts_agree_with_torch_to_the_gradients(norm_first, activation, bias):
    x, memory = (torch.randn(3, n, 16, dtype=torch.float64) for n in (7, 5))
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    masks = dict(tgt_mask=torch.ones(7, 7).triu(1).bool(), memory_key_padding_mask=padding)
    shape = (16, 4, 32, 0.1, norm_first, activation, bias)
    for kind, n in ((EncoderLayer, ()), (Encoder, (2,)), (DecoderLayer, ()), (Decoder, (2,))):
        ours = shaken(kind(*n, *shape)).double()
        theirs = to_torch(ours)
        inputs = [[y.clone().requires_grad_() for y in (x, memory)] for _ in range(2)]
        if kind in (EncoderLayer, Encoder):
            inputs = [pair[1:] for pair in inputs]
            out = ours(*inputs[0], ~padding[:, None, None]), theirs(*inputs[1], src_key_padding_mask=padding)
        else:
            out = ours(*inputs[0], ~padding[:, None, None]), theirs(*inputs[1], **masks)
        assert gap(ours, theirs, out, inputs) < 1e-10


@pairwise(activation=("relu", "gelu", "silu"), norm_first=both, final_norm=both, output_bias=both, **switches)
def test_a_whole_model_agrees_with_torch_to_the_gradients(options):
    ours = shaken(tiny_model(n_decoder_layers=2, **options)).double()
    theirs, src, tgt = to_torch(ours), torch.randint(3, 20, (2, 7)), torch.randint(3, 20, (2, 5))
    src[1, 4:] = 0
    assert gap(ours, theirs, (ours(src, tgt), theirs(src, tgt))) < 1e-9


@pytest.mark.parametrize("bias", both)
def test_an_attention_goes_there_and_back(bias):
    ours, x = shaken(MultiHeadAttention(16, 4, bias)).double(), torch.randn(2, 5, 16).double()
    theirs = to_torch(ours)
    assert same(from_torch(theirs).state_dict(), ours.state_dict())
    torch.testing.assert_close(theirs(x, x, x)[0], ours(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"bias": False}, {"activation": "gelu"}], ids=str)
def test_nn_transformer_there_and_back(options):
    theirs = shaken(nn.Transformer(16, 4, 2, 3, 32, batch_first=True, **options)).double()
    again = to_torch(from_torch(theirs))
    assert type(again) is nn.Transformer and not again.training
    assert {n: p.tolist() for n, p in theirs.named_parameters()} == {n: p.tolist() for n, p in again.named_parameters()}
    x, y = torch.randn(2, 5, 16).double(), torch.randn(2, 6, 16).double()
    later = torch.ones(6, 6).triu(1).bool()
    torch.testing.assert_close(again(x, y, tgt_mask=later), theirs(x, y, tgt_mask=later), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("call, words", [
    (lambda: from_torch(nn.TransformerEncoderLayer(16, 4, layer_norm_eps=1e-6)), "layer_norm_eps must be 1e-5"),
    (lambda: from_torch(nn.TransformerEncoderLayer(16, 4, activation=torch.tanh)), "activation .* is not supported"),
    (lambda: from_torch(nn.MultiheadAttention(16, 4, kdim=8)), "kdim"),
    (lambda: to_torch(nn.Linear(2, 2)), "no counterpart of Linear"),
])
def test_what_has_no_counterpart_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_an_accelerated_model_goes_everywhere(tmp_path):
    ours = translator()
    model, src, tgt = ours.model, torch.randint(3, 250, (2, 7)), torch.randint(3, 250, (2, 5))
    before, expected = {name: p.detach().clone() for name, p in model.named_parameters()}, model(src, tgt)
    replace(model, training_parts)
    twin = to_torch(model)
    torch.testing.assert_close(twin(src, tgt), expected, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(p, before[name]) for name, p in from_torch(twin).named_parameters())
    to_marian(model, tmp_path / "marian", ours.tokenizer)
    again = from_marian(tmp_path / "marian").state_dict()
    assert all(torch.equal(p, again[name]) for name, p in before.items())
    to_ctranslate2(model, tmp_path / "engine", ours.tokenizer)


@pairwise(activation=("relu", "gelu", "silu"), norm_first=both, **switches)
def test_ctranslate2_finds_our_words_and_scores(options):
    ours, texts = translator(output_bias=True, **options), ["one", "four", "two three one", "three four four two"]
    for p in ours.model.parameters():
        p.data *= 3  # more certain of its words
    ours.model.output.bias.data[:3] = torch.tensor([-40.0, -40.0, 6.0])  # some end early
    engine = CTranslate2Translator.converted(ours)
    for search in ({}, {"beam_size": 5}):
        search |= {"max_new_tokens": 12, "return_scores": True}
        wanted, found = (each.translate(texts, **search) for each in (ours, engine))
        assert found[0] == wanted[0] and found[1] == pytest.approx(wanted[1], abs=5e-4)


def test_every_kind_of_folder_by_the_command_line(command, tmp_path):
    native, texts = translator(), [source for source, _ in sentences(8)]
    native.save_pretrained(tmp_path / "native")
    expected = native.translate(texts, max_new_tokens=9)
    steps = [("native", "marian"), ("marian", "native"), ("native", "ctranslate2")]
    folders = ["native", "marian", "again", "engine"]
    for (from_, to), source, target in zip(steps, folders, folders[1:]):
        done = command("convert", "--from", from_, "--to", to, tmp_path / source, tmp_path / target)
        assert done.returncode == 0, done.stderr
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / target).iterdir()}
        assert modes == {stat.S_IMODE((tmp_path / "native" / "config.json").stat().st_mode)}  # others may read them
    assert Translator.from_pretrained(tmp_path / "again").translate(texts, max_new_tokens=9) == expected
    assert Translator.from_marian(tmp_path / "marian").translate(texts, max_new_tokens=9) == expected
    again = Transformer.from_pretrained(tmp_path / "again").state_dict()
    assert all(torch.equal(p, again[name]) for name, p in native.model.named_parameters())
    assert CTranslate2Translator(tmp_path / "engine").translate(["", texts[0]])[0] == ""


@pytest.mark.parametrize("arguments, words", [
    (["--to", "marian", "PRE", "OUT"], "norm_first"),
    (["--to", "ctranslate2", "FINAL", "OUT"], "final_norm = True cannot be represented"),
    (["--from", "marian", "--to", "native", "PRE", "OUT"], "model_type"),
    (["--to", "onnx", "--quantization", "int8", "PRE", "OUT"], "quantization"),
    (["--to", "ctranslate2", "--quantization", "int3", "PRE", "OUT"], "int3"),
    (["--to", "ctranslate2", "BARE", "OUT"], "tokenizer"),
    (["--to", "native", "PRE", "PRE"], "not empty"),
])
def test_the_command_line_refuses_in_one_sentence(command, tmp_path, monkeypatch, arguments, words):
    pre = translator(norm_first=True)
    pre.save_pretrained(tmp_path / "PRE")
    pre.model.save_pretrained(tmp_path / "BARE")
    translator(final_norm=True).save_pretrained(tmp_path / "FINAL")
    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    run = command("convert", *arguments)
    assert run.returncode == 1 and run.stdout == "" and run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1 and words in run.stderr, run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_without_the_extra_everything_else_works(tmp_path, monkeypatch):
    for name in ("transformers", "sentencepiece", "ctranslate2"):
        monkeypatch.setitem(sys.modules, name, None)
    ours = translator()
    to_marian(ours.model, tmp_path / "marian", ours.tokenizer)
    assert len(Translator.from_marian(tmp_path / "marian").translate(["one", "two"], max_new_tokens=5)) == 2
    (tmp_path / "marian" / "tokenizer.json").rename(tmp_path / "marian" / "source.spm")  # as in a folder of OPUS-MT
    calls = {"interop": lambda: Translator.from_marian(tmp_path / "marian"),
             "fast": lambda: CTranslate2Translator.converted(ours)}
    for extra, call in calls.items():
        with pytest.raises(ImportError, match=rf"pip install 'transformer-nbdev\[{extra}\]'"):
            call()
