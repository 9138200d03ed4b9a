"""A language of 256 words with a known entropy: many small trainings, one large one, and what to do with it.

`small` lists the small trainings of a start as [parameters, tokens, loss, rules known, eights without a miss], and
`large` is the run that they predict, in the same form. `curves` is for the first start alone: parameters, words per
update and the smoothed training loss of each small run and of the large one, as [update, loss], at about 40 updates.

`pupil` holds the losses of pupils of width 16 after 2^16 words: [words of different text, from the words, from the
teacher's probabilities]. `accepted` is the mean chance that the large model keeps a guess of a draft of width 8, 16 or
32. `adapted` holds for each way to teach a translator of number words the new style, in 150 updates: the share of 300
right answers, that of answers that are still right in the old style, and the share of weights that are trained;
`before` is the translator before that. It is for the first start alone. `seconds` is the processor time of the start.
"""
import copy
from time import process_time

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
        row = [n_tokens]
        for guide in (None, teacher):
            pupil = notebook["train"](16, n_tokens, seed, teacher=guide, passes=2**16 // n_tokens)
            row.append(round(notebook["loss_of"](pupil), 4))
        rows.append(row)
    return rows


def adaptations(notebook: dict, seed: int) -> dict:
    "Train a translator; teach it another style in several ways."
    numbers, unseen, pairs_of = notebook["numbers"], notebook["unseen"], notebook["pairs_of"]
    teach, right, new = notebook["teach"], notebook["share_right"], notebook["new_translator"]
    base = teach(new(seed), pairs_of(numbers), 250, seed=seed)
    style, old, asked = notebook["by_hundreds"], pairs_of(unseen), pairs_of(unseen, notebook["by_hundreds"])
    adapted: dict[str, list] = {"before": [right(base, asked), right(base, old), 0.0]}
    for name in (1, 2, 4, "all weights", "new model"):
        model = new(seed + 100) if name == "new model" else copy.deepcopy(base).requires_grad_(True)
        rate = 4e-3
        if isinstance(name, int):
            add_low_rank(model, name)
            rate = 2e-2
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        model = teach(model, pairs_of(numbers, style), 150, rate, seed)
        share = trained / notebook["count_parameters"](base)
        adapted[str(name)] = [right(model, asked), right(model, old), round(share, 4)]
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
    if seed < 1:
        result["adapted"] = adaptations(notebook, seed)
    return result | {"seconds": round(process_time() - begun, 1)}
