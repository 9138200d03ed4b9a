"Exported graphs write what the model writes, with any batch and any search; what is damaged is named."
import sys

import pytest
import torch
from helpers import run, tiny_model

from transformer_nbdev import Translator
from transformer_nbdev.convert.onnx import GraphModel, export_model, export_programs, load_graphs
from transformer_nbdev.data import Tokenizer

pytest.importorskip("onnxruntime")
kinds = {
    "paper": {},
    "pre-norm, untied": {"norm_first": True, "tie_embeddings": False, "scale_embeddings": False},
    "no bias, silu": {"bias": False, "activation": "silu", "norm_first": True, "n_decoder_layers": 3},
    "marian's": {"output_bias": True, "activation": "gelu", "n_encoder_layers": 1},
}


def sources(model, *lengths):
    "Random sentences of these lengths, with their end token, padded."
    c = model.config
    src = torch.full((len(lengths), max(lengths)), c.pad_id)
    for row, n in zip(src, lengths):
        row[: n - 1], row[n - 1] = torch.randint(3, c.vocab_size, (n - 1,)), c.eos_id
    return src


@pytest.mark.parametrize("kind", kinds)
def test_any_search_gives_the_same(kind):
    torch.manual_seed(1)
    model = tiny_model(**kinds[kind]).eval()
    for parameter in model.parameters():  # also norms and biases, which start as ones and zeros
        parameter.data += 0.1 * torch.randn_like(parameter)
    programs = export_programs(model.train())
    assert model.training
    graphs = GraphModel(model.config, *(programs[name].module() for name in ("encoder", "step")))
    for lengths in ((1,), (5, 2), (3, 9, 1, 9)):
        src = sources(model, *lengths)
        for options in ({}, {"beam_size": 3}, {"beam_size": 2, "length_penalty": 1.4, "min_new_tokens": 2}):
            wanted, found = (m.generate(src, 12, return_scores=True, **options) for m in (model, graphs))
            assert wanted[0].equal(found[0]), (lengths, options)
            torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    "A model with a tokenizer, as it is saved, and its two exported forms."
    room = tmp_path_factory.mktemp("graphs")
    torch.manual_seed(2)
    tokenizer = Tokenizer.train(["one two three four five six seven eight nine ten"] * 3, 280)
    model = tiny_model(vocab_size=tokenizer.vocab_size, norm_first=True).eval()
    Translator(model, tokenizer).save_pretrained(room / "native")
    for to in ("pt2", "onnx"):
        command = [sys.executable, "-m", "transformer_nbdev", "convert", "--to", to]
        done = run(*command, str(room / "native"), str(room / to))
        assert done.returncode == 0 and done.stderr.startswith(f"wrote {room / to}; next: ")
        assert done.stderr.count("\n") == 1, done.stderr  # no word of PyTorch's
    return room


@pytest.mark.parametrize("to", ["pt2", "onnx"])
def test_a_folder_translates(folders, to):
    texts = ["two nine", "", "seven", "ten one four two eight eight"]
    wanted = Translator.from_pretrained(folders / "native").translate(texts, beam_size=2, return_scores=True)
    found = Translator.from_onnx(folders / to).translate(texts, beam_size=2, return_scores=True)
    assert wanted[0] == found[0] and wanted[0][0] and found[1] == pytest.approx(wanted[1], abs=1e-4)


@pytest.mark.parametrize("to", ["pt2", "onnx"])
@pytest.mark.parametrize("damage, said", [
    (lambda f, to: (f / f"step.{to}").unlink(), "neither step.onnx nor step.pt2"),
    (lambda f, to: (f / f"encoder.{to}").write_bytes(b"no graph"), "encoder.{to} is not the file"),
    (lambda f, to: [(f / f"encoder.{to}").write_bytes(b"no graph"), (f / "manifest.json").unlink()],
     "encoder.{to} is damaged"),
    (lambda f, to: (f / "config.json").unlink(), "has no config.json"),
    (lambda f, to: (f / "config.json").write_text('{"model_type": "transformer_nbdev"}'), "is of another program"),
])
def test_what_is_damaged_is_named(folders, tmp_path, to, damage, said):
    import shutil

    shutil.copytree(folders / to, tmp_path / "copy")
    damage(tmp_path / "copy", to)
    with pytest.raises(ValueError, match=said.format(to=to)):
        load_graphs(tmp_path / "copy")


def test_wrong_arguments_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="onnx or pt2"):
        export_model(tiny_model(), tmp_path / "new", to="tflite")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(ValueError, match="not empty"):
        export_model(tiny_model(), tmp_path / "full", to="pt2")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["full", "mine"]
    graphs = GraphModel(tiny_model().config, None, None)
    with pytest.raises(ValueError, match="cannot be trained"):
        graphs.train()


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install 'transformer-nbdev\[onnx\]'"):
        export_model(tiny_model(), tmp_path / "new")
    assert not list(tmp_path.iterdir())
