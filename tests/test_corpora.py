"Files of word vectors: three formats are one table, a broken file is refused by file and line, a table is filled."
import pytest
import torch

from transformer_nbdev.embedding import TokenEmbedding, load_vectors
from transformer_nbdev.tools.corpora import read_vectors

lines = ["cats 1 2 3 4", "fish 0.5 0 -0.5 1", "new york 4 3 2 1", "1\u00a0000 -1 2e-1 0 1"]
words = ["cats", "fish", "new york", "1\u00a0000"]
ids_of = {"<pad>": 0, "cats": 1, "fish": 2, "love": 3}
formats = {
    "word2vec": "\n".join(["4 4", *lines]) + "\n",
    "GloVe": "\n".join(lines) + "\n",
    "GloVe, byte order mark": "\ufeff" + "\n".join(lines) + "\n",
    "fastText": " \n".join(["4 4", *lines]) + " \n",
    "Windows": "\r\n".join(lines),
}
broken = {
    "a number is missing": (b"cats 1 2 3 4\nfish 1 2 3\n", 2, "found 4 fields"),
    "a number too many": (b"cats 1 2 3 4\nfish 1 2 3 4 5\n", 2, "found 6 fields"),
    "not a number": (b"cats 1 2 3 4\nfish 1 2 x 4\n", 2, "'x'"),
    "infinite": (b"cats 1 2 3 4\nfish 1 2 inf 4\n", 2, "'inf'"),
    "empty line": (b"cats 1 2 3 4\n\nfish 1 2 3 4\n", 2, "found 1 fields"),
    "no word": (b"cats 1 2 3 4\n 1 2 3 4\n", 2, "expected a word"),
    "cut off": (b"3 4\ncats 1 2 3 4\nfish 1 2 3 4\n", 3, "has 2 vectors, expected 3"),
    "not UTF-8": (b"cats 1 2 3 4\nf\xefsh 1 2 3 4\n", 2, "utf-8"),
    "empty file": (b"", 1, "has 0 vectors"),
}


@pytest.fixture
def file(tmp_path):
    "Lines in a file as GloVe writes them, with what must not count: padding, and a word for the second time."
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join([*lines, "<pad> 9 9 9 9", "cats 8 8 8 8"]), encoding="utf-8")
    return path


@pytest.mark.parametrize("content", formats.values(), ids=formats)
def test_three_formats_are_one_table(tmp_path, content):
    path = tmp_path / "vectors"
    path.write_bytes(content.encode())
    found, vectors = read_vectors(path)
    assert found == words and vectors.dtype == torch.float32
    assert vectors[1:].tolist() == [[0.5, 0, -0.5, 1], [4, 3, 2, 1], pytest.approx([-1, 0.2, 0, 1])]
    found, vectors = read_vectors(path, only={"fish", "dog"})
    assert found == ["fish"] and vectors.shape == (1, 4)
    assert read_vectors(path, only=())[1].shape == (0, 4)


@pytest.mark.parametrize("content, line, message", broken.values(), ids=broken)
def test_a_broken_file_is_refused_by_file_and_line(tmp_path, content, line, message):
    path = tmp_path / "broken.vec"
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:
        read_vectors(path)
    assert str(error.value).startswith(f"{path}:{line}: ") and message in str(error.value)


def test_a_table_is_filled_with_the_words_that_it_has(file):
    torch.manual_seed(0)
    table = TokenEmbedding(4, 4)
    before = table.weight.detach().clone()
    assert load_vectors(table, ids_of, file) == 2
    given = table(torch.tensor([1, 2, 0]))
    assert torch.allclose(given, torch.tensor([[1, 2, 3, 4], [0.5, 0, -0.5, 1], [0, 0, 0, 0]]))
    assert torch.equal(table.weight[3], before[3]) and table.weight.requires_grad


@pytest.mark.parametrize("freeze", [False, True])
def test_a_frozen_table_does_not_move(file, freeze):
    table, head = TokenEmbedding(4, 4), torch.nn.Linear(4, 2)
    load_vectors(table, ids_of, file, freeze)
    start = table.weight.detach().clone()
    optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
    head(table(torch.tensor([1, 2, 3]))).pow(2).sum().backward()
    optimizer.step()
    assert torch.equal(start, table.weight) == freeze


def test_vectors_of_another_width_are_refused(file):
    with pytest.raises(ValueError, match="vectors of 4 numbers, d_model is 16"):
        load_vectors(TokenEmbedding(4, 16), ids_of, file)
