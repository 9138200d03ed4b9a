"""Readers of two banks: the share of right answers with five scales, and with three of them at a quarter of the rate.

The last list holds what a reader that always had a clue answers at a bank whose clue is hidden: (water, money).
"""
before = "81e3923b"
ways = {
    "√d_k = 8": {}, "d_k = 64": {"divisor": 64}, "no scale": {"divisor": 1},
    "no scale, start / 8": {"divisor": 1, "start": 1 / 8}, "no scale, steps / 8": {"divisor": 1, "step": 1 / 8},
    "√d_k = 8, slow": {"rate": 0.005, "steps": 320}, "d_k = 64, slow": {"divisor": 64, "rate": 0.005, "steps": 320},
    "no scale, slow": {"divisor": 1, "rate": 0.005, "steps": 320},
}


def run(notebook: dict, seed: int) -> dict:
    train, torch = notebook["train"], notebook["torch"]
    results: dict = {}
    for name, way in ways.items():
        results[name] = round(notebook["share_right"](train(seed, **way), *notebook["exam"]), 4)
    banks, not_river = torch.tensor([[4, 12]]), torch.arange(16) != 7
    first, _ = train(seed, meanings=2).at_banks(notebook["story_ids"], banks, not_river)[0]
    results["always a clue, river hidden"] = [round(x, 3) for x in first.tolist()]
    return results
