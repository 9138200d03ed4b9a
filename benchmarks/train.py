"""Training steps: ours, accelerated and plain, beside torch.nn.Transformer, Hugging Face Marian and x-transformers.

    pip install -e '.[bench]'
    python benchmarks/train.py --preset small --precision fp32 bf16

The same sizes, the same batches, the same smoothed loss over real tokens, the same optimiser; dropout on. Each system
is a process of its own, rounds are interleaved. Results go to benchmarks/results/KIND/NAME.json.
"""
import argparse
import contextlib
import json
import tempfile

import torch
import torch.nn.functional as F
from common import results, save
from rounds import compare, serve
from torch import nn

from transformer_nbdev.convert.marian import to_marian
from transformer_nbdev.convert.torch_nn import to_torch
from transformer_nbdev.data import TokenBatches
from transformer_nbdev.decoder import shift_right
from transformer_nbdev.speed.bench import caption_like
from transformer_nbdev.speed.graphs import GraphedLoss, compile_layers
from transformer_nbdev.speed.parts import accelerate, fast_parts
from transformer_nbdev.tools.devices import keep_memory
from transformer_nbdev.transformer import Transformer, TransformerConfig

presets = {  # the sizes that are compared; all post-norm and tied, as all systems can be
    "small": dict(vocab_size=8000, d_model=256, n_heads=4, n_encoder_layers=3, n_decoder_layers=3, d_ff=1024),
    "base": dict(vocab_size=37_000),
    "big": dict(vocab_size=37_000, d_model=1024, n_heads=16, d_ff=4096),
    "tiny": dict(vocab_size=300, d_model=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, d_ff=64),
}
systems = ["ours", "ours-plain", "torch.nn", "marian-eager", "marian-sdpa", "x-transformers"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--preset", nargs="+", choices=presets, default=["small", "base"])
parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
parser.add_argument("--systems", nargs="+", choices=systems, default=systems)
parser.add_argument("--batch-tokens", type=int, help="positions a side  [default: 4096 for small, 2048 otherwise]")
parser.add_argument("--steps", type=int, default=3, help="in a round")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--compile", action="store_true", help="every system by torch.compile")
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--name", default="train", help="of the file in results/")
parser.add_argument("--worker", help=argparse.SUPPRESS)


class MarianLogits(nn.Module):
    "Hugging Face's model with the arguments of ours."

    def __init__(self, config: TransformerConfig, attention: str):
        super().__init__()
        from transformers import MarianMTModel

        with tempfile.TemporaryDirectory() as folder:
            to_marian(Transformer(config), f"{folder}/marian")
            self.model = MarianMTModel.from_pretrained(f"{folder}/marian", attn_implementation=attention)

    def forward(self, src, tgt):
        real = (src != 0).long()
        return self.model(input_ids=src, attention_mask=real, decoder_input_ids=tgt, use_cache=False).logits


class XLogits(nn.Module):
    "x-transformers' encoder and decoder with the arguments of ours."

    def __init__(self, c: TransformerConfig):
        super().__init__()
        from x_transformers import XTransformer

        side = dict(num_tokens=c.vocab_size, depth=c.n_encoder_layers, heads=c.n_heads, max_seq_len=c.max_len,
                    attn_dim_head=c.d_model // c.n_heads, attn_flash=True, ff_mult=c.d_ff // c.d_model,
                    pre_norm=False, layer_dropout=0.0, attn_dropout=0.0, ff_dropout=c.dropout, emb_dropout=c.dropout,
                    scaled_sinu_pos_emb=True)
        options = {f"{name}_{key}": value for name in ("enc", "dec") for key, value in side.items()}
        self.model = XTransformer(dim=c.d_model, tie_token_emb=True, **options)

    def forward(self, src, tgt):
        mask = src != 0
        memory = self.model.encoder(src, mask=mask, return_embeddings=True)
        return self.model.decoder.net(tgt, context=memory, context_mask=mask)


def peer(name: str, config: TransformerConfig) -> nn.Module:
    "The other systems' models."
    if name == "torch.nn":
        return to_torch(Transformer(config))
    return XLogits(config) if name == "x-transformers" else MarianLogits(config, name.removeprefix("marian-"))


def prepare(name: str, preset: str, precision: str, batch_tokens: int, steps: int, compiled: bool, device: str):
    "What one round of a system is."
    torch.manual_seed(0)
    config = TransformerConfig(**presets[preset], dropout=0.1)
    batches = TokenBatches(*caption_like(20_000, config.vocab_size), batch_tokens)
    ours = name.startswith("ours")
    model = (Transformer(config) if ours else peer(name, config)).to(device).train()
    keep_memory()
    if name == "ours":
        accelerate(model, bf16=precision == "bf16")
    if ours:
        model = compile_layers(model) if compiled else model
        compute = GraphedLoss(model) if name == "ours" and device.startswith("cuda") else model.loss
    else:
        compute = torch.compile(model, dynamic=True) if compiled else model
    options = dict(lr=1e-4, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True)
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    autocast = torch.autocast(device.split(":")[0], torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def update():
        batch = batches.next().to(device)
        with autocast:
            if ours:
                loss = compute(batch.src, batch.tgt, 0.1, "sum")
            else:
                logits = compute(batch.src, shift_right(batch.tgt)).flatten(0, 1)
                options = dict(ignore_index=0, label_smoothing=0.1, reduction="sum")
                loss = F.cross_entropy(logits, batch.tgt.flatten(), **options)
        (loss / batch.n_tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach(), batch.n_tokens

    parts = {"parts": fast_parts(model)} if ours else {}
    return lambda: {**finish([update() for _ in range(steps)], device), **parts}


def finish(done: list, device: str) -> dict:
    "Wait for the device; tokens and loss of a round."
    loss = float(sum(total for total, _ in done))
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    tokens = sum(n for _, n in done)
    return {"tokens": tokens, "loss": round(loss / tokens, 3)}


if __name__ == "__main__":
    a = parser.parse_args()
    if a.worker:
        size = a.batch_tokens or (4096 if a.preset[0] == "small" else 2048)
        serve(lambda: prepare(a.worker, a.preset[0], a.precision[0], size, a.steps, a.compile, a.device))
        raise SystemExit
    table = {}
    for preset in a.preset:
        for precision in a.precision:
            options = ["--preset", preset, "--precision", precision, "--steps", str(a.steps), "--device", a.device]
            options += ["--batch-tokens", str(a.batch_tokens)] if a.batch_tokens else []
            table[f"{preset}, {precision}"] = found = compare(
                "train.py", a.systems, options + ["--compile"] * a.compile, a.rounds
            )
            print(f"{preset}, {precision}")
            for name, row in found.items():
                print(f"  {name:16}", json.dumps(row))
    kind = torch.cuda.get_device_name() if a.device.startswith("cuda") else "cpu"
    save(a.name, {"task": "training, real target tokens a second", "device": kind, "compiled": a.compile,
                  "rounds": a.rounds, "rows": table})
    print(results / f"{a.name}.json")
