"""Is this caption German, English, or German with its words shuffled? Multi30k, and a control for each clue.

    python benchmarks/captions.py [--data FOLDER] [--steps 600] [--seeds 0 1 2]

Without --data: $MULTI30K, or downloaded. Some three minutes on one thread; 14_classification shows what is stored.
"""
import argparse
import random
import re
import time
from collections import Counter

import torch
import torch.nn.functional as F
from common import save
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from transformer_nbdev.classification import TransformerClassifier
from transformer_nbdev.optimisation import linear_schedule
from transformer_nbdev.tools.corpora import multi30k
from transformer_nbdev.transformer import TransformerConfig, count_parameters

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="folder with Multi30k; default: $MULTI30K, or downloaded")
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
arguments = parser.parse_args()
torch.set_num_threads(1)
began = time.process_time()

classes = ["German", "English", "shuffled German"]
# raw: as written, else small letters without punctuation; inner: the first and the last word are not shuffled;
# ends: only these two are shown; positions: False leaves the positional encoding out.
kinds = {
    "as written": dict(raw=True),
    "small letters, no punctuation": dict(),
    "first and last word stay": dict(inner=True),
}
ways = {
    "all words": dict(),
    "first and last word only": dict(ends=True),
    "all words, no positions": dict(positions=False),
}
hardest = "first and last word stay"
Text = list[str]


def words(caption: str, raw: bool) -> Text:
    return caption.split() if raw else re.findall(r"\w+", caption.lower())


def shuffled(text: Text, rng: random.Random, inner: bool) -> Text:
    "The words in another order."
    a, b = (1, len(text) - 1) if inner else (0, len(text))
    while (new := text[:a] + rng.sample(text[a:b], b - a) + text[b:]) == text:
        pass
    return new


def three(pair: tuple[Text, Text], rng: random.Random, inner: bool = False, ends: bool = False) -> list[Text]:
    "An English and a German caption as one text of each class."
    english, german = pair
    texts = [german, english, shuffled(german, rng, inner)]
    return [[text[0], text[-1]] for text in texts] if ends else texts


def captions(split: str, raw: bool) -> list[tuple[Text, Text]]:
    "English and German words, pairs with at least five different words on both sides."
    pairs, _ = multi30k(split, folder=arguments.data)
    texts = [(words(english, raw), words(german, raw)) for english, german in pairs]
    return [pair for pair in texts if min(len(set(text[1:-1])) for text in pair) >= 3]


class Reader:
    "A vocabulary, and a classifier that is trained on one kind of captions."

    def __init__(self, train: list[tuple[Text, Text]], seed: int, positions: bool, **told):
        counts = Counter(word for pair in train for text in pair for word in text)
        kept = sorted(word for word, n in counts.items() if n >= 5)
        self.ids = {word: i for i, word in enumerate(kept, start=3)}  # 0 padding, 1 any other word
        torch.manual_seed(seed)
        config = TransformerConfig(
            len(kept) + 3, d_model=64, n_heads=4, n_encoder_layers=2, d_ff=128, dropout=0.0,
            norm_first=True, max_len=64
        )
        self.model = TransformerClassifier(config, len(classes))
        if not positions:
            self.model.positions = nn.Identity()
        self.fit(train, random.Random(seed), told)

    def fit(self, train: list[tuple[Text, Text]], rng: random.Random, told: dict) -> None:
        "Batches of 22 pairs of about equal length, three texts of each."
        train = sorted(train, key=lambda pair: len(pair[1]) + rng.random())
        optimiser = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98), fused=True)
        for step in range(1, arguments.steps + 1):
            optimiser.param_groups[0]["lr"] = linear_schedule(step, step / arguments.steps, 3e-3, warmup=50)
            first = rng.randrange(len(train) - 22)
            texts = [text for pair in train[first : first + 22] for text in three(pair, rng, **told)]
            optimiser.zero_grad()
            F.cross_entropy(self.model(self.batch(texts)), torch.arange(3).repeat(22)).backward()
            optimiser.step()
        self.model.eval()

    def batch(self, texts: list[Text]) -> Tensor:
        rows = [torch.tensor([self.ids.get(word, 1) for word in text]) for text in texts]
        return pad_sequence(rows, batch_first=True)

    @torch.no_grad()
    def judge(self, texts: list[Text]) -> Tensor:
        "Probabilities `(texts, 3)`."
        parts = [self.model(self.batch(texts[i : i + 100])) for i in range(0, len(texts), 100)]
        return torch.cat(parts).softmax(-1)


def swapped(text: Text, n: int, rng: random.Random) -> Text:
    "The text after n exchanges of two neighbours; the first and the last word stay."
    text = text.copy()
    for _ in range(n):
        i = rng.randrange(1, len(text) - 2)
        text[i], text[i + 1] = text[i + 1], text[i]
    return text


def measured(raw: bool = False, positions: bool = True, **told) -> tuple[dict, list[Reader]]:
    "Accuracy by seed and the table of answers, rows the true class, over all seeds."
    train, test = captions("train", raw), captions("test_2016_flickr", raw)
    rng = random.Random(0)
    texts, truth = [t for pair in test for t in three(pair, rng, **told)], torch.arange(3).repeat(len(test))
    readers = [Reader(train, seed, positions, **told) for seed in arguments.seeds]
    answers = [reader.judge(texts).argmax(-1) for reader in readers]
    table = sum(torch.bincount(3 * truth + answer, minlength=9).view(3, 3) for answer in answers)
    accuracy = [round(float((answer == truth).double().mean()), 4) for answer in answers]
    return {"accuracy": accuracy, "answers": table.tolist()}, readers


def looked_into(readers: list[Reader]) -> dict:
    "How much disorder is noticed, and some captions with the probabilities that the first reader gives."
    test, noticed = captions("test_2016_flickr", raw=False), {}
    for n in (0, 1, 2, 3, 5, 8, 15):
        rng = random.Random(n)
        texts = [swapped(german, n, rng) for _, german in test]
        noticed[n] = [round(float((reader.judge(texts).argmax(-1) == 2).double().mean()), 4) for reader in readers]
    rng = random.Random(0)
    texts = [(text, i) for pair in test for i, text in enumerate(three(pair, rng, inner=True))]
    judged = list(zip(texts, readers[0].judge([text for text, _ in texts])))
    right = [one for one in judged if one[1].argmax() == one[0][1]][:6]
    wrong = [one for one in judged if one[1].argmax() != one[0][1]][:6]
    examples = [{"text": " ".join(text), "class": classes[i], "p": [round(float(q), 3) for q in p]}
                for (text, i), p in right + wrong]
    return {"swaps": noticed, "examples": examples}


runs = []
for kind, told in kinds.items():
    for way, more in ways.items():
        if way == "all words, no positions" and kind != hardest:
            continue  # the bound is the same
        found, readers = measured(**told, **more)
        runs.append({"text": kind, "shown": way, **found})
        print(f"{kind:32}{way:28}", *found["accuracy"], flush=True)
        if (kind, way) == (hardest, "all words"):
            looked, reader = looked_into(readers), readers[0]
save("captions", {
    "command": "python benchmarks/captions.py",
    "task": "Multi30k: German, English or shuffled German? test_2016_flickr, one text of each class from each pair",
    "classes": classes, "bound": "without order 2/3: a caption and its shuffle get one answer",
    "steps": arguments.steps, "seeds": arguments.seeds, "vocabulary": len(reader.ids),
    "parameters": count_parameters(reader.model), "processor_seconds": round(time.process_time() - began),
    "threads": torch.get_num_threads(), "runs": runs, **looked,
})
