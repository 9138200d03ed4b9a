"Pig Latin from other weights and words: shares of right words, what the cheaters' losses hide, harm, the triangle."
from copy import deepcopy
from itertools import islice

import numpy as np
import torch

before = "e8a063f8"


def run(notebook: dict, seed: int) -> dict:
    PigLatin, Decoder, UnmaskedDecoder, Triangular = map(notebook.get, (
        "PigLatin", "Decoder", "UnmaskedDecoder", "Triangular"))
    train, share_right, some_words, unseen, letters, looks_of = map(notebook.get, (
        "train", "share_right", "some_words", "unseen", "letters", "looks_of"))
    both_ways, mistakes, damage, looks_ahead, copy_to_relearn, by_first_letter = map(notebook.get, (
        "both_ways", "mistakes", "damage", "looks_ahead", "copy_to_relearn", "by_first_letter"))
    found = {}
    torch.manual_seed(seed)
    model, losses = PigLatin(), []
    for loss in train(model, seed=seed):
        losses.append(loss)
        if len(losses) == 100:
            young = deepcopy(model).eval()
    model.eval()
    found["right, 3 to 8 letters"] = share_right(model, unseen)
    for n in (2, 5, 9):
        words = some_words(np.random.default_rng(n), 50, n, n)
        found[f"right, {n} letters"] = share_right(model, words)
    looks = looks_of(model, "student", "tudentsay$").argmax(-1)
    found["rows that look at the letter they write"] = int((looks[:7] == torch.tensor([1, 2, 3, 4, 5, 6, 0])).sum())
    found["loss, shift and mask"] = np.mean(losses[90:100])

    torch.manual_seed(seed)
    no_shift = PigLatin()
    curve = list(islice(train(no_shift, shift=lambda ids: ids, seed=seed), 40))
    found["loss, no shift"] = np.mean(curve[30:])
    found["right, no shift"] = share_right(no_shift.eval(), unseen[:100])
    torch.manual_seed(seed)
    no_mask = PigLatin(stack=UnmaskedDecoder)
    curve = list(islice(train(no_mask, seed=seed), 100))
    found["loss, no mask"] = np.mean(curve[90:])
    smooth, honest = (np.convolve(one[:100], np.ones(10) / 10, "valid") for one in (curve, losses))
    found["apart from step"] = int((smooth < 0.8 * honest).argmax())
    found["right, no mask"] = share_right(no_mask.eval(), unseen[:100])
    found["weight on the answer, no mask"] = float(looks_ahead(no_mask).max())

    words = [word for word in some_words(np.random.default_rng(2), 400, 8, 8) if word[0] not in "aeiou"]
    target, forced, free = both_ways(young, words)
    taught, alone = ((ids[:, : target.shape[1]] == target).double().mean() for ids in (forced, free))
    found["letters right, taught"], found["letters right, alone"] = float(taught), float(alone)
    found["edits, taught"], found["edits, alone"] = mistakes(forced, words), mistakes(free, words)

    for name, one in (("trained", model), ("half-trained", young)):
        harm, growth = damage(words[:12], letters[::4], one)
        found[f"unharmed, {name}"] = float((harm == 0).mean())
        found[f"harm, {name}"] = float(harm.mean())
        found[f"longer, {name}"], found[f"shorter, {name}"] = float((growth > 0).mean()), float((growth < 0).mean())

    masked, plain = copy_to_relearn(model, Triangular), copy_to_relearn(model, Decoder)
    found["triangle"] = by_first_letter(masked)
    list(train(masked, 200, seed=seed))
    found["encoder relearns"] = by_first_letter(masked)
    list(train(plain, 200, seed=seed))
    found["the same without"] = by_first_letter(plain)
    return {name: np.round(value, 4).tolist() for name, value in found.items()}
