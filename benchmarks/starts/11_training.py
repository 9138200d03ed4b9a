"""Every row of the table in 11_training: the share of the 200 unseen numbers that come out right, each row at its own
best rate. The rates are chosen first, by three other starts (100 to 102) and by 156 other numbers, which occur neither
in the training nor among the 200: "…, by rate" holds the rate and the three shares."""
import numpy as np

before = "e11a0002"
constant, decaying = (0.001, 0.002, 0.004, 0.006), (0.002, 0.004, 0.006, 0.012)
wide, deep = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.012), (0.0005, 0.001, 0.002, 0.003)
best: dict[tuple, float] = {}  # for each row and depth the rate that was chosen


def choose(notebook: dict, row: str, layers: int, rates: tuple) -> list:
    "Try a row at several rates; remember the best one."
    used = {*notebook["train_numbers"], *notebook["held_out"]}
    others = notebook["number_pairs"]([number for number in range(1, 1000) if number not in used])
    found = []
    for rate in rates:
        models = [notebook["trained"](row, rate, seed, layers) for seed in (100, 101, 102)]
        found.append([rate, *[round(notebook["exact_share"](model, others), 4) for model in models]])
    best[row, layers] = max(found, key=lambda one: np.mean(one[1:]))[0]
    return found


def run(notebook: dict, seed: int) -> dict:
    results = {}
    if not best:
        for row, options in notebook["rows"].items():
            rates = wide if row in ("all five", "none of the five") else decaying
            if not options.get("decays", True) and rates != wide:
                rates = constant
            results[f"{row}, by rate"] = choose(notebook, row, 1, rates)
        for row in ("all five", "none of the five"):
            results[f"{row}, 3 layers, by rate"] = choose(notebook, row, 3, deep)
    settings = {f"{row}": (row, best[row, 1], 1) for row in notebook["rows"]}
    for row in ("all five", "none of the five"):
        settings[f"{row}, 3 layers"] = (row, best[row, 3], 3)
    for row in ("all five", "no warm-up"):
        settings[f"{row}, 3 layers, rate .006"] = (row, 0.006, 3)
    for name, (row, rate, layers) in settings.items():
        model = notebook["trained"](row, rate, seed, layers)
        results[name] = round(notebook["exact_share"](model), 4)
    return results
