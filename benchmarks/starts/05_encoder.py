"""The sorter, whole, without a part and in other wirings: the share of right digits.

"spread: …" is how far the tokens at the top are from being equal, fresh, after one step and after five, and how far
the first step moves them; the last two are (known, new) sentences' digits right after 80 sentences.
"""
before = "5f84f103"
stacks = {
    "the whole stack": {}, "no shortcut": {"part": "shortcut"},
    "no shortcut, warm-up": {"part": "shortcut", "warmup": 25}, "no norm": {"part": "norm"},
    "no norm, small writes": {"part": "norm", "small": True}, "no feed-forward": {"part": "feed-forward"},
    "post-norm": {"norm_first": False}, "post-norm, warm-up": {"norm_first": False, "warmup": 25},
    "post-norm, two layers": {"norm_first": False, "n_layers": 2},
    "post-norm, a third of the rate": {"norm_first": False, "rate": 0.003},
}
looked_into = ("the whole stack", "post-norm", "post-norm, warm-up", "post-norm, two layers")


def run(notebook: dict, seed: int) -> dict:
    torch, top, spread, train = (notebook[name] for name in ("torch", "top", "spread", "train"))
    unseen, share_right, Sorter = (notebook[name] for name in ("unseen", "share_right", "Sorter"))

    def built(part="", small=False, norm_first=True, n_layers=6, warmup=1, rate=0.01, until=None):
        torch.manual_seed(seed)
        model = Sorter(n_layers, norm_first)
        model = notebook["without"](part, model) if part else model
        model = notebook["smaller"](model) if small else model
        train(model, rate=rate, warmup=warmup, until=until)
        return model

    results: dict = {}
    for name, options in stacks.items():
        model = built(**options)
        results[name] = round(share_right(model, unseen), 4)
        if name == "post-norm":
            results["post-norm, spread at the end"] = round(spread(top(model)), 3)
    for name in looked_into:
        fresh, one, five = (top(built(**stacks[name], until=until)) for until in (0, 1, 5))
        moved = float((one - fresh).norm() / fresh.norm())
        results[f"spread: {name}"] = [round(x, 3) for x in (spread(fresh), spread(one), spread(five), moved)]
    for p in (0.0, 0.3):
        torch.manual_seed(seed)
        few, model = torch.randint(10, (80, 6)), Sorter(n_layers=2, dropout=p)
        train(model, sentences=few)
        model.eval()
        results[f"dropout {p}"] = [round(share_right(model, ids), 4) for ids in (few, unseen)]
    return results
