"""What each invention since 2017 buys: the same translator trained with one change at a time, from several starts.

    python benchmarks/starts/15_modern.py [--seeds 5]
    python benchmarks/starts/15_modern.py --task multi30k --data DIR --minutes M [--seeds 3]

On the numbers of `13_translation`, every change is trained for the same number of updates at each of its learning
rates, and at its best rate from several starts, for equal updates and again for equal process time. A result is the
share of unseen numbers that is exactly right, the loss on them in nats per token, and the seconds of process time.
With `--task multi30k` every change is trained for the same minutes at one rate, and the results are BLEU and loss.
The JSON file beside this one is rewritten after every start, so a run that is cut short is kept.
"""
import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

here = Path(__file__).parent
sys.path.insert(0, str(here.parent))
from common import record, root  # noqa: E402

from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs  # noqa: E402
from transformer_nbdev.decoder import shift_right  # noqa: E402
from transformer_nbdev.modern import (  # noqa: E402
    ModernConfig,
    ModernTransformer,
    cosine_schedule,
    today,
    use_schedule,
    wsd_schedule,
)
from transformer_nbdev.tools.corpora import number_pairs, number_split, read_parallel  # noqa: E402
from transformer_nbdev.training import Trainer, TrainingConfig  # noqa: E402
from transformer_nbdev.translator import Translator  # noqa: E402

before = "15res0a1"  # the cell of the notebook that reads the results
schedules = {"cosine": cosine_schedule, "wsd": wsd_schedule}
block = {**today, "n_kv_heads": 2}
# For each row its switches, and its settings of the training if they are not the usual ones.
changes: dict[str, tuple[dict, dict]] = {
    "2017": ({}, {}),
    "pre-norm": ({"norm_first": True}, {}),
    "RMSNorm": ({"norm": "rms"}, {}),
    "no biases": ({"bias": False}, {}),
    "SwiGLU": ({"swiglu": True}, {}),
    "rotary positions": ({"rotary_base": 10_000.0}, {}),
    "grouped queries": ({"n_kv_heads": 2}, {}),
    "QK-norm": ({"qk_norm": True}, {}),
    "logit soft-capping": ({"soft_cap": 30.0}, {}),
    "zero-initialized outputs": ({"zero_init": True}, {}),
    "cosine schedule": ({}, {"schedule": "cosine"}),
    "WSD schedule": ({}, {"schedule": "wsd"}),
    "Muon": ({}, {"optimizer": "muon"}),
    "today's block": (block, {}),
    "today's block, Muon": (block, {"optimizer": "muon"}),
    "all of the above": ({**block, "soft_cap": 30.0, "zero_init": True}, {"optimizer": "muon", "schedule": "wsd"}),
}
steps, rates = 120, (4e-3, 8e-3)


class Task:
    "Pairs to train on and to test on, encoded once."

    def __init__(self, pairs, test, vocab_size: int, preset: str, **options):
        self.tokenizer = Tokenizer.train((text for pair in pairs for text in pair), vocab_size)
        self.sequences, self.test = encode_pairs(pairs, self.tokenizer), test
        self.preset, self.options = preset, options

    def train(self, change: str, seed: int, **settings) -> tuple[ModernTransformer, Trainer, float]:
        "Train one model; return it with its averaged weights, its trainer, and the seconds of process time."
        switches, more = changes[change]
        settings = {**self.options, **settings, **more}
        schedule = schedules.get(settings.pop("schedule", ""))
        torch.manual_seed(seed)
        shape = {"norm_first": False, **settings.pop("shape"), **switches}
        model = ModernTransformer(ModernConfig.preset(self.preset, self.tokenizer.vocab_size, **shape))
        config = TrainingConfig(seed=seed, validate_every=0, save_every=0, **settings)
        batches = TokenBatches(*self.sequences, config.batch_tokens, seed)
        trainer = Trainer(model, batches, config, valid=self.test, tokenizer=self.tokenizer, quiet=True)
        if schedule:
            use_schedule(trainer, schedule)
        start = time.process_time()
        while trainer.progress < 1:
            began = time.monotonic()
            trainer.updater.update(trainer.progress)
            trainer.state.seconds += time.monotonic() - began
        return trainer.averaged_model(), trainer, time.process_time() - start


def numbers() -> Task:
    "The task of 13_translation."
    shown, held_out = number_split(100_000, n_train=12_000, n_held_out=2_000)
    half = dict(d_model=64, d_ff=256, dropout=0.0)
    options = dict(batch_tokens=400, warmup=40, ema=0.95, shape=half)
    return Task(number_pairs(shown), number_pairs(held_out[:500]), 400, "tiny", **options)


def on_numbers(task: Task, change: str, seed: int, n: int, lr: float) -> list[float]:
    "Return the share right, the loss and the seconds of a model trained for n updates."
    try:
        model, trainer, seconds = task.train(change, seed, steps=n, lr=lr)
    except Exception as error:  # a loss that is not finite is a result
        print(change, lr, error, flush=True)
        return [0.0, 99.0, 0.0]
    return [share_right(trainer, model), round(trainer.valid_loss(model), 4), round(seconds, 2)]


