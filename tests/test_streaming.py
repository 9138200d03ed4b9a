"A corpus that streams: every line found, every pair once an epoch, the same batches after a kill."
import gzip
import random
import sys
import types

import numpy as np
import pytest
import torch
from helpers import checkpoint, cli, same_run, train, write_pairs

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.speed.streaming import Corpus, Lines, Source, StreamBatches, is_large, open_corpus
from transformer_nbdev.tools.corpora import decode_lines, number_pairs

pairs = number_pairs(range(1, 400))
tokenizer = Tokenizer.train((text for pair in pairs for text in pair), 300)


def in_memory(some: list) -> Source:
    return Source("pair", len(some), str(some), lambda rows: [some[i] for i in rows])


def stream(some: list = pairs, **options) -> StreamBatches:
    return StreamBatches(Corpus([in_memory(some)]), tokenizer, 300, **options)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"a", b"a\nb", b"a\r\nb\r\n", b"\n\n\na\n", "ä\u2028ö\n\x85\n한\n".encode(), b"\xef\xbb\xbfa\nb\n",
     b"x" * (2**24 + 5) + b"\nshort\n" + b"y" * 2**24 + b"\nlast"],
    ids=range(9),
)
def test_lines_by_number_are_those_read_in_order(content, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(content)
    with path.open("rb") as file:
        expected = decode_lines(file, "text")
    lines = Lines(path)
    assert len(lines) == len(expected)
    order = np.array(random.Random(0).sample(range(len(expected)), len(expected)), dtype=int)
    assert lines.read(order) == [expected[i] for i in order]


def test_files_that_do_not_go_together(tmp_path):
    def opened(split: str, tgt: str = "de") -> Corpus:
        return open_corpus([str(tmp_path)], split, "en", tgt, folder=tmp_path / "corpus")

    (tmp_path / "a.en").write_text("1\n2\n")
    (tmp_path / "a.de").write_text("1\n")
    with pytest.raises(ValueError, match="2 lines .* has 1"):
        opened("a")
    (tmp_path / "a.de").write_bytes(b"1\nb\xe4d\n")
    with pytest.raises(ValueError, match=r"a.de:2: not UTF-8"):
        opened("a")
    (tmp_path / "a.de").unlink()
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"1\n" * 1000)[:-9])
    with pytest.raises(ValueError, match="a.de.gz: damaged gzip"):
        opened("a")
    (tmp_path / "c.tsv").write_text("1\tone\n\n2\n")
    with pytest.raises(ValueError, match=r"c.tsv:3: expected source, tab, target; found 1"):
        opened("c")
    with pytest.raises(ValueError, match="holds one pair of languages, not de,ko"):
        opened("c", "de,ko")
    (tmp_path / "c.tsv").write_text("1\tone\n")
    changing = opened("c")
    (tmp_path / "c.tsv").write_text("one\t1\n")
    with pytest.raises(ValueError, match="has changed"):
        changing.read(np.array([0]))


def test_packed_and_plain_are_the_same(tmp_path):
    write_pairs(tmp_path, {"train": 50})
    for language in ("en", "de"):
        (tmp_path / f"packed.{language}.gz").write_bytes(gzip.compress((tmp_path / f"train.{language}").read_bytes()))
    plain, packed = (open_corpus([str(tmp_path)], x, "en", "de", folder=tmp_path / "c") for x in ("train", "packed"))
    assert plain.read(plain.draw(1)) == packed.read(packed.draw(1)) and plain.digest == packed.digest
    assert len(list((tmp_path / "c").iterdir())) == 2


def test_sets_of_the_hub_are_read_by_number(monkeypatch):
    rows = [{"translation": {"en": word, "de": f"{word}!", "ko": word}} for word in ("one", " ", "three")]
    stub = types.SimpleNamespace(load_dataset=lambda name, config, split: rows)
    monkeypatch.setitem(sys.modules, "datasets", stub)
    corpus = open_corpus(["hub:some/set:config"], "train", "en", "de,ko")
    assert corpus.read(np.array([2, 1, 3])) == [(">>de<< three", "three!"), ("", " !"), (">>ko<< one", "one")]
    assert corpus.place(2) == "some/set:config:3"
    with pytest.raises(ValueError, match="no column fr; it has en, de, ko"):
        open_corpus(["hub:some/set"], "train", "en", "fr")


