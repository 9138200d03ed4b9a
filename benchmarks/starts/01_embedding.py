"""For each start, with a text and a table of its own: the shares right of four networks; for each relation the right
answers with every word allowed, with a, b, c forbidden, and without the step (man → woman also with beards at random);
how parallel the steps are; accuracy on two tasks with 12 examples after 100 steps, and with 24 after 10."""
import torch
from torch import nn

before = "1fa361ff"


def run(notebook: dict, seed: int) -> dict:
    scaled, numbers, answers = notebook["scaled"], notebook["numbers"], notebook["answers"]
    torch.manual_seed(seed)
    three = {
        "the number": (nn.Linear(1, 3), scaled),
        "the number, 32 hidden units": (nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 3)), scaled),
        "a table, two numbers per word": (nn.Sequential(nn.Embedding(24, 2), nn.Linear(2, 3)), numbers),
        "a table, one number per word": (nn.Sequential(nn.Embedding(24, 1), nn.Linear(1, 3)), numbers),
    }
    results = {}
    for name, (model, x) in three.items():
        notebook["learn"](model, x, answers)
        results[name] = notebook["share_right"](model, x, answers)
    relations, tables = notebook["all_relations"], {}
    for text, divided in {"as written": True, "sexes mixed": False}.items():
        counts = notebook["neighbors"](notebook["write"](6000, seed, divided=divided))
        table = notebook["train_table"](counts, seed=seed)[-1]
        for relation in relations if divided else ["man → woman"]:
            shares = notebook["count_right"](table, relations[relation])
            results[f"{relation}, {text}"] = shares.round(3).tolist()
        results[f"parallel, {text}"] = round(notebook["parallel"](table), 3)
        tables[text] = table
    shuffled = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
    beginnings = {
        "random": None, "pre-trained": tables["as written"], "rows swapped": tables["as written"][shuffled],
    }
    for task in ("which_kind", "good_or_bad"):
        for name, start in beginnings.items():
            few, more = (notebook["accuracy"](notebook[task], n, start, seed) for n in (12, 24))
            results[f"{task}, {name}"] = [round(float(few[100].mean()), 3), round(float(more[10].mean()), 3)]
    return results
