"""Reviews by 10, 30, 100, 300 and 1,000 labels, one start per seed: shares right on the test.

`tuned`: pre-trained on unlabeled text, then all weights trained; `frozen`: pre-trained, only the small matrix trained;
`scratch`: random weights, all trained. Each list holds one share per number of labels.
`scrambled`, measured once, over three starts: `tuned` with 100 labels after text whose clauses do not belong together.
"""
before = "b17a0032"


def run(notebook: dict, seed: int) -> dict:
    pretrain, learn, small_bert, torch = (notebook[name] for name in ("pretrain", "learn", "small_bert", "torch"))
    sizes, ids = notebook["sizes"], notebook["ids"]
    reader, _ = pretrain(ids, seed)
    torch.manual_seed(seed)
    fresh = small_bert()
    results = {
        "tuned": [round(learn(reader.bert, n, seed), 4) for n in sizes],
        "frozen": [round(learn(reader.bert, n, seed, frozen=True), 4) for n in sizes],
        "scratch": [round(learn(fresh, n, seed), 4) for n in sizes],
    }
    if seed == 0:
        results["scrambled"] = []
        other = notebook["to_ids"](notebook["scrambled"](notebook["text"]))
        for start in range(3):
            results["scrambled"].append(round(learn(pretrain(other, start)[0].bert, 100, start), 4))
    return results
