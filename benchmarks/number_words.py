"""Number words, English to German and Korean: exact match on 10,000 numbers never trained on.

    python benchmarks/number_words.py
"""
import json
import tempfile
import time
from pathlib import Path

from common import cli, save

options = ["--seed", "0"]
runs = {}
for language in ("de", "ko"):
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        start = time.perf_counter()
        cli("train", "--tgt", language, *options, "--valid-split", "none", "--out", run)
        train_seconds = time.perf_counter() - start
        scores = json.loads(cli("evaluate", "--model", run, "--split", "test", "--beam-size", "1"))
    command = f"transformer-nbdev train --tgt {language} {' '.join(options)} --valid-split none --out RUN"
    runs[language] = {"command": command, "train_seconds": round(train_seconds, 1), **scores}
    print(language, runs[language])
save("number_words", {"task": "numbers below 100,000; 20,000 to train on, 10,000 others to test; greedy; "
                         "train_seconds is the whole command, start and tokenizer included", "runs": runs})
