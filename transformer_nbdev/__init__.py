"The Transformer as a course in notebooks, and the PyTorch package they compile to."
__version__ = "0.1.0"

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time a name's module is imported when the name is first used
    from transformer_nbdev.attention import attention, causal_mask, check_causal, fused_attention, padding_mask
    from transformer_nbdev.classification import TransformerClassifier
    from transformer_nbdev.data import TokenBatches, Tokenizer
    from transformer_nbdev.decoder import Decoder, DecoderLayer
    from transformer_nbdev.embedding import TokenEmbedding
    from transformer_nbdev.encoder import Encoder, EncoderLayer, FeedForward
    from transformer_nbdev.inference import Translator, beam_search, generate
    from transformer_nbdev.interop import from_torch, to_torch
    from transformer_nbdev.marian import from_marian, to_marian
    from transformer_nbdev.multi_head import MultiHeadAttention
    from transformer_nbdev.muon import Muon
    from transformer_nbdev.output_loss import smoothed_cross_entropy
    from transformer_nbdev.engine import accelerate, plain
    from transformer_nbdev.positional_encoding import PositionalEncoding, sinusoidal_encoding
    from transformer_nbdev.decoding import Direct
    from transformer_nbdev.serving import CTranslate2Translator, convert, to_ctranslate2
    from transformer_nbdev.training import Trainer, TrainingConfig
    from transformer_nbdev.transformer import Transformer, TransformerConfig

_home = {
    "attention": ["attention", "causal_mask", "check_causal", "fused_attention", "padding_mask"],
    "classification": ["TransformerClassifier"],
    "data": ["TokenBatches", "Tokenizer"],
    "decoder": ["Decoder", "DecoderLayer"],
    "embedding": ["TokenEmbedding"],
    "encoder": ["Encoder", "EncoderLayer", "FeedForward"],
    "inference": ["Translator", "beam_search", "generate"],
    "interop": ["from_torch", "to_torch"],
    "marian": ["from_marian", "to_marian"],
    "multi_head": ["MultiHeadAttention"],
    "muon": ["Muon"],
    "output_loss": ["smoothed_cross_entropy"],
    "engine": ["accelerate", "plain"],
    "positional_encoding": ["PositionalEncoding", "sinusoidal_encoding"],
    "decoding": ["Direct"],
    "serving": ["CTranslate2Translator", "convert", "to_ctranslate2"],
    "training": ["Trainer", "TrainingConfig"],
    "transformer": ["Transformer", "TransformerConfig"],
}
__all__ = sorted(name for names in _home.values() for name in names)


def __getattr__(name: str) -> object:
    "A public name, from its module (PEP 562). All of them are loaded at once: some classes are completed later."
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module, names in _home.items():
        for public in names:
            globals()[public] = getattr(importlib.import_module(f"{__name__}.{module}"), public)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
