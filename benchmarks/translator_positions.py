"""What 02_positional_encoding shows: the translator of page one with its positions taken away after the training.

    python benchmarks/translator_positions.py [--seeds 3]

Trains the translator of 00_foundations (page_one.py, under a minute per start on two cores) and lets
it translate 300 numbers that training never showed: with its positions; without any; without the English positions that
it reads; without the German positions that it writes; and with all of them again. For each start,
`nbs/translator_positions.json` counts the answers that are right, those that are the word for another number below
100,000, and those that repeat a piece of the number (*tausend* or *hundert* twice); it holds the first start's answers
for five numbers.
"""
import argparse
import re

from page_one import held_out, new_trainer, save_beside_the_notebooks
from torch import Tensor, nn

from transformer_nbdev.tools.corpora import number_words
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator

asked, shown = held_out[:300], (58_074, 47_096, 34_036, 6_089, 5_406)
ways = {"with its positions": "", "without any positions": "English German", "without the English positions": "English",
        "without the German positions": "German", "with its positions again": ""}
repeats = re.compile("tausend.*tausend|hundert.*hundert")


class NoPositions(nn.Module):
    "Add nothing, where the model would add its positions."

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


def train(seed: int) -> Translator:
    one = new_trainer(seed)
    one.fit()
    return Translator(one.averaged_model(), one.tokenizer)


def take_away(model: Transformer, positions: nn.Module, sides: str) -> None:
    "From now on the encoder (English), the decoder (German), both or neither add no positions."
    for side, name in (("English", "start"), ("German", "step")):  # start runs the encoder, step the decoder
        added, method = NoPositions() if side in sides else positions, getattr(Transformer, name)

        def call(*args, added=added, method=method):
            model.positions = added
            return method(model, *args)

        setattr(model, name, call)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    words = {number_words(n, "de") for n in range(100_000)}
    found: dict[str, list] = {way: [] for way in ways}
    answers: dict[str, list] = {}
    for seed in range(args.seeds):
        translator = train(seed)
        positions = translator.model.positions
        for way, sides in ways.items():
            take_away(translator.model, positions, sides)
            written = translator.translate([number_words(n, "en") for n in asked], beam_size=1)
            wrong = [one for one, n in zip(written, asked) if one != number_words(n, "de")]
            found[way].append({"right": len(asked) - len(wrong), "another number": sum(one in words for one in wrong),
                               "repeats": sum(bool(repeats.search(one)) for one in wrong)})
            if seed == 0:
                answers[way] = translator.translate([number_words(n, "en") for n in shown], beam_size=1)
            print(seed, way, found[way][-1], flush=True)
    save_beside_the_notebooks("translator_positions", {
        "command": f"python benchmarks/translator_positions.py --seeds {args.seeds}", "asked": len(asked),
        "found": found, "numbers": shown, "right": [number_words(n, "de") for n in shown], "answers": answers,
    })


if __name__ == "__main__":
    main()
