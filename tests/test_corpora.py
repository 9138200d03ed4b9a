"Text, corpora and downloads: what is left out is counted, what is wrong is named by file and line."
import gzip
import hashlib
import http.server
import random
import threading
from pathlib import Path

import pytest
from helpers import raises, refused, table, write

from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs
from transformer_nbdev.tools.corpora import Report, load_pairs, number_pairs, number_split, read_parallel
from transformer_nbdev.tools.files import download


def parallel(folder: Path, source: str | bytes, target: str | bytes):
    write(folder / "train.en", source), write(folder / "train.de", target)
    return read_parallel(folder, "train")


def tsv(folder: Path, text: str, tgt: str = "de"):
    write(folder / "train.tsv", text)
    return load_pairs(str(folder), "train", "en", tgt)


def packed(folder: Path, content: bytes):
    write(folder / "train.en.gz", content), write(folder / "train.de", "eins\n" * 100)
    return read_parallel(folder, "train")


@table(
    raises("no folder", lambda f: read_parallel(f / "x", "train"), ValueError, "no folder", "x"),
    raises("no file", lambda f: read_parallel(f, "train"), ValueError, "train.en", "nothing"),
    raises("counts", lambda f: parallel(f, "a\nb\n", "c\n"), ValueError, "train.en", 2, 1),
    raises("only empty", lambda f: parallel(f, "a\n\n", "\nb\n"), ValueError, "no sentence pair", "train.en:1"),
    raises("not UTF-8", lambda f: parallel(f, b"a\nb\xff\n", "c\nd\n"), ValueError, "train.en:2", "UTF-8", "iconv"),
    raises("one column", lambda f: tsv(f, "a\tb\nc\n"), ValueError, "train.tsv:2", "1 columns"),
    raises("3 columns", lambda f: tsv(f, "a\tb\tc"), ValueError, "train.tsv:1", "3 columns"),
    raises("two targets", lambda f: tsv(f, "a\tb", "de,ko"), ValueError, "one pair of languages, not de,ko"),
    raises("gz cut", lambda f: packed(f, gzip.compress(b"one\n" * 100)[:-9]), ValueError, "train.en.gz: damaged"),
    raises("not gz", lambda f: packed(f, b"one\n" * 100), ValueError, "train.en.gz: damaged"),
    raises("language", lambda f: number_pairs([1], "en", "xx"), ValueError, "xx"),
    raises("numbers", lambda f: number_split(10, 8, 3), ValueError, "limit", 10, 8, 3),
    raises("vocabulary", lambda f: Tokenizer.train(["a"], 100), ValueError, "vocab_size", 259, 100),
)
def test_what_is_wrong_is_named(tmp_path, function, kind, words):
    with refused(kind, *words):
        function(tmp_path)


def test_what_is_left_out_is_counted_with_its_place(tmp_path):
    pairs, report = parallel(tmp_path, "\ufeffone\r\n\ntwo\n  \nthree", "eins\nx\nzwei\ny\ndrei\n")
    assert pairs == [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert report.read == 3 and report.left_out == {"empty line": ["train.en:2", "train.en:4"]}
    tokenizer = Tokenizer.train(["one two"], 259)
    source, _ = encode_pairs([*pairs[:2], ("o" * 40, "x")], tokenizer, 8, report)
    assert len(source) == 2 and report.left_out["over 8 tokens"] == ["train.en:5"]
    report = Report()
    encode_pairs([("o" * 40, "x"), ("one", "eins")], tokenizer, 8, report)
    assert report.left_out == {"over 8 tokens": ["pair 1"]}
    with refused(ValueError, "max_len", 2):
        encode_pairs([("one", "eins")], tokenizer, 2)
    with refused(ValueError, "batch_tokens", 4, 5):
        TokenBatches(*encode_pairs([("one", "eins")], tokenizer), batch_tokens=4)


def test_the_split_of_the_numbers_never_changes():
    "Stored results of the whole course depend on it."
    for limit, sizes, mark in ((100_000, (20_000, 10_200), "0b7d0405"), (1000, (800, 200), "34c1bd06")):
        assert hashlib.sha256(str(number_split(limit, *sizes)).encode()).hexdigest()[:8] == mark
    assert min(number_split(200, 50, 100)[1]) == 100  # words of other numbers are held out
    assert min(number_split(200, 50, 101)[1]) < 100  # only if there are no others


body = random.Random(0).randbytes(300_000)
right = hashlib.sha256(body).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    "Serves `body`, and can break off."

    breaks_at = len(body)

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: Server.breaks_at])


@pytest.fixture
def url(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file"
        server.shutdown()


def test_a_download_is_whole_or_leaves_the_old_file(url, tmp_path, monkeypatch):
    old = write(tmp_path / "file", "old")
    monkeypatch.setattr(Server, "breaks_at", 100_000)
    with refused(OSError, url, "online", tmp_path):
        download(url, old, right)
    monkeypatch.setattr(Server, "breaks_at", len(body))
    with refused(OSError, url, "hash"):
        download(url, old, "0" * 64)
    assert old.read_bytes() == b"old" and [*tmp_path.iterdir()] == [old]
    assert download(url, old, right).read_bytes() == body
    assert download("http://127.0.0.1:9/file", old, right) == old  # nobody is asked
