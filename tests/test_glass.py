"The page that shows the inside of a translator: what it holds is what the model computes."
import json
import re
import socket

import torch
from helpers import typed

from transformer_nbdev.glass import attention_layers, look_inside, silenced
from transformer_nbdev.translator import Translator


def test_what_a_word_needs_is_a_difference_of_two_probabilities(saved):
    translator = Translator.from_pretrained(saved)
    look = look_inside(translator, "two words", beam_size=2)
    (ids,) = translator.encode(["two words"])
    (out,) = translator.model.generate(torch.tensor([ids]), beam_size=2, max_new_tokens=2 * len(ids) + 32)
    target, word = look["target"][0]["pieces"], look["source"][1]["pieces"]
    begun, covered = torch.cat([torch.tensor([1]), out[:-1]])[None], torch.tensor([ids])
    covered[0, word] = 0
    sources = torch.tensor([ids]), covered
    with torch.no_grad():
        p = [translator.model(src, begun).softmax(-1)[0, target, out[target]].prod() for src in sources]
    assert abs(look["needs"][0][1] - max(0, float(p[0] - p[1]))) < 1e-3
    assert [len(row) for row in look["needs"]] == [len(look["source"])] * len(look["target"])


def test_a_source_of_a_single_piece_can_be_covered_too(saved):
    look = look_inside(Translator.from_pretrained(saved), "a")
    assert [word["text"] for word in look["source"]] == ["a"] and max(need for (need,) in look["needs"]) > 0


def test_a_silent_head_writes_nothing_and_speaks_again_afterwards(saved):
    model = Translator.from_pretrained(saved).model.eval()
    src, tgt = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]])
    before, layer = model(src, tgt), attention_layers(model)["cross-0"]
    with silenced(model, [f"cross-0-{head}" for head in range(layer.n_heads)]):
        seen = []
        with layer.out_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
            changed = model(src, tgt)
    assert not seen[0].any() and not torch.equal(changed, before) and torch.equal(model(src, tgt), before)


def test_the_saved_page_holds_the_translation_and_needs_no_network(saved, tmp_path):
    page = tmp_path / "page.html"
    assert typed("glass", saved, "--text", "one </script>", "--save", page).returncode == 0
    text = page.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.+?)</script>', text)[1].replace("<\\/", "</"))
    assert data["text"] == Translator.from_pretrained(saved).translate(["one </script>"], beam_size=4)[0]
    assert not re.search(r'(src|<link[^>]+href)="?https?:|@import|url\(', text)


def test_a_port_that_is_taken_is_named(saved):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = typed("glass", saved, "--no-browser", "--port", port)
    assert done.returncode == 1 and done.stderr.startswith(f"error: port {port} cannot be used"), done.stderr
