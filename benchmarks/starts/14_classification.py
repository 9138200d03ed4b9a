"""Four poolings and a CLS of two layers with whole boxes held out, two of them also on the random split: shares right.

`votes`: how many of the start's four models say praise, for each strange review; `edited`: right where the answer must
turn, and must stay, by model; `silenced`: for the CLS of two layers, by role, what `silence` returns; `other`: right on
three clauses and on two that were moved, by model. The models are those of `makers`, with the CLS of two layers.
"""
before = "ae4f4cd4"


def run(notebook: dict, seed: int) -> dict:
    start, makers, config, deep = (notebook[name] for name in ("start", "makers", "config", "deep"))
    accuracy, tensors, blind = notebook["accuracy"], notebook["tensors"], notebook["BlindAtFirst"]
    results, models = {}, {}
    for name, make in makers.items():
        models[name], _, results[name] = start(make, config, seed)
    for name in ("mean", "cls"):
        _, _, results[f"{name}, random split"] = start(makers[name], config, seed, notebook["at_random"])
    models["cls"], _, results["cls, 2 layers"] = start(makers["cls"], deep, seed)
    for who in ("words", "CLS"):
        _, _, results[f"blind {who}"] = start(lambda c, who=who: blind(c, who), deep, seed)
    results = {name: round(share, 4) for name, share in results.items()}
    results["votes"] = notebook["votes"](models.values())
    edited = [tensors(notebook[name]) for name in ("must_turn", "must_stay")]
    results["edited"] = [[round(accuracy(one, *data), 4) for data in edited] for one in models.values()]
    others = notebook["others"].values()
    results["other"] = [[round(accuracy(one, *data), 4) for data in others] for one in models.values()]
    results["silenced"] = [[round(x, 3) for x in row] for row in notebook["silence"](models["cls"])]
    return results
