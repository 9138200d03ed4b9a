"A model folder is data: nothing in it is run, nothing is asked, no NaN is called a model, modes follow the umask."
import json
import os
import stat
import sys

import pytest
import torch
from helpers import refused, run, sentences, sizes
from torch import nn

from transformer_nbdev import (
    Tokenizer,
    Transformer,
    TransformerConfig,
    Translator,
    convert,
    from_marian,
    from_torch,
    to_ctranslate2,
    to_marian,
    to_torch,
)

reason = "needs the extra: pip install transformers sentencepiece ctranslate2"
transformers = pytest.importorskip("transformers", reason=f"transformers {reason}")
pytest.importorskip("ctranslate2", reason=f"ctranslate2 {reason}")


@pytest.fixture
def model() -> Transformer:
    "A small post-norm model."
    torch.manual_seed(0)
    return Transformer(TransformerConfig(280, **sizes)).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    "One that knows 280 pieces."
    return Tokenizer.train([text for pair in sentences(60) for text in pair], 280)


evil = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
Path("executed").touch()
from transformers import PreTrainedTokenizer
class Evil(PreTrainedTokenizer): ...
"""


@pytest.mark.parametrize("call, file", [
    ("from_pretrained", "tokenizer_config.json"), ("from_marian", "tokenizer_config.json"),
    ("from_marian", "config.json"),
])
def test_code_in_a_model_folder_is_never_run_and_nothing_is_asked(tmp_path, model, call, file):
    folder = tmp_path / "folder"
    model.save_pretrained(folder) if call == "from_pretrained" else to_marian(model, folder)
    (folder / "evil.py").write_text(evil)
    (folder / "source.spm").write_bytes(b"")
    path = folder / file
    values = json.loads(path.read_text()) if path.is_file() else {}
    values |= {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    path.write_text(json.dumps(values))
    program = f"""
import sys
from transformer_nbdev import Translator
try:
    Translator.{call}({str(folder)!r})
except ValueError as error:
    print(f"ValueError: {{error}}")
