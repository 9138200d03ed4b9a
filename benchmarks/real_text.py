"""How a translator of real sentences comes to be, and what its search and its average bring: what 13_translation shows.

    python benchmarks/real_text.py [--data FOLDER] [--minutes 15] [--seed 0] --out FOLDER

Trains on Multi30k (English to German) with the default settings and keeps the averaged weights after 1, 2, 4, 8 minutes
and at the end, and the plain weights five times in the last tenth of the run. Everything is measured on the validation
split, none of it on the test set. FOLDER keeps the models: a second call with it measures again without training.
"""
import argparse
import json
import re
from collections import Counter
from pathlib import Path

import torch
from common import results, save

from transformer_nbdev import Trainer, TrainingConfig, Transformer, Translator
from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs
from transformer_nbdev.speed.defaults import RisingDropout, recipe
from transformer_nbdev.speed.direct import Direct
from transformer_nbdev.speed.parts import accelerate
from transformer_nbdev.tools.corpora import multi30k
from transformer_nbdev.transformer import attention_maps
from transformer_nbdev.translator import corpus_scores

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k; default: $MULTI30K, or downloaded")
parser.add_argument("--minutes", type=float, default=15)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", type=Path, required=True, help="folder for the models")
arguments = parser.parse_args()
out, minutes = arguments.out, arguments.minutes
moments = [m for m in (1, 2, 4, 8) if m < minutes]
last = f"{minutes:g}"
valid, _ = multi30k("val", folder=arguments.data)
sources, references = [s for s, _ in valid], [t for _, t in valid]


class Album:
    "Saves the averaged weights at each moment, and the plain ones as the end comes near."

    def __init__(self):
        self.taken = set()

    def __call__(self, trainer: Trainer) -> None:
        elapsed = trainer.state.seconds / 60
        for m in moments:
            if elapsed >= m and m not in self.taken:
                self.keep(trainer.state.average, m)
        for n in range(1, 6):
            if elapsed >= minutes * (0.9 + 0.02 * n) - 0.02 and f"plain {n}" not in self.taken:
                self.keep(trainer.model, f"plain {n}")

    def keep(self, model: Transformer, name: int | str) -> None:
        self.taken.add(name)
        model.save_pretrained(out / str(name))


def train() -> None:
    "One run with the settings and the faster parts that the command line would take."
    best = recipe("text")
    pairs, _ = multi30k("train", folder=arguments.data)
    config = TrainingConfig(minutes=minutes, seed=arguments.seed, **best["training"])
    extra = [Album(), RisingDropout(best["dropout_per_epoch"])]
    shape = dict(preset=best["preset"], vocab_size=best["vocab_size"], **best["model"])
    trainer = Trainer.from_pairs(pairs, config, valid=valid, callbacks=extra, **shape)
    trainer.tokenizer.save(out)
    accelerate(trainer.model.train(), bf16=trainer.updater.bf16)
    trainer.fit()
    trainer.averaged_model().save_pretrained(out / last)
    (out / "history.json").write_text(json.dumps(trainer.history))


@torch.no_grad()
def loss_of(model: Transformer) -> float:
    "Nats a token of the validation split, without smoothing."
    batches = TokenBatches(*encode_pairs(valid, tokenizer, model.config.max_len), 4096, shuffle=False)
    total = sum(float(model.loss(b.src, b.tgt, epsilon=0.0)) * b.n_tokens for b in batches)
    return total / sum(b.n_tokens for b in batches)


def bleu(found: list[str], wanted: list[str]) -> float:
    return round(corpus_scores(found, wanted)["BLEU"]["score"], 2)


def measured(model: Transformer) -> dict:
    "Loss and BLEU, beam 5."
    found = Translator(model, tokenizer, Direct(model)).translate(sources, beam_size=5, length_penalty=1.0)
    return {"valid_loss": round(loss_of(model), 4), "val_BLEU": bleu(found, references), "translations": found}


def search_grid(model: Transformer, n: int = 500) -> list[dict]:
    "BLEU and length of the first `n` sentences for each beam size and length penalty."
    translator, rows = Translator(model, tokenizer, Direct(model)), []
    length = sum(len(t.split()) for t in references[:n])
    for beam in (1, 2, 4, 8, 16):
        for alpha in (0.0, 0.6, 1.0, 1.4) if beam > 1 else (0.0,):
            found = translator.translate(sources[:n], beam_size=beam, length_penalty=alpha)
            words = sum(len(t.split()) for t in found)
            rows.append({"beam": beam, "alpha": alpha, "BLEU": bleu(found, references[:n]),
                         "length": round(words / length, 3)})
    return rows


