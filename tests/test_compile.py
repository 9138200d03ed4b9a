"`torch.compile` and `torch.export` take the whole model as one graph, and not a new one for each length."
import copy

import torch
from helpers import tiny_model

from transformer_nbdev.speed.graphs import _compiled, compile_layers


def batch(n: int, s: int, t: int) -> tuple[torch.Tensor, torch.Tensor]:
    "Random sentences, the first of them padded."
    src, tgt = torch.randint(3, 20, (n, s)), torch.randint(3, 20, (n, t))
    src[0, -1] = tgt[0, -1] = 0
    return src, tgt


def test_one_graph_for_all_lengths_with_the_same_loss_and_gradients():
    torch.manual_seed(0)
    torch.compiler.reset()
    model, graphs = tiny_model(dropout=0.0).train(), []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(model.loss, backend=counting, dynamic=True, fullgraph=True)  # a break is an error
    for shape in [(3, 7, 5), (4, 9, 8), (2, 5, 11), (7, 12, 12), (5, 60, 64), (6, 3, 4)]:
        ids, found = batch(*shape), []
        for loss in (model.loss, compiled):
            model.zero_grad()
            value = loss(*ids, epsilon=0.1, reduction="sum")
            value.backward()
            found.append([value.detach(), *(p.grad.clone() for p in model.parameters())])
        for plain, fast in zip(*found):
            torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)
    assert 0 < len(graphs) <= 3, f"{len(graphs)} graphs for six shapes"


def test_export_leaves_batch_and_lengths_open():
    model = tiny_model(norm_first=False)
    n, s, t = (torch.export.Dim(name, min=2, max=64) for name in "BST")
    program = torch.export.export(model, batch(3, 7, 5), dynamic_shapes=({0: n, 1: s}, {0: n, 1: t}))
    exported = program.module()
    for shape in [(3, 7, 5), (5, 4, 9), (2, 33, 2), (2, 64, 64)]:
        ids = batch(*shape)
        torch.testing.assert_close(exported(*ids), model(*ids), rtol=1e-5, atol=1e-5)


def test_layers_share_what_is_compiled_and_compute_the_same(monkeypatch):
    torch.manual_seed(0)
    torch.compiler.reset()
    _compiled.cache_clear()
    plain, graphs, compiled = tiny_model(dropout=0.0, n_encoder_layers=3, n_decoder_layers=3).train(), [], torch.compile

    def counting(graph, inputs):
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda f, **options: compiled(f, backend=counting, fullgraph=True, **options))
    fast = compile_layers(copy.deepcopy(plain))
    for shape in [(3, 7, 5), (4, 9, 8), (2, 5, 11), (7, 12, 12), (5, 60, 64), (6, 3, 4)]:
        ids, found = batch(*shape), []
        for model in (plain, fast):
            model.zero_grad()
            value = model.loss(*ids, epsilon=0.1, reduction="sum")
            value.backward()
            found.append([value.detach(), model.loss(*ids).detach(), *(p.grad.clone() for p in model.parameters())])
        for one, other in zip(*found):
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
    n = len(graphs)
    assert 0 < n <= 6, f"{n} graphs for six layers, a loss and six shapes"
    assert torch.equal(fast.eval().generate(ids[0], 5), plain.eval().generate(ids[0], 5)) and len(graphs) == n
    _compiled.cache_clear()
