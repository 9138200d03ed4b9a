"Weights elsewhere: what does not teach. Parity of whole models stands in the three notebooks 15; here parts and files."
import json
import pickle
import re
import subprocess
import sys

import pytest
import torch
from helpers import environment, sentences, sizes
from torch import nn

from transformer_nbdev.convert import marian as marian_module
from transformer_nbdev.convert import serving
from transformer_nbdev.convert.torch_nn import from_torch, to_torch, torch_name
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.decoder import Decoder, DecoderLayer
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.encoder import Encoder, EncoderLayer, FeedForward, Residual
from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.output_loss import OutputProjection
from transformer_nbdev.positional_encoding import LearnedPositionalEncoding, PositionalEncoding
from transformer_nbdev.transformer import Transformer, TransformerConfig
from transformer_nbdev.translator import Translator

reason = "needs the extra: pip install transformers sentencepiece ctranslate2"
transformers = pytest.importorskip("transformers", reason=f"transformers {reason}")
pytest.importorskip("ctranslate2", reason=f"ctranslate2 {reason}")
pytest.importorskip("sentencepiece", reason=f"sentencepiece {reason}")


def shaken(module: nn.Module, seed: int = 0) -> nn.Module:
    "Every parameter drawn at random, so that nothing agrees by being zero or one."
    torch.manual_seed(seed)
    for name, p in module.named_parameters():
        nn.init.normal_(p, mean=float("norm" in name and name.endswith("weight")), std=0.1)
    return module.eval()


def post_norm(**options) -> tuple[Transformer, Tokenizer]:
    "A small post-norm model and its tokenizer."
    tokenizer = Tokenizer.train([text for pair in sentences(60) for text in pair], 280)
    config = TransformerConfig(tokenizer.vocab_size, **{**sizes, **options})
    return shaken(Transformer(config)), tokenizer


def marian(**options):
    "A Marian model with random weights."
    base = dict(
        vocab_size=500, decoder_vocab_size=500, d_model=512, pad_token_id=499, decoder_start_token_id=499,
        eos_token_id=0, forced_eos_token_id=0, activation_function="swish", scale_embedding=True,
        max_position_embeddings=128,
    )
    for side in ("encoder", "decoder"):
        base |= {f"{side}_layers": 6, f"{side}_attention_heads": 8, f"{side}_ffn_dim": 2048}
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**base, **options})).eval()
    torch.manual_seed(0)
    for name, p in model.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(p, mean=float("norm" in name and name.endswith("weight")), std=0.05)
    model.final_logits_bias.normal_(0, 0.5)
    return model


