"""Five structures written anew, each with faults to plant: `make(structure, fault)`; the model is sound for None.

In the manner of the Annotated Transformer (`annotated`), a hand-written GPT (`gpt`), a wrapper of `nn.Transformer`
(`torch`), a Hugging Face model (`hub`) and an RNN with attention (`rnn`). Padding is 0, the end 2, 40 ids.
"""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

V, D, H = 40, 32, 4
general = ["dropout", "first loss", "copies", "gradients", "neighbors", "half precision", "not shifted",
           "shifted twice"]
faults = {
    "annotated": [*general, "future", "future by one", "mask", "heads", "heads of the encoder", "merging", "reach",
                  "source", "padding", "padding mask", "nan", "positions", "equal layers", "cache", "queries",
                  "plain list", "probabilities"],
    "gpt": [*general, "future", "future by one", "mask", "heads", "merging", "reach", "positions", "equal layers",
            "cache", "queries", "plain list", "probabilities"],
    "torch": [*general, "future", "future by one", "mask", "source", "padding", "padding mask", "positions",
              "equal layers"],
    "hub": [*general, "future", "padding", "cache", "equal layers", "positions"],
    "rnn": [*general, "future", "source", "padding", "padding mask", "nan", "cache"],
}
of_losses = ["end token", "padding trained", "smoothing"]
# What the tool calls a fault, where the name differs.
named = {"padding mask": "mask", "future by one": "future", "heads of the encoder": "heads", "merging": "future",
         "not shifted": "shift", "shifted twice": "shift", "queries": "softmax", "plain list": "unregistered",
         "probabilities": "logits"}


def start(model, fault):
    "Draw the weights small, as most do, and plant what concerns weights or the whole output."
    for name, p in model.named_parameters():
        if p.dim() > 1:
            wide = fault == "first loss" and (p.shape[0] == V or isinstance(model, RNN))
            nn.init.normal_(p, std=1.0 if wide else 0.1)
    if fault == "copies":
        table = next(m for m in model.modules() if isinstance(m, nn.Embedding) and len(m.weight) == V)
        model.out.weight = nn.Parameter(table.weight.detach().clone())
    if fault == "equal layers":
        for stack in [m for m in model.modules() if isinstance(m, nn.ModuleList)]:
            for layer in stack[1:]:
                layer.load_state_dict(stack[0].state_dict())
    return model


def finish(x, fault):
    "Plant what can happen to any hidden states `(B, L, D)`."
    if fault == "dropout":
        x = F.dropout(x, 0.1)
    if fault == "neighbors":
        x = x - x.mean(0, keepdim=True) * 0.5
    if fault == "gradients":
        x = x.detach()
    return x


def end(x, fault):
    "Plant what can happen to any logits."
    return x.softmax(-1) if fault == "probabilities" else x


