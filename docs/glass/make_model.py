"""The translator of the glass page: number words, English to German and Korean.

    python docs/glass/make_model.py

Trains it (about three minutes on two cores) and writes into docs/glass/model what is kept in the repository:
`weights.bin.gz` (16-bit numbers), `model.json` (their shapes, vocabulary, merges, how it learned) and `checks.json`,
what Python finds for numbers that training never showed: the page is tested by it.
"""
import copy
import gzip
import hashlib
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_nbdev.attention import attention
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.decoder import shift_right
from transformer_nbdev.multi_head import MultiHeadAttention, join_heads
from transformer_nbdev.search import beam_search
from transformer_nbdev.tools.corpora import language_tag, number_pairs, number_split, number_words
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator

languages, below, n_small = ("de", "ko"), 100_000, 131
kinds = ("encoder", "decoder", "cross")
parts = ("queries", "keys", "values", "weights")
replayed_at = (15, 45, 60, 75, 105, 200, 450, 900)
replayed = [(tag, number) for tag in languages for number in (58_074, 777, 40_002)]


class Glass(nn.Module):
    """A `Transformer` that also gives what it computes on the way.

    `forward(src, tgt, gates)`: source ids `(B, S)`, what the decoder reads `(B, T)`, and a factor for each head,
    `(3, layers, h)`, for encoder, decoder and cross-attention: 0 silences it. Returns the logits after the embedding
    and after each sublayer of the decoder, `(stages, B, T, V)`, the last of them the model's own; then for each kind
    of attention queries, keys and values `(layers, B, h, L, d_k)` and weights `(layers, B, h, T, S)`.
    """

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, tgt: Tensor, gates: Tensor) -> tuple[Tensor, ...]:
        "As the class says."
        model, seen = self.model, {kind: [] for kind in kinds}

        def look(kind: str, i: int, module: MultiHeadAttention, memory: Tensor | None = None):
            "One attention as a sublayer; what it computes is noted."

            def sublayer(x: Tensor) -> Tensor:
                (query,), (key, value) = module.project(x, 0, 1), module.keys_values(x if memory is None else memory)
                mask = None if kind == "decoder" else model.source_mask(src)
                out, weights = attention(query, key, value, mask, causal=kind == "decoder")
                seen[kind].append((query, key, value, weights))
                return module.out_proj(join_heads(out * gates[kinds.index(kind), i][:, None, None]))

            return sublayer

        x = model._embed(model.embedding, src)
        for i, layer in enumerate(model.encoder.layers):
            x = layer.residual1(x, look("encoder", i, layer.self_attention))
            x = layer.residual2(x, layer.feed_forward)
        memory, x = model.encoder.norm(x), model._embed(model.target_embedding, tgt)
        stages = [x]
        for i, layer in enumerate(model.decoder.layers):
            stages.append(layer.residual1(stages[-1], look("decoder", i, layer.self_attention)))
            stages.append(layer.residual2(stages[-1], look("cross", i, layer.cross_attention, memory)))
            stages.append(layer.residual3(stages[-1], layer.feed_forward))
        logits = model.output(model.decoder.norm(torch.stack(stages)))
        return logits, *(torch.stack(part) for kind in kinds for part in zip(*seen[kind]))


def split() -> tuple[list[int], list[int]]:
    "Numbers to train on, and others."
    seen, unseen = number_split(below, n_train=12_000, n_held_out=2_000)
    return seen, [number for number in unseen if number >= n_small]


names = ["logits", *(f"{kind}_{part}" for kind in kinds for part in parts)]


def train() -> tuple[Translator, dict]:
    "The translator, its weights rounded to 16 bits (half the bytes on the way), and how it learned."
    seen, _ = split()
    seen += 10 * list(range(n_small))  # people type small numbers first, and few numbers are small
    seen += 150 * [0, 12]  # no other number has the word null, and few have the ö of zwölf
    pairs = [(language_tag(x) + source, target) for x in languages for source, target in number_pairs(seen, "en", x)]
    replay: list[dict] = []

    def watch(trainer: Trainer) -> None:
        if trainer.step in replayed_at:
            replay.append({"step": trainer.step, **photograph(Translator(trainer.model, trainer.tokenizer))})

    config = TrainingConfig(steps=900, batch_tokens=1200, lr=3e-3, warmup=60, ema=0.98, log_every=10)
    options = dict(preset="tiny", vocab_size=512, dropout=0.0, quiet=True, callbacks=[watch])
    trainer = Trainer.from_pairs(pairs, config, **options)
    trainer.fit()
    losses = [[r["step"], round(r["loss"], 4)] for r in trainer.history if "loss" in r]
    model = trainer.averaged_model().float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    return Translator(model, trainer.tokenizer), {"losses": losses, "replay": replay}


