"""Reviews by 10, 40 and 160 labels: shares right on the test. Each seed draws its own labels and initial head.

There are five pre-trainings on each text; seeds 0, 5, 10 and 15 share the first.

`tuned`: pre-trained on the text, then all weights trained; `frozen`: the same, but only the small matrix is trained;
`scratch`: random weights, all trained. Each list holds one share per number of labels.
`scrambled`: as `tuned`, with 10 and 40 labels, after text whose clauses do not belong together.
`camps`: the probability that stays in the camp of the first adjective, with `and` and with `but`.
`trial`, of seed 0 alone: for each way, number of labels and learning rate, the mean share right in four other starts,
on the reviews set aside for choosing.
"""
before = "b17a0032"


def pretrained(notebook: dict, start: int) -> tuple:
    "The models that have read the text and the scrambled text, trained once per start."
    models = notebook.setdefault("models", {})
    if start not in models:
        other = notebook["to_ids"](notebook["scrambled"](notebook["text"]))
        models[start] = notebook["pretrain"](notebook["ids"], start)[0], notebook["pretrain"](other, start)[0]
    return models[start]


tried = {
    "tuned": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2), "frozen": (1e-2, 2e-2, 4e-2, 8e-2), "scratch": (1e-2, 2e-2, 4e-2, 8e-2),
}


def trial(notebook: dict) -> dict[str, list]:
    "For each way, one list per number of labels: the learning rates with the mean share right of four starts."
    learn, torch = notebook["learn"], notebook["torch"]
    results: dict[str, list] = {}
    for way, rates in tried.items():
        for n in notebook["sizes"]:
            row = []
            for rate in rates:
                shares = []
                for seed in range(100, 104):
                    torch.manual_seed(seed)
                    bert = notebook["small_bert"]() if way == "scratch" else pretrained(notebook, seed % 4)[0].bert
                    shares.append(learn(bert, n, seed, rate, way == "frozen", test=notebook["to_choose"]))
                row.append([rate, round(sum(shares) / len(shares), 4)])
            results.setdefault(way, []).append(row)
    return results


def run(notebook: dict, seed: int) -> dict:
    learn, torch, sizes, rates = (notebook[name] for name in ("learn", "torch", "sizes", "rates"))
    reader, other = pretrained(notebook, seed % 5)
    torch.manual_seed(seed)
    fresh = notebook["small_bert"]()
    results: dict[str, list] = {"tuned": [], "frozen": [], "scratch": [], "scrambled": [], "camps": []}
    for i, n in enumerate(sizes):
        results["tuned"].append(round(learn(reader.bert, n, seed, rates["tuned"][i]), 4))
        results["frozen"].append(round(learn(reader.bert, n, seed, rates["frozen"][i], frozen=True), 4))
        results["scratch"].append(round(learn(fresh, n, seed, rates["scratch"][i]), 4))
        if n <= 40:
            results["scrambled"].append(round(learn(other.bert, n, seed, rates["tuned"][i]), 4))
    for joint in ("and", "but"):
        table = notebook["guess_table"](joint, reader)
        own_camp = (table[:6, :6].sum() + table[6:, 6:].sum()) / table.sum()
        results["camps"].append(round(float(own_camp), 3))
    return results | ({"trial": trial(notebook)} if seed == 0 else {})
