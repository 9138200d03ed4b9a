"What several test files use: tiny data and models, and the command line as a process of its own."
import contextlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformer_nbdev.cli import main
from transformer_nbdev.data import Pairs
from transformer_nbdev.transformer import Transformer, TransformerConfig
from transformer_nbdev.translator import Translator

root = Path(__file__).parent.parent
package = root / "transformer_nbdev"
cli = [sys.executable, "-m", "transformer_nbdev"]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda.is_available() is False")
sizes = {"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32, "max_len": 64}
# Options of `train` for a model this small, in float32 and without twins: every run computes alike.
train_options = [
    *(f"--{name.replace('_', '-')}={value}" for name, value in sizes.items()),
    "--vocab-size=280", "--batch-tokens=200", "--precision=fp32", "--device=cpu", "--plain",
]


def environment() -> dict[str, str]:
    "For a process that imports this checkout, on one thread, without a GPU or the network."
    offline = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    own = {"PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **own, **offline}


def run(*command, stdin: str | bytes = b"", **options) -> subprocess.CompletedProcess:
    "Run a command to its end; its output as text."
    data = stdin.encode() if isinstance(stdin, str) else stdin
    words = [str(word) for word in command]
    done = subprocess.run(words, input=data, capture_output=True, env=environment(), timeout=120, **options)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def start(*command) -> subprocess.Popen:
    "Start a command, and go on. It can be hung up even where the tests run under `nohup`."
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    return subprocess.Popen([str(word) for word in command], env=environment(), text=True, **streams, **heard)


def typed(*arguments, stdin: str | bytes = b"") -> subprocess.CompletedProcess:
    "The command line in this process: code, standard output and error."
    data = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {"stdin": io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")}
    for name, errors in (("stdout", "strict"), ("stderr", "backslashreplace")):  # as Python opens them
        streams[name] = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors)
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments)])
        for name in ("stdout", "stderr"):
            streams[name].flush()
    out, err = (streams[name].buffer.getvalue().decode() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(arguments, end.value.code or 0, out, err)


def only_translates(folder: Path) -> None:
    "A folder that was converted in order to translate says so to the commands that need the model itself."
    for words, told in (("score --model", f"{folder} only translates"), ("glass", "an exported model cannot be")):
        done = typed(*words.split(), folder, "--device=cpu", stdin="one\teins\n")
        assert done.returncode == 1 and done.stderr.startswith(f"error: {told}"), done.stderr


def begin(folder: Path, *commands) -> list[subprocess.Popen]:
    "Start one process a rank, each with its own command."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank, arguments in enumerate(commands):
        settings = {
            **environment(), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(commands)),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }
        processes.append(subprocess.Popen(
            [str(a) for a in arguments], env=settings, cwd=folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ))
    return processes


def sentences(n: int, seed: int = 0) -> Pairs:
    "Digits in words, one to five of them, in English and in German."
    english, german = "zero one two three four".split(), "null eins zwei drei vier".split()
    rng = random.Random(seed)
    digits = [[rng.randrange(5) for _ in range(rng.randint(1, 5))] for _ in range(n)]
    return [(" ".join(english[d] for d in row), " ".join(german[d] for d in row)) for row in digits]


def write_pairs(folder: Path, sizes: dict[str, int] | None = None) -> Path:
    "Files `train.en`, `train.de`, `val.en`, … with as many sentences as `sizes` says."
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, n) in enumerate((sizes or {"train": 60, "val": 6, "test": 10}).items()):
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in sentences(n, seed))
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder


def tiny_model(seed: int = 0, vocab_size: int = 20, **options) -> Transformer:
    "An untrained model of a few thousand parameters, in evaluation mode."
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(vocab_size, **{**sizes, **options})).eval()


@contextlib.contextmanager
def refused(kind: type[Exception] | tuple[type[Exception], ...], *words: object):
    "The block must raise exactly such an error, in one line that contains all the words."
    kinds = kind if isinstance(kind, tuple) else (kind,)
    with pytest.raises(kinds) as caught:
        yield
    text = str(caught.value)
    assert type(caught.value) in kinds, f"{type(caught.value).__name__}: {text}"
    assert text and "\n" not in text, f"not one line: {text!r}"
    missing = [word for word in words if str(word) not in text]
    assert not missing, f"the message says nothing of {missing}: {text!r}"


def train(corpus: Path, out: Path, *options) -> list[str]:
    "A command that trains the tiny model."
    more = ["--log-every=1", "--out", out, *options]
    return [*cli, "train", "--data", corpus, *train_options, *more]


def metrics(out: Path, name: str = "loss") -> dict[int, float]:
    "One of the logged numbers by step; every step must be logged once only."
    records = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    logged = [r for r in records if name in r and not (name.startswith("valid") and "kept_step" in r)]
    found = [(r["step"], r[name]) for r in logged]
    assert len(dict(found)) == len(found), f"logged twice: {found}"
    return dict(found)


def checkpoint(out: Path) -> Path:
    "The newest one."
    return sorted(out.glob("checkpoints/step-*"))[-1]


def loads_or_says_how(folder: Path) -> None:
    "What a kill or a full disk left loads, or it is refused in the sentence that says how to repair it."
    try:
        Translator.from_pretrained(folder)
    except ValueError as error:
        assert "--resume writes the model anew" in str(error), error


def same(a, b) -> bool:
    "Equal to the last bit, in nested dictionaries and lists of tensors and numbers."
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def same_run(a: Path, b: Path) -> None:
    "Two folders hold the same model, the same checkpoint and the same losses."
    assert checkpoint(a).name == checkpoint(b).name
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    name = "model.safetensors"
    assert (checkpoint(a) / name).read_bytes() == (checkpoint(b) / name).read_bytes()
    states = [torch.load(checkpoint(p) / "state.pt", weights_only=True) for p in (a, b)]
    wrong = [k for k in states[0] if k != "seconds" and not same(states[0][k], states[1][k])]
    assert not wrong, wrong
    assert metrics(a) == metrics(b) and metrics(a, "lr") == metrics(b, "lr")


def raises(case: str, function, kind, *words):
    "One row of a table: a name, a call that must be refused, the error, words of its message."
    return pytest.param(function, kind, words, id=case)


def table(*rows):
    "A test for each row."
    return pytest.mark.parametrize(("function", "kind", "words"), rows)


def contents(folder: Path) -> dict[str, bytes]:
    "All files under a folder."
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cut(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
