"""What each invention since 2017 buys: the same translator trained with one change at a time, from several starts.

    python benchmarks/starts/15_modern.py [--seeds 10]

On the numbers of `13_translation`, every change is trained from two starts at each of six learning rates; the loss on
500 numbers chooses one. At that rate it is trained from several other starts, for equally many updates and again for
equal process time. A result is the share of 500 other unseen numbers that is exactly right, and the loss on them in
nats per token; a run whose loss is not finite counts as [0, 99].
`cost` has, for each change, the quartiles of how long an update takes: in process time, as a multiple of an update of
the 2017 block that is made just before it. A change that runs the operations of the 2017 block costs 1.
The JSON file beside this one is rewritten after every start, so a run that is cut short is kept.
"""
import argparse
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

here = Path(__file__).parent
sys.path.insert(0, str(here.parent))
from common import record  # noqa: E402

from run import write  # noqa: E402
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
from transformer_nbdev.training import NotFiniteError, Trainer, TrainingConfig  # noqa: E402

before = "15res0a1"  # the cell of the notebook that reads the results
schedules = {"cosine": cosine_schedule, "wsd": wsd_schedule}
block = {**today, "n_kv_heads": 2}  # of four query heads
rest = {"soft_cap": 30.0, "zero_init": True}
# For each row its switches, and its settings of the training if they are not the usual ones.
changes: dict[str, tuple[dict, dict]] = {
    "2017": ({}, {}),
    "pre-norm": ({"norm_first": True}, {}),
    "RMSNorm": ({"norm": "rms"}, {}),
    "no biases": ({"bias": False}, {}),
    "silu, no gate": ({"activation": "silu"}, {}),
    "SwiGLU": ({"swiglu": True}, {}),
    "rotary positions": ({"rotary_base": 10_000.0}, {}),
    "grouped queries": ({"n_kv_heads": 2}, {}),
    "QK-norm": ({"qk_norm": True}, {}),
    "logit soft-capping": ({"soft_cap": 30.0}, {}),
    "zero-initialized outputs": ({"zero_init": True}, {}),
    "zeros except cross-attention": ({"zero_init": True}, {"cross": "random"}),
    "cosine schedule": ({}, {"schedule": "cosine"}),
    "WSD schedule": ({}, {"schedule": "wsd"}),
    "Muon": ({}, {"optimizer": "muon"}),
    "today's block": (block, {}),
    "today's block, Muon": (block, {"optimizer": "muon"}),
    "… and cap, zeros, WSD": ({**block, **rest}, {"optimizer": "muon", "schedule": "wsd"}),
    "today's block, post-norm": ({**block, "norm_first": False}, {}),
    "… with LayerNorm": ({**block, "norm": "layer"}, {}),
    "… with biases": ({**block, "bias": True}, {}),
    "… with the ReLU network": ({**block, "swiglu": False}, {}),
    "… with sinusoids": ({**block, "rotary_base": None}, {}),
    "… with all key–value heads": ({**block, "n_kv_heads": 4}, {}),
    "… without QK-norm": ({**block, "qk_norm": False}, {}),
}
same_work = ("2017", "cosine schedule", "WSD schedule", "zero-initialized outputs", "zeros except cross-attention")
steps, rates = 120, (1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3)
tuning = (100, 101)  # starts that only choose the rate


class Task:
    "The numbers of 13_translation, encoded once, and a narrow model that learns them."

    def __init__(self):
        shown, held_out = number_split(100_000, n_train=12_000, n_held_out=2_000)
        pairs, self.test, self.valid = map(number_pairs, (shown, held_out[:500], held_out[500:1000]))
        self.tokenizer = Tokenizer.train((text for pair in pairs for text in pair), 400)
        self.sequences = encode_pairs(pairs, self.tokenizer)

    def trainer(self, change: str, seed: int, steps: int, lr: float, valid: list) -> Trainer:
        "Make a model with a change and what trains it."
        switches, more = changes[change]
        settings = dict(steps=steps, lr=lr, batch_tokens=400, warmup=40, ema=0.95) | more
        schedule, cross = schedules.get(settings.pop("schedule", "")), settings.pop("cross", "")
        torch.manual_seed(seed)
        shape = dict(norm_first=False, d_model=64, d_ff=256, dropout=0.0) | switches
        model = ModernTransformer(ModernConfig.preset("tiny", self.tokenizer.vocab_size, **shape))
        if cross:
            for layer in model.decoder.layers:
                torch.nn.init.xavier_uniform_(layer.cross_attention.out_proj.weight)
        config = TrainingConfig(seed=seed, validate_every=0, save_every=0, **settings)
        batches = TokenBatches(*self.sequences, config.batch_tokens, seed)
        trainer = Trainer(model, batches, config, valid=valid, tokenizer=self.tokenizer, quiet=True)
        if schedule:
            use_schedule(trainer, schedule)
        return trainer


