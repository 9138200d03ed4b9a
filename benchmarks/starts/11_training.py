"""Training loops of 11_training: the share of the 200 unseen numbers that come out right, each loop at its own best
rate, and with three layers at the rate 0.006. The rates were chosen before, by other starts (100 to 102) and by 156
numbers that occur neither in the training nor among the 200: "…, by rate" has rows of a rate and three shares."""
import numpy as np

before = "e11a0002"
constant, decaying = (0.001, 0.002, 0.004, 0.006), (0.002, 0.004, 0.006, 0.012)
wide = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.012)
from_twenty_starts = (
    "all five",
    "none of the five",
    "none, random batches",
    "none, pools of 200",
    "all five, random batches",
)
best: dict[str, float] = {}  # the rate that was chosen for each row


def choose(notebook: dict, row: str, rates: tuple) -> list:
    "Try a row at several rates; remember the best one."
    used = {*notebook["train_numbers"], *notebook["held_out"]}
    others = notebook["number_pairs"]([number for number in range(1, 1000) if number not in used])
    found = []
    for rate in rates:
        models = [notebook["trained"](row, rate, seed) for seed in (100, 101, 102)]
        found.append([rate, *[round(notebook["exact_share"](model, others), 4) for model in models]])
    best[row] = max(found, key=lambda one: np.mean(one[1:]))[0]
    return found


def run(notebook: dict, seed: int) -> dict:
    results = {}
    if not best:
        for row, options in notebook["rows"].items():
            rates = decaying if options.get("decays", True) else constant
            if row in ("all five", "none of the five"):
                rates = wide
            elif row == "none, random batches":
                rates = (*constant, 0.012)
            results[f"{row}, by rate"] = choose(notebook, row, rates)
    settings = {row: (row, best[row], 1) for row in from_twenty_starts}
    for row in ("all five", "no warm-up"):
        settings[f"{row}, 3 layers"] = (row, 0.006, 3)
    for name, (row, rate, layers) in settings.items():
        model = notebook["trained"](row, rate, seed, layers)
        results[name] = round(notebook["exact_share"](model), 4)
    return results
