"""What each invention since 2017 buys: the same translator trained with one change at a time, from several starts.

    python benchmarks/starts/15_modern.py [--seeds 10]

On the numbers of `13_translation`, every change is trained from two starts at each of four learning rates. At the best
of them it is trained from several other starts, for equally many updates and again for equal process time. A result is
the share of 500 unseen numbers that is exactly right, the loss on them in nats per token, and the seconds of process
time. The loss on the same numbers chooses the rate.
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
from transformer_nbdev.tools.corpora import number_pairs, number_split  # noqa: E402
from transformer_nbdev.training import Trainer, TrainingConfig  # noqa: E402

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
steps, rates = 120, (2e-3, 4e-3, 8e-3, 16e-3)
tuning = (100, 101)  # starts that only choose the rate


class Task:
    "The numbers of 13_translation, encoded once, and a narrow model that learns them."

    def __init__(self):
        shown, held_out = number_split(100_000, n_train=12_000, n_held_out=2_000)
        pairs, self.test = number_pairs(shown), number_pairs(held_out[:500])
        self.tokenizer = Tokenizer.train((text for pair in pairs for text in pair), 400)
        self.sequences = encode_pairs(pairs, self.tokenizer)

    def train(self, change: str, seed: int, steps: int, lr: float) -> tuple[ModernTransformer, Trainer, float]:
        "Train one model; return it with its averaged weights, its trainer, and the seconds of process time."
        switches, more = changes[change]
        settings = dict(steps=steps, lr=lr, batch_tokens=400, warmup=40, ema=0.95) | more
        schedule = schedules.get(settings.pop("schedule", ""))
        torch.manual_seed(seed)
        shape = dict(norm_first=False, d_model=64, d_ff=256, dropout=0.0) | switches
        model = ModernTransformer(ModernConfig.preset("tiny", self.tokenizer.vocab_size, **shape))
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
    task = Task()


def job(change: str, seed: int, n: int, lr: float) -> list[float]:
    "Return the share right, the loss and the seconds of a model trained for n updates."
    model, trainer, seconds = task.train(change, seed, steps=n, lr=lr)
    return [share_right(trainer, model), round(trainer.valid_loss(model), 4), round(seconds, 2)]


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
    cost = pool.submit(seconds_per_update).result()  # alone
    runs["seconds per update"] = [cost]
    print(cost, flush=True)
    tried = {(c, lr): [pool.submit(job, c, seed, steps, lr) for seed in tuning] for c in changes for lr in rates}
    best: dict[str, float] = {}
    for change in changes:
        found = {lr: [one.result() for one in tried[change, lr]] for lr in rates}
        best[change] = min(rates, key=lambda lr: sum(loss for _, loss, _ in found[lr]))
        runs[f"rates: {change}"] = [[lr, *result] for lr in rates for result in found[lr]]
        print(change, best[change], runs[f"rates: {change}"], flush=True)
        write(out, args, runs)
    for kind in ("updates", "time"):
        for seed in range(args.seeds):
            n = {c: round(steps * cost["2017"] / cost[c]) if kind == "time" else steps for c in changes}
            waiting = {c: pool.submit(job, c, seed, n[c], best[c]) for c in changes}
            for change, result in waiting.items():
                runs.setdefault(f"{kind}: {change}", []).append(result.result())
            write(out, args, runs)
            print(kind, seed, {c: runs[f"{kind}: {c}"][-1][:2] for c in changes}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--out", type=Path, default=here / "15_modern.json")
    args = parser.parse_args()
    runs: dict[str, list] = {}
    with ProcessPoolExecutor(args.jobs, initializer=prepare) as pool:
        measure(pool, args, args.out, runs)
    print(f"wrote {args.out.name} of {root.name}")


if __name__ == "__main__":
    main()
