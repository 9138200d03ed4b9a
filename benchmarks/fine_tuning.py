"""Fine-tuning at several learning rates, against training from scratch, and what the model forgets.

    python benchmarks/fine_tuning.py --tasks numbers --seeds 0 --longer
    python benchmarks/fine_tuning.py --tasks numbers --seeds 1 2
    python benchmarks/fine_tuning.py --tasks text --seeds 0 [--multi30k FOLDER]
    python benchmarks/fine_tuning.py --tasks text --minutes 3  # equal minutes, not updates; needs a quiet machine

numbers: a model that can write the numbers below 1,000 goes on with 2,000 numbers from 1,000 to 100,000.
text: a model of Multi30k without the sentences about dogs goes on with those.

`make_trainer` does what `train --init` does. Seconds are the CPU time of this process, without scoring, so other work
on the machine does not count. The rate is to be chosen by `valid_loss`; nothing is chosen on the test sentences.
"""
import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator

import torch
from common import results, save

from transformer_nbdev.convert.fine_tuning import Forgetting, make_trainer
from transformer_nbdev.speed.defaults import recipe
from transformer_nbdev.tools.config import TrainingConfig
from transformer_nbdev.tools.corpora import Report, multi30k, number_pairs, number_split
from transformer_nbdev.training import Trainer
from transformer_nbdev.translator import Translator, corpus_scores

rates, mixed_rate = [5e-4, 1e-3, 2e-3, 4e-3], 2e-3
kinds = ["old only", "new", "new and old", "from scratch"]  # what a model is trained on
shapes = {
    "numbers": {"preset": "tiny", "vocab_size": 350, "d_model": 64, "d_ff": 256, "dropout": 0.0},
    "text": {"preset": "tiny", "vocab_size": 3000, "dropout": 0.1, "bias": False},
}
before = {  # how the first model is trained
    "numbers": {"steps": 250, "batch_tokens": 600, "lr": 5e-3, "warmup": 20, "ema": 0.95},
    "text": {**recipe("text")["training"], "steps": 250},
}
tasks = {
    "numbers": "numbers in words: old below 1,000; new from 1,000 to 100,000",
    "text": "Multi30k En-De: old without dogs, new about dogs",
}


def numbers(seed: int) -> dict:
    "Old and new numbers in words."
    old, old_test = number_split(1000, 900, 100, seed)
    new = random.Random(seed).sample(range(1000, 100_000), 2400)
    parts = {"old": old, "old_test": old_test, "new": new[:2000], "valid": new[2000:2200], "new_test": new[2200:]}
    return {name: number_pairs(part) for name, part in parts.items()}


def text(seed: int, folder: str | None) -> dict:
    "Sentences without dogs, and sentences about them."
    train, test = multi30k("train", folder=folder)[0], multi30k("test_2016_flickr", folder=folder)[0]
    dogs = re.compile(r"\b(dog|dogs|puppy|puppies)\b", re.IGNORECASE)
    new = [pair for pair in train if dogs.search(pair[0])]
    random.Random(seed).shuffle(new)
    return {
        "old": [pair for pair in train if not dogs.search(pair[0])],
        "old_test": [pair for pair in test if not dogs.search(pair[0])][:150],
        "new": new[350:], "valid": new[:200], "new_test": new[200:350],
    }


def score(trainer: Trainer, data: dict) -> dict:
    "Score the averaged weights, which a run keeps, with greedy search on new and old test pairs."
    translator, found = Translator(trainer.averaged_model(), trainer.tokenizer), {}
    for name in ("new", "old"):
        source, target = zip(*data[f"{name}_test"])
        hypotheses = translator.translate(list(source))
        scores = corpus_scores(hypotheses, list(target))
        found[f"{name}_exact"] = sum(map(str.__eq__, hypotheses, target)) / len(target)
        found[f"{name}_chrF"] = round(scores["chrF"]["score"], 2)
    return found


