"""Multi30k English to German from scratch with the default settings: BLEU after so many minutes, for several seeds.

    python benchmarks/multi30k.py [--data FOLDER] [--minutes 8 15 45] [--seeds 0 1 2]

Without --data: $MULTI30K, or downloaded. A result is stored as soon as it is there, beside those of other minutes and
seeds, so the table can be filled in several sittings.
"""
import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from common import cli, results, save

from transformer_nbdev.tools.corpora import multi30k

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k; default: $MULTI30K, or downloaded")
parser.add_argument("--minutes", type=float, nargs="+", default=[8, 15, 45])
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
arguments = parser.parse_args()
data = ["--data", arguments.data or "multi30k"]
test, _ = multi30k("test_2016_flickr", folder=arguments.data)
sentences = "".join(source + "\n" for source, _ in test)


def train_and_measure(minutes: float, seed: int) -> dict:
    "One run by the command line, and what it can."
    options = ["--minutes", f"{minutes:g}", "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        cli("train", *data, *options, "--out", run)
        scores = {split: json.loads(cli("evaluate", "--model", run, *data, "--split", split))
                  for split in ("val", "test_2016_flickr")}
        times = []
        for _ in range(3):
            start = time.perf_counter()
            translated = cli("translate", "--model", run, stdin=sentences).splitlines()
            times.append(time.perf_counter() - start)
        lines = (Path(run) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    samples = [{"source": s, "ours": ours, "reference": r} for (s, r), ours in zip(test[99::100], translated[99::100])]
    return {
        "minutes": minutes, "seed": seed,
        "command": f"transformer-nbdev train --data multi30k {' '.join(options)} --out RUN",
        "training_seconds": records[-1]["seconds"], "steps": records[-1]["step"], "epochs": records[-1]["epoch"],
        "length_penalty": next(r["length_penalty"] for r in records if "length_penalty" in r),
        "tokens_per_second": statistics.median(r["tokens_per_second"] for r in records if "tokens_per_second" in r),
        "val": scores["val"], "test": scores["test_2016_flickr"],
        "translate_seconds": [round(t, 1) for t in times],
        "curve": [{k: round(r[k], 3) for k in ("step", "seconds", "loss", "valid_loss") if k in r}
                  for i, r in enumerate(records) if "valid_loss" in r or i % 3 == 0],
        "samples": samples[:5],
    }


for minutes in arguments.minutes:
    for seed in arguments.seeds:
        stored = results / "multi30k.json"
        runs = json.loads(stored.read_text(encoding="utf-8"))["runs"] if stored.exists() else []
        runs = [r for r in runs if (r["minutes"], r["seed"]) != (minutes, seed)] + [train_and_measure(minutes, seed)]
        runs.sort(key=lambda r: (r["minutes"], r["seed"]))
        save("multi30k", {
            "task": "Multi30k En-De, test_2016_flickr, cased sacreBLEU 13a, default settings, beam 5; "
                    "translate_seconds: 1,000 sentences, with the start of the program", "runs": runs,
        })
        print({k: v for k, v in runs[-1].items() if k not in ("curve", "samples")})
        same = [r["test"]["BLEU"]["score"] for r in runs if r["minutes"] == minutes]
        print(f"{minutes:g} minutes, {len(same)} seeds: mean BLEU {statistics.mean(same):.2f}")
