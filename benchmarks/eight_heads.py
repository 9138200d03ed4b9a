"""What 04_multi_head shows of the translator of page one: its eight heads that read the English, silenced in turn.

    OMP_NUM_THREADS=1 python benchmarks/eight_heads.py

Trains the translator of `page_one.py` and writes `nbs/eight_heads.json`: the weights of the
eight cross-attention heads for one number, and how many of 500 numbers that training never showed are translated
correctly while a head, all heads of a layer, or all heads but one are silenced. To silence a head is to set its
columns of W_O to zero. For every wrong translation the record says which of the five digits have changed.
`by_pair` counts apart the numbers with a hyphenated pair at the end of their English name, only before *thousand*, or
nowhere. Two threads round sums differently and train another translator, so the record is that of one thread.
"""
import torch
from page_one import held_out, new_trainer, save_beside_the_notebooks

from transformer_nbdev.tools.corpora import number_words
from transformer_nbdev.transformer import attention_maps
from transformer_nbdev.translator import Translator

shown, n_asked = 58_074, 500
asked = held_out[:n_asked]
trained = new_trainer()
trained.fit()
model, tokenizer = trained.averaged_model(), trained.tokenizer
translator = Translator(model, tokenizer)
n_layers, n_heads = model.config.n_decoder_layers, model.config.n_heads
heads = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
named = {number_words(number, "de"): number for number in range(100_000)}


def translate_without(silenced: list[tuple[int, int]]) -> list[str]:
    "Translate the shown number and all that are asked, while these heads `(layer, head)` are silent."
    state = {name: value.clone() for name, value in model.state_dict().items()}
    width = model.config.d_model // n_heads
    for layer, head in silenced:
        out = model.decoder.layers[layer].cross_attention.out_proj
        out.weight.data[:, width * head : width * (head + 1)] = 0
    sentences = [number_words(number, "en") for number in (shown, *asked)]
    translations = translator.translate(sentences, beam_size=1)
    model.load_state_dict(state)
    return translations


def count(silenced: list[tuple[int, int]]) -> dict:
    "How many are right, how often each digit is wrong (ten thousands first), and what becomes of the shown number."
    writes, *translations = translate_without(silenced)
    right, no_number, digits = 0, 0, [0] * 5
    for number, german in zip(asked, translations):
        written = named.get(german)
        right += written == number
        no_number += written is None
        if written is not None:
            for place, pair in enumerate(zip(f"{number:05}", f"{written:05}")):
                digits[place] += pair[0] != pair[1]
    return {"right": right, "no_number": no_number, "wrong_digits": digits, "writes": writes}


def by_pair(silenced: list[tuple[int, int]]) -> dict:
    "How many are right, and of how many, by where the English name has a pair like seventy-four."
    counts = {"at the end": [0, 0], "only before thousand": [0, 0], "nowhere": [0, 0]}
    for number, german in zip(asked, translate_without(silenced)[1:]):
        is_pair = ["-" in word for word in number_words(number, "en").split()]
        where = "at the end" if is_pair[-1] else "only before thousand" if any(is_pair) else "nowhere"
        counts[where][0] += named.get(german) == number
        counts[where][1] += 1
    return counts


source, target = (tokenizer.encode(number_words(shown, side)) + [tokenizer.eos_id] for side in ("en", "de"))
maps = attention_maps(model, torch.tensor([source]), torch.tensor([[tokenizer.bos_id, *target[:-1]]]))["cross"]
weights = [[[round(w, 4) for w in row] for row in maps[layer][0, head].tolist()] for layer, head in heads]
save_beside_the_notebooks("eight_heads", {
    "made_by": "OMP_NUM_THREADS=1 python benchmarks/eight_heads.py", "number": shown, "asked": n_asked,
    "source": tokenizer.pieces(source), "target": tokenizer.pieces(target),
    "heads": [f"layer {layer + 1}, head {head}" for layer, head in heads], "weights": weights,
    "none": count([]), "all": count(heads), "one": [count([one]) for one in heads],
    "layer": [count([one for one in heads if one[0] == layer]) for layer in range(n_layers)],
    "by_pair": {"none": by_pair([]), "layer 1, head 1": by_pair([(0, 1)])},
    "all_but_one": [count([other for other in heads if other != one]) for one in heads],
})
