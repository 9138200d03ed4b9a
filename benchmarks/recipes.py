"""What each default setting brings: Multi30k for a few minutes, with all of them and with each one taken back.

    python benchmarks/recipes.py [--data FOLDER] [--minutes 4] [--seeds 0]

BLEU is of the validation split: nothing is chosen on the test set. A run is stored as soon as it is there, beside
the others, so the table can be filled in several sittings.
"""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from common import cli, results, save

variations = {  # what a run is told, beside the minutes and the seed
    "the defaults": [],
    "AdamW": ["--optimizer", "adamw", "--lr", "2e-3", "--warmup", "200"],
    "batches of 4,096 positions": ["--batch-tokens", "4096"],
    "dropout .1 from the start": ["--dropout", "0.1"],
    "no dropout": ["--dropout", "0"],
    "with biases": ["--bias"],
    "vocabulary of 8,000": ["--vocab-size", "8000"],
    "no average of the weights": ["--ema", "0"],
    "no label smoothing": ["--label-smoothing", "0"],
}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k; default: $MULTI30K, or downloaded")
parser.add_argument("--minutes", type=float, default=4)
parser.add_argument("--seeds", type=int, nargs="+", default=[0])
parser.add_argument("--only", nargs="+", choices=variations, default=[*variations])
arguments = parser.parse_args()
data = ["--data", arguments.data or "multi30k"]


def train_and_measure(name: str, seed: int) -> dict:
    "One run by the command line, and its BLEU on the validation split."
    told = [*variations[name], "--minutes", f"{arguments.minutes:g}", "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        cli("train", *data, *told, "--out", run)
        scores = json.loads(cli("evaluate", "--model", run, *data, "--split", "val"))
        lines = (Path(run) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return {
        "what": name, "minutes": arguments.minutes, "seed": seed,
        "command": f"transformer-nbdev train --data multi30k {' '.join(told)} --out RUN",
        "steps": records[-1]["step"], "val_BLEU": scores["BLEU"]["score"],
        "length_penalty": next(r["length_penalty"] for r in records if "length_penalty" in r),
    }


for name in arguments.only:
    for seed in arguments.seeds:
        stored = results / "recipes.json"
        runs = json.loads(stored.read_text(encoding="utf-8"))["runs"] if stored.exists() else []
        key = name, arguments.minutes, seed
        runs = [r for r in runs if (r["what"], r["minutes"], r["seed"]) != key] + [train_and_measure(name, seed)]
        runs.sort(key=lambda r: ([*variations].index(r["what"]), r["minutes"], r["seed"]))
        save("recipes", {"task": "Multi30k En-De, val, cased sacreBLEU 13a, beam 5", "runs": runs})
        same = [r["val_BLEU"] for r in runs if (r["what"], r["minutes"]) == key[:2]]
        print(f"{name}: {statistics.mean(same):.2f} ({len(same)} seeds)")
