"GPT against GPT-2 and Llama of transformers with random weights: logits, gradients, writing; and its own promises."
import pytest
import torch
from torch import nn

from transformer_nbdev.gpt import GPT, GPTConfig, gpt2_tensors, join_pairs, llama_tensors, prefix_mask

transformers = pytest.importorskip("transformers")


def random_gpt2() -> nn.Module:
    "A small GPT-2 in float64."
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=97, n_embd=48, n_head=4, n_layer=3, n_positions=32, bos_token_id=1, eos_token_id=2
    )
    return with_random_weights(transformers.GPT2LMHeadModel(config))


def random_llama(n_kv_heads: int = 2, tie: bool = False, theta: float = 10_000.0) -> nn.Module:
    "A small Llama in float64, whose norms do not round to float32 as those of transformers do."
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=48, num_attention_heads=4, num_key_value_heads=n_kv_heads, num_hidden_layers=3,
        intermediate_size=80, max_position_embeddings=32, tie_word_embeddings=tie, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    model = with_random_weights(transformers.LlamaForCausalLM(config))
    for module in [*model.modules()]:
        for name, child in module.named_children():
            if type(child).__name__ == "LlamaRMSNorm":
                exact = nn.RMSNorm(len(child.weight), eps=config.rms_norm_eps, dtype=torch.float64)
                exact.weight = child.weight
                setattr(module, name, exact)
    return model


def with_random_weights(model: nn.Module) -> nn.Module:
    "Give all parameters, biases and norms included, weights large enough to matter."
    for parameter in model.double().eval().parameters():
        nn.init.normal_(parameter, std=0.2)
    return model


families = [
    (random_gpt2, GPT.from_gpt2, gpt2_tensors, {}),
    (random_llama, GPT.from_llama, llama_tensors, {}),
    (random_llama, GPT.from_llama, llama_tensors, {"n_kv_heads": 4, "tie": True, "theta": 500_000.0}),
]


@pytest.mark.parametrize("make, convert, names, options", families, ids=["gpt2", "llama", "llama3 tied"])
def test_logits_gradients_and_text_are_those_of_transformers(make, convert, names, options):
    theirs = make(**options)
    ours = convert(theirs)
    ids = torch.randint(0, 97, (3, 20))
    expected, logits = theirs(ids).logits, ours(ids)
    assert logits.dtype == torch.float64 and (logits - expected).abs().max() < 1e-9
    g = torch.randn_like(logits)
    (expected * g).sum().backward()
    (logits * g).sum().backward()
    right = names({name: p.grad for name, p in theirs.named_parameters()})
    found = dict(ours.named_parameters())
    assert found.keys() == right.keys()
    for name, parameter in found.items():
        assert (parameter.grad - right[name]).abs().max() < 1e-9 * max(1, right[name].abs().max()), name
    written = theirs.generate(ids[:, :5], max_new_tokens=10, do_sample=False, pad_token_id=2, eos_token_id=2)
    mine = ours.generate(ids[:, :5], max_new_tokens=10)
    assert torch.equal(mine, written[:, 5 : 5 + mine.shape[1]])


def test_models_load_from_a_folder(tmp_path):
    theirs = random_gpt2().float()
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(0, 97, (1, 7))
    assert torch.allclose(GPT.from_gpt2(tmp_path)(ids), theirs(ids).logits, atol=1e-4)


def test_variants_that_gpt_does_not_have_are_refused():
    theirs = random_gpt2()
    theirs.config.activation_function = "relu"
    with pytest.raises(ValueError, match="activation_function"):
        GPT.from_gpt2(theirs)
    llama = random_llama()
    llama.config.rope_parameters = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    with pytest.raises(ValueError, match="rotary"):
        GPT.from_llama(llama)


small = dict(vocab_size=30, d_model=32, n_heads=4, n_layers=2, d_ff=64, max_len=24, dropout=0.0)


@pytest.mark.parametrize("options", [{}, {"two_way_source": True}, {"modern": True, "n_kv_heads": 2}], ids=str)
def test_the_cache_changes_nothing(options):
    torch.manual_seed(0)
    model = GPT(GPTConfig(**small, **options, eos_id=29))
    prompt = torch.randint(3, 29, (4, 6))
    ids = prompt
    for _ in range(8):
        mask = prefix_mask(ids.shape[1], torch.full((4,), 5)) if model.config.two_way_source else None
        ids = torch.cat([ids, model(ids, mask)[:, -1:].argmax(-1)], dim=1)
    found = model.generate(prompt, max_new_tokens=8)
    for row, right in zip(found, ids[:, 6:]):
        end = (right == 29).int().argmax() + 1 if (right == 29).any() else 8
        assert torch.equal(row[:end], right[:end])


@pytest.mark.parametrize("options", [{}, {"loss_on_source": True}, {"two_way_source": True}], ids=str)
def test_padding_does_not_change_the_loss(options):
    torch.manual_seed(0)
    model = GPT(GPTConfig(**small, **options))
    src, tgt = torch.tensor([[5, 6, 2]]), torch.tensor([[7, 2]])
    wide = torch.tensor([[5, 6, 2, 0, 0]]), torch.tensor([[7, 2, 0]])
    assert torch.allclose(model.loss(src, tgt), model.loss(*wide), atol=1e-6)
    longer = join_pairs(*wide)[0]
    assert longer.tolist() == [[5, 6, 2, 1, 7, 2, 0, 0, 0]]


def test_refusals():
    model = GPT(GPTConfig(**small))
    prompt = torch.tensor([[5, 6, 1]])
    with pytest.raises(ValueError, match="do_sample"):
        model.generate(prompt, temperature=0.5)
    with pytest.raises(ValueError, match="max_len = 24"):
        model.generate(prompt, max_new_tokens=22)
    again = [model.generate(prompt, 9, True, top_p=0.9, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*again)


def test_without_padding_a_gpt_learns_no_pairs():
    "A converted model pads with its end token: `loss` would leave out the end and lose the beginning."
    model = GPT(GPTConfig(20, d_model=8, n_heads=2, n_layers=1, d_ff=16, max_len=12, pad_id=2, bos_id=2, eos_id=2))
    with pytest.raises(ValueError, match="pad_id"):
        model.loss(torch.tensor([[5, 6, 2]]), torch.tensor([[7, 8, 2]]))
