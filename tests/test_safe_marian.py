"A Marian folder is data: nothing in it is run, nothing is asked, and what does not fit is named."
import json
import pickle
import sys

import pytest
from helpers import refused, run, tiny_model

from transformer_nbdev.convert.marian import from_marian, to_marian

pytest.importorskip("transformers", reason="needs the extra: pip install transformers sentencepiece")
evil = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
Path("executed").touch()
from transformers import PreTrainedTokenizer
class Evil(PreTrainedTokenizer): ...
"""


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_code_in_a_model_folder_is_never_run_and_nothing_is_asked(tmp_path, file):
    folder = tmp_path / "folder"
    to_marian(tiny_model(), folder)
    (folder / "evil.py").write_text(evil)
    (folder / "source.spm").write_bytes(b"")
    path = folder / file
    values = json.loads(path.read_text()) if path.is_file() else {}
    values |= {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    path.write_text(json.dumps(values))
    program = f"""
import sys
from transformer_nbdev import Translator
try:
    Translator.from_marian({str(folder)!r})
except ValueError as error:
    print("refused")
print("left to read:", sys.stdin.read().split())
"""
    done = run(sys.executable, "-c", program, stdin="y\nsecond\n", cwd=tmp_path)
    assert not list(tmp_path.rglob("executed")), "code of the folder was run"
    assert done.stdout.splitlines() == ["refused", "left to read: ['y', 'second']"], done.stderr


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_pickle_that_runs_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("executed",)

    to_marian(tiny_model(), tmp_path / "marian")
    (tmp_path / "marian" / "model.safetensors").unlink()
    (tmp_path / "marian" / "pytorch_model.bin").write_bytes(pickle.dumps({"model.shared.weight": Evil()}))
    with refused(ValueError, "pytorch_model.bin"):
        from_marian(tmp_path / "marian")


@pytest.mark.parametrize("changes, word", [
    ({"model_type": "t5"}, "model_type"), ({"normalize_before": True}, "normalize_before"),
    ({"activation_function": "gelu_new"}, "gelu_new"), ({"encoder_ffn_dim": 8}, "feed_forward.linear1.weight"),
    ({"decoder_layers": 2}, "no model.decoder.layers.1"), ({"d_model": 8}, "size mismatch"), ({}, "truncated"),
])
def test_a_marian_folder_that_does_not_fit_is_refused(tmp_path, changes, word):
    to_marian(tiny_model(), tmp_path / "marian")
    path, weights = (tmp_path / "marian" / name for name in ("config.json", "model.safetensors"))
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    if not changes:
        weights.write_bytes(weights.read_bytes()[:5000])
    with refused(ValueError, "marian", word):
        from_marian(tmp_path / "marian")