@pytest.mark.parametrize("activation", ["swish", "gelu", "relu"])
@pytest.mark.parametrize("tied", [True, False])
def test_marian_of_base_size(activation, tied):
    theirs = marian(
        activation_function=activation, share_encoder_decoder_embeddings=tied, tie_word_embeddings=tied
    )
    ours = marian_module.from_marian(theirs)
    src, tgt = torch.randint(1, 499, (2, 20)), torch.randint(1, 499, (2, 15))
    src[1, 12:], tgt[:, 0] = 499, 499
    for dtype, bar in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        with torch.no_grad():
            mask = (src != 499).long()
            logits = theirs.to(dtype)(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits
            assert (ours.to(dtype)(src, tgt) - logits).norm() < bar * logits.norm()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
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
        weights = torch.randn_like(out[0])
        for y in out:
            (y * weights).sum().backward()
        named = dict(theirs.named_parameters())
        pairs = [out, *((a.grad, b.grad) for a, b in zip(*inputs))]
        pairs += [(p.grad, named[torch_name(name)].grad) for name, p in ours.named_parameters()]
        assert max((a - b).norm() / b.norm() for a, b in pairs) < 1e-10


@pytest.mark.parametrize("call, words", [
    (lambda: from_torch(nn.TransformerEncoderLayer(16, 4, layer_norm_eps=1e-6)), "layer_norm_eps must be 1e-5"),
    (lambda: from_torch(nn.TransformerEncoderLayer(16, 4, activation=torch.tanh)), "activation .* is not supported"),
    (lambda: from_torch(nn.MultiheadAttention(16, 4, kdim=8)), "kdim and vdim"),
    (lambda: from_torch(nn.MultiheadAttention(16, 4, add_bias_kv=True)), "add_bias_kv"),
    (lambda: from_torch(nn.Linear(2, 2)), "Linear has no counterpart"),
    (lambda: to_torch(nn.Linear(2, 2)), "no counterpart of Linear"),
])
def test_what_has_no_counterpart_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_the_engine_refuses_a_final_norm_of_its_own(tmp_path):
    model, tokenizer = post_norm(final_norm=True)
    with pytest.raises(ValueError, match="final_norm = True cannot be represented"):
        serving.to_ctranslate2(model, tmp_path / "out", tokenizer)
    assert not list(tmp_path.iterdir())


layers = {
    "attention": (lambda: MultiHeadAttention(4, 2), lambda m, x: m(x, causal=True)),
    "attention with weights": (lambda: MultiHeadAttention(4, 2), lambda m, x: m(x, need_weights=True)),
    "feed-forward": (lambda: FeedForward(4, 6, "gelu"), lambda m, x: m(x)),
    "residual": (lambda: Residual(4, 0.0), lambda m, x: m(x, torch.tanh)),
    "positions": (lambda: PositionalEncoding(4, 8), lambda m, x: m(x)),
    "learned positions": (lambda: LearnedPositionalEncoding(4, 8), lambda m, x: m(x)),
    "output": (lambda: OutputProjection(4, 5, bias=True), lambda m, x: m(x)),
    "embedding": (lambda: TokenEmbedding(7, 4), lambda m, x: m(torch.tensor([[1, 2, 3]])) * x),
}
for order in (False, True):
    name = "pre-norm" if order else "post-norm"
    layers |= {
        f"{name} encoder layer": (lambda o=order: EncoderLayer(4, 2, 6, 0.0, o, "gelu"), lambda m, x: m(x)),
        f"{name} encoder": (lambda o=order: Encoder(2, 4, 2, 6, 0.0, o, "gelu"), lambda m, x: m(x)),
        f"{name} decoder layer": (lambda o=order: DecoderLayer(4, 2, 6, 0.0, o, "gelu"), lambda m, x: m(x, x + 1)),
        f"{name} decoder": (lambda o=order: Decoder(2, 4, 2, 6, 0.0, o, "gelu"), lambda m, x: m(x, x + 1)),
    }


@pytest.mark.parametrize("name", layers)
def test_gradcheck(name):
    make, call = layers[name]
    module = shaken(make()).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    parameters = dict(module.named_parameters())

    def function(x, *values):
        named = {f"m.{name}": value for name, value in zip(parameters, values)}
        return torch.func.functional_call(_Wrapped(module, call), named, (x,))

    assert torch.autograd.gradcheck(function, (x, *parameters.values()))


class _Wrapped(nn.Module):
    "A module whose forward is `call`: functional_call needs one."

    def __init__(self, m, call):
        super().__init__()
        self.m, self.call = m, call

    def forward(self, x):
        return self.call(self.m, x)


def test_every_kind_of_folder_by_the_command_line(command, tmp_path):
    model, tokenizer = post_norm()
    native = Translator(model, tokenizer)
    native.save_pretrained(tmp_path / "native")
    texts = [source for source, _ in sentences(8)]
    expected = native.translate(texts, max_new_tokens=9)
    steps = [("native", "marian"), ("marian", "torch"), ("torch", "native"), ("native", "ctranslate2")]
    folders = ["native", "marian", "torch", "again", "served"]
    for (from_, to), source, target in zip(steps, folders, folders[1:]):
        done = command("convert", "--from", from_, "--to", to, tmp_path / source, tmp_path / target)
        assert done.returncode == 0, done.stderr
    assert Translator.from_pretrained(tmp_path / "again").translate(texts, max_new_tokens=9) == expected
    assert Translator.from_marian(tmp_path / "marian").translate(texts, max_new_tokens=9) == expected
    for name, p in model.named_parameters():
        again = Transformer.from_pretrained(tmp_path / "again").state_dict()[name]
        assert torch.equal(p, again), name
    assert serving.CTranslate2Translator(tmp_path / "served").translate(["", texts[0]])[0] == ""


@pytest.mark.parametrize("arguments, words", [
    (["--to", "marian", "PRE", "OUT"], ["norm_first"]),
    (["--from", "marian", "--to", "native", "nowhere", "OUT"], ["nowhere"]),
    (["--from", "torch", "--to", "native", "PRE", "OUT"], ["model_type"]),
    (["--to", "torch", "--quantization", "int8", "PRE", "OUT"], ["quantization"]),
    (["--to", "ctranslate2", "--quantization", "int3", "PRE", "OUT"], ["int3"]),
    (["--to", "ctranslate2", "BARE", "OUT"], ["tokenizer"]),
    (["--to", "torch", "PRE", "PRE"], ["not empty"]),
])
def test_the_command_line_refuses_in_one_sentence(command, tmp_path, monkeypatch, arguments, words):
    model, tokenizer = post_norm(norm_first=True)
    Translator(model, tokenizer).save_pretrained(tmp_path / "PRE")
    model.save_pretrained(tmp_path / "BARE")
    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    run = command("convert", *arguments)
    assert run.returncode == 1 and run.stdout == "" and run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1 and all(word in run.stderr for word in words), run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("write", [
    lambda m, t, folder: marian_module.to_marian(m, folder, t),
    lambda m, t, folder: serving.to_ctranslate2(m, folder, t),
], ids=["marian", "ctranslate2"])
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, write):
    def full(*_):
        raise OSError(28, "No space left on device")

    model, tokenizer = post_norm()
    for name in ("save", "_save"):
        monkeypatch.setattr(Tokenizer, name, full, raising=False)
    monkeypatch.setattr(marian_module, "_save_fast_tokenizer", full)
    with pytest.raises(OSError, match="nothing was left behind"):
        write(model, tokenizer, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_pickle_that_runs_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("executed",)

    config = marian(encoder_layers=1, decoder_layers=1).config.to_dict()
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"model.shared.weight": Evil()}))
    with pytest.raises(ValueError, match="pytorch_model.bin"):
        marian_module.from_marian(tmp_path)


