"""The translator of page one (00_foundations), for the scripts that look into it.

`first_look.py`, `eight_heads.py` and `translator_*.py` train this model and write their records beside the notebooks.
"""
import json

from common import record, root

from transformer_nbdev.tools.corpora import number_pairs, number_split
from transformer_nbdev.training import Trainer, TrainingConfig

train_numbers, held_out = number_split(100_000, n_train=12_000, n_held_out=2_000)


def new_trainer(seed: int = 0, label_smoothing: float = 0.1, tgt: str = "de", **options) -> Trainer:
    """The trainer from one start. Under a minute of `fit` on two cores.

    `options` are those of `Trainer.from_pairs`; with `tgt="en"` it translates German into English.
    """
    config = TrainingConfig(
        steps=450, batch_tokens=600, lr=3e-3, warmup=60, ema=0.98, seed=seed, label_smoothing=label_smoothing
    )
    settings = dict(preset="tiny", vocab_size=400, dropout=0.0, quiet=True)
    pairs = number_pairs(train_numbers, "en" if tgt == "de" else "de", tgt)
    return Trainer.from_pairs(pairs, config, **settings, **options)


def save_beside_the_notebooks(name: str, values: dict) -> None:
    "Write nbs/NAME.json, one line for each key."
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in record(values).items()]
    (root / "nbs" / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote nbs/{name}.json")