def result(change: str, seed: int, n: int, lr: float, choosing: bool = False) -> list[float]:
    "Train for n updates; return the share right and the loss of the averaged weights."
    trainer = task.trainer(change, seed, n, lr, task.valid if choosing else task.test)
    try:
        trainer.fit()
    except NotFiniteError:
        return [0.0, 99.0]
    model = trainer.averaged_model()
    return [share_right(trainer, model), round(trainer.valid_loss(model), 4)]


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


def save(path: Path, runs: dict) -> None:
    "Write the results as JSON."
    about = {"command": "python benchmarks/starts/15_modern.py " + " ".join(sys.argv[1:]), "what": __doc__,
             "steps": steps, "rates": rates, "changes": changes}
    write(path, record(about), runs)


def prepare() -> None:
    "Prepare the task once in each process."
    global task
    torch.set_num_threads(1)
    task = Task()


def update_costs(rounds: int = 60) -> dict[str, list[float]]:
    "Return the quartiles of each change's time per update, each divided by that of the baseline just before it."
    trainers = {c: task.trainer(c, 0, 1, 1e-3, task.test) for c in changes}

    def seconds(change: str) -> float:
        start = time.process_time()
        trainers[change].updater.update(0.5)
        return time.process_time() - start

    found: dict[str, list[float]] = {c: [] for c in changes if c not in same_work}
    for _ in range(rounds):
        for change, ratios in found.items():
            base = seconds("2017")
            ratios.append(seconds(change) / base)
    quartiles = {c: [round(q, 3) for q in statistics.quantiles(ratios, n=4)] for c, ratios in found.items()}
    return {c: quartiles.get(c, [1.0, 1.0, 1.0]) for c in changes}


def measure(pool: ProcessPoolExecutor, seeds: int, out: Path, runs: dict) -> None:
    "Choose each change's rate, then train it for equal updates and for equal time."
    cost = pool.submit(update_costs).result()  # alone
    runs["cost"] = [cost]
    print(cost, flush=True)
    tried = {(c, lr): [pool.submit(result, c, seed, steps, lr, True) for seed in tuning]
             for c in changes for lr in rates}
    best: dict[str, float] = {}
    for change in changes:
        found = {lr: [one.result() for one in tried[change, lr]] for lr in rates}
        best[change] = min(rates, key=lambda lr: sum(loss for _, loss in found[lr]))
        runs[f"rates: {change}"] = [[lr, *one] for lr in rates for one in found[lr]]
        print(change, best[change], runs[f"rates: {change}"], flush=True)
        save(out, runs)
    for kind in ("updates", "time"):
        for seed in range(seeds):
            n = {c: round(steps / cost[c][1]) if kind == "time" else steps for c in changes}
            waiting = {c: pool.submit(result, c, seed, n[c], best[c]) for c in changes
                       if kind == "updates" or c not in same_work}
            for change, one in waiting.items():
                runs.setdefault(f"{kind}: {change}", []).append(one.result())
            if kind == "time":  # the same updates as before
                for change in same_work:
                    runs.setdefault(f"time: {change}", []).append(runs[f"updates: {change}"][seed])
            save(out, runs)
            print(kind, seed, {c: runs[f"{kind}: {c}"][-1] for c in changes}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    args = parser.parse_args()
    runs: dict[str, list] = {}
    with ProcessPoolExecutor(args.jobs, initializer=prepare) as pool:
        measure(pool, args.seeds, here / "15_modern.json", runs)


if __name__ == "__main__":
    main()
