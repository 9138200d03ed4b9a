"""How long should threads wait busily for each other? A training step and a translation by GOMP_SPINCOUNT.

    python benchmarks/waiting.py

The threads of OpenMP meet at the end of every operation. Whoever comes first counts to GOMP_SPINCOUNT before it
sleeps (GCC's default: 300,000). Nobody need be woken then; but if another program holds the core of the one that is
waited for, the counting keeps both from it. Each count is a process of its own, rounds are interleaved; first alone,
then beside a program that keeps one core busy. One thread waits for nobody.
"""
import argparse
import os
import subprocess
import sys

from common import save
from rounds import compare, serve

counts = ["300000", "30000", "10000", "2000", "one thread"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--work", choices=["training", "translation"], help=argparse.SUPPRESS)
parser.add_argument("--worker", help=argparse.SUPPRESS)


def prepare(count: str, work: str):
    "What one round is, in a process whose threads count that far."
    os.environ |= {"OMP_NUM_THREADS": "1"} if count == "one thread" else {"GOMP_SPINCOUNT": count}  # read by torch
    import torch

    from transformer_nbdev.search import generate
    from transformer_nbdev.speed.direct import Direct
    from transformer_nbdev.speed.parts import accelerate
    from transformer_nbdev.transformer import Transformer, TransformerConfig

    torch.manual_seed(0)
    model = Transformer(TransformerConfig.preset("small", 8000))
    ids = torch.randint(3, 8000, (32, 32))
    if work == "training":
        accelerate(model.train())
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def update():
            model.loss(ids, ids).backward()
            optimizer.step()
            optimizer.zero_grad()
            return {"tokens": ids.numel()}

        return update
    direct = Direct(model.eval())

    def translate():
        generate(direct, ids[:1, :12], max_new_tokens=24, min_new_tokens=24)
        return {"tokens": 24}

    return translate


if __name__ == "__main__":
    a = parser.parse_args()
    if a.worker:
        serve(lambda: prepare(a.worker, a.work))
        raise SystemExit
    rows: dict[str, dict] = {}
    for beside in ("alone", "beside another program"):
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if beside != "alone" else None
        try:
            for work in ("training", "translation"):
                rows[f"{work}, {beside}"] = found = compare("waiting.py", counts, ["--work", work], a.rounds)
                for count, row in found.items():
                    print(f"{work}, {beside}, {count:>10}: {row}", flush=True)
        finally:
            if other:
                other.kill()
    save("waiting", {"task": "tokens a second by GOMP_SPINCOUNT, small, float32", "rounds": a.rounds, "rows": rows})
