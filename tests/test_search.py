"Translations do not depend on what else is in the batch, nor on saving and loading."
import pytest
import torch
from helpers import needs_gpu, refused, sentences, tiny_model
from torch import Tensor

from transformer_nbdev.data import pad
from transformer_nbdev.decoder import Decoder, shift_right
from transformer_nbdev.search import _sampler, beam_search, generate
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator

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
    assert translator.translate([]) == [] and translator.translate(("", " ")) == ["", ""]
    assert translator.translate(text for text in ("one two", "four")) == translator.translate(["one two", "four"])


@pytest.mark.parametrize("text", ["<pad> <eos> <bos>", "🜁" * 9, "x" * 60])
def test_strange_texts(translator, text):
    found = translator.translate([text, "four"])
    assert isinstance(found[0], str) and found[1] == translator.translate(["four"])[0] != ""


src = torch.tensor([[3, 4, 5, 2, 0], [6, 7, 8, 9, 2], [5, 2, 0, 0, 0]])


def written(model: Transformer, rows: Tensor, sentence_of_row: list[int]) -> Tensor:
    "Logits of every position of `rows` `(R, T)` by teacher forcing, each row with its own source."
    return model(src[sentence_of_row], rows)


@searches
def test_a_search_in_training_mode_switches_dropout_off_and_on(beam_size):
    model = tiny_model(dropout=0.5)
    expected, scores = model.generate(src, 6, beam_size=beam_size, return_scores=True)
    model.train()
    for _ in range(2):
        found = model.generate(src, 6, beam_size=beam_size, return_scores=True)
        assert torch.equal(found[0], expected) and torch.equal(found[1], scores)
        assert model.training and model.decoder.layers[0].residual1.dropout.training
    with refused(ValueError, "src"):
        beam_search(model, src[:0], 2)
    assert model.training  # after an error as well


@torch.no_grad()
@pytest.mark.parametrize("sentences", [[1, 2], [2, 0]])
def test_select_moves_pasts_memories_and_masks_together(sentences):
    model = tiny_model().double()
    rows = torch.randint(3, 20, (6, 4), generator=torch.Generator().manual_seed(0))
    state = model.start(src, 4)
    for t in range(3):
        model.step(rows[:, t], state)
    kept = [2 * s + k for s in sentences for k in (1, 1)]  # both continue the second hypothesis
    state.select(torch.tensor(kept), torch.tensor(sentences))
    past = torch.cat([rows[kept, :3], rows[: len(kept), 3:]], 1)
    found = model.step(past[:, 3], state)
    expected = written(model, past, [s for s in sentences for _ in (0, 1)])[:, 3]
    assert (found - expected).abs().max() < 1e-10
    assert state.memory_mask.shape[0] == len(sentences)


@torch.no_grad()
def test_several_positions_at_once_enter_the_cache_causally():
    torch.manual_seed(0)
    decoder, x, memory = Decoder(2, 16, 4, 32).eval(), torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    state = decoder.start(memory, None, 7)
    found = torch.cat([decoder.step(part, state) for part in x.split([3, 1, 3], 1)], 1)
    assert (found - decoder(x, memory)).abs().max() < 1e-5


@needs_gpu
@searches
def test_the_gpu_translates_like_the_cpu(trained, translator, beam_size):
    gpu = Translator.from_pretrained(trained, "cuda")
    found = gpu.translate(unseen, beam_size=beam_size)
    expected = translator.translate(unseen, beam_size=beam_size)
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 39


def test_a_translation_may_be_twice_as_long_as_its_source_and_32_more(translator, monkeypatch):
    texts, seen = ["one", "one two three four one two three"], []

    def watched(model, src, **options):
        seen.extend(options["max_new_tokens"].tolist())
        return generate(model, src, **options)

    monkeypatch.setattr("transformer_nbdev.translator.generate", watched)
    translator.translate(texts)
    lengths = [len(translator.tokenizer.encode(text)) + 1 for text in texts]
    longest = translator.model.config.max_len
    assert sorted(seen) == sorted(min(longest, 2 * n + 32) for n in lengths)
    assert min(seen) < longest, "the limit is that of the model: the formula was not tried"


@searches
def test_no_end_before_min_new_tokens_and_force_end_at_the_limit(beam_size):
    model = tiny_model()
    model.output.bias = torch.nn.Parameter(8.0 * (torch.arange(20) == 2).float())  # the end is likely
    for options in (dict(beam_size=beam_size), dict(do_sample=True)):
        lengths = [min(map(len, rows(model.generate(src, 12, least, **options)))) for least in (0, 7)]
        assert lengths[0] < 8 <= lengths[1]
    forced = tiny_model()
    forced.generation.force_end = True
    out = forced.generate(src, 3, min_new_tokens=2, beam_size=beam_size)
    assert (out[:, :2] > 2).all() and (out[:, 2] == 2).all()


def test_draws_follow_the_formulas():
    p = torch.tensor([0.1, 0.5, 0.15, 0.25])
    for knobs, expected in (
        (dict(), p),
        (dict(temperature=0.5), p**2 / (p**2).sum()),
        (dict(temperature=2.0), p.sqrt() / p.sqrt().sum()),
        (dict(top_k=2), torch.tensor([0, 2 / 3, 0, 1 / 3])),
        (dict(top_p=0.8), torch.tensor([0, 0.5, 0.15, 0.25]) / 0.9),
    ):
        choose = _sampler(**knobs, generator=torch.Generator().manual_seed(0))
        drawn = choose(p.log().expand(20_000, -1)).bincount(minlength=4) / 20_000
        assert (drawn - expected).abs().max() < 0.015 and not drawn[expected == 0].any(), knobs


def test_scores_are_those_of_teacher_forcing():
    model = tiny_model().double()
    for options in (dict(), dict(beam_size=5), dict(do_sample=True, temperature=1.5)):
        out, scores = model.generate(src, 12, return_scores=True, **options)
        with torch.no_grad():
            logits = model(src, shift_right(out)).transpose(1, 2)
        log_p = -torch.nn.functional.cross_entropy(logits, out, ignore_index=0, reduction="none").sum(1)
        alpha = model.generation.length_penalty if "beam_size" in options else 0.0
        expected = log_p / ((5 + (out != 0).sum(1).double()) / 6) ** alpha
        torch.testing.assert_close(scores, expected, rtol=1e-9, atol=1e-9)


def test_a_beam_of_one_without_length_penalty_is_greedy_search():
    for seed in range(6):
        model = tiny_model(seed).double()
        greedy, log_p = model.generate(src, 12, return_scores=True)
        beam, scores = beam_search(model, src, 1, 12, length_penalty=0.0)
        assert torch.equal(greedy, beam)
        torch.testing.assert_close(log_p, scores)


def test_four_threads_may_share_a_translator(translator):
    from concurrent.futures import ThreadPoolExecutor

    wanted = translator.translate(unseen, beam_size=3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: translator.translate(unseen, beam_size=3), range(12)))
    assert all(one == wanted for one in found)
