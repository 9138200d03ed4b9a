"""Large and mixed corpora: memory and time to the first update for many generated pairs, beside few.

    python benchmarks/stream.py --pairs 100000 5000000

Writes the pairs to a temporary folder (a gigabyte for five million) and trains a few updates on them in a process of
its own. Results go to benchmarks/results/KIND/stream.json.
"""
import argparse
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import env, results, save

from transformer_nbdev.tools.corpora import number_pairs

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pairs", nargs="+", type=int, default=[100_000, 5_000_000])
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--preset", default="tiny")
parser.add_argument("--folder", help=argparse.SUPPRESS)


def write_pairs(folder: Path, n: int) -> None:
    "Two or three numbers in words a sentence, all sentences different enough."
    rng, words = random.Random(0), number_pairs(range(10_000))
    names = folder / "train.en", folder / "train.de"
    with names[0].open("w", encoding="utf-8") as en, names[1].open("w", encoding="utf-8") as de:
        for _ in itertools.repeat(None, n):
            chosen = rng.choices(words, k=2 + (rng.random() < 0.5))
            en.write(" and ".join(a for a, _ in chosen) + "\n")
            de.write(" und ".join(b for _, b in chosen) + "\n")


def train(folder: Path, preset: str, steps: int) -> dict:
    "What the command line does, in this process; seconds to the first update, most memory."
    from transformer_nbdev.cli import cli
    from transformer_nbdev.training import Updater

    start, update = time.perf_counter(), Updater.update
    first: list[float] = []

    def timed(self, progress):
        found = update(self, progress)
        first.append(time.perf_counter() - start)
        return found

    Updater.update = timed
    words = f"train --data {folder} --stream --valid-split none --preset {preset} --plain --save-every 0"
    cli([*words.split(), "--steps", str(steps), "--out", str(folder / "run")], standalone_mode=False)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first_update_s": round(first[0], 1), "most_mib": round(most), "updates": len(first)}


if __name__ == "__main__":
    a = parser.parse_args()
    if a.folder:
        print(json.dumps(train(Path(a.folder), a.preset, a.steps)))
        raise SystemExit
    rows = {}
    for n in a.pairs:
        with tempfile.TemporaryDirectory() as place:
            write_pairs(Path(place), n)
            size = sum(path.stat().st_size for path in Path(place).iterdir()) / 2**20
            command = [sys.executable, __file__, "--folder", place, "--preset", a.preset, "--steps", str(a.steps)]
            out = subprocess.run(command, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout
            rows[f"{n:,}"] = {"files_mib": round(size), **json.loads(out.splitlines()[-1])}
            print(n, rows[f"{n:,}"])
    save("stream", {"task": "training from files, a shard at a time", "steps": a.steps, "rows": rows})
    print(results / "stream.json")
