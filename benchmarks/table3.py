"""The paper's table 3, rows A to E, in small: which choices matter for a little model that learns number words?

    python benchmarks/table3.py [--updates 200] [--seeds 0 1 2 3 4] [--threads 1]

One change at a time from a base model of 64 dimensions, trained for some seconds with the same batches. Stored: the
perplexity a piece of 500 unseen numbers (without smoothing, averaged weights), a number for each seed. Exact match
is stored beside it. 13_translation shows the ratios to the base of the same seed. A finished row is not run again.
"""
import argparse
import itertools
import json
import math

import torch
from common import results, save
from torch import nn
from torch.nn.utils import parametrize

from transformer_nbdev import Trainer, TrainingConfig, Translator
from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.positional_encoding import LearnedPositionalEncoding
from transformer_nbdev.tools.corpora import number_pairs, number_split

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--updates", type=int, default=200)
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
parser.add_argument("--threads", type=int, default=1)
arguments = parser.parse_args()
torch.set_num_threads(arguments.threads)
base = dict(d_model=64, n_heads=4, n_encoder_layers=2, n_decoder_layers=2, d_ff=256, dropout=0.0, norm_first=True)
variations = {  # of the model, of the training, "d_k" and "positions" (learned: how large they start) of this script
    "base": {},
    "A: 1 head": {"n_heads": 1}, "A: 2 heads": {"n_heads": 2}, "A: 8 heads": {"n_heads": 8},
    "A: 16 heads": {"n_heads": 16}, "A: 32 heads": {"n_heads": 32},
    "B: keys of 8": {"d_k": 8}, "B: keys of 4": {"d_k": 4}, "B: keys of 2": {"d_k": 2},
    "C: 1 layer": {"n_encoder_layers": 1, "n_decoder_layers": 1},
    "C: 4 layers": {"n_encoder_layers": 4, "n_decoder_layers": 4},
    "C: 32 wide": {"d_model": 32}, "C: 128 wide": {"d_model": 128},
    "C: inner 128": {"d_ff": 128}, "C: inner 1,024": {"d_ff": 1024},
    "D: dropout .1": {"dropout": 0.1}, "D: dropout .2": {"dropout": 0.2},
    "D: smoothing 0": {"label_smoothing": 0.0}, "D: smoothing .2": {"label_smoothing": 0.2},
    "E: learned positions": {"positions": 0.02}, "E: the same, started large": {"positions": 0.7},
}
train_numbers, held_out = number_split(100_000, 12_000, 2_000)
train_pairs, valid = number_pairs(train_numbers), number_pairs(held_out[:500])


class ShortKeys(nn.Module):
    "Of the packed projections, only the first `d_k` query and key coordinates of each head; scores over √d_k."

    def __init__(self, attention: MultiHeadAttention, d_k: int):
        super().__init__()
        width = attention.d_model // attention.n_heads
        kept = (torch.arange(attention.d_model) % width < d_k).float()
        scale = kept * (width / d_k) ** 0.25  # on queries and on keys: attention divides by √width
        self.register_buffer("scale", torch.cat([scale, scale, torch.ones(attention.d_model)])[:, None])

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * self.scale


def run(name: str, seed: int) -> dict:
    "Train one model; its perplexity and its share of exactly right numbers."
    told = dict(variations[name])
    d_k, positions = told.pop("d_k", None), told.pop("positions", None)
    smoothing = told.pop("label_smoothing", 0.1)
    config = TrainingConfig(steps=arguments.updates, batch_tokens=600, lr=3e-3, warmup=60, ema=0.98, seed=seed,
                            label_smoothing=smoothing, precision="fp32", validate_every=0)
    trainer = Trainer.from_pairs(train_pairs, config, valid=valid, preset="tiny", vocab_size=400, quiet=True,
                                 device="cpu", **{**base, **told})
    if d_k or positions:
        model = trainer.model
        torch.manual_seed(seed)
        if positions:
            model.positions = LearnedPositionalEncoding(model.config.d_model)
            nn.init.normal_(model.positions.weight, std=positions)
        for attention in [m for m in model.modules() if isinstance(m, MultiHeadAttention) and d_k]:
            parametrize.register_parametrization(attention, "in_proj_weight", ShortKeys(attention, d_k))
        trainer = Trainer(model, trainer.batches, config, valid=valid, tokenizer=trainer.tokenizer, quiet=True,
                          device="cpu")
    trainer.fit()
    found = Translator(trainer.averaged_model(), trainer.tokenizer).translate([s for s, _ in valid], max_tokens=8000)
    exact = sum(f == t for f, (_, t) in zip(found, valid)) / len(valid)
    loss = next(r["valid_loss"] for r in reversed(trainer.history) if "valid_loss" in r)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    return {"seed": seed, "perplexity": round(math.exp(loss), 4), "exact": exact, "parameters": parameters}


def stored_rows() -> dict:
    path = results / "table3.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else {}


for seed, name in itertools.product(arguments.seeds, variations):
    if any(r["seed"] == seed for r in stored_rows().get(name, [])):
        continue
    found = run(name, seed)
    rows = stored_rows()  # again: another process may run other seeds
    rows[name] = sorted([*rows.get(name, []), found], key=lambda r: r["seed"])
    save("table3", {
        "task": f"number words below 100,000, English to German, {arguments.updates} updates of 600 positions; "
                "perplexity a piece on 500 unseen numbers",
        "command": "python benchmarks/table3.py", "rows": {n: rows[n] for n in variations if n in rows},
    })
    print(name, found, flush=True)
