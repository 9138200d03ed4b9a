"The parts of today's models give the numbers and gradients of known implementations, in double precision."
import pytest
import torch
from torch import nn

from transformer_nbdev.data import Sequences, TokenBatches
from transformer_nbdev.modern import (
    GroupedQueryAttention,
    ModernConfig,
    ModernLayer,
    ModernTransformer,
    RMSNorm,
    from_llama,
    today,
    use_schedule,
    wsd_schedule,
)
from transformer_nbdev.multi_head import KeyValueCache
from transformer_nbdev.training import Trainer, TrainingConfig
from transformer_nbdev.transformer import Transformer

transformers = pytest.importorskip("transformers")
small = dict(vocab_size=50, d_model=32, n_heads=4, n_encoder_layers=2, n_decoder_layers=2, d_ff=48, dropout=0.0)
every = dict(today, n_kv_heads=2, soft_cap=30.0)


def exact_norms(model: nn.Module, eps: float) -> None:
    "Put PyTorch's RMSNorm in the place of each norm of transformers, which rounds to float32."
    for module in [*model.modules()]:
        for name, child in module.named_children():
            if type(child).__name__.endswith("RMSNorm"):
                exact = nn.RMSNorm(len(child.weight), eps=eps, dtype=torch.float64)
                exact.weight = child.weight
                setattr(module, name, exact)


@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
def test_layers_are_those_of_llama_and_qwen(family):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, attn_implementation="sdpa",
    )
    theirs = getattr(transformers, f"{family}ForCausalLM")(config).double().eval()
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.3)
    exact_norms(theirs, config.rms_norm_eps)
    layers = nn.ModuleList(ModernLayer(32, 4, 48, n_kv_heads=2, qk_norm=family == "Qwen3") for _ in range(2)).double()
    layers.load_state_dict(from_llama(theirs.model.layers.state_dict()))
    ids = torch.randint(0, 50, (2, 9))
    x = theirs.model.embed_tokens(ids)
    for layer in layers:
        x = layer(x, causal=True)
    logits = theirs.lm_head(theirs.model.norm(x))
    expected = theirs(ids).logits
    assert (logits - expected).abs().max() < 1e-9
    g = torch.randn_like(logits)
    names = [name for name, _ in layers.named_parameters()]
    ours = torch.autograd.grad(logits, [*layers.parameters()], g)
    grads = torch.autograd.grad(expected, [*theirs.model.layers.parameters()], g)
    known = from_llama(dict(zip([n for n, _ in theirs.model.layers.named_parameters()], grads)))
    assert max(float((a - known[n]).abs().max()) for n, a in zip(names, ours)) < 1e-9


def test_without_switches_it_is_the_papers_model():
    torch.manual_seed(0)
    ours, paper = (kind(config(**small)).double() for kind, config in (
        (ModernTransformer, ModernConfig), (Transformer, ModernConfig)))
    weights = {}
    for name, tensor in paper.state_dict().items():
        if "in_proj" in name:
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3)):
                weights[name.replace("in_proj_", f"{part}.")] = piece
        else:
            weights[name] = tensor
    ours.load_state_dict(weights)
    src, tgt = torch.randint(3, 50, (3, 7)), torch.randint(3, 50, (3, 5))
    src[0, 5:] = 0
    a, b = ours.loss(src, tgt), paper.loss(src, tgt)
    assert (a - b).abs() < 1e-9
    a.backward(), b.backward()
    assert (ours.embedding.weight.grad - paper.embedding.weight.grad).abs().max() < 1e-9
    packed = [getattr(ours.decoder.layers[1].cross_attention, n).weight.grad for n in ("query", "key", "value")]
    assert (torch.cat(packed) - paper.decoder.layers[1].cross_attention.in_proj_weight.grad).abs().max() < 1e-9


def test_steps_with_a_cache_give_the_same_logits_and_beams_run():
    torch.manual_seed(0)
    model = ModernTransformer(ModernConfig(**{**small, **every})).double().eval()
    src, tgt = torch.randint(3, 50, (3, 7)), torch.randint(3, 50, (3, 5))
    whole, state = model(src, tgt), model.start(src, 5)
    steps = torch.stack([model.step(tgt[:, t], state) for t in range(5)], dim=1)
    assert (whole - steps).abs().max() < 1e-9 and state.caches[0].keys.shape[1] == 2
    greedy, full = model.generate(src, max_new_tokens=6), model.generate(src, max_new_tokens=6, beam_size=3)
    assert len(greedy) == len(full) == 3


def test_a_causal_layer_with_a_cache_writes_what_it_computes_at_once():
    torch.manual_seed(0)
    layer, x = ModernLayer(32, 4, 48, n_kv_heads=1, qk_norm=True).double(), torch.randn(2, 8, 32).double()
    cache = KeyValueCache(8)
    parts = [layer(part, causal=True, cache=cache) for part in x.split([3, 1, 4], dim=1)]
    assert (torch.cat(parts, 1) - layer(x, causal=True)).abs().max() < 1e-9


def test_norm_and_refusals():
    x = torch.randn(4, 16).double()
    assert (RMSNorm(16).double()(x) - nn.RMSNorm(16, eps=1e-6).double()(x)).abs().max() < 1e-12
    with pytest.raises(ValueError, match="n_kv_heads = 3"):
        GroupedQueryAttention(32, 4, 3)
    with pytest.raises(ValueError, match="norm must be"):
        ModernConfig(50, norm="batch")


def test_a_trainer_follows_a_schedule():
    ids = [[3, 4, 5, 2]] * 20
    batches = TokenBatches(Sequences(ids), Sequences(ids), 40)
    rates = []
    trainer = Trainer(ModernTransformer(ModernConfig(**{**small, **every})), batches,
                      TrainingConfig(steps=10, warmup=2, lr=0.01), quiet=True,
                      callbacks=[lambda t: rates.append(t.state.optimizer.param_groups[0]["lr"])])
    use_schedule(trainer, wsd_schedule)
    trainer.fit()
    assert rates[0] == pytest.approx(0.005) and rates[5] == pytest.approx(0.01) and rates[-1] < 0.01
