"""Models with and without label smoothing, trained and half-trained: beams, length penalty, sampling, self-knowledge.

For each model: `right` with beams of 1, 2, 4, 8 (α = 0), `pieces` with 1 and 8, `changed` by a beam of 8 (mended,
spoiled, of these shorter, of these right by the mean), `errors` (search, model) with 1 and 8; on the second half of
the held-out numbers `penalty`: greedy, four beams with α = 0, and with the best of 0, 0.6, 1, 2 on the first half.
For the trained ones `drawn`: shares right at τ = 0.5 and 1 and with top-p 0.9; `knows`: right above wrong, by log P
and by its mean.
`taken back`: of the smoothed model's answers, how many a beam of 8 spoiled, how many of these the tax decided, and how
many are right again with ε/V subtracted; `right` of greedy decoding, of the beam, and of the beam with the repair.
`two spellings`: the model's own share of *and*; at τ = 0.25 the share it samples, and its own shares bent.
`other numbers`: a model and its twin that learn, and are tested on, another draw of the numbers: how many of 400 are
right by greedy decoding, by a beam of 8 and by the repaired beam; how many answers the beam fixed and spoiled.
"""
import torch

before = "01271286"


def run(notebook: dict, seed: int) -> dict:
    results = {}
    for epsilon in (0.1, 0.0):
        model, half, _ = notebook["trained"](epsilon, seed)
        results[f"trained, ε = {epsilon:g}"] = with_beams(notebook, model) | by_itself(notebook, model)
        results[f"half-trained, ε = {epsilon:g}"] = with_beams(notebook, half)
        if epsilon:
            results["taken back"] = taken_back(notebook, model)
    results["other numbers"] = other_numbers(notebook, seed + 1)
    results["two spellings"] = two_spellings(notebook, notebook["trained"](0.0, seed, notebook["two_spellings"])[0])
    return results


def taken_back(notebook: dict, model) -> dict:
    search, decoded, sources, right = (notebook[name] for name in ("beam_search", "decoded", "sources", "right"))
    right_ids, repaired = notebook["right_ids"], notebook["take_back"](model)
    ids, scores = search(model, sources, 8, 24, length_penalty=0.0)
    greedy, eight = decoded(search(model, sources, 1, 24, length_penalty=0.0)[0]), decoded(ids)
    again = decoded(search(repaired, sources, 8, 24, length_penalty=0.0)[0])
    spoiled = [i for i, truth in enumerate(right) if greedy[i] == truth != eight[i]]
    ahead = scores - notebook["piece_log_p"](model, sources, right_ids).sum(1)
    tax = 0.105 * ((right_ids > 0).sum(1) - (ids > 0).sum(1))
    return {
        "spoiled": len(spoiled), "tax decided": int((ahead < tax)[spoiled].sum()),
        "right again": sum(again[i] == right[i] for i in spoiled),
        "right": [share_of(found, right) for found in (greedy, eight, again)],
    }


def other_numbers(notebook: dict, split: int) -> dict:
    shown, held_out = notebook["number_split"](1000, n_train=600, n_held_out=400, seed=split)
    pairs = notebook["number_pairs"](shown, "de", "en")
    texts, right = zip(*notebook["number_pairs"](held_out, "de", "en"))
    search, row = notebook["beam_search"], {}
    for epsilon in (0.1, 0.0):
        model, _, trainer = notebook["trained"](epsilon, split, pairs)
        encode, decode = trainer.tokenizer.encode, trainer.tokenizer.decode
        sources = notebook["pad"]([torch.tensor([*encode(text), 2]) for text in texts])
        found = [model.generate(sources, 24), search(model, sources, 8, 24, length_penalty=0.0)[0]]
        if epsilon:
            found.append(search(notebook["take_back"](model), sources, 8, 24, length_penalty=0.0)[0])
        good = [[decode(ids) == truth for ids, truth in zip(answers, right, strict=True)] for answers in found]
        fixed, spoiled = (sum(a < b for a, b in zip(*pair)) for pair in (good[:2], good[1::-1]))
        row[f"ε = {epsilon:g}"] = {"right": [sum(one) for one in good], "fixed": fixed, "spoiled": spoiled}
    return row


def two_spellings(notebook: dict, free) -> list:
    own, bent = notebook["own_shares"](free), notebook["bent"]
    with_and, without = notebook["count_spellings"](notebook["draws"](free, 0.25, notebook["free_sources"]))
    return [round(float(x), 4) for x in (own.mean(), with_and / (with_and + without), bent(0.25, own).mean())]


def with_beams(notebook: dict, one) -> dict:
    search, share, sources, right = (notebook[name] for name in ("beam_search", "share_right", "sources", "right"))
    found = {k: search(one, sources, k, 24, length_penalty=0.0) for k in (1, 2, 4, 8)}
    errors = [notebook["kinds_of_error"](one, *found[k]) for k in (1, 8)]
    (ids_1, scores_1), (ids_8, scores_8) = found[1], found[8]
    n_1, n_8 = (ids_1 > 0).sum(1), (ids_8 > 0).sum(1)
    greedy, eight = notebook["decoded"](ids_1), notebook["decoded"](ids_8)
    mended = [i for i, truth in enumerate(right) if greedy[i] != truth == eight[i]]
    spoiled = [i for i, truth in enumerate(right) if greedy[i] == truth != eight[i]]
    by_mean = (scores_1 / n_1 > scores_8 / n_8)[spoiled]
    changed = [len(mended), len(spoiled), int((n_8 < n_1)[spoiled].sum()), int(by_mean.sum())]
    return {
        "right": [share(found[k][0]) for k in found],
        "pieces": [round(float(n.double().mean()), 3) for n in (n_1, n_8)],
        "changed": changed, "errors": errors, "penalty": penalty(notebook, one, greedy, right),
    }


def penalty(notebook: dict, one, greedy: list, right: tuple) -> list:
    answers = {}
    for alpha in (0.0, 0.6, 1.0, 2.0):
        ids, _ = notebook["beam_search"](one, notebook["sources"], 4, 24, length_penalty=alpha)
        answers[alpha] = notebook["decoded"](ids)
    first, second = slice(0, 200), slice(200, 400)
    best = max(answers, key=lambda alpha: share_of(answers[alpha][first], right[first]))
    return [*(share_of(found[second], right[second]) for found in (greedy, answers[0.0], answers[best])), best]


def share_of(found: list, right: tuple) -> float:
    return sum(a == b for a, b in zip(found, right, strict=True)) / len(right)


def by_itself(notebook: dict, one) -> dict:
    draws, sources, knows = notebook["draws"], notebook["sources"], notebook["knows"]
    drawn = [draws(one, 0.5, sources), draws(one, 1.0, sources), draws(one, 1.0, sources, top_p=0.9)]
    ids, values = notebook["opinions"](one, sources)
    is_right = [a == b for a, b in zip(notebook["decoded"](ids), notebook["right"])]
    sure = [values[what] for what in ("log P", "mean per piece")]
    right = notebook["torch"].tensor(is_right)
    return {
        "drawn": [notebook["share_right"](ids) for ids in drawn],
        "knows": [round(knows(value[right], value[~right]), 3) for value in sure],
    }
