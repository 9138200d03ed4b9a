"""Decoding: ours beside Hugging Face Marian's `generate` and CTranslate2, the same weights in all.

    pip install -e '.[bench]'
    python benchmarks/decode.py --preset small

Random weights, sources of like lengths as captions have, and every system must write exactly `--tokens` tokens, so that
all do the same work. Each system is a process of its own, rounds are interleaved.
"""
import argparse
import json
import tempfile
from pathlib import Path

import torch
from common import results, save
from rounds import compare, serve
from train import presets

from transformer_nbdev.convert.ctranslate2 import to_ctranslate2
from transformer_nbdev.convert.marian import to_marian
from transformer_nbdev.data import Tokenizer, pad
from transformer_nbdev.search import generate
from transformer_nbdev.speed.direct import Direct
from transformer_nbdev.speed.graphs import Graphed
from transformer_nbdev.tools.devices import keep_memory
from transformer_nbdev.transformer import Transformer, TransformerConfig

systems = ["ours, fp32", "ours, bf16", "ours-plain, fp32", "ours-plain, bf16",
           "marian, fp32", "marian, bf16", "ctranslate2, float32", "ctranslate2, bfloat16", "ctranslate2, int8"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--preset", nargs="+", choices=presets, default=["small", "base"])
parser.add_argument("--batch", nargs="+", type=int, default=[1, 16])
parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
parser.add_argument("--systems", nargs="+", choices=systems, default=systems)
parser.add_argument("--tokens", type=int, default=24, help="that each sentence gets")
parser.add_argument("--sentences", type=int, default=16, help="in a round")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--name", default="decode", help="of the file in results/")
parser.add_argument("--folder", help=argparse.SUPPRESS)
parser.add_argument("--worker", help=argparse.SUPPRESS)


def made_up_tokenizer(vocab_size: int) -> Tokenizer:
    "A tokenizer with so many pieces: random weights need no real ones."
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import BPE

    pieces = [*Tokenizer.special, *(f"piece{i}" for i in range(3, vocab_size))]
    backend = Backend(BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    backend.add_special_tokens(list(Tokenizer.special))
    return Tokenizer(backend)


def sources(vocab_size: int, n: int) -> list[torch.Tensor]:
    "Ids with the end token."
    g = torch.Generator().manual_seed(0)
    lengths = torch.empty(n).log_normal_(2.7, 0.3, generator=g).round().clamp(3, 60).long().tolist()
    return [torch.cat([torch.randint(3, vocab_size, (k - 1,), generator=g), torch.tensor([2])]) for k in lengths]


def prepare(name: str, folder: Path, batch: int, beams: int, tokens: int, n: int, device: str):
    "What one round of a system is."
    keep_memory()  # as the command line does
    system, precision = name.split(", ")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    config = Transformer.from_pretrained(folder / "native").config
    inputs = sorted(sources(config.vocab_size, n), key=len)
    groups = [inputs[i : i + batch] for i in range(0, n, batch)]
    if system.startswith("ours"):
        model = Transformer.from_pretrained(folder / "native", device)
        model = model.to(dtype)
        fast = Graphed if device.startswith("cuda") else Direct
        engine = fast(model) if system == "ours" else model

        def translate(group):
            options = dict(max_new_tokens=tokens, min_new_tokens=tokens, beam_size=beams, length_penalty=0.0)
            return generate(engine, pad(group).to(device), **options)
    elif system == "marian":
        from transformers import MarianMTModel
        from transformers.utils import logging

        logging.set_verbosity_error()
        model = MarianMTModel.from_pretrained(folder / "marian").to(device, dtype).eval()
        length = dict(length_penalty=0.0) if beams > 1 else {}

        def translate(group):
            ids = pad(group).to(device)
            options = dict(max_new_tokens=tokens, min_new_tokens=tokens, num_beams=beams, do_sample=False, **length)
            return model.generate(input_ids=ids, attention_mask=(ids != 0).long(), **options)
    else:
        import ctranslate2

        kind = device.split(":")[0]
        model = ctranslate2.Translator(str(folder / "ctranslate2"), kind, compute_type=precision, intra_threads=2)
        pieces = ["<pad>", "<bos>", "<eos>", *(f"piece{i}" for i in range(3, config.vocab_size))]

        def translate(group):
            texts = [[pieces[i] for i in ids[:-1]] for ids in group]
            options = dict(max_decoding_length=tokens, min_decoding_length=tokens, beam_size=beams, length_penalty=0)
            return model.translate_batch(texts, **options)

    def one_round():
        for group in groups:
            out = translate(group)
        float(out[0][0]) if isinstance(out, torch.Tensor) else None  # wait for the device
        return {"tokens": n * tokens}

    return one_round


def write_models(folder: Path, preset: str) -> None:
    "The same random weights for all systems."
    torch.manual_seed(0)
    config = TransformerConfig(**presets[preset])
    model, tokenizer = Transformer(config).eval(), made_up_tokenizer(config.vocab_size)
    model.save_pretrained(folder / "native")
    to_marian(model, folder / "marian")
    to_ctranslate2(model, folder / "ctranslate2", tokenizer)


if __name__ == "__main__":
    a = parser.parse_args()
    if a.worker:
        serve(lambda: prepare(a.worker, Path(a.folder), a.batch[0], a.beams[0], a.tokens, a.sentences, a.device))
        raise SystemExit
    table = {}
    for preset in a.preset:
        with tempfile.TemporaryDirectory() as folder:
            write_models(Path(folder), preset)
            for batch in a.batch:
                for beams in a.beams:
                    options = ["--folder", folder, "--batch", str(batch), "--beams", str(beams), "--device", a.device]
                    options += ["--tokens", str(a.tokens), "--sentences", str(a.sentences)]
                    found = compare("decode.py", a.systems, options, a.rounds)
                    table[f"{preset}, batch {batch}, beam {beams}"] = found
                    print(f"{preset}, batch {batch}, beam {beams}")
                    for name, row in found.items():
                        print(f"  {name:22}", json.dumps(row))
    kind = torch.cuda.get_device_name() if a.device.startswith("cuda") else "cpu"
    save(a.name, {"task": "decoding, written tokens a second", "device": kind, "tokens": a.tokens,
                  "sentences": a.sentences, "rounds": a.rounds, "rows": table})
    print(results / f"{a.name}.json")