def mean_of(models: list[Transformer]) -> Transformer:
    "A model whose weights are the mean of theirs."
    with torch.no_grad():
        for parameters in zip(*(m.parameters() for m in models)):
            parameters[0].copy_(torch.stack(parameters).mean(0))
    return models[0]


def maps(model: Transformer, text: str, translation: str) -> dict:
    "Cross-attention `(layers, T, S)` of a sentence, mean over heads, rounded, and the pieces."
    src = torch.tensor([[*tokenizer.encode(text), tokenizer.eos_id]])
    tgt = torch.tensor([[*tokenizer.encode(translation), tokenizer.eos_id]])
    reads = torch.cat([torch.tensor([[tokenizer.bos_id]]), tgt[:, :-1]], dim=1)
    cross = torch.stack(attention_maps(model, src, reads)["cross"])[:, 0].mean(1).double()
    cross = json.loads(json.dumps(cross.tolist()), parse_float=lambda x: round(float(x), 3))
    return {"source": tokenizer.pieces(src[0].tolist()), "target": tokenizer.pieces(tgt[0].tolist()), "cross": cross}


def by_length(found: list[str]) -> list[dict]:
    "BLEU in quarters of the validation split, by the number of words of the source."
    order = sorted(range(len(sources)), key=lambda i: len(sources[i].split()))
    quarters = [order[k * len(order) // 4 : (k + 1) * len(order) // 4] for k in range(4)]
    return [{"words": [len(sources[q[0]].split()), len(sources[q[-1]].split())],
             "BLEU": bleu([found[i] for i in q], [references[i] for i in q])} for q in quarters]


def rarest_word(sentence: str, lines: Counter) -> tuple[str, int]:
    "The word of the sentence that the fewest lines of the training text hold, and how many those are."
    return min(((w, lines[w]) for w in re.findall(r"\w+", sentence.lower())), key=lambda pair: pair[1])


def sorted_samples(found: list[str], n: int = 20) -> list[dict]:
    "`n` sentences, evenly from the worst to the best by chrF of the sentence, with their rarest words."
    training, _ = multi30k("train", folder=arguments.data)
    lines = Counter(w for source, _ in training for w in set(re.findall(r"\w+", source.lower())))
    score = [corpus_scores([f], [r])["chrF"]["score"] for f, r in zip(found, references)]
    order = sorted(range(len(found)), key=score.__getitem__)
    picked = [order[round((k + 0.5) * len(order) / n)] for k in range(n)]
    return [{"chrF": round(score[i], 1), "source": sources[i], "ours": found[i], "reference": references[i],
             "rarest": rarest_word(sources[i], lines)} for i in picked]


if not (out / last / "config.json").exists():
    out.mkdir(parents=True, exist_ok=True)
    train()
tokenizer = Tokenizer.load(out)
load = lambda name: Transformer.from_pretrained(out / str(name))
growing = {str(m): measured(load(m)) for m in [*moments, last]}
found = growing[last]["translations"]
followed = sorted(range(len(sources)), key=lambda i: abs(len(sources[i].split()) - 12))[:200:40]
plain = [load(f"plain {n}") for n in range(1, 6)]
averages = {"plain weights": measured(load("plain 5")), "mean of five checkpoints": measured(mean_of(plain)),
            "moving average": growing[last]}
history = json.loads((out / "history.json").read_text())
over = [len(tokenizer.encode(f)) - len(tokenizer.encode(s)) for f, s in zip(found, sources)]
without = lambda row: {k: v for k, v in row.items() if k != "translations"}
save("real_text", {
    "task": "Multi30k En-De, validation split (1,014 pairs), default settings; cased sacreBLEU 13a, beam 5, alpha 1.0",
    "command": f"python benchmarks/real_text.py --minutes {last} --seed {arguments.seed} --out FOLDER",
    "minutes": minutes, "updates": history[-1]["step"], "moments": {m: without(row) for m, row in growing.items()},
    "followed": [{"source": sources[i], "reference": references[i],
                  "ours": {m: row["translations"][i] for m, row in growing.items()}} for i in followed],
    "averages": {name: without(row) for name, row in averages.items()},
    "grid": search_grid(load(last)), "by_length": by_length(found), "pieces_over_source": max(over),
    "samples": sorted_samples(found),
    "maps": [maps(load(last), sources[i], found[i]) for i in followed[:3]],
    "curve": [{k: round(r[k], 3) for k in ("step", "seconds", "loss") if k in r} for r in history if "loss" in r][::4],
})
print({m: without(row) for m, row in growing.items()}, results)
