"`torch.export` takes the whole model, with batch and both lengths left open."
import pytest
import torch
from helpers import tiny_model

export = pytest.importorskip("torch.export", reason="this PyTorch has no torch.export")


def batch(n: int, s: int, t: int) -> tuple[torch.Tensor, torch.Tensor]:
    "Random sentences; with more than one token the first source is padded."
    src, tgt = torch.randint(3, 20, (n, s)), torch.randint(3, 20, (n, t))
    src[0, 1:] = src[0, 1:] * (torch.rand(s - 1) > 0.5)
    return src, tgt


@pytest.mark.parametrize("norm_first", [False, True])
def test_batch_and_lengths_stay_open(norm_first):
    model = tiny_model(norm_first=norm_first)
    n, s, t = (export.Dim(name, min=2, max=64) for name in "BST")
    program = export.export(model, batch(3, 7, 5), dynamic_shapes=({0: n, 1: s}, {0: n, 1: t}))
    exported = program.module()
    for shape in [(3, 7, 5), (5, 4, 9), (2, 33, 2), (2, 64, 64), (9, 2, 3)]:
        ids = batch(*shape)
        torch.testing.assert_close(exported(*ids), model(*ids), rtol=1e-5, atol=1e-5)
