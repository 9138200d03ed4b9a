"""What 01_embedding shows of the translator's embedding table: which number words end up near their own kind.

    python benchmarks/translator_table.py [--seeds 20]

Trains the translator of 00_foundations (page_one.py, under a minute per start on two cores) from several starts, each
time with one table for source, target and output, as in the paper, then with a table for each, and then from German
into English, again with three tables. For every table, `nbs/translator_table.json` holds how many number words have
another word of their own kind as nearest row, by cosine, among all rows but that of the same word after a space. For
the first shared table it also holds the nearest rows and the cosines between number words.
"""
import argparse

import torch.nn.functional as F
from page_one import new_trainer, save_beside_the_notebooks
from torch import Tensor

kinds = {
    "German units": "ein zwei drei vier fünf sechs sieben acht neun".split(),
    "German tens": [f"und{ten}zig" for ten in "zwan vier fünf sech sieb acht neun".split()],
    "English units": "one two three four five six seven eight nine".split(),
    "English tens": "twenty thirty forty fifty sixty seventy eighty ninety".split(),
}
kinds["German tens"].insert(1, "unddreißig")
for kind in ("English units", "English tens"):
    kinds[kind] += [" " + word for word in kinds[kind]]  # a word after a space is a token of its own


def train(seed: int, shared: bool, tgt: str = "de") -> tuple[dict[str, Tensor], list[str]]:
    "The tables of one trained translator, and its vocabulary."
    one = new_trainer(seed, tgt=tgt, tie_embeddings=shared)
    one.fit()
    model, tokenizer = one.averaged_model(), one.tokenizer
    tables = {"shared": model.embedding.weight}
    if not shared:
        tables = {"source": model.embedding.weight, "target": model.target_embedding.weight,
                  "output": model.output.weight}
    if tgt == "en":
        tables = {f"{name}, into English": table for name, table in tables.items()}
    return {name: table.detach() for name, table in tables.items()}, tokenizer.pieces(range(tokenizer.vocab_size))


def cosines_of(table: Tensor) -> Tensor:
    rows = F.normalize(table, dim=-1)
    return rows @ rows.T


def nearest(table: Tensor, vocabulary: list[str], word: str, k: int, without: tuple[str, ...] = ()) -> list[list]:
    "The `k` tokens whose rows have the largest cosine with that of `word`, and the cosines."
    row = cosines_of(table)[vocabulary.index(word)]
    row[[vocabulary.index(other) for other in (word, *without)]] = -1
    best = row.topk(k)
    return [[vocabulary[i], round(c, 2)] for i, c in zip(best.indices.tolist(), best.values.tolist())]


def own_kind(table: Tensor, vocabulary: list[str]) -> dict[str, int]:
    "For each kind, how many of its words have another word of the kind as nearest row; five and ␣five are one word."
    found = {}
    for kind, words in kinds.items():
        twins = {word: tuple(other for other in words if other.strip() == word.strip()) for word in words}
        found[kind] = sum(nearest(table, vocabulary, word, 1, twins[word])[0][0] in words for word in words)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    found: dict[str, list] = {}
    for seed in range(args.seeds):
        for shared, tgt in ((True, "de"), (False, "de"), (False, "en")):
            tables, vocabulary = train(seed, shared, tgt)
            for name, table in tables.items():
                found.setdefault(name, []).append(own_kind(table, vocabulary))
            print(seed, {name: counts[-1] for name, counts in found.items()}, flush=True)
            if shared and seed == 0:
                first = tables["shared"]
    words = sum(kinds.values(), [])
    ids = [vocabulary.index(word) for word in words]
    cosines = [[round(c, 2) for c in row] for row in cosines_of(first)[ids][:, ids].tolist()]
    save_beside_the_notebooks("translator_table", {
        "command": f"python benchmarks/translator_table.py --seeds {args.seeds}", "rows": len(vocabulary),
        "kinds": kinds, "own_kind": found, "cosines": cosines,
        "nearest": {word: nearest(first, vocabulary, word, 4) for word in words},
    })


if __name__ == "__main__":
    main()
