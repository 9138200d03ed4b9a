"""What 07_output_loss shows of the translator: what smoothing does to its probabilities, and what tying does.

    python benchmarks/translator_smoothing.py [--seeds 1]

Trains the translator of 00_foundations (page_one.py, about a minute per training on two cores) three
times from each start: as it is, without label smoothing, and with separate matrices instead of a tied one. Then each
reads 500 numbers that training did not show, together with their correct translations, and predicts every next piece.
`nbs/translator_smoothing.json` holds, for each, one value per start: how many numbers have every piece right (greedy
search would write these without a mistake), the accuracy, mean confidence and loss per piece, and the parameters; and
of the first start the probabilities of the right pieces, as a histogram and for one number.
"""
import argparse

import numpy as np
import torch
import torch.nn.functional as F
from page_one import held_out, new_trainer, save_beside_the_notebooks

from transformer_nbdev.tools.corpora import number_pairs
from transformer_nbdev.training import Trainer
from transformer_nbdev.transformer import count_parameters

ways = {"as on page one": (0.1, True), "without smoothing": (0.0, True), "separate matrices": (0.1, False)}
edges = np.linspace(0, 1, 201)
shown = 58_074


@torch.no_grad()
def predictions(trained: Trainer, numbers: list[int]) -> list[tuple[list[str], torch.Tensor, torch.Tensor]]:
    "For each number the pieces of its translation, with the end, their ids, and the log-probabilities `(T, V)`."
    model, tokenizer, found = trained.averaged_model().eval(), trained.tokenizer, []
    for english, german in number_pairs(numbers):
        src, tgt = ([*tokenizer.encode(text), tokenizer.eos_id] for text in (english, german))
        read = [model.config.bos_id, *tgt[:-1]]
        logits = model(torch.tensor([src]), torch.tensor([read]))[0]
        found.append((tokenizer.pieces(tgt), torch.tensor(tgt), logits.log_softmax(-1)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    asked = held_out[:500]
    found: dict[str, dict] = {way: {} for way in ways}
    for seed in range(args.seeds):
        for way, (smoothing, tied) in ways.items():
            trained = new_trainer(seed, smoothing, tie_embeddings=tied)
            trained.fit()
            outputs = predictions(trained, asked)
            log_p, ids = torch.cat([out[2] for out in outputs]), torch.cat([out[1] for out in outputs])
            best, guess = log_p.max(-1)
            values = {
                "right": sum(bool((out[2].argmax(-1) == out[1]).all()) for out in outputs),
                "accuracy": (guess == ids).float().mean(), "confidence": best.exp().mean(),
                "loss": F.nll_loss(log_p, ids), "parameters": count_parameters(trained.averaged_model()),
            }
            for name, value in values.items():
                found[way].setdefault(name, []).append(round(float(value), 4))
            if seed == 0:
                right = log_p.gather(-1, ids[:, None])[:, 0].exp()
                found[way]["histogram"] = np.histogram(right, edges)[0].tolist()
                found[way]["median"] = round(float(right.median()), 4)
                pieces, its_ids, its_log_p = predictions(trained, [shown])[0]
                probabilities = its_log_p.gather(-1, its_ids[:, None])[:, 0].exp()
                found[way]["example"] = [[a, round(p, 4)] for a, p in zip(pieces, probabilities.tolist())]
                vocab_size = log_p.shape[-1]
            print(seed, way, {name: found[way][name][-1] for name in values},
                  flush=True)
    save_beside_the_notebooks("translator_smoothing", {
        "command": f"python benchmarks/translator_smoothing.py --seeds {args.seeds}", "asked": len(asked),
        "vocabulary": vocab_size, "number": shown, "ways": found,
    })


if __name__ == "__main__":
    main()
