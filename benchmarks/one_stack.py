"""Encoder–decoder against GPT on Multi30k: equal parameters, equal processor time, greedy search, several seeds.

    python benchmarks/one_stack.py [--data FOLDER] [--minutes 8] [--seeds 0 1 2] [--models GPT ...]

`GPT, its rival's input` has sines for positions and embeddings times √d, as the encoder–decoder has. With --models, the
stored results of the others stay. Without --data: $MULTI30K, or downloaded. Two trainings run at once, on one thread
each. `minutes` is the processor time of each training, without its scoring. The learning rate of each model is chosen
by BLEU on the validation set, with a quarter of the time and a seed of its own. The test set is looked at once for each
model and seed.
"""
import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import torch
from common import results, save

from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.gpt import GPT, GPTConfig
from transformer_nbdev.positional_encoding import PositionalEncoding
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.tools.corpora import multi30k
from transformer_nbdev.training import Trainer
from transformer_nbdev.transformer import Transformer, TransformerConfig, count_parameters
from transformer_nbdev.translator import Translator, corpus_scores

rates, trial_seed, warm = [6e-3, 12e-3, 24e-3], 100, 10
width = dict(d_model=128, n_heads=4, max_len=160, dropout=0.1)
common = TrainingConfig(steps=1, batch_tokens=2000, optimizer="muon", warmup=50, ema=0.99)


def two_stacks(vocab_size: int) -> Transformer:
    "Two layers in each stack."
    return Transformer(TransformerConfig.preset("tiny", vocab_size, d_ff=512, activation="gelu", **width))


def one_stack(vocab_size: int) -> GPT:
    "Four layers, and a wider feed-forward network in place of the cross-attention."
    return GPT(GPTConfig(vocab_size, n_layers=4, d_ff=640, **width))


def same_input(vocab_size: int) -> GPT:
    "The same, with the input of the encoder–decoder."
    model = one_stack(vocab_size)
    model.positions = PositionalEncoding(width["d_model"], width["max_len"])
    model.embedding = TokenEmbedding(vocab_size, width["d_model"])
    model.output.weight = model.embedding.weight
    return model


makers = {"encoder–decoder": two_stacks, "GPT": one_stack, "GPT, its rival's input": same_input}


def write(model: GPT, tokenizer: Tokenizer, texts: list[str]) -> list[str]:
    "What GPT writes greedily after each text; texts of equal length form a batch."
    rows = [[*tokenizer.encode(text), tokenizer.eos_id, tokenizer.bos_id] for text in texts]
    found = [""] * len(rows)
    for length in {len(row) for row in rows}:
        places = [i for i, row in enumerate(rows) if len(row) == length]
        prompts = torch.tensor([rows[i] for i in places])
        for i, ids in zip(places, model.generate(prompts, max_new_tokens=min(2 * length + 32, 160 - length))):
            found[i] = tokenizer.decode(ids.tolist()).strip()
    return found


def measure(name: str, seed: int, lr: float, seconds: float, split: str, folder: str | None) -> dict:
    "Train for this processor time; the scores on a split."
    torch.set_num_threads(1)
    pairs = multi30k("train", folder=folder)[0]
    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), 4000)
    encoded = encode_pairs(pairs, tokenizer, 64)

    def trained(steps: int) -> tuple[Trainer, float]:
        torch.manual_seed(seed)
        trainer = Trainer(
            makers[name](tokenizer.vocab_size), TokenBatches(*encoded, common.batch_tokens, seed),
            replace(common, steps=steps, lr=lr, seed=seed), quiet=True,
        )
        start = time.process_time()
        trainer.fit()
        return trainer, time.process_time() - start

    _, first = trained(warm)  # also loads what PyTorch loads late
    _, more = trained(6 * warm)
    steps = round(5 * warm * seconds / (more - first))
    trainer, took = trained(steps)
    model, (source, target) = trainer.averaged_model(), zip(*multi30k(split, folder=folder)[0])
    if isinstance(model, Transformer):
        found = Translator(model, tokenizer).translate(source, beam_size=1)
    else:
        found = write(model, tokenizer, list(source))
    return {
        "model": name, "seed": seed, "lr": lr, "steps": steps, "seconds": round(took), "split": split,
        "parameters": count_parameters(model),
        **{score: round(value["score"], 2) for score, value in corpus_scores(found, list(target)).items()},
        "sample": {"source": source[7], "ours": found[7], "reference": target[7]},
    }


def main() -> None:
    "The rates first, then the seeds."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with Multi30k; default: $MULTI30K, or downloaded")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--models", nargs="+", choices=[*makers], default=[*makers])
    arguments = parser.parse_args()
    seconds, folder = 60 * arguments.minutes, arguments.data
    with ProcessPoolExecutor(2) as pool:
        trials = [pool.submit(measure, name, trial_seed, lr, seconds / 4, "val", folder)
                  for lr in rates for name in arguments.models]
        tried = [trial.result() for trial in trials]
        best = {name: max((t for t in tried if t["model"] == name), key=lambda t: t["BLEU"])["lr"]
                for name in arguments.models}
        print(*tried, best, sep="\n", flush=True)
        jobs = [pool.submit(measure, name, seed, best[name], seconds, "test_2016_flickr", folder)
                for seed in arguments.seeds for name in arguments.models]
        runs = [job.result() for job in jobs]
    print(*runs, sep="\n")
    path = results / "one_stack.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rates": [], "runs": []}
    kept = {part: [r for r in stored[part] if r["model"] not in arguments.models] for part in ("rates", "runs")}
    save("one_stack", {
        "task": "Multi30k En-De, cased sacreBLEU 13a, greedy search", "minutes": arguments.minutes,
        "rates": kept["rates"] + tried, "runs": kept["runs"] + runs,
    })


if __name__ == "__main__":
    main()
