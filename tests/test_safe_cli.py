"What the command line must never destroy: outputs that are no files, models of others, the settings of a run."
import os
import shutil
import stat

import pytest
from helpers import train_options, write_pairs

search = ["--device", "cpu"]


@pytest.fixture
def data(tmp_path):
    return write_pairs(tmp_path / "data", {"test": 5})


def contents(folder) -> dict:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_output_to_a_pipe_is_written_and_stays_a_pipe(command, trained, data, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = command("evaluate", "--model", trained, *search, "--data", data, "--output", pipe)
        assert done.returncode == 0, done.stderr
        assert stat.S_ISFIFO(pipe.stat().st_mode), "the pipe was replaced"
        assert os.read(reader, 10_000).decode().count("\n") == 5
    finally:
        os.close(reader)


def test_output_to_a_device_is_written_and_stays_a_device(command, trained, data, tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_text("")
    except OSError:
        pytest.skip("devices can be made by root only")
    done = command("evaluate", "--model", trained, *search, "--data", data, "--output", device)
    assert done.returncode == 0 and stat.S_ISCHR(device.stat().st_mode), done.stderr


def test_output_through_a_link_changes_the_file_behind_it(command, trained, data, tmp_path):
    file, link = tmp_path / "file.txt", tmp_path / "link.txt"
    file.write_text("old")
    link.symlink_to(file)
    done = command("evaluate", "--model", trained, *search, "--data", data, "--output", link)
    assert done.returncode == 0 and link.is_symlink() and file.read_text().count("\n") == 5


@pytest.mark.parametrize("output", ["", ".", "/dev/null/out.txt"])
def test_an_output_that_cannot_be_written_is_refused_at_once(command, trained, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("evaluate", "--model", trained, *search, "--data", "nowhere", "--output", output)
    assert done.returncode == 2 and "cannot write" in done.stderr, "the data were looked for first"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_model_without_a_run_is_not_overwritten(command, corpus, trained, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(trained / name, out)
    before = contents(out)
    done = command("train", "--data", corpus, *train_options, "--steps", 2, "--out", out)
    assert done.returncode == 1 and "holds a model" in done.stderr and str(out) in done.stderr
    assert contents(out) == before and len(list(out.iterdir())) == 1


def test_settings_are_written_after_all_checks(command, corpus, tmp_path):
    base = ["train", "--data", corpus, *train_options, "--out", tmp_path]
    (tmp_path / "metrics.jsonl").mkdir()  # found when training begins
    done = command(*base, "--steps", 2)
    assert done.returncode == 1 and not (tmp_path / "settings.json").exists()
    (tmp_path / "metrics.jsonl").rmdir()