def run(trainer: Trainer, data: dict, what: str) -> dict:
    "Train; return the CPU seconds, and the scores at the end."
    start = time.process_time()
    trainer.fit()
    found = {
        "what": what, "lr": trainer.config.lr, "steps": trainer.step, "seconds": round(time.process_time() - start, 1),
        "valid_loss": round(trainer.valid_loss(trainer.averaged_model()), 4), **score(trainer, data),
    }
    print(found, flush=True)
    return found


def measure(task: str, data: dict, seed: int) -> Iterator[dict]:
    "Yield all runs of one seed: the first model, going on at each rate, going on with old pairs too, and from scratch."
    shape, best, same = shapes[task], recipe("init")["training"], {"seed": seed, "validate_every": 0, "keep": "last"}

    def new_model(pairs: list, **config) -> Trainer:
        ends = {"steps": None} if "minutes" in config else {}
        training = TrainingConfig(**{**before[task], **ends, **config, **same})
        return Trainer.from_pairs(pairs, training, valid=data["valid"], device="cpu", quiet=True, **shape)

    def go_on(pairs: list, rate: float, **ends) -> Trainer:
        training = TrainingConfig(**{**(ends or recipe("init")["ends"]), **best, **same, "lr": rate})
        settings = {"init": folder, "old_data": None, "model": {"dropout": shape["dropout"]}}
        trainer = make_trainer(settings, pairs, training, None, data["valid"], "cpu", Report(), None, [], quiet=True)
        trainer.callbacks = [one for one in trainer.callbacks if not isinstance(one, Forgetting)]  # `run` scores
        return trainer

    first = new_model(data["old"])
    yield run(first, data, "old only")
    with tempfile.TemporaryDirectory() as folder:
        Translator(first.averaged_model(), first.tokenizer).save_pretrained(folder)
        some = random.Random(seed).choices(data["old"], k=len(data["new"]))
        if arguments.minutes:
            ends = {"minutes": arguments.minutes}
            yield run(go_on(data["new"], mixed_rate, **ends), data, "new")
            yield run(go_on(data["new"] + some, mixed_rate, **ends), data, "new and old")
            yield run(new_model(data["new"], **ends), data, "from scratch")
            return
        for rate in rates:
            yield (found := run(go_on(data["new"], rate), data, "new"))
        yield run(go_on(data["new"] + some, mixed_rate), data, "new and old")
    for times in (1, 3) if arguments.longer else (1,):
        scratch = new_model(data["new"], steps=found["steps"] * times, batch_tokens=best["batch_tokens"])
        yield run(scratch, data, "from scratch")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--multi30k", help="folder with Multi30k; default: $MULTI30K, or downloaded")
parser.add_argument("--tasks", nargs="+", choices=tasks, default=[*tasks])
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
parser.add_argument("--minutes", type=float, help="train on the new sentences for so long, at the default rate")
parser.add_argument("--longer", action="store_true", help="from scratch also with three times as many updates")
arguments = parser.parse_args()
torch.set_num_threads(1)
stored = results / "fine_tuning.json"
for task in arguments.tasks:
    name = f"{task}, {arguments.minutes:g} minutes" if arguments.minutes else task
    for seed in arguments.seeds:
        data = numbers(seed) if task == "numbers" else text(seed, arguments.multi30k)
        for found in measure(task, data, seed):
            told = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {"tasks": tasks, "runs": []}
            titles = {**told["tasks"], name: tasks[task] + name.removeprefix(task)}
            key = name, seed, found["what"], found["lr"], found["steps"]
            runs = [r for r in told["runs"] if (r["task"], r["seed"], r["what"], r["lr"], r["steps"]) != key]
            runs.append({"task": name, "seed": seed, **found})
            order = [*titles]
            runs.sort(key=lambda r: (order.index(r["task"]), r["seed"], kinds.index(r["what"]), r["lr"], r["steps"]))
            save("fine_tuning", {"tasks": titles, "runs": runs})
