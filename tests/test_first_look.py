"What 00_foundations shows at its opening was made by the script it names, with the settings of 13_translation."
import json
import re

import numpy as np
from helpers import root

look = json.loads((root / "nbs" / "first_look.json").read_text(encoding="utf-8"))


def test_the_script_trains_as_13_does():
    script = (root / look["made_by"].split()[-1]).read_text(encoding="utf-8")
    cells = json.loads((root / "nbs" / "13_translation.ipynb").read_text(encoding="utf-8"))["cells"]
    chapter = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for pattern in (r"number_split\(.*?\)", r"TrainingConfig\(.*?\)", r'preset="\w+", vocab_size=\d+, dropout=[\d.]+'):
        assert re.search(pattern, script)[0] in chapter, pattern


def test_the_map_is_what_its_queries_and_keys_give():
    queries, keys, weights = (np.array(look[name]) for name in ("queries", "keys", "weights"))
    assert weights.shape == (len(look["target"]), len(look["source"])) == (len(queries), len(keys))
    scores = np.exp(queries @ keys.T / np.sqrt(keys.shape[1]))
    assert np.abs(scores / scores.sum(1, keepdims=True) - weights).max() < 0.0005
    assert np.allclose(weights.sum(1), 1, atol=1e-3)


def test_what_is_called_right_is_right():
    assert [t["german"] for t in look["translations"]] == [t["right"] for t in look["translations"]]
    assert look["number"] in [t["number"] for t in look["translations"]]
    heads = np.array(look["heads"])
    assert np.unravel_index(heads.argmax(), heads.shape) == (look["layer"] - 1, look["head"] - 1)
