"A corpus that streams: every line found, every pair once an epoch, the same batches after a kill."
import gzip
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import checkpoint, cli, same_run, train, write_pairs

from transformer_nbdev.data import Tokenizer
from transformer_nbdev.speed.streaming import (
    Corpus,
    Lines,
    MemoryPairs,
    StreamBatches,
    TextPairs,
    is_large,
    open_corpus,
)
from transformer_nbdev.tools.corpora import number_pairs, read_lines

pairs = number_pairs(range(1, 400))
tokenizer = Tokenizer.train((text for pair in pairs for text in pair), 300)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"a", b"a\n", b"a\nb", b"a\r\nb\r\n", b"\n\n\na\n", "ä\u2028ö\n\x85\n한\n".encode(),
     b"\xef\xbb\xbfa\nb\n"],
)
def test_lines_are_those_of_read_lines(content, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(content)
    expected = read_lines(path)
    lines = Lines(path)
    assert len(lines) == len(expected)
    order = np.array(random.Random(0).sample(range(len(expected)), len(expected)), dtype=int)
    assert lines.read(order) == [expected[i] for i in order]


def test_lines_longer_than_a_block(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x" * (2**24 + 5) + b"\nshort\n" + b"y" * 2**24 + b"\nlast")
    lines = Lines(path)
    assert len(lines) == 4 and lines.read(np.array([3, 1])) == ["last", "short"]


def test_bad_utf8_is_told_with_its_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\n" * 5 + b"b\xe4d\n")
    with pytest.raises(ValueError, match=r"text:6: not UTF-8"):
        Lines(path)


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "text"
    path.write_text("one\ntwo\n")
    lines = Lines(path)
    path.write_text("one\ntwo\nthree\n")
    with pytest.raises(ValueError, match="has changed"):
        lines.read(np.array([0]))


def test_files_that_do_not_go_together(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("1\n")
    with pytest.raises(ValueError, match="2 lines .* has 1"):
        TextPairs(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c.tsv").write_text("1\tone\n\n2\n")
    with pytest.raises(ValueError, match=r"c.tsv:3: expected source, tab, target; found 1"):
        TextPairs(tmp_path / "c.tsv")
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"1\n" * 1000)[:-9])
    with pytest.raises(ValueError, match="damaged gzip"):
        TextPairs(tmp_path / "d.gz", tmp_path / "b", folder=tmp_path / "corpus")


def test_packed_and_plain_are_the_same(tmp_path):
    write_pairs(tmp_path, {"train": 50})
    for language in ("en", "de"):
        (tmp_path / f"packed.{language}.gz").write_bytes(gzip.compress((tmp_path / f"train.{language}").read_bytes()))
    plain, packed = (open_corpus([str(tmp_path)], x, "en", "de", folder=tmp_path / "c") for x in ("train", "packed"))
    assert plain.read(plain.draw(1)) == packed.read(packed.draw(1)) and plain.digest == packed.digest
    assert len(list((tmp_path / "c").iterdir())) == 2


@pytest.mark.parametrize("weights", [[1.0, 1.0], [2.0, 0.5], [0.3, 3.25]])
def test_weights(weights):
    corpus = Corpus([MemoryPairs(pairs[:100]), MemoryPairs(pairs[100:])], weights)
    order = corpus.draw(0)
    for k, source in enumerate(corpus.sources):
        mine = order[(order >= corpus.starts[k]) & (order < corpus.starts[k + 1])]
        assert len(mine) == round(weights[k] * len(source))
        counts = np.bincount(mine - corpus.starts[k], minlength=len(source))
        assert set(counts) <= {int(weights[k]), int(weights[k]) + 1}
    assert (corpus.draw(0) == order).all() and (corpus.draw(1) != order).any()
    assert corpus.read(order) == [pairs[i] for i in order]


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0], [-1.0, 1.0], [float("nan"), 1.0]])
def test_wrong_weights(weights):
    with pytest.raises(ValueError, match="weight"):
        Corpus([MemoryPairs(pairs), MemoryPairs(pairs)], weights)


