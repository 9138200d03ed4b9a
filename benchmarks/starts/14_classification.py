"""Four poolings and a CLS of two layers with whole boxes held out, two of them also on the random split: shares right.

`silenced`: for the CLS of two layers, by role, what `silence` returns.

`lifted`, measured once, over five translators: `even, …`: is a number even, by 30, 100, 300 and 1,000 labels, with the
translator's encoder frozen or trained further, with a random frozen encoder, and trained from scratch; the others: a
frozen encoder with 100 labels, by question, encoder and pooling.
"""
before = "ae4f4cd4"
translators = 5  # about a minute each


def run(notebook: dict, seed: int) -> dict:
    start, config, deep = (notebook[name] for name in ("start", "config", "deep"))
    results = {}
    for way in notebook["ways"]:
        _, results[way] = start(way, config, seed)
    for way in ("mean", "cls"):
        _, results[f"{way}, random split"] = start(way, config, seed, notebook["at_random"])
    of_two_layers, results["cls, 2 layers"] = start("cls", deep, seed)
    results = {name: round(share, 4) for name, share in results.items()}
    results["silenced"] = [[round(x, 3) for x in row] for row in notebook["silence"](of_two_layers)]
    if seed == 0:
        results["lifted"] = {}
        for number in range(translators):
            for name, share in lifted(notebook, number).items():
                results["lifted"].setdefault(name, []).append(share)
    return results


def lifted(notebook: dict, seed: int) -> dict:
    "The encoder of one translator, frozen and trained further, against random weights."
    translator = notebook["trained_translator"](seed)
    head, whole, sizes = notebook["head_result"], notebook["whole_result"], notebook["sizes"]
    even, thousands, attention = (notebook[name] for name in ("is_even", "thousands_are_even", "AttentionPooling"))
    results = {}
    for name, measure, begin in (("frozen", head, "lifted"), ("random", head, "random"),
                                 ("scratch", whole, "random"), ("tuned", whole, "lifted")):
        results[f"even, {name}"] = [round(measure(translator, even, n, seed, begin), 4) for n in sizes]
    for begin in ("lifted", "random"):
        results[f"thousands, {begin}, mean"] = round(head(translator, thousands, 100, seed, begin), 4)
        for name, question in (("even", even), ("thousands", thousands)):
            share = head(translator, question, 100, seed, begin, attention(64))
            results[f"{name}, {begin}, attention"] = round(share, 4)
    results["thousands, scratch"] = round(whole(translator, thousands, 100, seed, "random"), 4)
    return results
