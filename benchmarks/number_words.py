"""Number words, English to German and Korean: exact match on 10,000 numbers never trained on, and on all below 100.

    python benchmarks/number_words.py [--seeds 0 1 2]
"""
import argparse
import json
import tempfile
import time
from pathlib import Path

from common import cli, save

from transformer_nbdev.tools.corpora import number_pairs

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
runs = {}
for seed in parser.parse_args().seeds:
    for language in ("de", "ko"):
        with tempfile.TemporaryDirectory() as folder:
            run = str(Path(folder) / "run")
            start = time.perf_counter()
            cli("train", "--tgt", language, "--seed", str(seed), "--valid-split", "none", "--out", run)
            train_seconds = time.perf_counter() - start
            scores = json.loads(cli("evaluate", "--model", run, "--split", "test", "--beam-size", "1"))
            source, target = zip(*number_pairs(range(100), tgt=language))
            small = cli("translate", "--model", run, "--beam-size", "1", stdin="\n".join(source) + "\n").splitlines()
        command = f"transformer-nbdev train --tgt {language} --seed {seed} --valid-split none --out RUN"
        wrong = [n for n, (a, b) in enumerate(zip(small, target)) if a != b]
        runs[f"{language}, seed {seed}"] = {
            "command": command, "train_seconds": round(train_seconds, 1), "wrong_below_100": wrong, **scores,
        }
        print(language, runs[f"{language}, seed {seed}"])
save("number_words", {"task": "numbers below 100,000; 20,000 to train on, 10,000 others to test; greedy; "
                         "train_seconds is the whole command, start and tokenizer included", "runs": runs})
