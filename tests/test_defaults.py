"Recipes: Muon's steps, dropout that rises, a length penalty that stays with the model."
import json
from types import SimpleNamespace

import torch
from helpers import cli, metrics, sentences, tiny_model, train
from torch import nn

from transformer_nbdev.speed.defaults import RisingDropout, recipe, tune_length_penalty
from transformer_nbdev.speed.muon import Muon, muon_groups
from transformer_nbdev.transformer import Transformer
from transformer_nbdev.translator import Translator


def test_packed_projections_are_three_matrices_and_decay_is_decoupled():
    model = tiny_model()
    groups = muon_groups(model, 0.5)
    names = {id(p): name for name, p in model.named_parameters()}
    parts = {names[id(p)]: group["parts"] for group in groups for p in group["params"]}
    assert {n for n, k in parts.items() if k == 3} == {n for n in parts if n.endswith("in_proj_weight")}
    adams = {n for n in parts if "embedding" in n or "norm" in n or "bias" in n}
    assert {n for n, k in parts.items() if k == 0} == adams
    optimizer, attention = Muon(groups, lr=0.1), model.encoder.layers[0].self_attention
    before = attention.in_proj_weight.detach().clone()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.testing.assert_close(attention.in_proj_weight.detach(), before * (1 - 0.1 * 0.5))


def test_muon_goes_on_exactly_from_its_state():
    torch.manual_seed(0)
    gradients = [[torch.randn_like(p) for p in tiny_model().parameters()] for _ in range(6)]

    def steps(model, optimizer, some):
        for grads in some:
            for p, grad in zip(model.parameters(), grads):
                p.grad = grad.clone()
            optimizer.step()

    whole, first = tiny_model(), tiny_model()
    steps(whole, Muon(muon_groups(whole, 0.0), lr=0.1), gradients)
    optimizer = Muon(muon_groups(first, 0.0), lr=0.1)
    steps(first, optimizer, gradients[:3])
    second = tiny_model()
    second.load_state_dict(first.state_dict())
    resumed = Muon(muon_groups(second, 0.0), lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    steps(second, resumed, gradients[3:])
    for a, b in zip(whole.parameters(), second.parameters()):
        assert torch.equal(a, b)


def test_dropout_rises_with_the_epochs_and_stops_at_the_models_own():
    model = tiny_model(dropout=0.3)
    config = SimpleNamespace(compile=False)
    trainer = SimpleNamespace(model=model, batches=SimpleNamespace(progress=2.5), config=config)
    RisingDropout(0.02).start(trainer)
    assert {m.p for m in model.modules() if isinstance(m, nn.Dropout)} == {0.05}
    trainer.batches.progress = 100.5
    RisingDropout(0.02)(trainer)
    assert {m.p for m in model.modules() if isinstance(m, nn.Dropout)} == {0.3}
    RisingDropout(0.0)(trainer)
    assert {m.p for m in model.modules() if isinstance(m, nn.Dropout)} == {0.3}


def test_a_second_fit_keeps_the_rates_that_a_graph_was_recorded_with():
    model = tiny_model(dropout=0.3)
    trainer = SimpleNamespace(model=model, batches=SimpleNamespace(progress=2.5), config=SimpleNamespace(compile=True))
    rates = []
    for _ in range(2):
        RisingDropout(0.02).start(trainer)
        rates.append([m.p for m in model.modules() if isinstance(m, nn.Dropout)])
    assert len(rates[0]) > 2 and all(a is b for a, b in zip(*rates, strict=True))


def test_the_best_penalty_is_kept_with_the_model(translator, tmp_path, monkeypatch):
    pairs = [("seven", "sieben und so weiter"), ("eight", "acht")]
    written = {0.6: "a", 1.0: "abc", 1.4: "ab"}
    length = lambda found, _: {"BLEU": {"score": len(found[0])}}
    monkeypatch.setattr("transformer_nbdev.speed.defaults.corpus_scores", length)
    write = lambda self, texts, length_penalty, **_: [written[length_penalty]] * len(texts)
    monkeypatch.setattr(Translator, "translate", write)
    found = tune_length_penalty(translator, pairs, penalties=(0.6, 1.0, 1.4))
    assert found == {0.6: 1, 1.0: 3, 1.4: 2} and translator.model.generation.length_penalty == 1.0
    translator.model.save_pretrained(tmp_path)
    assert Transformer.from_pretrained(tmp_path).generation.length_penalty == 1.0
    written[0.6] = ""  # nothing learned: not tried any further
    assert tune_length_penalty(translator, pairs, penalties=(0.6, 1.0, 1.4)) == {0.6: 0}


def test_a_run_stores_its_penalty_and_evaluate_uses_it(command, corpus, tmp_path):
    done = command(*train(corpus, tmp_path, "--steps=12")[len(cli) :])
    assert done.returncode == 0 and "length penalty" in done.stderr, done.stderr
    stored = json.loads((tmp_path / "generation_config.json").read_text())["length_penalty"]
    assert list(metrics(tmp_path, "length_penalty").values()) == [stored]
    scored = ["translate", "--model", tmp_path, "--scores", "--beam-size", 3, "--precision", "fp32", "--device", "cpu"]
    own, told, other = (
        command(*scored, *more, stdin="one two\n").stdout
        for more in ([], ["--length-penalty", stored], ["--length-penalty", stored + 1.5])
    )
    assert own == told != other


def test_help_shows_the_settings_that_a_run_gets(command):
    text = " ".join(command("train", "--help").stdout.split())
    for task, before in (("text", "[default: "), ("numbers", "for numbers ")):
        for name, value in recipe(task)["training"].items():
            option = text.split(f"--{name.replace('_', '-')} ")[1].split(" --")[0]
            shared = recipe("text")["training"].get(name) == value
            assert f"{'[default: ' if shared else before}{value}" in option, (task, name, option)


def test_the_search_for_a_length_penalty_ends_in_time(translator, monkeypatch):
    clock, done = iter(range(0, 1000, 10)), []  # each group takes ten seconds
    monkeypatch.setattr("transformer_nbdev.speed.defaults.time", SimpleNamespace(monotonic=lambda: next(clock)))
    tune_length_penalty(translator, sentences(100), seconds=45, tell=done.append)
    assert done == [5, 10, 20]  # twice these 30 seconds would be too much
