"""How the plan of the batches changes what a small model learns: 10_data's experiment, with twenty starts.

    python benchmarks/batching.py [--seeds 20]

The code is the notebook's own: its cells up to the experiment are run, then each plan is trained from every seed.
"""
import argparse
import contextlib
import io
import json

import matplotlib
from common import root, save

ways = ("mixed", "mixed, kept", "alike, 50 each", "TokenBatches", "short first", "pools of 250")


def cells_before(notebook: str, cell: str) -> dict:
    "The names that a notebook defines before the cell with this id."
    matplotlib.use("Agg")
    names: dict = {"__name__": "notebook"}
    for one in json.loads((root / "nbs" / notebook).read_text(encoding="utf-8"))["cells"]:
        if one["id"] == cell:
            return names
        if one["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec("".join(one["source"]), names)
    raise ValueError(f"{notebook} has no cell {cell}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    names = cells_before("10_data.ipynb", "c8e2c343")
    runs = {}
    for way in ways:
        curves = [names["learn"](names["planned"](way, seed), names["numbers"], seed) for seed in range(seeds)]
        runs[way] = [curve.round(4).tolist() for curve in curves]  # positions, loss, loss below 100, loss of six digits
        print(way, *(f"{curve[-1, 2]:.2f}" for curve in curves))
    save("batching", {"command": f"python benchmarks/batching.py --seeds {seeds}", "runs": runs})


if __name__ == "__main__":
    main()
