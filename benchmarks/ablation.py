"""What each addition to the plain training loop buys: number words, all additions, and each one taken away.

    python benchmarks/ablation.py [--layers 1] [--rates 6e-3] [--seeds 0 1 2] [--only "no warm-up" …] [--again]

220 updates a run, the task and the settings of 11_training, which shows the results. A seed decides the first weights
and the order of the batches. A run is stored as soon as it is there; what is stored is not run again, so the table can
be filled in several sittings. In all of them:

    python benchmarks/ablation.py --seeds 0 1 2 3 4
    python benchmarks/ablation.py --seeds 0 1 2 3 4 --only "six lines" --rates 1e-3 2e-3
    python benchmarks/ablation.py --only everything --rates 3e-4 1e-3 2e-3 12e-3 3e-2
    python benchmarks/ablation.py --only "six lines" --rates 3e-4 12e-3
    python benchmarks/ablation.py --layers 3 --only everything "no warm-up" "six lines" --rates 1e-3 2e-3 6e-3
    python benchmarks/ablation.py --layers 3 --only "no warm-up" --rates 5e-3
    python benchmarks/ablation.py --layers 3 --only "six lines" --rates 4.2e-4 2.5e-3

The last two are the mean rates of *everything* at .001 and .006: warm-up and fall leave .42 of the rate named.
"""
import argparse
import itertools
import json

import torch
from common import results, save

from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs, pad
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.tools.corpora import number_pairs, number_split
from transformer_nbdev.training import Trainer
from transformer_nbdev.transformer import Transformer, TransformerConfig

STEPS = 220
everything = dict(
    batch_tokens=600, warmup=40, ema=0.97, precision="fp32", validate_every=0, save_every=0, log_every=STEPS
)
never_falls = dict(steps=10**9)  # the fall is spread over the planned length: there is none to be seen
variations = {
    "everything": {},
    "six lines": dict(never_falls, warmup=0, clip_norm=0, label_smoothing=0, ema=0, beta2=0.999, eps=1e-8),
    "six lines, paper's Adam": dict(never_falls, warmup=0, clip_norm=0, label_smoothing=0, ema=0),
    "no warm-up": dict(warmup=0),
    "no fall": never_falls,
    "no clipping": dict(clip_norm=0),
    "no smoothing": dict(label_smoothing=0),
    "no average": dict(ema=0),
    "no fall, no average": dict(never_falls, ema=0),
}
train_numbers, held_out = number_split(1000, n_train=800, n_held_out=200)
train_pairs, valid_pairs = number_pairs(train_numbers), number_pairs(held_out)
tokenizer = Tokenizer.train((text for pair in train_pairs for text in pair), 300)
sources = pad([torch.tensor(tokenizer.encode(english) + [2]) for english, _ in valid_pairs])
targets = pad([torch.tensor(tokenizer.encode(german) + [2]) for _, german in valid_pairs])


@torch.no_grad()
def exact(model: Transformer) -> int:
    "Held-out numbers that come out right, greedily."
    out = torch.full((len(sources), 1), 1)
    for _ in range(targets.shape[1] + 4):
        out = torch.cat([out, model(sources, out)[:, -1:].argmax(-1)], dim=1)
    return sum(tokenizer.decode(row) == german for row, (_, german) in zip(out, valid_pairs))


def train_and_measure(key: dict) -> dict:
    "One run; its averaged model, or the last one where there is no average."
    layers, seed = key["layers"], key["seed"]
    torch.manual_seed(seed)
    shape = dict(n_heads=4, n_encoder_layers=layers, n_decoder_layers=layers, d_ff=128, max_len=64, dropout=0.0)
    model = Transformer(TransformerConfig(300, 64, **shape))
    config = TrainingConfig(**{"steps": STEPS, "seed": seed, "lr": key["lr"], **everything, **variations[key["what"]]})
    batches = TokenBatches(*encode_pairs(train_pairs, tokenizer, max_len=64), config.batch_tokens, seed)
    stop = [lambda trainer: setattr(trainer, "stopped", trainer.step >= STEPS)]
    trainer = Trainer(model, batches, config, device="cpu", quiet=True, callbacks=stop)
    trainer.fit()
    final = trainer.averaged_model()
    with torch.no_grad():
        loss = float(final.loss(sources, targets, epsilon=0.0))
    return {**key, "right": exact(final), "of": len(valid_pairs), "loss": loss}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[1])
    parser.add_argument("--rates", type=float, nargs="+", default=[6e-3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=variations, default=[*variations])
    parser.add_argument("--again", action="store_true", help="also what is stored already")
    told = parser.parse_args()
    stored = results / "ablation.json"
    for what, layers, lr, seed in itertools.product(told.only, told.layers, told.rates, told.seeds):
        key = {"what": what, "layers": layers, "lr": lr, "seed": seed}
        runs = json.loads(stored.read_text(encoding="utf-8"))["runs"] if stored.exists() else []
        others = [r for r in runs if not key.items() <= r.items()]
        if len(others) < len(runs) and not told.again:
            continue
        runs = [*others, train_and_measure(key)]
        print(runs[-1])
        runs.sort(key=lambda r: (r["layers"], [*variations].index(r["what"]), r["lr"], r["seed"]))
        save("ablation", {"task": f"numbers below 1,000, 800 pairs to train on, 200 others to test, {STEPS} updates; "
                                  "greedy; loss of the held-out without smoothing, nats a piece", "runs": runs})
