"`torch.compile` takes the whole model as one graph, and not a new one for each length."
import pytest
import torch
from torch._dynamo.backends.registry import lookup_backend

from transformer_nbdev.training import SummedLoss
from transformer_nbdev.transformer import Transformer, TransformerConfig


@pytest.mark.parametrize("norm_first", [False, True])
def test_one_graph_for_all_lengths(norm_first):
    torch.manual_seed(0)
    torch.compiler.reset()
    config = TransformerConfig(60, 16, 2, 1, 1, 32, dropout=0.0, norm_first=norm_first)
    model, graphs = Transformer(config).train(), []

    def counting(graph, inputs):
        graphs.append(graph)
        return lookup_backend("aot_eager")(graph, inputs)

    loss = SummedLoss(model)
    compiled = torch.compile(model.hidden, backend=counting, dynamic=True, fullgraph=True)  # a break is an error
    for n, s, t in [(3, 7, 5), (4, 9, 8), (2, 5, 11), (7, 12, 12), (5, 70, 80), (6, 3, 4)]:
        src, tgt = torch.randint(3, 60, (n, s)), torch.randint(3, 60, (n, t))
        src[0, -1] = tgt[0, -1] = 0
        found = []
        for loss.hidden in (model.hidden, compiled):
            model.zero_grad()
            loss(src, tgt, 0.1).backward()
            found.append([p.grad.clone() for p in model.parameters()])
        for a, b in zip(*found):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert len(graphs) <= 3, f"{len(graphs)} graphs for six shapes"
