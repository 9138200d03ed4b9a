"The Transformer as a course in notebooks, and the PyTorch package they compile to."
__version__ = "0.1.0"

from transformer_nbdev.attention import attention, causal_mask, check_causal, fused_attention, padding_mask
from transformer_nbdev.classification import TransformerClassifier
from transformer_nbdev.data import TokenBatches, Tokenizer
from transformer_nbdev.decoder import Decoder, DecoderLayer
from transformer_nbdev.embedding import TokenEmbedding
from transformer_nbdev.encoder import Encoder, EncoderLayer, FeedForward
from transformer_nbdev.inference import Translator, beam_search, generate
from transformer_nbdev.interop import (
    CTranslate2Translator,
    convert,
    from_marian,
    from_torch,
    to_ctranslate2,
    to_marian,
    to_torch,
)
from transformer_nbdev.multi_head import MultiHeadAttention
from transformer_nbdev.output_loss import smoothed_cross_entropy
from transformer_nbdev.performance import quantize
from transformer_nbdev.positional_encoding import PositionalEncoding, sinusoidal_encoding
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer, TransformerConfig

__all__ = [
    "CTranslate2Translator", "Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "FeedForward",
    "MultiHeadAttention", "PositionalEncoding", "TokenBatches", "TokenEmbedding", "Tokenizer", "Trainer",
    "TrainingConfig", "Transformer", "TransformerClassifier", "TransformerConfig", "Translator", "attention",
    "beam_search", "causal_mask", "check_causal", "convert", "from_marian", "from_torch", "fused_attention", "generate",
    "padding_mask", "quantize", "sinusoidal_encoding", "smoothed_cross_entropy", "to_ctranslate2", "to_marian", "to_torch",
]
