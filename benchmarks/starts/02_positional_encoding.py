"""Shares of right answers. Six codes: at 12, 24, 48 and 96 words after 500 steps on 3 to 12 (two of
them also for eight words whose first stands at 0, 4, 8, 24 and 48). Five tables of clock hands,
after 200 and after 2,000 steps on 3 to 32 words: within (the mean of 16 and 24 words) and beyond (96 words)."""
import torch

before = "wc000010"


def run(notebook: dict, seed: int) -> dict:
    reader_with, share_right = notebook["reader_with"], notebook["share_right"]
    waves, from_table = notebook["sinusoidal_encoding"], notebook["from_table"]
    results = {}
    for name, code in notebook["codes"].items():
        reader = reader_with(code, seed)
        results[name] = [round(share_right(reader, n), 3) for n in (12, 24, 48, 96)]
        if name in ("sinusoids", "learned table"):
            results[f"{name}, later"] = [round(share_right(reader, 8, first), 3) for first in (0, 4, 8, 24, 48)]
    slow = torch.arange(32) >= 16  # the columns of the slower half of the hands
    hands = {f"base {base:,}": waves(512, 32, float(base)) for base in (2, 30, 10_000)}
    hands["faster half"], hands["slower half"] = hands["base 10,000"] * ~slow, hands["base 10,000"] * slow
    for steps in (200, 2000):
        for name, table in hands.items():
            reader = reader_with(lambda table=table: from_table(table), seed, longest=32, steps=steps)
            within = (share_right(reader, 16) + share_right(reader, 24)) / 2
            results[f"{name}, {steps:,} steps"] = [round(within, 3), round(share_right(reader, 96), 3)]
    return results
