"""What 00_foundations shows before anything is explained: a small translator, trained, and looked into.

    python benchmarks/first_look.py [--film]

Trains the translator of number words of 13_translation, with its settings (under a minute on two cores), and writes
`nbs/first_look.json`: what it makes of numbers that training never showed; for one of them the probability of each
piece, the scores of the first step, and queries, keys and weights of the attention head that looks most at the word
just being translated; and a number of a kind that training never showed. The choice of the head is part of the record.
--film trains the same and writes `nbs/first_look.gif` instead, the README's picture: the head's weights as lines, and
what the model writes, while it learns.
"""
import json
import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from common import root
from matplotlib.axes import Axes
from page_one import held_out, new_trainer, save_beside_the_notebooks, train_numbers
from PIL import Image

from transformer_nbdev.tools.corpora import number_words
from transformer_nbdev.tools.drawing import house_style
from transformer_nbdev.training import Trainer
from transformer_nbdev.transformer import attention_maps
from transformer_nbdev.translator import Translator


def draw_lines(ax: Axes, source: list[str], target: list[str], weights: list, read: list[int]) -> None:
    "The weights as lines from each piece of the German back to the English: wide where much is read."
    above, below = ([(i + 0.5) / len(pieces) for i in range(len(pieces))] for pieces in (source, target))
    way = np.linspace(0, 1, 50)
    for t, row in enumerate(weights[: len(target)]):
        for i, weight in enumerate(row[: len(source)]):
            if weight > 0.03:
                x = below[t] + (above[i] - below[t]) * (3 * way**2 - 2 * way**3)
                ax.plot(x, 0.16 + 0.68 * way, color=f"C{t}", lw=11 * weight, alpha=0.8, solid_capstyle="round")
    for i, piece in enumerate(source):
        color = "black" if i in read else "0.6"
        ax.text(above[i], 0.93, piece.strip(), ha="center", va="center", fontsize=14, color=color)
    for t, piece in enumerate(target):
        ax.text(below[t], 0.07, piece, ha="center", va="center", fontsize=14, color=f"C{t}")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")


def much_read(weights: list, n_source: int, n_target: int) -> list[int]:
    "The places of the English from which some piece of the German reads a tenth or more."
    return [i for i in range(n_source) if max(row[i] for row in weights[:n_target]) > 0.1]


def draw_film(source: list[str], target: list[str], moments: list[tuple[int, list, str]]) -> None:
    "A GIF of (updates, weights, translation): the end first, so that a still picture of it shows the result."
    house_style()
    read = much_read(moments[-1][1], len(source), len(target))
    frames = []
    for updates, weights, written in [moments[-1], *moments]:
        figure = plt.figure(figsize=(7.2, 3.2), dpi=100, layout="none")
        ax = figure.add_axes((0, 0.12, 1, 0.88))  # the same place in every frame
        draw_lines(ax, source, target, weights, read)
        written = written if len(written) < 44 else f"{written[:40]}…"
        caption = f"after {updates} updates it writes: {written or '(nothing)'}"
        figure.text(0.5, 0.04, caption, ha="center", color="0.3", fontsize=12)
        figure.canvas.draw()
        picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
        frames.append(picture.quantize(48, dither=Image.Dither.NONE))
        plt.close(figure)
    times = [2500, *[350] * (len(moments) - 1), 2500]
    frames[0].save(root / "nbs" / "first_look.gif", save_all=True, append_images=frames[1:], duration=times, loop=0)


shown, looked_at, beyond = (6_089, 58_074, 47_096), 58_074, 234_567
assert set(shown) <= set(held_out) and not set(train_numbers) & set(held_out)
moments: list[tuple[int, torch.Tensor, str]] = []  # updates, cross-attention (layers, heads, target, source), greedy


def film(trainer: Trainer) -> None:
    "What the average of the weights sees and writes at this moment."
    if trainer.step % (10 if trainer.step < 160 else 30) == 0:
        now, number = Translator(trainer.averaged_model(), trainer.tokenizer), number_words(looked_at, "en")
        source, reads, _ = sides(looked_at)
        maps = torch.stack(attention_maps(now.model, source, reads)["cross"])[:, 0]
        moments.append((trainer.step, maps, now.translate([number], beam_size=1)[0]))


trained = new_trainer(callbacks=[film] if "--film" in sys.argv else [])
tokenizer = trained.tokenizer


