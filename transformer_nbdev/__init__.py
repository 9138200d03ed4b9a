"A course on the Transformer in notebooks, and the PyTorch package that is generated from them."
__version__ = "0.1.0"

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time, the first use of one of these names imports them all
    from transformer_nbdev.scale import ScalingLaw, speculative_step, add_low_rank
    from transformer_nbdev.reward import group_advantages, policy_loss
    from transformer_nbdev.bert import Bert, MaskedLM, mask_tokens
    from transformer_nbdev.gpt import GPT, GPTConfig
    from transformer_nbdev.modern import ModernConfig, ModernTransformer
    from transformer_nbdev.attention import attention, causal_mask, check_causal, fused_attention, padding_mask
    from transformer_nbdev.classification import TransformerClassifier
    from transformer_nbdev.data import TokenBatches, Tokenizer
    from transformer_nbdev.decoder import Decoder, DecoderLayer
    from transformer_nbdev.embedding import TokenEmbedding
    from transformer_nbdev.encoder import Encoder, EncoderLayer, FeedForward
    from transformer_nbdev.search import beam_search, generate
    from transformer_nbdev.translator import Translator
    from transformer_nbdev.convert.torch_nn import from_torch, to_torch
    from transformer_nbdev.convert.marian import from_marian, to_marian
    from transformer_nbdev.multi_head import MultiHeadAttention
    from transformer_nbdev.speed.muon import Muon
    from transformer_nbdev.output_loss import smoothed_cross_entropy
    from transformer_nbdev.speed.parts import accelerate, plain
    from transformer_nbdev.positional_encoding import PositionalEncoding, sinusoidal_encoding
    from transformer_nbdev.speed.direct import Direct
    from transformer_nbdev.convert.ctranslate2 import CTranslate2Translator, to_ctranslate2
    from transformer_nbdev.convert.folders import convert_folder
    from transformer_nbdev.training import Trainer, TrainingConfig
    from transformer_nbdev.transformer import Transformer, TransformerConfig

_home = {
    "scale": ["ScalingLaw", "speculative_step", "add_low_rank"],
    "reward": ["group_advantages", "policy_loss"],
    "bert": ["Bert", "MaskedLM", "mask_tokens"],
    "gpt": ["GPT", "GPTConfig"],
    "modern": ["ModernConfig", "ModernTransformer"],
    "attention": ["attention", "causal_mask", "check_causal", "fused_attention", "padding_mask"],
    "classification": ["TransformerClassifier"],
    "data": ["TokenBatches", "Tokenizer"],
    "decoder": ["Decoder", "DecoderLayer"],
    "embedding": ["TokenEmbedding"],
    "encoder": ["Encoder", "EncoderLayer", "FeedForward"],
    "search": ["beam_search", "generate"],
    "translator": ["Translator"],
    "convert.torch_nn": ["from_torch", "to_torch"],
    "convert.marian": ["from_marian", "to_marian"],
    "multi_head": ["MultiHeadAttention"],
    "speed.muon": ["Muon"],
    "output_loss": ["smoothed_cross_entropy"],
    "speed.parts": ["accelerate", "plain"],
    "positional_encoding": ["PositionalEncoding", "sinusoidal_encoding"],
    "speed.direct": ["Direct"],
    "convert.ctranslate2": ["CTranslate2Translator", "to_ctranslate2"],
    "convert.folders": ["convert_folder"],
    "training": ["Trainer", "TrainingConfig"],
    "transformer": ["Transformer", "TransformerConfig"],
}
__all__ = sorted(name for names in _home.values() for name in names)


def __getattr__(name: str) -> object:
    "Import all public names at the first use of one (PEP 562): else the module `attention` would hide its function."
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module, names in _home.items():
        for public in names:
            globals()[public] = getattr(importlib.import_module(f"{__name__}.{module}"), public)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