def rows(batches: StreamBatches, epochs: int = 1) -> list:
    "All target rows of so many epochs, without padding, in order."
    end, found = batches.epoch + epochs, []
    while batches.epoch < end:
        found += [tuple(i for i in row if i) for row in batches.next().tgt.tolist()]
    return found


def test_each_pair_once_an_epoch(tmp_path):
    blank = MemoryPairs([*pairs, ("", "x"), ("  ", "x"), ("x", "")])
    batches = StreamBatches(Corpus([blank]), tokenizer, 300, shard_pairs=60, folder=tmp_path)
    assert len(batches.shards) == 7
    once = sorted(rows(batches))
    assert once == sorted((*tokenizer.encode(t), 2) for _, t in pairs)
    assert sum(map(len, batches.report.left_out.values())) == 3 and "pair:401" in batches.report.left_out["empty line"]
    first, second = rows(batches), rows(batches)
    assert sorted(first) == once == sorted(second) and first != second


def test_progress_goes_from_epoch_to_epoch():
    batches, seen = StreamBatches(Corpus([MemoryPairs(pairs)]), tokenizer, 300, shard_pairs=60), []
    while batches.epoch < 2:
        seen.append(batches.progress)
        batches.next()
    assert seen[0] == 0 and seen == sorted(set(seen)) and 1.9 < seen[-1] < 2 == batches.progress


def test_the_batch_that_was_due_comes_after_a_kill(tmp_path):
    def begin(folder):
        return StreamBatches(Corpus([MemoryPairs(pairs)]), tokenizer, 300, 3, shard_pairs=50, folder=folder)

    batches, rng = begin(tmp_path), random.Random(0)
    for _ in range(6):
        for _ in range(rng.randrange(40)):
            batches.next()
        state = batches.state_dict()
        due = [batches.next() for _ in range(25)]
        for folder in (tmp_path, None):  # with the shards that were kept, and without
            again = begin(folder)
            again.load_state_dict(state)
            assert all(torch.equal(again.next().tgt, batch.tgt) for batch in due)
        batches.load_state_dict(state)


def test_a_position_in_another_corpus_is_refused():
    one, other = (StreamBatches(Corpus([MemoryPairs(p)]), tokenizer, 300) for p in (pairs, pairs[1:]))
    with pytest.raises(ValueError, match="another corpus"):
        other.load_state_dict(one.state_dict())


def test_damaged_shards_are_made_anew(tmp_path):
    corpus = Corpus([MemoryPairs(pairs)])
    expected = rows(StreamBatches(corpus, tokenizer, 300, shard_pairs=50, folder=tmp_path))
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        path.write_bytes(path.read_bytes()[: 40 * number])
    assert rows(StreamBatches(corpus, tokenizer, 300, shard_pairs=50, folder=tmp_path)) == expected
    assert rows(StreamBatches(corpus, tokenizer, 300, seed=1, shard_pairs=50, folder=tmp_path)) != expected


def test_long_pairs_are_left_out_and_counted():
    batches = StreamBatches(Corpus([MemoryPairs(pairs)]), tokenizer, 300, max_len=8)
    kept = rows(batches)
    (reason,) = batches.report.left_out
    assert reason == "over 8 tokens" and len(kept) + len(batches.report.left_out[reason]) == len(pairs)


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


def test_one_tsv_cannot_serve_two_languages(tmp_path):
    (tmp_path / "train.tsv").write_text("one\teins\n", encoding="utf-8")
    assert len(open_corpus([str(tmp_path)], "train", "en", "de").sources[0]) == 1
    with pytest.raises(ValueError, match="holds one pair of languages, not de,ko"):
        open_corpus([str(tmp_path)], "train", "en", "de,ko")


def test_weights_and_data_go_together(command, corpus, tmp_path):
    done = command("train", "--data", corpus, "--weight", "1", "--weight", "2", "--stream", "--out", tmp_path / "run")
    assert done.returncode == 1 and "2 weights for 1 sources" in done.stderr and not Path(tmp_path / "run").exists()
