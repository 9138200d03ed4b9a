"""Everything that is measured on a GPU, in one command.

    pip install -e '.[bench]'
    python benchmarks/gpu.py --data MULTI30K_FOLDER [--parts multi30k mfu decode train]
    python benchmarks/gpu.py --data MULTI30K_FOLDER --dry-run          # tiny sizes, on the CPU

multi30k: English to German in a minute, three seeds side by side on one card. mfu: training steps of base and big in
bf16, compiled, against one large matrix product. decode: beam search of 64 sentences, and train: the training steps of
small, both beside the peers. Each part is stored when it is done, in results/CARD/.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from common import env, save

here = Path(__file__).parent
parts = ("multi30k", "mfu", "decode", "train")
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k")
parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
parser.add_argument("--minutes", type=float, default=1.0, help="of a training run of multi30k")
parser.add_argument("--dry-run", action="store_true", help="tiny sizes, on the CPU")


def start(*command: str) -> subprocess.Popen:
    "Show a Python command and start it."
    print("$ python", *command, flush=True)
    return subprocess.Popen([sys.executable, *command], env=env, text=True, stdout=subprocess.PIPE)


def finish(process: subprocess.Popen) -> str:
    "Wait for a command; return what it printed."
    output, _ = process.communicate()
    print(output, flush=True)
    if process.returncode:
        sys.exit(f"it ended with {process.returncode}")
    return output


def multi30k(data: str, device: str, minutes: float, seeds: tuple[int, ...], brief: list[str]) -> dict:
    "Train all seeds at the same time; BLEU on test_2016_flickr, and how far each came."
    command = ["-m", "transformer_nbdev", "train", "--data", data, "--minutes", str(minutes), "--batch-tokens", "6000"]
    command += ["--validate-every", "0", "--save-every", "0", "--device", device]
    evaluate = ["-m", "transformer_nbdev", "evaluate", "--data", data, "--split", "test_2016_flickr", *brief]
    found = {}
    with TemporaryDirectory() as folder:
        for each in [start(*command, "--seed", str(s), "--out", f"{folder}/{s}") for s in seeds]:
            finish(each)
        scores = [start(*evaluate, "--device", device, "--model", f"{folder}/{s}") for s in seeds]
        for seed, score in zip(seeds, scores):
            last = json.loads((Path(folder) / str(seed) / "metrics.jsonl").read_text().splitlines()[-1])
            found[seed] = {**json.loads(finish(score)), "updates": last["step"], "training_seconds": last["seconds"]}
    return found


def utilization(preset: str, size: list[str], device: str) -> dict:
    "Training steps, compiled, in bf16."
    command = ["-m", "transformer_nbdev", "bench", "--preset", preset, "--device", device, "--precision", "bf16"]
    return json.loads(finish(start(*command, "--compile", *size)))["accelerated"]


if __name__ == "__main__":
    a, dry = (a := parser.parse_args()), a.dry_run
    device, card = ("cpu", "cpu") if dry else ("cuda", torch.cuda.get_device_name())
    if dry:
        env["TORCHDYNAMO_DISABLE"] = "1"  # nothing is compiled: that takes minutes on a CPU
    if "multi30k" in a.parts and a.data:
        brief = ["--limit", "2", "--max-new-tokens", "8"] if dry else []
        runs = multi30k(os.path.abspath(a.data), device, 0.1 if dry else a.minutes, (0,) if dry else (0, 1, 2), brief)
        save("dry-run" if dry else "multi30k", {"device": card, "minutes": a.minutes, "runs": runs})
    if "mfu" in a.parts:
        size = "--vocab-size 37000 --batch-tokens 25000 --steps 30"
        size = "--vocab-size 300 --batch-tokens 256 --steps 1" if dry else size
        found = {p: utilization(p, size.split(), device) for p in (("tiny",) if dry else ("base", "big"))}
        save("dry-run" if dry else "mfu", {"device": card, "presets": found})
    short = ["--rounds", "1" if dry else "5", "--device", device]
    if "decode" in a.parts:
        size = ["--preset", "tiny" if dry else "base", "--sentences", "64", "--tokens", "4" if dry else "24"]
        systems = ["ours, bf16", "ours-plain, bf16", "marian, bf16", "ctranslate2, bfloat16"]
        finish(start(str(here / "decode.py"), *size, "--batch", "64", "--beams", "4", "--systems", *systems, *short,
                     "--name", "dry-run" if dry else "decode"))
    if "train" in a.parts:
        size = "--preset tiny --batch-tokens 256 --steps 1" if dry else "--preset small --batch-tokens 4096 --steps 30"
        finish(start(str(here / "train.py"), *size.split(), "--precision", "bf16", *short,
                     "--name", "dry-run" if dry else "train"))
