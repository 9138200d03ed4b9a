"`torch.compile` takes the whole model as one graph, and not a new one for each length."
import pytest
import torch
from torch._dynamo.backends.registry import lookup_backend

from transformer_nbdev.transformer import Transformer, TransformerConfig

shapes = [(3, 7, 5), (4, 9, 8), (2, 5, 11), (7, 12, 12), (5, 70, 80), (6, 3, 4)]


def batch(n: int, s: int, t: int) -> tuple[torch.Tensor, torch.Tensor]:
    "Random sentences, the first of them padded."
    src, tgt = torch.randint(3, 60, (n, s)), torch.randint(3, 60, (n, t))
    src[0, -1] = tgt[0, -1] = 0
    return src, tgt


@pytest.mark.parametrize("norm_first", [False, True])
def test_one_graph_for_all_lengths_with_the_same_loss_and_gradients(norm_first):
    torch.manual_seed(0)
    torch.compiler.reset()
    config = TransformerConfig(60, 16, 2, 1, 1, 32, dropout=0.0, norm_first=norm_first)
    model, graphs = Transformer(config).train(), []

    def counting(graph, inputs):
        graphs.append(graph)
        return lookup_backend("aot_eager")(graph, inputs)

    compiled = torch.compile(model.loss, backend=counting, dynamic=True, fullgraph=True)  # a break is an error
    for shape in shapes:
        ids, found = batch(*shape), []
        for loss in (model.loss, compiled):
            model.zero_grad()
            value = loss(*ids, epsilon=0.1, reduction="sum")
            value.backward()
            found.append([value.detach(), *(p.grad.clone() for p in model.parameters())])
        for plain, fast in zip(*found):
            torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)
    assert 0 < len(graphs) <= 3, f"{len(graphs)} graphs for six shapes"


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_compiled_loss_is_the_loss(epsilon, reduction):
    torch.manual_seed(0)
    torch.compiler.reset()
    output = Transformer(TransformerConfig(60, 16, 2, 1, 1, 32)).output
    x, targets = torch.randn(3, 5, 16), batch(3, 5, 5)[1]
    compiled = torch.compile(output.loss, backend="aot_eager", fullgraph=True)
    values = [f(x, targets, epsilon, 0, reduction) for f in (output.loss, compiled)]
    gradients = [torch.autograd.grad(value, output.weight)[0] for value in values]
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)