def test_weights():
    weights = [0.3, 3.25]
    corpus = Corpus([in_memory(pairs[:100]), in_memory(pairs[100:])], weights)
    order = corpus.draw(0)
    for k, source in enumerate(corpus.sources):
        mine = order[(order >= corpus.starts[k]) & (order < corpus.starts[k + 1])]
        assert len(mine) == round(weights[k] * source.size)
        counts = np.bincount(mine - corpus.starts[k], minlength=source.size)
        assert set(counts) <= {int(weights[k]), int(weights[k]) + 1}
    assert (corpus.draw(0) == order).all() and (corpus.draw(1) != order).any()
    assert corpus.read(order) == [pairs[i] for i in order]
    for wrong in ([1.0], [0.0, 1.0], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="weight"):
            open_corpus([None, None], "val", "en", "de", wrong)


def rows(batches: StreamBatches) -> list:
    "All target rows of an epoch, without padding, in order."
    epoch, found, seen = batches.epoch, [], [batches.progress]
    while batches.epoch == epoch:
        found += [tuple(i for i in row if i) for row in batches.next().tgt.tolist()]
        seen.append(batches.progress)
    assert seen == sorted(set(seen)) and (seen[0], seen[-1]) == (epoch, epoch + 1)
    return found


def test_each_pair_once_an_epoch_and_what_is_left_out_counted_once(tmp_path):
    batches = stream([*pairs, ("", "x"), ("  ", "x"), ("x", "")], max_len=8, shard_pairs=60, folder=tmp_path)
    assert len(batches.shards) == 7
    short = [pair for pair in pairs if max(len(tokenizer.encode(text)) for text in pair) < 8]
    once = sorted((*tokenizer.encode(t), 2) for _, t in short)
    assert 0 < len(once) < len(pairs)
    first, second = rows(batches), rows(batches)
    assert sorted(first) == once == sorted(second) and first != second
    left_out = batches.report.left_out
    assert sorted(left_out["empty line"]) == ["pair:400", "pair:401", "pair:402"]
    assert len(left_out["over 8 tokens"]) == len(pairs) - len(once) and batches.report.read == len(once)
    assert not {pairs[int(place.split(":")[1]) - 1] for place in left_out["over 8 tokens"]} & {*short}


def test_the_batch_that_was_due_comes_after_a_kill(tmp_path):
    batches, rng = stream(seed=3, shard_pairs=50, folder=tmp_path), random.Random(0)
    for _ in range(4):
        for _ in range(rng.randrange(40)):
            batches.next()
        state = batches.state_dict()
        due = [batches.next() for _ in range(25)]
        for folder in (tmp_path, None):  # with the shards that were kept, and without
            again = stream(seed=3, shard_pairs=50, folder=folder)
            again.load_state_dict(state)
            assert all(torch.equal(again.next().tgt, batch.tgt) for batch in due)
        batches.load_state_dict(state)
    with pytest.raises(ValueError, match="another corpus or tokenizer"):
        stream(pairs[1:], seed=3, shard_pairs=50).load_state_dict(state)


def test_damaged_shards_are_made_anew(tmp_path):
    expected = rows(stream(shard_pairs=50, folder=tmp_path))
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        path.write_bytes(path.read_bytes()[: 40 * number])
    assert rows(stream(shard_pairs=50, folder=tmp_path)) == expected
    assert rows(stream(shard_pairs=50, folder=tmp_path, seed=1)) != expected


def test_what_is_large(tmp_path):
    (tmp_path / "train.en").write_text("x" * 2**25)
    assert not is_large(str(tmp_path), "train") and not is_large(None, "train") and is_large("hub:wmt14", "train")
    (tmp_path / "train.de").write_text("x")
    assert is_large(str(tmp_path), "train") and not is_large(str(tmp_path), "val")


def test_a_stream_from_the_command_line_is_resumed_to_the_last_bit(command, corpus, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    more = ["--data", own, "--weight", "1", "--weight", "2.5", "--schedule=paper", "--save-every=2"]
    done = command(*train(corpus, tmp_path / "whole", *more, "--steps=40")[len(cli) :])
    assert done.returncode == 0, done.stderr
    done = command(*train(corpus, tmp_path / "cut", *more, "--steps=13")[len(cli) :])
    assert done.returncode == 0 and checkpoint(tmp_path / "cut").name == "step-00000013", done.stderr
    for path in (tmp_path / "cut/corpus").glob("shard*"):
        path.unlink()
    done = command(*train(corpus, tmp_path / "cut", *more, "--resume", "--steps=40")[len(cli) :])
    assert done.returncode == 0, done.stderr
    same_run(tmp_path / "whole", tmp_path / "cut")
