"Text, corpora and downloads: what is wrong is named by file and line."
import gzip
import hashlib
import http.server
import os
import random
import threading
from pathlib import Path

import pytest
from helpers import (
    raises,
    refused,
    table,
    write,
)

from transformer_nbdev.data import TokenBatches, Tokenizer, encode_pairs
from transformer_nbdev.tools.corpora import Report, number_pairs, number_split, read_lines, read_parallel, read_tsv
from transformer_nbdev.tools.files import download


def parallel(folder: Path, source: str | bytes, target: str | bytes):
    write(folder / "train.en", source), write(folder / "train.de", target)
    return read_parallel(folder, "train")


def flipped(folder: Path) -> Path:
    "A gzip file with damage in its middle."
    packed = bytearray(gzip.compress(os.urandom(3000)))
    packed[1000:1100] = bytes(100)
    return write(folder / "a.gz", bytes(packed))


whole_gz = gzip.compress(b"one\ntwo\n" * 100)


@table(
    raises("no folder", lambda f: read_parallel(f / "x", "train"), ValueError, "no folder", "x"),
    raises("no file", lambda f: read_parallel(f, "train"), ValueError, "train.en", "nothing"),
    raises("counts", lambda f: parallel(f, "a\nb\n", "c\n"), ValueError, "train.en", 2, 1),
    raises("only empty", lambda f: parallel(f, "a\n\n", "\nb\n"), ValueError, "no sentence pair"),
    raises("no line", lambda f: parallel(f, "", ""), ValueError, "no sentence pair"),
    raises(
        "not UTF-8", lambda f: parallel(f, b"a\nb\xff\n", "c\nd\n"),
        ValueError, "train.en:2", "UTF-8", "iconv",
    ),
    raises("UTF-16", lambda f: parallel(f, "ä".encode("utf-16"), "c"), ValueError, "train.en:1"),
    raises("columns", lambda f: read_tsv(write(f / "a.tsv", "a\tb\nc\n")), ValueError, "a.tsv:2"),
    raises("3 columns", lambda f: read_tsv(write(f / "a.tsv", "a\tb\tc")), ValueError, "3"),
    raises("no tsv", lambda f: read_tsv(f / "a.tsv"), ValueError, "a.tsv"),
    raises("gz cut", lambda f: read_lines(write(f / "a.gz", whole_gz[:-9])), ValueError, "a.gz"),
    raises("not gz", lambda f: read_lines(write(f / "a.gz", "text")), ValueError, "a.gz"),
    raises("gz damaged", lambda f: read_lines(flipped(f)), ValueError, "a.gz"),
    raises("language", lambda f: number_pairs([1], "en", "xx"), ValueError, "xx"),
    raises("numbers", lambda f: number_split(10, 8, 3), ValueError, "limit", 10, 8, 3),
    raises("vocabulary", lambda f: Tokenizer.train(["a"], 100), ValueError, "vocab_size", 259, 100),
)
def test_text(tmp_path, function, kind, words):
    with refused(kind, *words):
        function(tmp_path)


def test_what_is_left_out_is_counted_with_its_place(tmp_path):
    pairs, report = parallel(tmp_path, "\ufeffone\r\n\ntwo\n  \nthree", "eins\nx\nzwei\ny\ndrei\n")
    assert pairs == [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert report.read == 3 and report.left_out == {"empty line": ["train.en:2", "train.en:4"]}
    tokenizer = Tokenizer.train(["one two"], 259)
    report = Report()
    source, _ = encode_pairs([("one", "eins"), ("o" * 40, "x")], tokenizer, 8, report)
    assert len(source) == 1 and report.left_out == {"over 8 tokens": ["pair 2"]}
    with refused(ValueError, "max_len", 2):
        encode_pairs([("one", "eins")], tokenizer, 2)


def test_batches_smaller_than_a_sentence():
    tokenizer = Tokenizer.train(["one two"], 259)
    encoded = encode_pairs([("one", "eins")], tokenizer)
    with refused(ValueError, "batch_tokens", 4, 5):
        TokenBatches(*encoded, batch_tokens=4)

body = random.Random(0).randbytes(300_000)


class Server(http.server.BaseHTTPRequestHandler):
    "Serves `body`, and can break off."

    breaks_at = len(body)

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: Server.breaks_at])

    def log_message(self, *_):
        pass


@pytest.fixture
def url(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file"
        server.shutdown()


right = hashlib.sha256(body).hexdigest()


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


@pytest.mark.parametrize("line", [b"\0" * 2**20, (b"one two " * 2**9 + b"\n") * 2**8])
def test_a_gzip_file_made_to_fill_the_memory_is_refused(tmp_path, line):
    write(tmp_path / "a.gz", 200 * gzip.compress(line))  # a file may have several parts
    with refused(ValueError, tmp_path / "a.gz", "over 50 times its size"):
        read_lines(tmp_path / "a.gz")