@torch.no_grad()
def share_right(trainer: Trainer, model: ModernTransformer) -> float:
    """Return the share of test numbers that greedy search would write without a mistake.

    Greedy search writes a text exactly if, after each of its beginnings, the most probable token is the right one. So
    one pass with teacher forcing tells.
    """
    right = total = 0
    for batch in map(trainer.valid_batches.batch, trainer.valid_batches.plan):
        guesses = model(batch.src, shift_right(batch.tgt)).argmax(-1)
        right += int(((guesses == batch.tgt) | (batch.tgt == 0)).all(1).sum())
        total += len(batch.tgt)
    return round(right / total, 4)


def on_text(task: Task, change: str, seed: int, minutes: float) -> list[float]:
    "Return BLEU and loss of a model trained for some minutes, and its number of updates."
    from sacrebleu import corpus_bleu

    model, trainer, _ = task.train(change, seed, minutes=minutes)
    answers = Translator(model, task.tokenizer).translate([s for s, _ in task.test], max_tokens=8000)
    bleu = corpus_bleu(answers, [[target for _, target in task.test]]).score
    return [round(bleu, 2), round(trainer.valid_loss(model), 4), trainer.step]


def write(path: Path, args: argparse.Namespace, runs: dict) -> None:
    "Write the results as JSON."
    about = {"command": "python benchmarks/starts/15_modern.py " + " ".join(sys.argv[1:]), "what": __doc__,
             "steps": steps, "rates": rates, "changes": changes, "runs": runs}
    text = json.dumps(record(about), ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def prepare() -> None:
    "Prepare the task once in each process."
    global task
    torch.set_num_threads(1)
    task = numbers()


def job(change: str, seed: int, n: int, lr: float) -> list[float]:
    "Train one model in a process that is prepared."
    return on_numbers(task, change, seed, n, lr)


def seconds_per_update(rounds: int = 15) -> dict[str, float]:
    "Return each change's median seconds of process time per update; they take turns, so the load is the same."
    trainers = {c: task.train(c, 0, steps=1, lr=1e-3)[1] for c in changes}
    found: dict[str, list[float]] = {c: [] for c in changes}
    for _ in range(rounds):
        for change, trainer in trainers.items():
            start = time.process_time()
            trainer.updater.update(0.5)
            found[change].append(time.process_time() - start)
    return {c: round(statistics.median(seconds), 5) for c, seconds in found.items()}


def measure(pool: ProcessPoolExecutor, args: argparse.Namespace, out: Path, runs: dict) -> None:
    "Choose each change's rate, then train it for equal updates and for equal time."
    tried = {(c, lr): pool.submit(job, c, 100, steps, lr) for c in changes for lr in rates}  # a seed not reported
    best: dict[str, float] = {}
    for change in changes:
        found = {lr: tried[change, lr].result() for lr in rates}
        best[change] = min(found, key=lambda lr: found[lr][1])
        runs[f"rates: {change}"] = [[lr, *result] for lr, result in found.items()]
        print(change, runs[f"rates: {change}"], flush=True)
        write(out, args, runs)
    timing = pool.submit(seconds_per_update)
    for seed in range(args.seeds):
        waiting = {c: pool.submit(job, c, seed, steps, best[c]) for c in changes}
        for change, result in waiting.items():
            runs.setdefault(f"updates: {change}", []).append(result.result())
        write(out, args, runs)
        print(seed, {c: runs[f"updates: {c}"][-1] for c in changes}, flush=True)
    cost = timing.result()
    runs["seconds per update"] = [cost]
    write(out, args, runs)
    for seed in range(args.seeds):
        waiting = {c: pool.submit(job, c, seed, round(steps * cost["2017"] / cost[c]), best[c]) for c in changes}
        for change, result in waiting.items():
            runs.setdefault(f"time: {change}", []).append(result.result())
        write(out, args, runs)
        print("time", seed, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=("numbers", "multi30k"), default="numbers")
    parser.add_argument("--data", help="folder of Multi30k: train.en, train.de, test_2016_flickr.en, …")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, for the numbers")
    parser.add_argument("--out", default=None)
    args = parser.parse_args()
    runs: dict[str, list] = {}
    out = Path(args.out or here / ("15_modern.json" if args.task == "numbers" else "15_modern_multi30k.json"))
    if args.task == "multi30k":
        (pairs, _), (test, _) = (read_parallel(args.data, split) for split in ("train", "test_2016_flickr"))
        task = Task(pairs, test, 8000, "small", batch_tokens=4096, warmup=400, lr=1e-3, shape={})
        for seed in range(args.seeds):
            for change in changes:
                runs.setdefault(change, []).append(on_text(task, change, seed, args.minutes))
                write(out, args, runs)
        return
    with ProcessPoolExecutor(args.jobs, initializer=prepare) as pool:
        measure(pool, args, out, runs)
    print(f"wrote {out.name} of {root.name}")


if __name__ == "__main__":
    main()