def test_the_hub_is_asked_only_for_a_hub_id_and_fails_in_one_sentence(tmp_path):
    program = "from transformer_nbdev import from_marian; from_marian('Helsinki-NLP/opus-mt-en-de')"
    offline = {**environment(), "HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run([sys.executable, "-c", program], env=offline, capture_output=True, text=True)
    assert re.search(r"^OSError: no folder Helsinki-NLP/opus-mt-en-de, and could not fetch it from", run.stderr, re.M)
    for name in ("my_folder", "./a/b", "a/b/c", "../a"):
        with pytest.raises(ValueError, match="no folder"):
            marian_module.from_marian(name)


def test_without_the_extra_everything_else_works(tmp_path):
    model, tokenizer = post_norm()
    marian_module.to_marian(model, tmp_path / "marian", tokenizer)
    program = f"""
import sys
sys.modules.update(transformers=None, sentencepiece=None, ctranslate2=None)
from transformer_nbdev import CTranslate2Translator, Translator, from_marian, to_ctranslate2, to_torch
from transformer_nbdev.convert.marian import MarianTokenizer
to_torch(from_marian({str(tmp_path / "marian")!r}))
print(len(Translator.from_marian({str(tmp_path / "marian")!r}).translate(["one", "two"], max_new_tokens=5)))
ours = Translator.from_marian({str(tmp_path / "marian")!r})
for function, arguments in (
    (MarianTokenizer.load, ["."]), (CTranslate2Translator, ["."]),
    (to_ctranslate2, [ours.model, "never", ours.tokenizer]),
):
    try:
        function(*arguments)
    except ImportError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    needed = ("transformers", "ctranslate2", "ctranslate2")
    hints = [f"{name} is not installed: pip install transformers sentencepiece ctranslate2" for name in needed]
    assert run.stdout.splitlines() == ["2", *hints]
