"The encoder's arguments, and where dropout acts: what equality with PyTorch cannot show."
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_nbdev.encoder import Encoder, EncoderLayer, FeedForward, Residual


def rates(model: nn.Module) -> set[float]:
    "The rates of all dropouts in it."
    return {m.p for m in model.modules() if isinstance(m, nn.Dropout)}


def test_arguments_reach_every_layer():
    network = FeedForward(2, 3, "silu", bias=False)
    assert [name for name, _ in network.named_parameters()] == ["linear1.weight", "linear2.weight"]
    expected = F.silu(-network.linear1.weight.T) @ network.linear2.weight.T
    torch.testing.assert_close(network(-torch.eye(2)), expected)
    layer = EncoderLayer(512, 8, 2048, bias=False)
    assert sum(p.numel() for p in layer.parameters()) == 4 * 512**2 + 2 * 512 * 2048 + 2 * 512
    stack = Encoder(2, 16, 2, 32, 0.3, norm_first=True, bias=False)
    assert not any("bias" in name for name, _ in stack.named_parameters()) and rates(stack) == {0.3}


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_acts_on_what_a_sublayer_writes(norm_first):
    torch.manual_seed(0)
    x, wiring = torch.randn(2, 50, 4), Residual(4, dropout=0.5, norm_first=norm_first).train()
    norm = lambda y: F.layer_norm(y, (4,))
    assert torch.equal(wiring(x, torch.zeros_like), x if norm_first else norm(x))
    if norm_first:  # of ones it adds 0 or 2
        assert (wiring(x, torch.ones_like) - x).detach().round(decimals=3).unique().tolist() == [0, 2]
    else:
        assert not torch.equal(wiring(x, torch.ones_like), wiring(x, torch.ones_like))
