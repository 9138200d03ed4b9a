"`train --init`: going on from a model of ours or Marian's, what is forgotten, and the way back."
import json

import pytest
import torch
from helpers import metrics, same_run, train, train_options, typed, write_pairs

from transformer_nbdev.data import encode_targets
from transformer_nbdev.glass import look_inside
from transformer_nbdev.translator import Translator, load_tokenizer

going_on = ["--batch-tokens=200", "--precision=fp32", "--device=cpu", "--plain", "--log-every=1", "--no-tune"]


def tune(model, corpus, out, *options):
    "Fine-tune, in this process."
    return typed("train", "--init", model, "--data", corpus, "--out", out, *going_on, *options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    "A run of ours, its data, and other data."
    place = tmp_path_factory.mktemp("init")
    old, new = write_pairs(place / "old"), write_pairs(place / "new", {"test": 9, "val": 8, "train": 50})
    done = typed(*train(old, place / "run", "--steps=4")[3:])
    assert done.returncode == 0, done.stderr
    return place / "run", old, new


def test_a_run_goes_on_with_its_vocabulary_and_shape_and_both_data_are_scored(tmp_path, trained):
    run, old, new = trained
    done = tune(run, new, tmp_path / "run", "--steps=6", "--validate-every=3")
    assert done.returncode == 0, done.stderr
    for line in ("before training, new", "before training, old", "after training, new", "after training, old"):
        assert line in done.stderr
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == (run / "tokenizer.json").read_bytes()
    a, b = (json.loads((folder / "config.json").read_text()) for folder in (run, tmp_path / "run"))
    assert a == b
    assert [*metrics(tmp_path / "run", "valid_loss")] == [0, 3, 6]
    assert metrics(tmp_path / "run", "new_loss").keys() == metrics(tmp_path / "run", "old_loss").keys() == {0, 6}
    first = metrics(tmp_path / "run", "valid_loss")
    assert abs(first[0] - metrics(tmp_path / "run", "new_loss")[0]) < 1e-4  # as the trainer counts
    assert first[6] < first[0]
    named = tune(run, new, tmp_path / "named", "--steps=1", "--old-data", new)
    assert named.returncode == 0 and "before training, old" in named.stderr


def test_a_run_goes_on_in_its_direction(tmp_path, trained):
    _, old, new = trained
    assert typed(*train(old, tmp_path / "back", "--steps=2", "--src=de", "--tgt=en")[3:]).returncode == 0
    for more, wanted in (([], ["de", "en"]), (["--src=en", "--tgt=de"], ["en", "de"])):
        assert tune(tmp_path / "back", new, tmp_path / wanted[0], "--steps=1", *more).returncode == 0
        settings = json.loads((tmp_path / wanted[0] / "settings.json").read_text())
        assert [settings["src"], settings["tgt"]] == wanted


def test_a_run_that_only_does_harm_keeps_the_model_it_began_with_and_stops_early(tmp_path, trained):
    run, old, new = trained
    done = tune(run, new, tmp_path / "run", "--steps=60", "--lr=3", "--warmup=0", "--validate-every=2", "--patience=2")
    assert done.returncode == 0 and "stopped early" in done.stderr, done.stderr
    a, b = (Translator.from_pretrained(folder).model.state_dict() for folder in (run, tmp_path / "run"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_resumed_run_ends_with_the_same_bits(tmp_path, trained):
    run, _, new = trained
    more = ["--save-every=2", "--validate-every=2"]
    assert tune(run, new, tmp_path / "whole", "--steps=6", *more).returncode == 0
    assert tune(run, new, tmp_path / "cut", "--steps=6", *more).returncode == 0
    newest = sorted((tmp_path / "cut" / "checkpoints").glob("step-*"))[-1]
    for file in [*newest.iterdir()]:
        file.unlink()
    newest.rmdir()  # as if killed after the checkpoint before
    done = typed("train", "--out", tmp_path / "cut", "--resume", "--device=cpu")
    assert done.returncode == 0 and "before training" not in done.stderr, done.stderr
    same_run(tmp_path / "whole", tmp_path / "cut")
    done = typed("train", "--out", run, "--resume", "--init", tmp_path / "cut", "--device=cpu")
    assert done.returncode == 1 and "began with init = None" in done.stderr, done.stderr


def test_the_default_rate_falls_with_the_width_and_a_limit_replaces_the_old_one(tmp_path, trained):
    run, _, new = trained
    assert tune(run, new, tmp_path / "run", "--epochs=0.1").returncode == 0
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["training"]["lr"] == 2e-3 * 128 / 16
    done = typed("train", "--out", tmp_path / "run", "--resume", "--steps=3", "--device=cpu")
    assert done.returncode == 0 and [*metrics(tmp_path / "run", "new_loss")][-1] == 3, done.stderr


def test_few_sentences_get_enough_updates_and_harm_is_said(tmp_path, trained):
    run, _, new = trained
    done = tune(run, new, tmp_path / "run")
    assert done.returncode == 0 and "got worse" not in done.stderr, done.stderr
    training = json.loads((tmp_path / "run" / "settings.json").read_text())["training"]
    assert (training["epochs"], training["steps"]) == (None, 150) and 150 in metrics(tmp_path / "run", "valid_loss")
    done = tune(run, new, tmp_path / "bad", "--epochs=2", "--lr=3", "--warmup=0", "--keep=last")
    assert json.loads((tmp_path / "bad" / "settings.json").read_text())["training"]["epochs"] == 2
    assert done.returncode == 0 and "the translations of new sentences got worse" in done.stderr, done.stderr


def test_the_old_numbers_have_a_name_to_mix_them_in(tmp_path, trained):
    run, _, new = trained
    done = tune(run, new, tmp_path / "run", "--data=number-words", "--steps=1")
    assert done.returncode == 0 and "20,050 sentence pairs" in done.stderr, done.stderr
    done = tune(run, run, tmp_path / "wrong", "--steps=1")
    assert done.returncode == 1 and "a trained model, not its data" in done.stderr, done.stderr


@pytest.mark.parametrize("options, words", [
    (["--preset=tiny"], ["--preset", "keeps its vocabulary and its shape"]),
    (["--d-model=32", "--vocab-size=300"], ["--vocab-size, --d-model"]), (["--no-norm-first"], ["--norm-first"]),
])
def test_what_would_reshape_the_model_is_refused(tmp_path, trained, options, words):
    done = tune(trained[0], trained[2], tmp_path / "run", "--steps=1", *options)
    assert done.returncode == 1 and all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "run").exists()


def test_other_refusals(tmp_path, trained):
    run, old, new = trained
    done = typed("train", "--data", new, "--old-data", old, "--out", tmp_path / "a", "--steps=1", *train_options)
    assert done.returncode == 1 and "add --init" in done.stderr
    done = tune(tmp_path / "nothing", new, tmp_path / "b", "--steps=1")
    assert done.returncode == 1 and "nothing" in done.stderr and done.stderr.count("\n") == 1
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "model.bin").touch()
    done = tune(tmp_path / "engine", new, tmp_path / "c", "--steps=1")
    assert done.returncode == 1 and "can only translate" in done.stderr


# Marian -------------------------------------------------------------------------------------------


def opus(folder, corpus, dtype):
    "A random model in the files of OPUS-MT: two SentencePiece models, one vocabulary; padding is the last token."
    transformers = pytest.importorskip("transformers", reason="needs the extra: pip install transformers sentencepiece")
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra: pip install sentencepiece")
    folder.mkdir()
    pieces = ["</s>", "<unk>"]
    for name, language in (("source", "en"), ("target", "de")):
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus / f"train.{language}"), model_prefix=str(folder / name), vocab_size=24, minloglevel=9,
            hard_vocab_limit=False,
        )
        (folder / f"{name}.vocab").unlink()
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        model = sentencepiece.SentencePieceProcessor(str(folder / f"{name}.spm"))
        pieces += [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    pieces = [*dict.fromkeys(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    text = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(text))
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    n, sides = len(pieces), {"layers": 1, "attention_heads": 2, "ffn_dim": 32}
    torch.manual_seed(0)
    model = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=n, decoder_vocab_size=n, d_model=16, max_position_embeddings=64, pad_token_id=n - 1,
        decoder_start_token_id=n - 1, eos_token_id=0, forced_eos_token_id=0, activation_function="swish",
        scale_embedding=True, num_beams=4, **{f"{s}_{k}": v for s in ("encoder", "decoder") for k, v in sides.items()},
    ))
    model.to(dtype).save_pretrained(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_marian_goes_there_and_back_to_the_same_files_keys_and_types(tmp_path, trained, dtype):
    from safetensors.torch import load_file

    corpus, folder = trained[2], tmp_path / "opus"
    opus(folder, corpus, dtype)
    done = tune(folder, corpus, tmp_path / "run", "--steps=5", "--validate-every=2", "--lr=1e-2", "--old-data", corpus)
    assert done.returncode == 0, done.stderr
    losses = metrics(tmp_path / "run", "valid_loss")
    assert losses[5] < losses[0] and abs(losses[0] - metrics(tmp_path / "run", "new_loss")[0]) < 1e-3
    done = typed("convert", "--to", "marian", tmp_path / "run", tmp_path / "back")
    assert done.returncode == 0, done.stderr
    assert {p.name for p in folder.iterdir()} == {p.name for p in (tmp_path / "back").iterdir()}
    for name in ("source.spm", "target.spm", "vocab.json", "config.json", "generation_config.json"):
        assert (folder / name).read_bytes() == (tmp_path / "back" / name).read_bytes() or (
            json.loads((folder / name).read_text()) == json.loads((tmp_path / "back" / name).read_text())
        ), name
    a, b = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "back"))
    kept = {name: tensor.dtype for name, tensor in a.items() if "embed_positions" not in name}
    assert kept == {name: tensor.dtype for name, tensor in b.items()}

    import transformers

    ours = Translator.from_pretrained(tmp_path / "run").model
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "back").float().eval()
    pad = ours.config.pad_id
    src, tgt = torch.randint(1, pad, (2, 9)), torch.randint(1, pad, (2, 7))
    src[1, 6:], tgt[:, 0] = pad, pad
    with torch.no_grad():
        logits = theirs(input_ids=src, attention_mask=(src != pad).long(), decoder_input_ids=tgt).logits
        assert (ours(src, tgt) - logits).norm() < (1e-5 if dtype == torch.float32 else 1e-2) * logits.norm()