@torch.no_grad()
def photograph(translator: Translator) -> dict:
    "What a model makes of some sentences, and where it looks in cross-attention while it writes the right answer."
    model, tokenizer = copy.deepcopy(translator.model).float().eval(), translator.tokenizer
    texts = [language_tag(tag) + number_words(number, "en") for tag, number in replayed]
    found, maps = Translator(model, tokenizer).translate(texts, beam_size=1, max_new_tokens=24), []
    for text, (tag, number) in zip(texts, replayed):
        right = torch.tensor([tokenizer.encode(number_words(number, tag)) + [2]])
        src = torch.tensor([tokenizer.encode(text) + [2]])
        gates = torch.ones(3, model.config.n_decoder_layers, model.config.n_heads)
        weights = dict(zip(names, Glass(model)(src, shift_right(right), gates)))["cross_weights"]
        maps.append([[round(w, 3) for w in row] for row in weights[-1, 0].mean(0).tolist()])
    return {"written": found, "maps": maps}


def write_weights(model: Transformer, path: Path) -> list[list]:
    "The parameters as 16-bit numbers, one after the other; returns the name and shape of each."
    state = {name: value for name, value in model.state_dict().items()
             if name not in ("target_embedding.weight", "output.weight")}  # tied to embedding.weight
    numbers = b"".join(value.half().numpy().tobytes() for value in state.values())
    path.write_bytes(gzip.compress(numbers, mtime=0))
    return [[name, list(value.shape)] for name, value in state.items()]


@torch.no_grad()
def checks(translator: Translator, spoken: dict, n: int = 500) -> list[dict]:
    """For n unseen numbers in both languages: the words, the ids of both sides, greedy and with four beams.

    `spoken` gets the right words of these and of other numbers.
    """
    _, unseen = split()
    found = []
    for tag in languages:
        texts = [language_tag(tag) + number_words(number, "en") for number in unseen[:n]]
        for number, text in zip(unseen, texts):
            src = torch.tensor([[*translator.tokenizer.encode(text), 2]])
            options = dict(max_new_tokens=32, length_penalty=0.6)
            ids = {k: beam_search(translator.model, src, k, **options)[0][0].tolist() for k in (1, 4)}
            asked = {"number": number, "to": tag, "text": text, "src": src[0].tolist()}
            found.append({**asked, "greedy": ids[1], "beam": ids[4]})
        right = translator.translate(texts)
        numbers = [*unseen[:n], *range(0, 130), *range(99_990, 102_000, 17), *range(100_000, 1_000_000, 9973)]
        spoken[tag] = {number: number_words(number, tag) for number in numbers}
        share = sum(a == number_words(number, tag) for a, number in zip(right, unseen)) / n
        small = translator.translate([language_tag(tag) + number_words(number, "en") for number in range(n_small)])
        wrong = [number for number, text in enumerate(small) if text != number_words(number, tag)]
        print(f"{tag}: {share:.1%} of {n} unseen numbers; wrong below {n_small}: {wrong}")
        assert share > 0.99 and not wrong
    return found


@torch.no_grad()
def values(translator: Translator) -> dict:
    "All that `Glass` gives for one sentence, with one head silenced: the page must compute the same."
    model, gates = translator.model, torch.ones(3, 2, 4)
    gates[2, 1, 0] = 0
    src = torch.tensor([[*translator.tokenizer.encode(">>de<< fifty-eight thousand and seventy-four"), 2]])
    tgt = torch.tensor([[1, *translator.tokenizer.encode("achtundfünfzigtausend")]])
    out = Glass(model)(src, tgt, gates)
    plain = Glass(model)(src, tgt, torch.ones(3, 2, 4))[0][-1]
    assert torch.allclose(plain, model(src, tgt), atol=1e-4), "the glass model is another model"
    shown = {name: [round(value, 5) for value in x.flatten().tolist()] for name, x in zip(names, out)}
    return {"src": src.tolist(), "tgt": tgt.tolist(), "gates": gates.flatten().tolist(), "outputs": shown}


def in_pieces(tokenizer: Tokenizer, to: str, number: int) -> dict:
    "A number with its right translation, and the pieces of both sides."
    source, text = language_tag(to) + number_words(number, "en"), number_words(number, to)
    pieces = {name: tokenizer.pieces(tokenizer.encode(x)) for name, x in (("source", source), ("right", text))}
    return {"to": to, "number": number, "text": text, **pieces}


def main() -> None:
    "Train, write the weights, the vocabulary and what the page is tested by."
    folder = Path(__file__).parent / "model"
    folder.mkdir(exist_ok=True)
    translator, story = train()
    shapes = write_weights(translator.model, folder / "weights.bin.gz")
    packed = (folder / "weights.bin.gz").read_bytes()
    backend, c = translator.tokenizer.backend, translator.model.config
    merges = json.loads(backend.to_str())["model"]["merges"]
    about = {
        "layers": c.n_decoder_layers, "heads": c.n_heads, "d": c.d_model,
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest(), "shapes": shapes,
        "vocabulary": [backend.id_to_token(i) for i in range(c.vocab_size)],
        "merges": [pair.split(" ") if isinstance(pair, str) else pair for pair in merges],
        "replayed": [in_pieces(translator.tokenizer, *one) for one in replayed], **story,
    }
    (folder / "model.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    spoken: dict[str, dict[int, str]] = {}
    tested = {"translations": checks(translator, spoken), "values": values(translator), "spoken": spoken}
    (folder / "checks.json").write_text(json.dumps(tested), encoding="utf-8")


if __name__ == "__main__":
    main()
