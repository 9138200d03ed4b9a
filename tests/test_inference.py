"Translations do not depend on what else is in the batch, nor on saving and loading."
import pytest
import torch
from helpers import needs_gpu, sentences
from torch import Tensor

from transformer_nbdev.data import pad
from transformer_nbdev.inference import Translator

searches = pytest.mark.parametrize("beam_size", [1, 4])
unseen = [source for source, _ in sentences(40, seed=9)]


@pytest.fixture(scope="module")
def sources(translator) -> list[Tensor]:
    "Fifty sources: forty sentences and ten rows of random tokens."
    torch.manual_seed(1)
    noise = [torch.randint(3, 280, (n,)) for n in range(1, 41, 4)]
    return [torch.tensor([*translator.tokenizer.encode(s), 2]) for s in unseen] + noise


def rows(out: Tensor) -> list[list[int]]:
    "Each translation up to its end token; nothing but padding may follow."
    found = []
    for row in out.tolist():
        end = row.index(2) + 1 if 2 in row else len(row)
        assert not any(row[end:]), row
        found.append(row[:end])
    return found


def test_the_model_has_learned_something(translator):
    pairs = sentences(40, seed=9)
    found = translator.translate(unseen)
    right = sum(t == r for t, (_, r) in zip(found, pairs, strict=True))
    assert right >= 20, f"only {right} of 40 are right: the tests below would mean little"


@searches
def test_a_translation_does_not_depend_on_its_batch(translator, sources, beam_size):
    def search(some: list[Tensor], extra: int = 0) -> tuple[list[list[int]], Tensor]:
        src = torch.nn.functional.pad(pad(some), (0, extra))
        out, scores = translator.model.generate(
            src, 24, beam_size=beam_size, return_scores=True
        )
        return rows(out), scores

    alone = [search([source]) for source in sources]
    tokens, scores = [t for (t,), _ in alone], torch.cat([s for _, s in alone])
    order = torch.randperm(50, generator=torch.Generator().manual_seed(0)).tolist()
    for size, extra in ((50, 0), (50, 11), (7, 0)):
        for first in range(0, 50, size):
            some = order[first : first + size]
            found, values = search([sources[i] for i in some], extra)
            assert found == [tokens[i] for i in some]
            assert (values - scores[some]).abs().max() < 1e-4


@torch.no_grad()
def test_greedy_search_against_whole_forward_passes(translator, sources):
    model = translator.model
    for source in sources[::5]:
        ids = [1]
        while len(ids) <= 24 and ids[-1] != 2:
            logits = model(source[None], torch.tensor([ids]))[0, -1]
            logits[:2] = -torch.inf
            ids.append(int(logits.argmax()))
        assert rows(model.generate(source[None], 24)) == [ids[1:]]


@searches
def test_translations_do_not_depend_on_batches_and_order(translator, beam_size):
    whole = translator.translate(unseen, beam_size=beam_size)
    assert translator.translate(unseen, max_tokens=40, beam_size=beam_size) == whole
    assert translator.translate(unseen[::-1], beam_size=beam_size) == whole[::-1]
    assert [translator.translate([s], beam_size=beam_size)[0] for s in unseen[:8]] == whole[:8]


def test_saving_and_loading_changes_nothing(translator, sources, tmp_path):
    translator.save_pretrained(tmp_path)
    loaded = Translator.from_pretrained(tmp_path)
    src, tgt = pad(sources), pad([source[:9] for source in sources])
    with torch.no_grad():
        assert torch.equal(loaded.model(src, tgt), translator.model(src, tgt))
    assert loaded.translate(unseen, beam_size=4) == translator.translate(unseen, beam_size=4)
    assert not loaded.model.training and loaded.model.config == translator.model.config
    loaded.save_pretrained(tmp_path / "again")
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


@searches
def test_empty_texts_stay_empty_and_in_place(translator, beam_size):
    one, two = translator.translate(["one two", "four"], beam_size=beam_size)
    texts = ["", "one two", "  ", "\n", "four", "\t", "\u3000"]
    found, scores = translator.translate(texts, return_scores=True, beam_size=beam_size)
    assert found == ["", one, "", "", two, "", ""]
    assert [s == 0 for s in scores] == [True, False, True, True, False, True, True]
    assert translator.translate([]) == [] and translator.translate(["", " "]) == ["", ""]


def test_any_iterable_of_texts(translator):
    expected = translator.translate(["one", "two"])
    assert translator.translate(("one", "two")) == expected
    assert translator.translate(text for text in ("one", "two")) == expected


@pytest.mark.parametrize("text", ["<pad> <eos> <bos>", "\0", "🜁" * 9, "e\u0301", "x" * 60])
def test_strange_texts(translator, text):
    assert isinstance(translator.translate([text])[0], str)
    assert "four" in unseen[0] or translator.translate([text, "four"])[1] != ""


@needs_gpu
@searches
def test_the_gpu_translates_like_the_cpu(trained, translator, beam_size):
    gpu = Translator.from_pretrained(trained, "cuda")
    found = gpu.translate(unseen, beam_size=beam_size)
    expected = translator.translate(unseen, beam_size=beam_size)
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 39