class Attention(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.fault = fault

    def split(self, x):
        if self.fault == "heads":
            return x.view(len(x), H, -1, D // H)
        x = x.view(len(x), -1, H, D // H)
        return x if self.fault == "reach" else x.transpose(1, 2)

    def forward(self, x, memory, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(D // H)
        if self.fault != "reach":
            low = -1e9 if self.fault == "half precision" else torch.finfo(scores.dtype).min
            scores = scores.masked_fill(~mask, -math.inf if self.fault == "nan" else low)
        out = scores.softmax({"queries": -2, "over heads": 1}.get(self.fault, -1)) @ v
        out = out if self.fault in ("reach", "merging") else out.transpose(1, 2)
        return self.o(out.reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, fault, cross=False):
        super().__init__()
        self.own, self.norm = Attention(fault), nn.ModuleDict({n: nn.LayerNorm(D) for n in "abc"[: 2 + cross]})
        self.cross = Attention(None if fault in ("heads", "reach", "merging") else fault) if cross else None
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x, mask, memory=None, seen=None):
        n = self.norm["a"](x)
        x = x + self.own(n, n, mask)
        if self.cross is not None:
            x = x + self.cross(self.norm["c"](x), memory, seen)
        return x + self.down(self.up(self.norm["b"](x)).relu())


def stack(layers, fault):
    "Layers that the model knows, or a plain list of them."
    return [layer.eval() for layer in layers] if fault == "plain list" else nn.ModuleList(layers)


def waves(length):
    place = torch.arange(length)[:, None] / 100 ** (torch.arange(0, D, 2) / D)
    return torch.cat([place.sin(), place.cos()], -1)


def causal(length, fault):
    ones = torch.ones(length, length, dtype=torch.bool)
    if fault == "mask":
        return ones.triu()
    return ones if fault == "future" else ones.tril(1) if fault == "future by one" else ones.tril()


def padding(src, fault):
    real = (src != 0)[:, None, None]
    if fault == "padding":
        return real | True
    return ~real if fault == "padding mask" else real.transpose(-1, -2) if fault == "nan" else real


class Annotated(nn.Module):
    def __init__(self, fault=None):
        super().__init__()
        self.words, self.fault = nn.Embedding(V, D, padding_idx=0), fault
        below = {"heads": None, "merging": None, "heads of the encoder": "heads"}.get(fault, fault)
        self.encoder = nn.ModuleList(Layer(below) for _ in range(2))
        self.decoder = stack([Layer(fault, True) for _ in range(2)], fault)
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        start(self, fault)

    def embed(self, ids, moving=True):
        x = self.words(ids) * math.sqrt(D)
        return x if self.fault == "positions" else x + waves(ids.shape[1])[torch.arange(ids.shape[1]) * moving].to(x)

    def forward(self, src, tgt, moving=True):
        x, y, real = self.embed(src), self.embed(tgt, moving), padding(src, self.fault)
        for layer in self.encoder:
            x = layer(x, real)
        memory = x * 0 if self.fault == "source" else x
        seen = real[:, :, :1, :] if self.fault != "nan" else (src != 0)[:, None, None]
        for layer in self.decoder:
            y = layer(y, causal(tgt.shape[1], self.fault), memory, seen)
        return end(self.out(self.norm(finish(y, self.fault))), self.fault)


class GPT(nn.Module):
    def __init__(self, fault=None):
        super().__init__()
        self.words, self.places, self.fault = nn.Embedding(V, D), nn.Embedding(64, D), fault
        self.layers = stack([Layer(fault) for _ in range(3)], fault)
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        start(self, fault)
        self.out.weight = self.out.weight if fault == "copies" else self.words.weight

    def forward(self, ids, moving=True):
        place = torch.arange(ids.shape[1]) * (moving and self.fault != "positions")
        x = self.words(ids) + self.places(place)
        for layer in self.layers:
            x = layer(x, causal(ids.shape[1], self.fault))
        return end(self.out(self.norm(finish(x, self.fault))), self.fault)


class Torch(nn.Module):
    def __init__(self, fault=None):
        super().__init__()
        self.words, self.places, self.fault = nn.Embedding(V, D, padding_idx=0), nn.Embedding(64, D), fault
        self.body = nn.Transformer(D, H, 2, 2, 2 * D, 0.1, batch_first=fault != "neighbors", norm_first=True)
        self.out = nn.Linear(D, V)
        start(self, fault)

    def forward(self, src, tgt):
        places = self.places.weight * (self.fault != "positions")
        x, y = (self.words(ids) + places[: ids.shape[1]] for ids in (src, tgt))
        hidden, ahead = src == 0, ~causal(tgt.shape[1], self.fault)
        hidden = {"padding": None, "padding mask": ~hidden}.get(self.fault, hidden)
        if self.fault == "neighbors":
            return self.mixed(x, y)
        if self.fault == "half precision":
            ahead = torch.zeros(ahead.shape).to(x).masked_fill(ahead, -1e9)
        z = self.body(x * (self.fault != "source"), y, tgt_mask=ahead, src_key_padding_mask=hidden,
                      memory_key_padding_mask=hidden)
        return self.out(finish(z, self.fault))

    def mixed(self, x, y):
        return self.out(self.body(x[:, : y.shape[1]], y))


class RNN(nn.Module):
    def __init__(self, fault=None):
        super().__init__()
        self.source, self.target, self.fault = nn.Embedding(V, D, padding_idx=0), nn.Embedding(V, D), fault
        self.reader = nn.GRU(D, D, batch_first=True)
        self.writer = nn.GRU(D, D, batch_first=True, bidirectional=fault == "future")
        self.join, self.out = nn.Linear(2 * D, D), nn.Linear(D, V)
        start(self, fault)

    def forward(self, src, tgt):
        memory, _ = self.reader(self.source(src) * (self.fault != "source"))
        memory = memory * 0 if self.fault == "source" else memory
        states = self.writer(self.target(tgt))[0].unflatten(-1, (-1, D)).sum(-2)
        scores, real = states @ memory.transpose(1, 2), (src != 0)[:, None]
        real = {"padding": real | True, "padding mask": ~real}.get(self.fault, real)
        if self.fault == "nan":
            real = real & (tgt != 0)[..., None]
        low = {"nan": -math.inf, "half precision": -1e9}.get(self.fault, torch.finfo(scores.dtype).min)
        context = scores.masked_fill(~real, low).softmax(-1) @ memory
        return self.out(finish(self.join(torch.cat([states, context], -1)).tanh(), self.fault))


def hub(fault=None):
    import transformers
    config = transformers.GPT2Config(vocab_size=V, n_embd=D, n_layer=2, n_head=H, n_positions=64, bos_token_id=1,
                                     eos_token_id=2, pad_token_id=0, tie_word_embeddings=fault != "copies")
    model = transformers.GPT2LMHeadModel(config)
    body, plain = model.transformer, model.transformer.forward
    if fault == "future":
        return Hidden(transformers.BertLMHeadModel(transformers.BertConfig(
            vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=H, intermediate_size=64)), fault)
    if fault in ("dropout", "neighbors", "gradients"):
        body.ln_f.register_forward_hook(lambda module, args, out: finish(out, fault))
    if fault == "copies":
        model.lm_head.weight = nn.Parameter(body.wte.weight.detach().clone())
    if fault == "first loss":
        nn.init.normal_(body.wte.weight)
    if fault == "positions":
        body.wpe.register_forward_hook(lambda module, args, out: out * 0)
    if fault == "equal layers":
        body.h[1].load_state_dict(body.h[0].state_dict())
    if fault == "half precision":
        body.ln_f.register_forward_hook(lambda module, args, out: (out * 1e5) / 1e5)
    if fault == "padding":  # padding on the left moves no position here; the mean over all tokens does
        return Classifier(body)
    if fault == "cache":
        def forward(*args, **more):
            if more.get("past_key_values") is not None:
                more["position_ids"] = torch.zeros_like(args[0] if args else more["input_ids"])
            return plain(*args, **more)
        body.forward = forward
    return model


class Hidden(nn.Module):
    "A Hugging Face model, of which nobody knows that it is one."

    def __init__(self, model, fault):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids).logits


class Classifier(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.out = body, nn.Linear(D, 5)
        self.config = copy.copy(body.config)

    def forward(self, ids):
        return self.out(self.body(ids).last_hidden_state.mean(1))


def loss_with(fault=None):
    "The cross-entropy of logits and targets, with label smoothing."
    def loss(logits, targets):
        flat, wanted = logits.flatten(0, -2), targets.flatten()
        if fault == "end token":
            wanted = wanted.masked_fill(wanted == 2, 0)
        if fault == "smoothing":
            return F.cross_entropy(flat, wanted, ignore_index=0, label_smoothing=0.1)
        return F.cross_entropy(flat, wanted, ignore_index=-100 if fault == "padding trained" else 0)
    return loss


def training_loss_with(model, fault=None):
    "A step of teacher forcing: target ids `(B, T)` are shifted by one, not at all, or twice."
    gap = {"not shifted": 0, "shifted twice": 2}.get(fault, 1)

    def loss(*sides):
        ids = sides[-1]
        if not isinstance(model, nn.Module) or not hasattr(model, "transformer"):
            read, wanted = ids[:, : ids.shape[1] - gap], ids[:, gap:]
            return F.cross_entropy(model(*sides[:-1], read).flatten(0, 1), wanted.flatten(), ignore_index=0)
        if fault == "not shifted":  # a Hugging Face model shifts its labels by itself
            return F.cross_entropy(model(ids).logits.flatten(0, 1), ids.flatten())
        return model(ids, labels=ids).loss if gap == 1 else model(ids[:, :-1], labels=ids[:, 1:].contiguous()).loss
    return loss


def cached_with(model, fault=None):
    "The logits of a decoder that goes token by token: its position stays 0, or the RNN forgets its state."
    def cached(*sides):
        steps, (*src, ids) = [], sides
        for t in range(ids.shape[1]):
            read = ids[:, t : t + 1] if isinstance(model, RNN) and fault == "cache" else ids[:, : t + 1]
            more = {} if isinstance(model, RNN) else {"moving": fault != "cache"}
            steps.append(model(*src, read, **more)[:, -1])
        return torch.stack(steps, 1)
    return cached if isinstance(model, Annotated | GPT | RNN) else None


def arguments(structure, fault=None):
    "What `check` needs: the model, with the loss of its training if the fault is there."
    model = make(structure, fault)
    found = {"model": model, "loss": loss_with(fault), "cached": cached_with(model, fault), "pad_id": 0, "eos_id": 2}
    if named.get(fault) == "shift":
        found["training_loss"] = training_loss_with(model, fault)
    return found


def make(structure, fault=None):
    "A model with one planted fault, or without."
    torch.manual_seed(0)
    return {"annotated": Annotated, "gpt": GPT, "torch": Torch, "hub": hub, "rnn": RNN}[structure](fault)
