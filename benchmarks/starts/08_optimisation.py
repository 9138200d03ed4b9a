"The last loss at each rate, by each way to step; one broken batch; what sublayers add; and what saves a lost run."
import numpy as np

before = "6c1f93ae"


def run(notebook: dict, seed: int) -> dict:
    train, drowning, first_change = notebook["train"], notebook["drowning"], notebook["first_change"]
    found, kept = {}, {}
    for name, (way, rates) in notebook["sweeps"].items():
        runs = {lr: train(**way, lr=lr, seed=seed) for lr in rates}
        found[f"sweep: {name}"] = [one.final for one in runs.values()]
        kept[name] = runs[0.5 if "momentum" in name else 0.03]
    for name, case in notebook["cases"].items():
        found[f"batch: {name}"] = notebook["after_one_batch"](kept["Adam, warm-up"], *case)
    for name, one in kept.items():
        found[f"varies: {name}"] = float(f"{one.varies[-1]:.3g}")
        found[f"divided: {name}"] = float(f"{one.divided[-1]:.3g}")
        found[f"adds: {name}"] = [float(f"{x:.3g}") for x in drowning(one.model)]
        if name.startswith("Adam"):
            found[f"first change: {name}"] = first_change(**notebook["ways"][name], seed=seed)
    found["cut"] = np.mean([length > 0.25 for length in kept["momentum, clipped"].lengths])
    for name, way in notebook["controls"].items():
        kept[name] = train(**way, seed=seed)
        found[f"control: {name}"] = kept[name].final
    both = notebook["ways"]["Adam, pre-norm"] | dict(lr=0.12, warmup=35)
    found["pre-norm at 0.12, warm-up"] = train(**both, seed=seed).final
    for name, update in (("Adam", 0), ("Adam, 20 updates at a 35th", 20), ("Adam, warm-up", 34)):
        found[f"first full step: {name}"] = [kept[name].steps[update], kept[name].losses[update]]
    exact = ("varies", "divided", "adds")
    return {name: value if name.startswith(exact) else np.round(value, 3).tolist() for name, value in found.items()}
