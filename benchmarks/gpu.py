"""Everything that is to be measured on a GPU, in one command.

    pip install -e '.[bench]'
    python benchmarks/gpu.py --data MULTI30K_FOLDER
    python benchmarks/gpu.py --dry-run          # the same commands with tiny sizes, on the CPU

Training of base and big in bf16, compiled, beside the peers, with the model FLOP utilisation; beam-4 decoding of 64
sentences; and, with --data, Multi30k English to German for a minute with three seeds. Results: results/KIND/*_gpu.json.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

from common import env, results, save

here = Path(__file__).parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k")
parser.add_argument("--dry-run", action="store_true", help="tiny sizes, on the CPU")


def run(*command: str) -> str:
    "Run a Python command, show it, return what it printed."
    print("$ python", *command, flush=True)
    done = subprocess.run([sys.executable, *command], env=env, text=True, stdout=subprocess.PIPE)
    print(done.stdout, flush=True)
    if done.returncode:
        sys.exit(f"it ended with {done.returncode}")
    return done.stdout


def utilisation(preset: str, vocab_size: int, batch_tokens: int, device: str) -> dict:
    "MFU of our training steps, compiled, in bf16."
    command = ["-m", "transformer_nbdev", "bench", "--preset", preset, "--vocab-size", str(vocab_size)]
    command += ["--batch-tokens", str(batch_tokens), "--device", device, "--precision", "bf16", "--compile"]
    return json.loads(run(*command, "--steps", "2" if device == "cpu" else "30"))["accelerated"]


def multi30k(data: str, device: str, minutes: float, seed: int) -> dict:
    "A minute of training, then BLEU on test_2016_flickr."
    folder = results / f"run-{seed}"
    command = ["-m", "transformer_nbdev", "train", "--data", data, "--out", str(folder), "--minutes", str(minutes)]
    command += ["--batch-tokens", "16384", "--lr", "3e-3", "--warmup", "400", "--seed", str(seed), "--device", device]
    run(*command, "--precision", "bf16", "--validate-every", "0", "--save-every", "0")
    score = run("-m", "transformer_nbdev", "evaluate", "--model", str(folder), "--data", data,
                "--split", "test_2016_flickr", "--length-penalty", "1.2", "--device", device,
                *(["--limit", "2", "--max-new-tokens", "8"] if device == "cpu" else []))
    return json.loads(score)


if __name__ == "__main__":
    a = parser.parse_args()
    device = "cpu" if a.dry_run else "cuda"
    presets = ["tiny"] if a.dry_run else ["base", "big"]
    tokens = 256 if a.dry_run else 25_000
    size = ["--rounds", "1"] + (["--steps", "1"] if a.dry_run else ["--steps", "10"])
    run(str(here / "train.py"), "--preset", *presets, "--precision", "bf16", "--compile", "--device", device,
        "--batch-tokens", str(tokens), *size, "--name", "dry-run" if a.dry_run else "train_gpu")
    run(str(here / "decode.py"), "--preset", presets[0], "--batch", "64", "--beams", "4", "--sentences", "64",
        "--tokens", "4" if a.dry_run else "24", "--rounds", "1" if a.dry_run else "5", "--device", device,
        "--systems", "ours, bf16", "marian, bf16", "--name", "dry-run" if a.dry_run else "decode_gpu")
    vocab_size = 300 if a.dry_run else 37_000
    found = {"mfu": {p: utilisation(p, vocab_size, tokens, device) for p in presets}}
    if a.data:
        seeds = (0,) if a.dry_run else (0, 1, 2)
        found["multi30k"] = {s: multi30k(a.data, device, 0.05 if a.dry_run else 1.0, s) for s in seeds}
    save("dry-run" if a.dry_run else "gpu", found)
