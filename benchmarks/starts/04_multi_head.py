"""The card game with one, two and four heads and its variants: shares of right answers, left and twin.

"looks left" is the number of the head that does; the last lists are the twin finder's shares at d_k = 256.
"""
before = "76ee34ba"
finders = {
    "scaled": {"score": "scaled"}, "unscaled": {"score": "unscaled"}, "additive": {"score": "additive"},
    "additive, u of variance 1": {"score": "additive", "u_size": 16.0},
    "unscaled, even start": {"score": "unscaled", "w_size": 0.25},
    "unscaled, even start, small steps": {"score": "unscaled", "w_size": 0.25, "lr": 0.0025},
}


def run(notebook: dict, seed: int) -> dict:
    train_reader, looks_left = notebook["train_reader"], notebook["head_that_looks_left"]
    cuts, reader_with = notebook["cuts"], notebook["reader_with"]
    games = {
        "1 head": (1, {}), "2 heads": (2, {}), "4 heads": (4, {}), "1 head, 160 steps": (1, {"steps": 160}),
        "left card hidden": (1, {"steps": 150, "lr": 0.01, "make": notebook["BlindReader"]}),
        "2 heads, exchanged": (2, {"make": notebook["swapped"]}),
    }
    for name, cut in cuts.items():
        if name != "split_heads":
            games[name] = 2, {"steps": 160, "make": lambda n, cut=cut: reader_with(*cut)}
    results: dict = {}
    for name, (n_heads, options) in games.items():
        reader, history = train_reader(n_heads, start=seed, **options)
        results[name] = [round(share, 4) for share in history[-1][0]]
        if name in ("2 heads", "2 heads, exchanged"):
            results[f"looks left: {name}"] = looks_left(reader)
    for name, options in finders.items():
        results[f"twin: {name}"] = round(notebook["find_twins"](256, seed=seed, **options)[1], 4)
    return results
