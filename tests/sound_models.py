"Sound models of all kinds with random weights, small: from `transformers`, from `nn.Transformer`, and our own."
import torch
from torch import nn

from transformer_nbdev.bert import Bert
from transformer_nbdev.classification import TransformerClassifier
from transformer_nbdev.gpt import GPT, GPTConfig
from transformer_nbdev.modern import ModernConfig, ModernTransformer, today
from transformer_nbdev.transformer import Transformer, TransformerConfig

V, D, H = 60, 32, 4
common = {"vocab_size": V, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
plain = {"hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": H, "intermediate_size": 64,
         "max_position_embeddings": 64}
grouped = {**plain, "num_key_value_heads": 2, "head_dim": 8}
bart = {"d_model": D, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": H,
        "decoder_attention_heads": H, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        "decoder_start_token_id": 1, "forced_eos_token_id": None}
hugging = {
    "GPT2LMHeadModel": {"n_embd": D, "n_layer": 2, "n_head": H, "n_positions": 64},
    "LlamaForCausalLM": grouped,
    "MistralForCausalLM": grouped | {"sliding_window": 8},
    "Qwen2ForCausalLM": plain | {"num_key_value_heads": 2},
    "Qwen3ForCausalLM": grouped,
    "GemmaForCausalLM": grouped,
    "Gemma2ForCausalLM": grouped,
    "OPTForCausalLM": {"hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": H, "ffn_dim": 64,
                       "word_embed_proj_dim": D, "max_position_embeddings": 64},
    "BloomForCausalLM": {"hidden_size": D, "n_layer": 2, "n_head": H},
    "GPTNeoXForCausalLM": plain,
    "MixtralForCausalLM": grouped | {"num_local_experts": 4},
    "BertForMaskedLM": plain,
    "BertForSequenceClassification": plain,
    "BertModel": plain,
    "RobertaForMaskedLM": plain,
    "DistilBertForMaskedLM": {"dim": D, "n_layers": 2, "n_heads": H, "hidden_dim": 64, "max_position_embeddings": 64},
    "ModernBertForMaskedLM": plain,
    "T5ForConditionalGeneration": {"d_model": D, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": H,
                                   "decoder_start_token_id": 0},
    "BartForConditionalGeneration": bart,
    "MarianMTModel": bart,
    "MBartForConditionalGeneration": bart,
    "PegasusForConditionalGeneration": bart,
}


class Wrapped(nn.Module):
    "An `nn.Transformer` used as it should be."

    def __init__(self, **options):
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(V, D, padding_idx=0), nn.Embedding(64, D), nn.Linear(D, V)
        self.body = nn.Transformer(D, H, 2, 2, 64, batch_first=True, **options)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src, tgt):
        x, y = (self.words(ids) + self.places.weight[: ids.shape[1]] for ids in (src, tgt))
        ahead = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).isinf()
        hidden = src == 0
        return self.out(self.body(x, y, tgt_mask=ahead, src_key_padding_mask=hidden, memory_key_padding_mask=hidden))


def modern(**options):
    return ModernTransformer(ModernConfig(V, d_model=D, n_heads=H, d_ff=64, **options))


ours = {
    "Transformer": lambda: Transformer(TransformerConfig.preset("tiny", V)),
    "Transformer, pre-norm": lambda: Transformer(TransformerConfig.preset("tiny", V, norm_first=True)),
    "GPT": lambda: GPT(GPTConfig(V, D, H, 2, 64, 64)),
    "GPT, modern": lambda: GPT(GPTConfig(V, D, H, 2, 64, 64, modern=True)),
    "Bert": lambda: Bert(V, D, H, 2, 64),
    "ModernTransformer": lambda: modern(**today),
    "ModernTransformer, zeros": lambda: modern(**today, zero_init=True),
    "Classifier": lambda: TransformerClassifier(TransformerConfig.preset("tiny", V), 3),
    "nn.Transformer": Wrapped,
    "nn.Transformer, pre-norm": lambda: Wrapped(norm_first=True),
}


def make_sound(name):
    "A model that nothing is wrong with."
    torch.manual_seed(0)
    if name in ours:
        return ours[name]()
    import transformers
    kind = getattr(transformers, name)
    return kind(kind.config_class(**common, **hugging[name]))
