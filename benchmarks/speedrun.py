"""A race: the least time from nothing to 35, 37 and 39 BLEU on Multi30k, with two cores.

    python benchmarks/speedrun.py "the defaults" --minutes 15 [--data FOLDER] [--seeds 0 1 2]
    python benchmarks/speedrun.py "8,000 tokens" --minutes 15 --options "--vocab-size 8000" --why "shorter texts"

The rules:

- Trained on the 29,000 English-German pairs of Multi30k and on nothing else, from random weights.
- The clock is `train --minutes`: from the first pair read to the model saved, the tuning of the search included.
- What counts is cased sacreBLEU of beam 5 on test_2016_flickr, the mean of three seeds. Choose on the validation split;
  look at the test once for each finished setting.
- Everything else may be changed. The defaults run on the same machine, on the same day.

Each entry stays in results/KIND/speedrun.json, the failures too.
"""
import argparse
import json
import shlex
import statistics
import tempfile
from datetime import date

from common import cli, results, save

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("name", help="what was changed")
parser.add_argument("--minutes", type=float, required=True)
parser.add_argument("--options", default="", help="of transformer-nbdev train")
parser.add_argument("--why", default="", help="why it should help")
parser.add_argument("--data", default="multi30k", help="folder with Multi30k")
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
arguments = parser.parse_args()


def run(seed: int) -> dict:
    "Train once; the BLEU on both splits, and the number of updates."
    with tempfile.TemporaryDirectory() as folder:
        options = ["--minutes", f"{arguments.minutes:g}", "--seed", str(seed), *shlex.split(arguments.options)]
        cli("train", "--data", arguments.data, *options, "--out", f"{folder}/run")
        found = {"seed": seed}
        for name, split in {"val": "val", "test": "test_2016_flickr"}.items():
            scores = cli("evaluate", "--model", f"{folder}/run", "--data", arguments.data, "--split", split)
            found[name] = round(json.loads(scores)["BLEU"]["score"], 2)
        with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as file:
            found["updates"] = json.loads(file.readlines()[-1])["step"]
    print(found, flush=True)
    return found


path = results / "speedrun.json"
entries = json.loads(path.read_text(encoding="utf-8"))["entries"] if path.exists() else []
runs = [run(seed) for seed in arguments.seeds]
entries.append({
    "date": str(date.today()), "name": arguments.name, "why": arguments.why, "options": arguments.options,
    "minutes": arguments.minutes, "runs": runs,
})
save("speedrun", {"task": "Multi30k En-De, test_2016_flickr, cased sacreBLEU 13a, beam 5", "entries": entries})
print({name: round(statistics.mean(one[name] for one in runs), 2) for name in ("val", "test", "updates")})
