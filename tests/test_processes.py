"Two runs want one folder; several processes share one run. Whatever is wrong ends all of them, soon, in a sentence."
import os
import signal
import subprocess
import time

import helpers
import pytest
from helpers import begin, cli, contents, metrics, start, train, write_pairs

from transformer_nbdev.translator import Translator


def wait_for_first_update(process: subprocess.Popen, out) -> None:
    "Until it has logged; the process must not end before."
    end = time.monotonic() + 60
    while not (out / "metrics.jsonl").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def no_process_survives(monkeypatch):
    "Whatever a test started and did not wait for is killed, stopped ones included."
    started = []

    def noted(*command):
        started.append(helpers.start(*command))
        return started[-1]

    monkeypatch.setitem(globals(), "start", noted)
    yield
    for process in started:
        process.kill()
        process.wait()


def stopped(process: subprocess.Popen) -> None:
    "Interrupt it, and wait until it has saved."
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130, text


@pytest.mark.parametrize("more", [[], ["--resume"]], ids=["a new run", "a resumed run"])
def test_a_second_run_in_the_folder_gets_a_sentence_and_changes_nothing(command, corpus, tmp_path, more):
    if more:
        done = command(*train(corpus, tmp_path, "--steps=2")[len(cli) :])
        assert done.returncode == 0, done.stderr
        (tmp_path / "metrics.jsonl").rename(tmp_path / "old.jsonl")
    first = start(*train(corpus, tmp_path, "--steps=100000", "--save-every=0", *more))
    wait_for_first_update(first, tmp_path)
    first.send_signal(signal.SIGSTOP)
    before = contents(tmp_path)
    done = command(*train(corpus, tmp_path, "--steps=9", *more)[len(cli) :])
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"{tmp_path} is in use by process {first.pid}" in done.stderr
    assert contents(tmp_path) == before
    first.send_signal(signal.SIGCONT)
    stopped(first)
    assert not list(tmp_path.glob(".*"))


def test_what_a_killed_owner_left_is_taken_over(command, corpus, tmp_path):
    first = start(*train(corpus, tmp_path, "--steps=100000", "--save-every=1"))
    wait_for_first_update(first, tmp_path)
    while not list(tmp_path.glob("checkpoints/step-*")):
        time.sleep(0.01)
    first.kill()
    first.communicate()
    assert list(tmp_path.glob(".*owner"))
    done = command(*train(corpus, tmp_path, "--resume", "--steps=1")[len(cli) :])
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob(".*owner"))


@pytest.mark.parametrize("number", range(int(os.environ.get("RACES", "1"))))
def test_of_two_that_begin_at_once_one_goes_on_and_one_is_told(corpus, tmp_path, number):
    if resumed := number % 2:
        assert helpers.run(*train(corpus, tmp_path, "--steps=2", "--schedule=paper")).returncode == 0
    steps = ["--resume", "--steps=300"] if resumed else ["--steps=300", "--schedule=paper"]
    both = [start(*train(corpus, tmp_path, "--save-every=100", *steps)) for _ in range(2)]
    texts = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], texts
    lost = texts[both[0].returncode == 0]
    winner = both[both[0].returncode != 0]
    owner = f"process {winner.pid}", "another run"  # which has not signed yet
    assert any(f"{tmp_path} is in use by {name}" in lost for name in owner) or "already holds a run" in lost, lost
    assert "Traceback" not in "".join(texts)
    assert list(metrics(tmp_path)) == [*range(1, 301)] and not list(tmp_path.glob(".*"))
    Translator.from_pretrained(tmp_path)


def together(tmp_path, *commands) -> tuple[list[int], list[str]]:
    "What becomes of one process a rank, started as torchrun does: exit codes and standard errors."
    processes = begin(tmp_path, *commands)
    try:
        texts = [p.communicate(timeout=60)[1] for p in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [p.returncode for p in processes], texts


@pytest.mark.parametrize("what", ["other lines", "half the lines"])
def test_processes_with_other_data_do_not_train(corpus, tmp_path, what):
    (tmp_path / "other").mkdir()
    pairs = write_pairs(tmp_path / "other")
    for path in pairs.glob("train*"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[::-1] if what == "other lines" else lines[: len(lines) // 2]))
    codes, texts = together(
        tmp_path, *(train(data, tmp_path / "out", "--steps=2") for data in (corpus, pairs))
    )
    assert codes == [1, 1], texts
    for text in texts:
        assert "the processes differ in" in text and "Traceback" not in text
    assert not list(tmp_path.glob("out/*.json*"))


@pytest.mark.parametrize("option", ["--steps=3", "--d-ff=64"])
def test_processes_with_other_settings_do_not_train(corpus, tmp_path, option):
    one = train(corpus, tmp_path / "out", "--steps=2")
    codes, texts = together(tmp_path, one, [*one, option])
    name = option[2:].split("=")[0].replace("-", "_")
    assert codes == [1, 1], texts
    for text in texts:
        assert f"the processes differ in {name}" in text and "Traceback" not in text


def test_a_process_without_data_ends_the_others(corpus, tmp_path):
    one = train(corpus, tmp_path / "out", "--steps=2")
    codes, texts = together(tmp_path, one, train(tmp_path / "none", tmp_path / "out", "--steps=2"))
    assert 0 not in codes and "none" in texts[1]


def test_one_that_dies_ends_the_others(corpus, tmp_path):
    one = train(corpus, tmp_path / "out", "--steps=1000000", "--save-every=0")
    first, second = begin(tmp_path, one, one)
    wait_for_first_update(first, tmp_path / "out")
    second.kill()
    second.communicate()
    text = first.communicate(timeout=60)[1]
    assert first.returncode == 1 and "Traceback" not in text, text
    assert text.strip().splitlines()[-1].startswith("error: another process of this run ended"), text


def test_going_on_with_another_number_of_processes_says_what_changes(command, corpus, tmp_path):
    one = train(corpus, tmp_path / "out", "--steps=2")
    assert together(tmp_path, one, one)[0] == [0, 0]
    done = command(*train(corpus, tmp_path / "out", "--resume", "--steps=3")[len(cli) :])
    assert "1 process(es) instead of 2: the same batches, other dropout" in done.stderr, done.stderr

