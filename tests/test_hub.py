"A model goes to the hub and comes back by its name: a folder on this machine stands in for the hub."
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
from helpers import tiny_model, typed

from transformer_nbdev.convert.folders import model_card
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.tools.hub import model_folder, push_folder
from transformer_nbdev.translator import Translator


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    "Where the three functions of the library that we call keep their repositories."
    hub = tmp_path / "hub"

    def upload_folder(repo_id: str, folder_path: str, commit_message: str) -> None:
        shutil.copytree(folder_path, hub / repo_id)

    def snapshot_download(repo_id: str, allow_patterns: list[str]) -> str:
        cache = tmp_path / "cache" / repo_id
        cache.mkdir(parents=True, exist_ok=True)
        for path in (path for pattern in allow_patterns for path in (hub / repo_id).glob(pattern)):
            shutil.copy(path, cache)
        return str(cache)

    monkeypatch.setattr(huggingface_hub, "create_repo", lambda name, private, exist_ok: f"https://hub/{name}")
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return hub


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = Tokenizer.train(["one two three"], 280)
    return Translator(tiny_model(vocab_size=tokenizer.vocab_size), tokenizer)


def test_what_is_put_on_the_hub_comes_back_by_its_name(hub, translator):
    address = translator.push_to_hub("somebody/numbers", ("en", "de"), "number words", "apache-2.0")
    assert address == "https://hub/somebody/numbers"
    assert "license: apache-2.0" in (hub / "somebody/numbers/README.md").read_text()
    found = Translator.from_pretrained("somebody/numbers")
    assert torch.equal(found.model.output.weight, translator.model.output.weight)
    assert found.translate(["one two"], max_new_tokens=5) == translator.translate(["one two"], max_new_tokens=5)
    done = typed("translate", "--model", "somebody/numbers", "--device", "cpu", stdin="one two\n")
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr


def test_a_hub_out_of_reach_is_one_sentence(monkeypatch, tmp_path):
    def fail(*_, **__):
        raise ConnectionError("no\nnetwork")

    for name in ("snapshot_download", "create_repo"):
        monkeypatch.setattr(huggingface_hub, name, fail)
    with pytest.raises(OSError, match="no folder some/model, .*ConnectionError.* try again when online"):
        model_folder("some/model")
    with pytest.raises(OSError, match="some/model .*: no network; log in with hf auth login"):
        push_folder(tmp_path, "some/model")


@pytest.mark.parametrize("name", ["my_run", "./a/b", "a/b/c", "../a", "/no/such"])
def test_what_is_neither_folder_nor_name_asks_nobody(name, tmp_path):
    with pytest.raises(ValueError, match="no folder"):
        model_folder(name)
    with pytest.raises(ValueError, match="organisation/model"):
        push_folder(tmp_path, name)


def test_a_card_says_what_one_wants_to_know(translator):
    scores = {"BLEU": {"score": 36.94, "signature": "nrefs:1|case:mixed|tok:13a"}}
    card = model_card(translator, "somebody/numbers", ("en", "de"), "number words", "apache-2.0", scores)
    header = huggingface_hub.ModelCard(card).data
    assert (header.language, header.license, header.pipeline_tag) == (["en", "de"], "apache-2.0", "translation")
    for words in ("en → de", "number words", r"36.9 (`nrefs:1\|case:mixed\|tok:13a`)", "--model somebody/numbers"):
        assert words in card
    assert "not stated" in model_card(translator, "somebody/numbers", ("en", "de"))
