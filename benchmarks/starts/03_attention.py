"""Readers of two banks: the share of right answers with three divisors at two rates, and with half of a scale.

The last list holds what a reader that always had a clue answers at a bank whose clue is hidden: (water, money).
"""
before = "a5ca1e02"
divisors = {"√d_k = 8": 8, "d_k = 64": 64, "no scale": 1}
halves = {"no scale, start / 8": {"start": 1 / 8}, "no scale, steps / 8": {"step": 1 / 8}}


def run(notebook: dict, seed: int) -> dict:
    train, reader, torch = notebook["train"], notebook["BankReader"], notebook["torch"]
    trained = {name: train(reader(seed, divisor), seed) for name, divisor in divisors.items()}
    trained |= {name: notebook["train_half"](seed, **half) for name, half in halves.items()}
    for name, divisor in divisors.items():
        trained[f"{name}, slow"] = train(reader(seed, divisor), seed, rate=0.005, steps=320)
    results: dict = {name: round(notebook["share_right"](one, *notebook["exam"]), 4) for name, one in trained.items()}
    banks, not_river = torch.tensor([[4, 12]]), torch.arange(16) != 7
    first, _ = train(reader(seed), seed, meanings=2).at_banks(notebook["story_ids"], banks, not_river)[0]
    results["always a clue, river hidden"] = [round(x, 3) for x in first.tolist()]
    return results
