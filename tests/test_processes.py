"Two runs want one folder; several processes share one run. Whatever is wrong ends all of them, soon, in a sentence."
import os
import time

import pytest
from helpers import begin, cli, contents, metrics, run, start, train, write_pairs

from transformer_nbdev.tools.files import owned
from transformer_nbdev.translator import Translator


@pytest.mark.parametrize("more", [[], ["--resume"]], ids=["a new run", "a resumed run"])
def test_a_second_run_in_the_folder_gets_a_sentence_and_changes_nothing(command, corpus, tmp_path, more):
    if more:
        assert command(*train(corpus, tmp_path, "--steps=2")[len(cli) :]).returncode == 0
    with owned(tmp_path):
        before = contents(tmp_path)
        done = command(*train(corpus, tmp_path, "--steps=9", *more)[len(cli) :])
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert f"{tmp_path} is in use by another run: wait for it" in done.stderr
        assert contents(tmp_path) == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("number", range(int(os.environ.get("RACES", "1"))))
def test_of_two_that_begin_at_once_one_goes_on_and_one_is_told(corpus, tmp_path, number):
    if resumed := number % 2:
        assert run(*train(corpus, tmp_path, "--steps=2", "--schedule=paper")).returncode == 0
    steps = ["--resume", "--steps=60"] if resumed else ["--steps=60", "--schedule=paper"]
    both = [start(*train(corpus, tmp_path, "--save-every=20", *steps)) for _ in range(2)]
    texts = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], texts
    lost = texts[both[0].returncode == 0]
    assert f"{tmp_path} is in use by another run" in lost or "already holds a run" in lost, lost
    assert "Traceback" not in "".join(texts)
    assert list(metrics(tmp_path)) == [*range(1, 61)] and not list(tmp_path.glob(".*"))
    Translator.from_pretrained(tmp_path)


def together(tmp_path, *commands) -> tuple[list[int], list[str]]:
    "What becomes of one process per rank, started as torchrun does: exit codes and standard errors."
    processes = begin(tmp_path, *commands)
    try:
        texts = [p.communicate(timeout=60)[1] for p in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [p.returncode for p in processes], texts


@pytest.mark.parametrize("what", ["other lines", "--d-ff=64"])
def test_processes_with_other_data_or_settings_do_not_train(corpus, tmp_path, what):
    pairs, options = corpus, [what]
    if what == "other lines":
        pairs, options = write_pairs(tmp_path / "other"), []
        for path in pairs.glob("train*"):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[::-1]))
    one, other = (train(data, tmp_path / "out", "--steps=2") for data in (corpus, pairs))
    codes, texts = together(tmp_path, one, [*other, *options])
    assert codes == [1, 1], texts
    for text in texts:
        assert "the processes differ in " + "d_ff" * bool(options) in text and "Traceback" not in text
    assert not list(tmp_path.glob("out/*.json*"))


def test_one_that_dies_ends_the_others(corpus, tmp_path):
    one = train(corpus, tmp_path / "out", "--steps=1000000", "--save-every=0")
    first, second = begin(tmp_path, one, one)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "out" / "metrics.jsonl").exists():
            assert first.poll() is None and time.monotonic() < end, "waited too long"
            time.sleep(0.01)
        second.kill()
        second.communicate()
        text = first.communicate(timeout=60)[1]
    finally:
        first.kill()
    assert first.returncode == 1 and "Traceback" not in text, text
    assert text.strip().splitlines()[-1].startswith("error: another process of this run ended"), text


def test_going_on_with_another_number_of_processes_says_what_changes(command, corpus, tmp_path):
    one = train(corpus, tmp_path / "out", "--steps=2")
    assert together(tmp_path, one, one)[0] == [0, 0]
    done = command(*train(corpus, tmp_path / "out", "--resume", "--steps=3")[len(cli) :])
    assert "1 process(es) instead of 2: the same batches, other dropout" in done.stderr, done.stderr
