"""A language of 256 words with a known entropy: many small trainings, one large one, and what to do with it.

`small` lists the small trainings of a start as [parameters, tokens, loss, rules known, eights without a miss], and
`large` is the run that they predict, in the same form. `curves` is for the first start alone: parameters, words per
update and the smoothed training loss of each small run and of the large one, as [update, loss], at about 40 updates.

`pupil` holds the losses of pupils of width 16 after 2^16 words: [words of different text, from the words, from the
teacher's probabilities]. `accepted` is the mean chance that the large model keeps a guess of a draft of width 8, 16 or
32. `adapted` holds for each way to teach the large model the dialect, in 2^15 words: its loss there, its loss in the
old language, and the weights that are trained as a share of those of the large model; `before` is the large model
itself. `seconds` is the processor time of the start.
"""
import copy
from time import process_time

import torch

from transformer_nbdev.scale import add_low_rank

before = "19sc0024"


def small_runs(notebook: dict, seed: int, curves: list) -> tuple[list, dict]:
    "Train all small learners; return what is stored of them, and the models after 2^17 words by width."
    rows, drafts = [], {}
    for n_tokens in notebook["token_counts"]:
        for width in notebook["widths"]:
            if notebook["count_parameters"](notebook["learner"](width, 0)) * n_tokens > notebook["limit"]:
                continue
            curve: list = []
            model = notebook["train"](width, n_tokens, seed, curve)
            rows.append(notebook["record_of"](model, n_tokens))
            curves.append(notebook["thinned"](model, n_tokens, curve))
            if n_tokens == 2**17:
                drafts[width] = model
    return rows, drafts


def pupils(notebook: dict, teacher, seed: int) -> list:
    "Train pupils of width 16 on little and on much text, from the words and from the teacher."
    rows = []
    for n_tokens in (2**13, 2**16):
        row, passes = [n_tokens], 2**16 // n_tokens
        texts = notebook["language"].write(n_tokens // 32, seed=seed + 1)
        for targets in (texts[:, 2:], notebook["probabilities"](teacher, texts)):
            lessons = torch.cat([texts] * passes), torch.cat([targets] * passes)
            pupil = notebook["train_on"](notebook["learner"](16, seed), *lessons)
            row.append(round(notebook["loss_of"](pupil), 4))
        rows.append(row)
    return rows


def adaptations(notebook: dict, large, seed: int) -> dict:
    "Teach the large model the dialect in several ways, each at a learning rate near its best."
    dialect, loss_of, count = notebook["dialect"], notebook["loss_of"], notebook["count_parameters"]
    spoken_there = dialect(notebook["held_out"])
    lessons = dialect(notebook["language"].write(2**15 // 32, seed=30_000 + seed))
    adapted: dict[str, list] = {"before": [round(loss_of(large, spoken_there), 4), round(loss_of(large), 4), 0.0]}
    for name in (1, 2, 4, "all weights", "new model"):
        new = name == "new model"
        model = notebook["learner"](notebook["large_width"], seed + 50) if new else copy.deepcopy(large)
        torch.manual_seed(seed)
        if isinstance(name, int):
            add_low_rank(model, name)
        share = sum(p.numel() for p in model.parameters() if p.requires_grad) / count(large)
        notebook["train_on"](model, lessons, lessons[:, 2:], faster=8 if isinstance(name, int) else 1)
        adapted[str(name)] = [round(loss_of(model, spoken_there), 4), round(loss_of(model), 4), round(share, 4)]
    return adapted


def run(notebook: dict, seed: int) -> dict:
    begun, curves = process_time(), []
    rows, drafts = small_runs(notebook, seed, curves)
    curve: list = []
    teacher = notebook["train"](notebook["large_width"], notebook["large_tokens"], seed, curve)
    curves.append(notebook["thinned"](teacher, notebook["large_tokens"], curve))
    result = {"small": rows, "large": notebook["record_of"](teacher, notebook["large_tokens"])}
    if seed == 0:
        result["curves"] = curves
    result["pupil"] = pupils(notebook, teacher, seed)
    result["accepted"] = {str(width): notebook["acceptance"](teacher, drafts[width]) for width in (8, 16, 32)}
    result["adapted"] = adaptations(notebook, teacher, seed)
    return result | {"seconds": round(process_time() - begun, 1)}
