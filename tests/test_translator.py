"Scores of given pairs, n-best lists, forbidden repetitions, tags: what they promise."
import itertools
import json

import pytest
import torch
from helpers import cli, sentences, tiny_model, train

from transformer_nbdev.search import _ListSearch, forbid_repeats, log_probabilities
from transformer_nbdev.tools.corpora import load_pairs

texts = [source for source, _ in sentences(30, seed=7)]


def test_a_score_is_that_of_the_search(translator):
    found, values = translator.translate(texts, return_scores=True)
    scores = translator.score(list(zip(texts, found)))
    assert torch.allclose(torch.tensor(scores), torch.tensor(values), atol=1e-4)
    one_by_one = [translator.score([pair])[0] for pair in zip(texts, found)]
    assert torch.allclose(torch.tensor(scores), torch.tensor(one_by_one), atol=1e-4)
    assert translator.score([]) == []


def test_probabilities_of_all_targets_sum_to_one():
    model = tiny_model(vocab_size=6)
    src = torch.tensor([[3, 4, 2]])
    total = 0.0
    for n in range(4):  # all targets of n tokens and the end token; what is longer is missing
        for ids in itertools.product((0, 1, 3, 4, 5), repeat=n):
            if 0 not in ids:
                total += float(log_probabilities(model, src, torch.tensor([[*ids, 2]])).exp())
    assert 0.3 < total < 1


def test_a_pair_with_an_empty_side_is_refused(translator):
    with pytest.raises(ValueError, match="pair 2 has an empty side"):
        translator.score([("one", "eins"), ("one", " ")])


def test_the_first_of_an_n_best_list_is_the_translation(translator):
    lists = translator.n_best([*texts, ""], 4, beam_size=4)
    assert lists.pop() == []
    best, values = translator.translate(texts, return_scores=True, beam_size=4)
    assert [found[0][0] for found in lists] == best
    for found, value in zip(lists, values):
        scores = [score for _, score in found]
        assert abs(scores[0] - value) < 1e-4 and scores == sorted(scores, reverse=True)
        assert len({text for text, _ in found}) == len(found) <= 4
    alone = [translator.n_best([text], 4, beam_size=4)[0] for text in texts[:8]]
    assert [[text for text, _ in found] for found in alone] == [[text for text, _ in found] for found in lists[:8]]


def test_an_n_best_list_holds_the_best_of_all():
    "With a beam as wide as the vocabulary nothing that ends within two tokens can be missed."
    model = tiny_model(vocab_size=8)
    src = torch.tensor([[3, 4, 5, 2]])
    search = _ListSearch(model, src, 2, 0, 8, 0.0, 8, 0)
    search.run()
    found = {tuple(i for i in row if i): value for row, value in
             zip(search.lists[0].tolist(), search.list_scores[0].tolist())}
    ids = [i for i in range(8) if i not in (0, 1)]
    every = [(2,), *((a, b) for a in ids if a != 2 for b in ids)]
    log_p = {}
    for target in every:
        logits = model(src, torch.tensor([[1, *target]]))[0].detach().log_softmax(-1)
        log_p[target] = sum(float(logits[t, i]) for t, i in enumerate(target))
    best = sorted(every, key=log_p.__getitem__, reverse=True)[:8]
    assert list(found) == best
    assert all(abs(found[target] - log_p[target]) < 1e-4 for target in best)


def test_repeats_are_forbidden():
    written = torch.tensor([[5, 6, 5, 6, 7, 5, 6], [3, 3, 3, 3, 3, 3, 4]])
    none = [set(), set()]
    cases = {1: [{5, 6, 7}, {3, 4}], 2: [{5, 7}, set()], 3: [{5, 7}, set()], 4: none, 9: none}
    for n, expected in cases.items():
        log_p = torch.zeros(2, 9)
        forbid_repeats(log_p, written, n)
        assert [set(row.isinf().nonzero()[:, 0].tolist()) for row in log_p] == expected, n


@pytest.mark.parametrize("options", [{"n_best": 0}, {"n_best": 6}])
def test_options_out_of_range(translator, options):
    with pytest.raises(ValueError):
        translator.n_best(["one"], **options)


def test_several_target_languages(command, tmp_path):
    pairs, report = load_pairs(None, "val", "en", "de,ko")
    assert report.read == len(pairs) == 400
    assert [p for p in load_pairs(None, "val", "en", "ko", tags=True)[0]] == pairs[200:]
    folder = tmp_path / "pairs"
    folder.mkdir()
    for split in ("train", "val", "test"):
        some = pairs[:20] if split == "train" else pairs[20:24]
        (folder / f"{split}.en").write_text("".join(s.partition(" ")[2] + "\n" for s, _ in some))
        for language in ("de", "ko"):
            (folder / f"{split}.{language}").write_text("".join(t + "\n" for _, t in some), encoding="utf-8")
    out = tmp_path / "run"
    done = command(*train(folder, out, "--tgt", "de,ko", "--steps=3")[len(cli) :])
    assert done.returncode == 0 and "40 sentence pairs" in done.stderr, done.stderr
    done = command("evaluate", "--model", out, "--tgt", "ko", "--device", "cpu", "--beam-size", "1")
    assert done.returncode == 0 and json.loads(done.stdout)["sentences"] == 4, done.stderr


def test_score_and_n_best_on_the_command_line(command, trained):
    base = ["--model", trained, "--device", "cpu", "--precision", "fp32"]
    lines = "".join(f"{text}\n" for text in texts[:5])
    done = command("translate", *base, "--scores", "--beam-size", "1", stdin=lines)
    assert done.returncode == 0, done.stderr
    values, found = zip(*(line.split("\t") for line in done.stdout.splitlines()))
    given = "\n".join(f"{s}\t{t}" for s, t in zip(texts, found)) + "\n\n"
    done = command("score", *base, stdin=given)
    scores = done.stdout.split("\n")
    assert done.returncode == 0 and scores[5:] == ["", ""], done.stderr
    assert all(abs(float(a) - float(b)) < 1e-3 for a, b in zip(values, scores[:5]))
    done = command("score", *base, stdin="one\teins\none eins\n")
    assert done.returncode == 1 and "standard input:2: expected source, tab, target" in done.stderr and not done.stdout
    done = command("translate", *base, "--n-best", "3", stdin=lines + "\n")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [row[0] for row in rows] == sorted(row[0] for row in rows) and len(rows) > 10
    assert rows[-1] == ["6", "0.0000", ""]
    done = command("translate", *base, "--no-repeat-ngram", "1", stdin="one one one one\n")
    assert done.returncode == 0 and done.stdout.count("eins") == 1
