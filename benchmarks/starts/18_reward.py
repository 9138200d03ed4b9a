"""Number words below 10,000: a half-trained translator, then 120 updates from verdicts and without a reference.

`right` holds, for each start, the share of 500 held-out numbers that greedy search gets right after 0, 40, 80 and 120
updates; `sampled` the same for one sample at temperature 1, before and after, and `one of eight` whether any of eight
samples is right. `different` is the mean number of different answers among eight samples. `seconds` is the processor
time of the 120 updates.
"""
from time import process_time

before = "18rw0011"


def of_eight(notebook: dict, model, tokenizer) -> tuple[float, float, float]:
    "Return how often one sample is right, how often one of eight is, and how many of the eight differ."
    some = notebook["held_out"][:200]
    texts, verdicts = notebook["judged"](some, notebook["sample_groups"](model, tokenizer, some), tokenizer)
    different = sum(len(set(group)) for group in texts) / len(texts)
    return round(float(verdicts.mean()), 4), round(float(verdicts.amax(1).mean()), 4), round(different, 3)


def run(notebook: dict, seed: int) -> dict:
    share_right = notebook["share_right"]
    model, tokenizer = notebook["half_trained"](seed)
    shares, seconds, samples = [share_right(model, tokenizer)], 0.0, [of_eight(notebook, model, tokenizer)]
    rewards = notebook["learn"](model, tokenizer, 120, seed=seed)
    for _ in range(3):
        start = process_time()
        for _ in range(40):
            next(rewards)
        seconds += process_time() - start
        shares.append(share_right(model, tokenizer))
    samples.append(of_eight(notebook, model, tokenizer))
    sampled, one_of_eight, different = (list(both) for both in zip(*samples))
    seconds = round(seconds, 1)
    return dict(right=shares, sampled=sampled, different=different, seconds=seconds) | {"one of eight": one_of_eight}
