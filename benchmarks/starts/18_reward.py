"""Number words below 10,000: what verdicts teach a half-trained translator, and what a few references add.

Each start is trained for 80 updates from references and then for 40 from verdicts. `first` is the share of 500 held-out
numbers that greedy search gets right after 0, 10, 20, 30 and 40 of these. `missing` lists the endings (last two digits)
at which fewer than 2 % of the attempts in the last 20 updates were right, and `ceiling` is the share of held-out
numbers with another ending. From there three copies make 40 more updates: from verdicts alone, from one reference for
each missing ending alone, and from both. `verdicts`, `references` and `both` hold their shares after 0, 10, 20, 30 and
40. Two controls start from the same point: `found` gets verdicts and as many references, but for endings that it had
already found; `leashed` gets the references for the missing endings and, instead of verdicts, a leash of 0.3 to the
model that it started from, on 64 groups of its own samples. `parts` holds, for `references`, `found` and `leashed`, two
shares at the end: among the held-out numbers with a missing ending, and among the others.

`chance before`, `chance after`, `chance verdicts` and `chance both` hold the probability of the right German, averaged
over the held-out numbers with each of the 100 endings, and null where there is none: before the verdicts, after 40
updates, and for two of the copies at the end. `attempts` and `right` count the attempts of the first 40 updates by
ending. `one sample` and `one of eight` are the shares in each of these updates. `different` is the mean number of
different answers among eight, before and after. `seconds` is the processor time of the start.
"""
import copy
import random
from time import process_time

import numpy as np
import torch

before = "18rw0110"
names = {"verdicts alone": "verdicts", "references alone": "references", "both": "both"}


def chances(notebook: dict, model, tokenizer) -> list[float | None]:
    "Return the probability of the right German for each ending."
    values = notebook["by_ending"](notebook["chances"](model, tokenizer)).tolist()
    return [None if value != value else float(f"{value:.3g}") for value in values]


def first_lesson(notebook: dict, model, tokenizer, seed: int) -> tuple[dict, list[int]]:
    "Let a model learn from verdicts; return what is stored of it and the endings that it did not find."
    different = [notebook["different_answers"](model, tokenizer)]
    result: dict = {"chance before": chances(notebook, model, tokenizer)}
    shares, log = notebook["followed"](model, tokenizer, notebook["learn"](model, tokenizer, 40, seed=seed))
    different.append(notebook["different_answers"](model, tokenizer))
    attempts, right = notebook["right_by_ending"](log)
    missing = notebook["unlearned"](log)
    rewards = torch.stack([rewards for _, rewards in log])
    held_out = notebook["held_out"]
    ceiling = sum(n % 100 not in missing for n in held_out) / len(held_out)
    result |= {"first": shares, "missing": missing, "ceiling": ceiling}
    result["chance after"] = chances(notebook, model, tokenizer)
    result |= {"attempts": attempts.astype(int).tolist(), "right": right.astype(int).tolist()}
    result["one sample"] = [round(x, 4) for x in rewards.mean((1, 2)).tolist()]
    result["one of eight"] = [round(x, 4) for x in rewards.amax(2).mean(1).tolist()]
    result["different"] = [round(x, 3) for x in different]
    return result, missing


def controls(notebook: dict, model, tokenizer, missing: list[int], seed: int) -> dict[str, tuple]:
    "Teach two more copies: verdicts with references that are not needed, and references with a leash, not verdicts."
    learn, references_for = notebook["learn"], notebook["one_reference_each"]
    found = random.Random(seed).sample([ending for ending in range(100) if ending not in missing], len(missing))
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    needless, needed = references_for(found, tokenizer), references_for(missing, tokenizer)
    leash = dict(judge=lambda number, text: 0.0, start=model, leash=0.3)
    lessons = {
        "found": (one, learn(one, tokenizer, 40, references=needless, seed=seed)),
        "leashed": (other, learn(other, tokenizer, 40, references=needed, seed=seed, **leash)),
    }
    return {name: (pupil, *notebook["followed"](pupil, tokenizer, lesson)) for name, (pupil, lesson) in lessons.items()}


def parts(notebook: dict, model, tokenizer, missing: list[int]) -> list[float]:
    "Return the share right among the held-out numbers with a missing ending, and among the others."
    held_out = notebook["held_out"]
    written = notebook["Translator"](model, tokenizer).translate(
        [notebook["number_words"](n, "en") for n in held_out], max_new_tokens=30
    )
    right = np.array([notebook["is_right"](n, text) for n, text in zip(held_out, written)])
    is_missing = np.array([n % 100 in missing for n in held_out])
    return [round(float(right[is_missing].mean()), 4), round(float(right[~is_missing].mean()), 4)]


def run(notebook: dict, seed: int) -> dict:
    begun = process_time()
    model, tokenizer = notebook["half_trained"](seed)
    result, missing = first_lesson(notebook, model, tokenizer, seed)
    pupils = notebook["three_pupils"](model, tokenizer, missing, seed=seed + 1)
    pupils |= controls(notebook, model, tokenizer, missing, seed=seed + 1)
    for name, (pupil, shares, _) in pupils.items():
        result[names.get(name, name)] = shares
        if name in ("verdicts alone", "both"):
            result[f"chance {names[name]}"] = chances(notebook, pupil, tokenizer)
    judged = {"references": pupils["references alone"], "found": pupils["found"], "leashed": pupils["leashed"]}
    result["parts"] = {name: parts(notebook, pupil, tokenizer, missing) for name, (pupil, _, _) in judged.items()}
    result["seconds"] = round(process_time() - begun, 1)
    return result