def test_marian_goes_on_with_several_data_read_at_once(tmp_path, trained):
    opus(tmp_path / "opus", trained[2], torch.float32)
    both = ["--data", trained[1], "--steps=2", "--valid-split=none"]
    done = tune(tmp_path / "opus", trained[2], tmp_path / "run", *both, "--weight=1", "--weight=2")
    assert done.returncode == 0, done.stderr
    n_old, n_new = (len((corpus / "train.en").read_text().splitlines()) for corpus in trained[1:])
    assert f"{n_new + 2 * n_old} sentence pairs" in done.stderr
    done = tune(tmp_path / "opus", trained[2], tmp_path / "refused", *both, "--stream")
    assert done.returncode == 1 and "leave out --stream" in done.stderr


def test_targets_of_marian_are_split_by_the_model_of_their_side(tmp_path, trained):
    opus(tmp_path / "opus", trained[2], torch.float32)
    tokenizer = load_tokenizer(tmp_path / "opus")
    assert encode_targets(tokenizer, ["vier"]) == [tokenizer.backend(text_target="vier")["input_ids"][:-1]]
    assert encode_targets(tokenizer, ["vier"]) != tokenizer.encode_batch(["vier"])


def test_the_glass_shows_a_model_of_marian(tmp_path, trained):
    opus(tmp_path / "opus", trained[2], torch.float32)
    translator = Translator.from_marian(tmp_path / "opus")
    look = look_inside(translator, "two one", beam_size=2)
    assert look["text"] == translator.translate(["two one"], beam_size=2)[0]
    assert "".join(word["text"] for word in look["source"]) == "twoone"
