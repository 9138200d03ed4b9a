"""Encoder–decoder against GPT, equal parameters, numbers below 10,000: the share of 500 held-out ones that are right.

`updates in equal time` is how many updates GPT, at its own speed, makes in the processor time of the encoder–decoder;
`seconds` lists the processor times of all five trainings.
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
    return results | {"updates in equal time": fewer, "seconds": [round(s, 1) for s in seconds]}
