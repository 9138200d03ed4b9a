"""Reviews by 10, 40 and 160 labels: shares right on the test, for 20 draws of the labels and of the initial weights.

`tuned`: the notebook's pre-trained model, all weights trained; `frozen`: the same model, only the small matrix trained;
`scratch`: random weights, all trained. Each list holds one share per number of labels.
`scrambled`: as `tuned`, with 10 and 40 labels, after text whose clauses do not belong together.
Each text has one pre-trained model. The learning rates were chosen by a trial with three starts, 160 steps each.
"""
before = "b17a0032"


def run(notebook: dict, seed: int) -> dict:
    learn, sizes, torch = notebook["learn"], notebook["sizes"], notebook["torch"]
    if "scrambled_bert" not in notebook:
        other = notebook["to_ids"](notebook["scrambled"](notebook["text"]))
        notebook["scrambled_bert"] = notebook["pretrain"](other, seed=0)[0].bert
    bert, scrambled_bert = notebook["reader"].bert, notebook["scrambled_bert"]
    torch.manual_seed(seed)
    fresh = notebook["small_bert"]()
    return {
        "tuned": [round(learn(bert, n, seed, rate=0.003), 4) for n in sizes],
        "frozen": [round(learn(bert, n, seed, rate=0.02, frozen=True), 4) for n in sizes],
        "scratch": [round(learn(fresh, n, seed, rate=0.02), 4) for n in sizes],
        "scrambled": [round(learn(scrambled_bert, n, seed, rate=0.003), 4) for n in sizes[:2]],
    }
