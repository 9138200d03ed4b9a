"Exported graphs write what the model writes, with any batch and any search; what is damaged is named."
import shutil
import sys

import pytest
import torch
from helpers import only_translates, tiny_model, typed

from transformer_nbdev import Translator
from transformer_nbdev.convert.onnx import GraphModel, export_model, export_programs, load_graphs
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.tools.corpora import LengthWarning

pytest.importorskip("onnxruntime")
kinds = {
    "paper": {},
    "no bias, silu, pre-norm, untied": {
        "bias": False, "activation": "silu", "norm_first": True, "n_decoder_layers": 2, "tie_embeddings": False,
        "scale_embeddings": False, "output_bias": True,
    },
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
    model = tiny_model(seed=1, **kinds[kind])
    for parameter in model.parameters():  # also norms and biases, which start as ones and zeros
        parameter.data += 0.1 * torch.randn_like(parameter)
    programs = export_programs(model.train())
    assert model.training
    graphs = GraphModel(model.config, *(programs[name].module() for name in ("encoder", "step")))
    for lengths in ((1,), (5, 2), (3, 9, 1, 9)):
        src = sources(model, *lengths)
        for options in ({}, {"beam_size": 2, "length_penalty": 1.4, "min_new_tokens": 2}):
            wanted, found = (m.generate(src, 12, return_scores=True, **options) for m in (model, graphs))
            assert wanted[0].equal(found[0]), (lengths, options)
            torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    "A model with a tokenizer, as it is saved, and its two exported forms."
    room = tmp_path_factory.mktemp("graphs")
    tokenizer = Tokenizer.train(["one two three four five six seven eight nine ten"] * 3, 280)
    model = tiny_model(seed=2, vocab_size=tokenizer.vocab_size, norm_first=True)
    Translator(model, tokenizer).save_pretrained(room / "native")
    for to in ("pt2", "onnx"):
        done = typed("convert", "--to", to, room / "native", room / to)
        assert done.returncode == 0 and done.stderr.startswith(f"wrote {room / to}; next: ")
        assert done.stderr.count("\n") == 1, done.stderr  # no word of PyTorch's
    return room


@pytest.mark.parametrize("to", ["pt2", "onnx"])
def test_a_folder_translates(folders, to):
    texts = ["two nine", "", "seven", "ten one four two eight eight"]
    wanted = Translator.from_pretrained(folders / "native").translate(texts, beam_size=2, return_scores=True)
    found = Translator.from_onnx(folders / to).translate(texts, beam_size=2, return_scores=True)
    assert wanted[0] == found[0] and wanted[0][0] and found[1] == pytest.approx(wanted[1], abs=1e-4)


def test_the_command_line_translates_with_a_folder(folders):
    search = ["--beam-size=2", "--length-penalty=0.6", "--max-new-tokens=6", "--engine=plain", "--device=cpu"]
    found = [typed("translate", "--model", folders / name, *search, stdin="one\ntwo\n") for name in ("native", "onnx")]
    assert found[0].stdout == found[1].stdout and found[1].stdout.count("\n") == 2
    only_translates(folders / "onnx")


def test_a_text_that_is_too_long_is_cut_and_named(folders):
    texts, found = ["two nine", "seven one " * 40], []
    for translator in (Translator.from_pretrained(folders / "native"), Translator.from_onnx(folders / "onnx")):
        with pytest.warns(LengthWarning, match="text 2 has .* tokens, the model reads 64"):
            found.append(translator.translate(texts, max_new_tokens=9))
    assert found[0] == found[1] and found[1][1]


@pytest.mark.parametrize("to", ["pt2", "onnx"])
@pytest.mark.parametrize("damaged, said", [
    ("step", "has no step.{to}"), ("encoder", "encoder.{to} is not the file"), ("manifest", "encoder.{to} is damaged"),
])
def test_what_is_damaged_is_named(folders, tmp_path, to, damaged, said):
    copy = tmp_path / "copy"
    shutil.copytree(folders / to, copy)
    if damaged == "step":
        (copy / f"step.{to}").unlink()
    else:
        (copy / f"encoder.{to}").write_bytes(b"no graph")
    if damaged == "manifest":
        (copy / "manifest.json").unlink()
    with pytest.raises(ValueError, match=said.format(to=to)):
        load_graphs(copy)


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install 'transformer-nbdev\[onnx\]'"):
        export_model(tiny_model(), tmp_path / "new")
    assert not list(tmp_path.iterdir())