def sides(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    "Ids of the source, of what the decoder reads, and of what it should write, each `(1, length)`."
    source, target = (tokenizer.encode(number_words(number, side)) + [tokenizer.eos_id] for side in ("en", "de"))
    return torch.tensor([source]), torch.tensor([[tokenizer.bos_id, *target[:-1]]]), torch.tensor([target])


trained.fit()
model = trained.averaged_model()
translator = Translator(model, tokenizer)


def rounded(tensor: torch.Tensor, digits: int = 4) -> list:
    "A tensor as lists of short numbers."
    return json.loads(json.dumps(tensor.double().tolist()), parse_float=lambda text: round(float(text), digits))


def translated(number: int) -> dict:
    english, right = number_words(number, "en"), number_words(number, "de")
    german = translator.translate([english], beam_size=1)[0]
    return {"number": number, "english": english, "german": german, "right": right}


@torch.no_grad()
def bets(number: int) -> list[dict]:
    "Shown the right beginning: the probability of the right next piece, and the two likeliest pieces."
    source, reads, target = sides(number)
    steps = []
    for p, right in zip(model(source, reads)[0].softmax(-1), target[0].tolist()):
        best = p.topk(2)
        top = [[*tokenizer.pieces([i]), round(float(q), 4)] for q, i in zip(best.values, best.indices.tolist())]
        steps.append({"piece": tokenizer.pieces([right])[0], "p": round(float(p[right]), 6), "top": top})
    return steps


def weight_on_the_word(number: int) -> torch.Tensor:
    "Of each head `(layers, heads)`: weight on the unit while its piece is written, and on the ten after it."
    source, reads, _ = sides(number)
    cross = torch.stack(attention_maps(model, source, reads)["cross"])[:, 0]
    return (cross[..., 0, 2] + cross[..., 1, 0]) / 2


def crosses(number: int) -> bool:
    "Does it begin as in fifty | - | eight | thousand and acht | undfünfzigtausend?"
    source, _, target = (tokenizer.pieces(ids[0].tolist()) for ids in sides(number))
    ten_and_unit = source[1] == "-" and "".join(source[:3]) == number_words(number // 1000, "en")
    return ten_and_unit and target[1].startswith("und")


@torch.no_grad()
def inside(number: int, layer: int, head: int) -> dict:
    "Queries, keys and weights of one head of the cross-attention."
    source, reads, _ = sides(number)
    seen = {}
    attention = model.decoder.layers[layer].cross_attention
    hook = attention.register_forward_pre_hook(lambda module, args: seen.update(x=args[0], memory=args[1]))
    logits = model(source, reads)
    hook.remove()
    queries = attention.project(seen["x"].view(1, -1, attention.d_model), 0, 1)[0][0, head]
    memory = seen["memory"]
    keys = (memory if isinstance(memory, tuple) else attention.keys_values(memory))[0][0, head]
    weights = attention_maps(model, source, reads)["cross"][layer][0, head]
    assert torch.allclose((queries @ keys.T / keys.shape[-1] ** 0.5).softmax(-1), weights, atol=1e-5)
    return {"queries": rounded(queries), "keys": rounded(keys), "weights": rounded(weights),
            "scores": rounded(logits[0, 0])}


outputs = translator.translate([number_words(n, "en") for n in held_out], beam_size=1)
exact = sum(o == number_words(n, "de") for n, o in zip(held_out, outputs)) / len(held_out)
heads = torch.stack([weight_on_the_word(n) for n in held_out[:400] if crosses(n)]).mean(0)
layer, head = divmod(int(heads.argmax()), heads.shape[1])
source, _, target = sides(looked_at)
if "--film" in sys.argv:
    pieces = [tokenizer.pieces(ids[0, :-1].tolist()) for ids in (source, target)]
    draw_film(*pieces, [(updates, maps[layer, head].tolist(), written) for updates, maps, written in moments])
    print(f"wrote nbs/first_look.gif: {exact:.2%} exact, layer {layer + 1}, head {head + 1}, {len(moments)} moments")
    sys.exit()
save_beside_the_notebooks("first_look", {
    "made_by": "python benchmarks/first_look.py",
    "training": {"numbers": len(train_numbers), "updates": trained.config.steps,
                 "parameters": sum(p.numel() for p in model.parameters()), "d_model": model.config.d_model,
                 "layers": model.config.n_encoder_layers, "heads": model.config.n_heads},
    "unseen": len(held_out), "exact": exact,
    "translations": [translated(n) for n in shown], "beyond": translated(beyond),
    "number": looked_at, "source": tokenizer.pieces(source[0].tolist()), "source_ids": source[0].tolist(),
    "target": tokenizer.pieces(target[0].tolist()), "target_ids": target[0].tolist(),
    "bets": bets(looked_at), "bets_beyond": bets(beyond),
    "heads": rounded(heads, 3), "layer": layer + 1, "head": head + 1, **inside(looked_at, layer, head),
    "vocabulary": tokenizer.pieces(range(tokenizer.vocab_size)),
})
print(f"{exact:.2%} of {len(held_out):,} exact; heads {rounded(heads, 3)}")
