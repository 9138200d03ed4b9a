"""Encoder–decoder against GPT, equal parameters, numbers below 10,000: the share of 500 held-out ones that are right.

`updates in equal time` is how many updates GPT, at its own speed, makes in the processor time of the encoder–decoder;
`seconds` lists the processor times of all five trainings. `rates`, of the first start alone, has the shares of two
other starts at each of four learning rates, for both models and equal updates: the same rate is best for both.
"""
before = "16gpt039"


def run(notebook: dict, seed: int) -> dict:
    train, right = notebook["train_and_time"], notebook["share_right"]
    two_stacks, one_stack, steps = notebook["encoder_decoder"], notebook["decoder_only"], notebook["race"].steps
    model, first = train(two_stacks, seed)
    results = {"encoder–decoder": right(model)}
    model, second = train(one_stack, seed)
    results["GPT, equal updates"] = right(model)
    fewer = round(steps * first / second)
    variants: dict[str, dict] = {
        "GPT, equal time": {},
        "source looks ahead": {"two_way_source": True},
        "loss on everything": {"loss_on_source": True},
    }
    seconds = [first, second]
    for name, options in variants.items():
        model, time = train(lambda options=options: one_stack(**options), seed, fewer)
        results[name] = right(model)
        seconds.append(time)
    if seed == 0:
        results["rates"] = {
            f"{name}, {lr}": [right(train(make, other, lr=lr)[0]) for other in (100, 101)]
            for name, make in (("encoder–decoder", two_stacks), ("GPT", one_stack)) for lr in (2e-3, 4e-3, 8e-3, 16e-3)
        }
    return results | {"updates in equal time": fewer, "seconds": [round(s, 1) for s in seconds]}
