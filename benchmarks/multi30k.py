"""Multi30k English to German from scratch: BLEU after 8 and after 15 minutes, and the time to translate the test set.

    python benchmarks/multi30k.py [--data FOLDER]        (without it: $MULTI30K, or downloaded)

With --runs FOLDER the runs stay there, and one that is finished there is measured without being trained again.
"""
import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from common import cli, save

from transformer_nbdev.corpora import multi30k
from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k; default: $MULTI30K, or downloaded")
parser.add_argument("--minutes", type=float, nargs="+", default=[8, 15])
parser.add_argument("--runs", help="keep the runs in this folder, take what is there")
arguments = parser.parse_args()
data = ["--data", arguments.data or "multi30k"]
shared = ["--preset", "small", "--no-bias", "--vocab-size", "4000", "--batch-tokens", "2000", "--lr", "3e-3",
          "--warmup", "200", "--save-every", "1000", "--seed", "0"]
search = ["--beam-size", "5", "--length-penalty", "1.2"]  # the penalty was chosen on the validation set
pairs, _ = multi30k("train", folder=arguments.data)
test, _ = multi30k("test_2016_flickr", folder=arguments.data)
tokenizer = Tokenizer.train((text for pair in pairs for text in pair), 4000)
real_share = TokenBatches(*encode_pairs(pairs, tokenizer), 2000).real_share()
print(f"real tokens among all positions of an epoch: {real_share:.3f}")

runs, sentences = {}, "".join(source + "\n" for source, _ in test)
for minutes in arguments.minutes:
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(arguments.runs or folder) / f"{minutes:g}")
        chosen = [*shared, "--minutes", f"{minutes:g}", "--dropout", "0.1" if minutes < 10 else "0.15"]
        if not (Path(run) / "loss.png").is_file():  # the last thing that training writes
            cli("train", *data, *chosen, "--out", run)
        scores = {split: json.loads(cli("evaluate", "--model", run, *search, *data, "--split", split))
                  for split in ("val", "test_2016_flickr")}
        times = []
        for _ in range(3):
            start = time.perf_counter()
            translated = cli("translate", "--model", run, *search, stdin=sentences).splitlines()
            times.append(time.perf_counter() - start)
        lines = (Path(run) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    runs[f"{minutes:g} minutes"] = {
        "command": f"transformer-nbdev train --data multi30k {' '.join(chosen)} --out RUN",
        "training_seconds": records[-1]["seconds"], "steps": records[-1]["step"],
        "tokens_per_second": statistics.median(r["tokens_per_second"] for r in records if "tokens_per_second" in r),
        "val": scores["val"], "test": scores["test_2016_flickr"],
        "translate_seconds": [round(t, 1) for t in times],
        "curve": [{k: round(r[k], 3) for k in ("step", "seconds", "loss", "valid_loss") if k in r}
                  for i, r in enumerate(records) if "valid_loss" in r or i % 3 == 0],
    }
    print({k: v for k, v in runs[f"{minutes:g} minutes"].items() if k != "curve"})
samples = [{"source": s, "ours": ours, "reference": r}
           for (s, r), ours in zip(test[99::100], translated[99::100])][:5]
save("multi30k", {"task": "Multi30k En-De, test_2016_flickr, cased sacreBLEU 13a, beam 5; translate_seconds: "
                          "1,000 sentences by `transformer-nbdev translate`, start of the program included",
                  "search": " ".join(search),
                  "real_share": real_share, "runs": runs, "samples": samples})