print("left to read:", sys.stdin.read().split())
"""
    done = run(sys.executable, "-c", program, stdin="y\nsecond\n", cwd=tmp_path)
    assert not list(tmp_path.rglob("executed")), "code of the folder was run"
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and lines[0].startswith("ValueError: "), done.stdout + done.stderr
    assert "auto_map" in lines[0] and file in lines[0]
    assert lines[1] == "left to read: ['y', 'second']"


@pytest.mark.parametrize("changes, word", [
    ({"model_type": "t5"}, "model_type"), ({"normalize_before": True}, "normalize_before"),
    ({"activation_function": "gelu_new"}, "gelu_new"), ({"encoder_ffn_dim": 8, "decoder_ffn_dim": 8}, "fc1.weight"),
    ({"decoder_layers": 2}, "no model.decoder.layers.1"), ({}, "truncated"),
])
def test_a_marian_folder_that_does_not_fit_is_refused(tmp_path, model, changes, word):
    to_marian(model, tmp_path / "marian")
    path, weights = (tmp_path / "marian" / name for name in ("config.json", "model.safetensors"))
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    if not changes:
        weights.write_bytes(weights.read_bytes()[:5000])
    with refused(ValueError, "marian", word):
        from_marian(tmp_path / "marian")


def test_weights_that_are_not_finite_are_neither_written_nor_read(tmp_path, model, tokenizer):
    to_marian(model, tmp_path / "marian")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "marian")
    Translator(model, tokenizer).save_pretrained(tmp_path / "native")
    convert(tmp_path / "native", tmp_path / "torch", to="torch")
    with torch.no_grad():
        theirs.model.encoder.layers[0].fc1.bias[3] = torch.inf
        model.encoder.layers[0].feed_forward.linear1.bias[3] = torch.nan
    theirs.save_pretrained(tmp_path / "broken")
    name = "transformer.encoder.layers.0.linear1.bias"
    damaged = tmp_path / "torch" / "model.safetensors"
    from safetensors.torch import load_file, save_file

    save_file(load_file(damaged) | {name: torch.full((sizes["d_ff"],), torch.nan)}, damaged)
    damaged.with_name("manifest.json").unlink()
    before = sorted(tmp_path.iterdir())
    for call, key in {
        lambda: from_marian(tmp_path / "broken"): "fc1.bias",
        lambda: from_marian(theirs): "fc1.bias",
        lambda: convert(tmp_path / "torch", tmp_path / "out", "torch", "native"): name,
        lambda: to_marian(model, tmp_path / "out", tokenizer): "linear1.bias",
        lambda: to_ctranslate2(model, tmp_path / "out", tokenizer): "linear1.bias",
    }.items():
        with refused(ValueError, key, "not finite"):
            call()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
@pytest.mark.parametrize("to", ["marian", "torch", "native", "ctranslate2"])
def test_a_converted_folder_has_the_modes_that_the_umask_asks_for(tmp_path, model, tokenizer, to, umask):
    parent = tmp_path / "open"
    parent.mkdir()
    parent.chmod(0o1777)
    Translator(model, tokenizer).save_pretrained(tmp_path / "native")
    old = os.umask(umask)
    try:
        convert(tmp_path / "native", parent / "out", to=to)
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (parent / "out").iterdir()}
    assert stat.S_IMODE((parent / "out").stat().st_mode) == 0o777 & ~umask
    assert len(modes) > 1 and set(modes.values()) == {0o666 & ~umask}, modes


@pytest.mark.parametrize("training", [False, True])
def test_an_accelerated_model_goes_everywhere(tmp_path, tokenizer, training):
    from transformer_nbdev.speed.parts import replace, training_parts
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, **sizes))
    for p in model.parameters():
        nn.init.normal_(p, std=0.1)
    plain = {name: p.detach().clone() for name, p in model.named_parameters()}
    src, tgt = torch.randint(3, 250, (2, 7)), torch.randint(3, 250, (2, 5))
    expected = model.eval()(src, tgt)
    fast = replace(model.train(training), training_parts)
    twin = to_torch(fast)
    torch.testing.assert_close(twin.eval()(src, tgt), expected, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(p, plain[name]) for name, p in from_torch(twin).named_parameters())
    for part, kind in ((fast.encoder, nn.TransformerEncoder), (fast.decoder.layers[0], nn.TransformerDecoderLayer)):
        assert isinstance(to_torch(part), kind)
    assert isinstance(to_torch((fast.encoder, fast.decoder)), nn.Transformer)
    to_marian(fast, tmp_path / "marian", tokenizer)
    again = from_marian(tmp_path / "marian").state_dict()
    assert all(torch.equal(p, again[name]) for name, p in plain.items())
    to_ctranslate2(fast, tmp_path / "served", tokenizer)


@pytest.mark.parametrize("options", [
    {}, {"norm_first": True}, {"bias": False}, {"activation": "gelu"}, {"batch_first": False},
], ids=str)
def test_nn_transformer_there_and_back(options):
    torch.manual_seed(0)
    options = {"batch_first": True, **options}
    theirs = nn.Transformer(16, 4, 2, 3, 32, **options).double().eval()
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.3)
    again = to_torch(from_torch(theirs))
    assert type(again) is nn.Transformer and not again.training
    assert {n: p.tolist() for n, p in theirs.named_parameters()} == {n: p.tolist() for n, p in again.named_parameters()}
    x, y = torch.randn(2, 5, 16).double(), torch.randn(2, 6, 16).double()
    later = torch.ones(6, 6).triu(1).bool()
    mine = again(x, y, tgt_mask=later)
    if not options["batch_first"]:
        x, y = x.transpose(0, 1), y.transpose(0, 1)
    out = theirs(x, y, tgt_mask=later)
    out = out if options["batch_first"] else out.transpose(0, 1)
    torch.testing.assert_close(mine, out, rtol=1e-12, atol=1e-12)
    assert to_torch(from_torch(theirs.train())).training
