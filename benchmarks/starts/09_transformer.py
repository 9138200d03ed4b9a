"""Twenty starts of 09_transformer. Five sentences: what each exchange makes of the verb's form, and what is written for
nine new sentences. The grammar of 72: what is right of new sentences, by the number of sentences that were shown; with
48, what is right of two pairs of subject and verb that were kept away, and how often an exchange gives them. For five
and for 60, the share of exchanges after which the verb has the new subject's form, or still the old one's: the two
sentences share verb and object, or neither ("far"). The far ones are split by their right answer: a training sentence
("listed") or not ("new"). For four further starts per start, the new forms between "I" and "you" by three places."""
import numpy as np
import torch

before = "e0900004"
witnesses = "what is read", "memory: subject", "memory: all four"


def five_sentences(notebook: dict, seed: int) -> dict:
    torch.manual_seed(seed)
    model = notebook["Transformer"](notebook["config"])
    for loss in notebook["train"](model):
        pass
    moved = notebook["other_form"](model.eval()).mean(1)
    results = {f"five: {place}": round(float(p), 3) for place, p in zip(notebook["places"], moved)}
    results |= exchanges(notebook, model, "5", "src", "tgt", notebook["listed_5"])
    unseen = notebook["unseen"]
    answers = notebook["write"](model, *unseen)
    results["five: loss"] = round(float(loss.mean()), 3)
    results["five: right of 9"] = sum(a == b for a, b in zip(answers, unseen.values()))
    results["five: of 9 one of the five"] = sum(a in notebook["pairs"].values() for a in answers)
    return results


def exchanges(notebook: dict, model, size: str, source: str, target: str, listed: torch.Tensor) -> dict:
    "Count what both kinds of exchanges do, and how many verbs are right without any."
    source, target, of = notebook[source], notebook[target], {"5": 5, "60": 72}[size]
    near, far = notebook[f"near_{of}"], notebook[f"far_{of}"]
    kinds, results = {"": near}, {}
    kinds |= {f"far, {answer}, ": some for answer, some in notebook["by_answer"](far, listed).items()}
    if size == "60":
        kinds["I and you, "] = tuple(part[notebook["i_and_you"]] for part in near)
    for kind, triple in kinds.items():
        forms = notebook["share_of_forms"](model, source, target, triple).tolist()
        for place, (new, old) in zip(notebook["places"], forms):
            results[f"{size} sentences, {kind}{place}: [other, own]"] = [round(new, 3), round(old, 3)]
    with torch.no_grad():
        right = model(source, notebook["shift_right"](target)).argmax(-1) == target
    results[f"{size} sentences: verbs right"] = round(float(right[near[0], 1].float().mean()), 3)
    return results


def new_pairs(notebook: dict, model, shown: torch.Tensor, new: torch.Tensor, kept: torch.Tensor) -> list[float]:
    "Say how many far exchanges of both subjects give a new plural answer: its pair was shown, or was kept away."
    answer, place, shares = notebook["answer_72"], list(notebook["places"]).index("read + memory: subject"), []
    paired = torch.isin(answer, new) & torch.isin(answer // 3, shown // 3) & (answer >= 24)  # from 24 on: plural
    for some in (paired, torch.isin(answer, kept)):
        triple = tuple(part[some] for part in notebook["far_72"])
        forms = notebook["share_of_forms"](model, notebook["src_72"], notebook["tgt_72"], triple)
        shares.append(round(float(forms[place, 0]), 3))
    return shares


def further_starts(notebook: dict, seeds: range) -> list:
    "How often the verb takes the new form between I and you: the written subject, the memory's, the whole memory."
    pairs, shares = tuple(part[notebook["i_and_you"]] for part in notebook["near_72"]), []
    rows = [list(notebook["places"]).index(place) for place in witnesses]
    for seed in seeds:
        model = notebook["grammar_model"](60, seed)[0]
        forms = notebook["share_of_forms"](model, notebook["src_72"], notebook["tgt_72"], pairs)[rows, 0]
        shares.append([round(float(form), 3) for form in forms])
    return shares


def run(notebook: dict, seed: int) -> dict:
    results, share = five_sentences(notebook, seed), notebook["share_right"]
    for n in (6, 12, 24, 48):
        model, loss, shown, new, _ = notebook["grammar_model"](n, seed)
        numbers = loss, share(model, shown), share(model, new)
        results[f"{n} sentences: [loss, shown, new]"] = [round(x, 3) for x in numbers]
    plural = np.arange(8, 24)  # pairs of subject and verb
    away = np.random.default_rng(seed).choice(plural, 2, replace=False)
    model, _, shown, new, kept = notebook["grammar_model"](48, seed, away)
    verbs = float(notebook["right_words"](model)[kept, 1].float().mean())
    results["two pairs away: [new, kept away, their verb]"] = [
        round(x, 3) for x in (share(model, new), share(model, kept), verbs)
    ]
    results["two pairs away, far, read + memory: subject: [new, kept away]"] = new_pairs(
        notebook, model, shown, new, kept
    )
    model, _, shown, new, _ = notebook["grammar_model"](60, seed)
    results["60 sentences: new"] = round(share(model, new), 3)
    listed = torch.isin(notebook["answer_72"], shown)
    results["I and you, four further starts: [read, memory: subject, memory: all]"] = further_starts(
        notebook, range(20 + 4 * seed, 24 + 4 * seed)
    )
    return results | exchanges(notebook, model, "60", "src_72", "tgt_72", listed)
