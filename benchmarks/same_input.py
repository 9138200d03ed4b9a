"""The race of `16_gpt` once more, with the rival's input: does GPT lose because it must learn its positions?

    python benchmarks/same_input.py [--seeds 5]

This GPT has the encoder–decoder's input: sines for positions, embeddings times √d. It makes as many updates as the GPT
of `starts/16_gpt.json` made in the same start, over equal updates and in equal time.
"""
import argparse
import json

import torch
from common import root, save

from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.gpt import GPT, GPTConfig
from transformer_nbdev.positional_encoding import PositionalEncoding

needed = ("16gpt003", "16gpt025", "16gptans", "16gpt034", "16gpt038")  # the chapter's cells: imports, answers, the race


def main() -> None:
    "One start after the other."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    names: dict = {"torch": torch, "GPT": GPT, "GPTConfig": GPTConfig}
    for cell in json.loads((root / "nbs" / "16_gpt.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["id"] in needed:
            exec("".join(cell["source"]), names)

    def same_input() -> GPT:
        model = names["decoder_only"]()
        model.positions = PositionalEncoding(64, 64)
        model.embedding = TokenEmbedding(names["tokenizer"].vocab_size, 64)
        model.output.weight = model.embedding.weight
        return model

    stored = json.loads((root / "benchmarks" / "starts" / "16_gpt.json").read_text(encoding="utf-8"))["runs"]
    runs = []
    for seed in range(arguments.seeds):
        updates = {"equal updates": names["race"].steps, "equal time": stored["updates in equal time"][seed]}
        shares = {name: names["share_right"](names["train_and_time"](same_input, seed, steps)[0])
                  for name, steps in updates.items()}
        runs.append({"seed": seed, **shares})
        print(runs[-1], "encoder–decoder:", stored["encoder–decoder"][seed], flush=True)
    save("same_input", {"task": __doc__.splitlines()[0], "runs": runs})


if __name__ == "__main__":
    main()
