"""Twenty models that never saw 58, 34 or 71: shares right, heads silenced, heads patched; in the first start, repairs.

`silenced` lists by kind, layer and head [broken, stuttering] of 100; `layers` the same for whole layers, broken only;
`order` the share of numbers that each head of cross-attention reads out of order; `single` and `all but one` the
patches of one head and of seven. `transplants` counts for the first four steps [pairs that differ, B's piece, A with
one digit of B's], `read ahead` for the second and third step [begin with that piece, of]. A repair lists the shares
right of six digits and of 0 to 99, and whether null is.
"""
before = "a51e0018"


def run(notebook: dict, seed: int) -> dict:
    results = study(notebook, notebook["trained_on"](notebook["pairs_without"], seed))
    if seed == 0:
        results |= repairs(notebook, seed)
    return results


def study(notebook: dict, translator) -> dict:
    notebook["translator"] = translator
    notebook["model"], notebook["tokenizer"] = translator.model, translator.tokenizer
    mistakes, without, patched = notebook["mistakes"], notebook["mistakes_without"], notebook["patched"]
    results = {}
    for where, asked in notebook["questions"].items():
        results[where] = round(1 - len(mistakes(translator, asked)) / len(asked), 4)
    asked, kinds, repeats = notebook["held_out"][:100], notebook["kinds"], notebook["repeats"]
    results["six digits"] = 1 - len(mistakes(translator, kinds["six digits"])) / len(kinds["six digits"])
    results["wrong below 100"] = mistakes(translator, range(100))
    results["silenced"], results["layers"] = [], []
    for kind in notebook["attentions"]:
        for layer in range(2):
            results["layers"].append(len(without(kind, layer, range(4), asked)))
            for heads in notebook["one_head"]:
                wrong = without(kind, layer, heads, asked)
                stutters = sum(bool(repeats.search(answer)) for _, answer in wrong)
                results["silenced"].append([len(wrong), stutters])
    every = [notebook["peak_order"](n) for n in notebook["tens_and_units"]]
    results["order"] = [round(sum(float(one.flatten()[i]) for one in every) / len(every), 2) for i in range(8)]
    both = [(layer, head) for layer in range(2) for head in range(4)]
    results["all"], results["layer 1"], results["layer 2"] = patched(both), patched(both[:4]), patched(both[4:])
    results["single"] = [patched([one]) for one in both]
    results["all but one"] = [patched([other for other in both if other != one]) for one in both]
    return results | {"transplants": transplants(notebook), "read ahead": read_ahead(notebook)}


def transplants(notebook: dict) -> list:
    write, until_end, decode = notebook["write"], notebook["until_end"], notebook["tokenizer"].decode
    takers, givers = zip(*notebook["pairs_ab"])
    own, _ = write(takers, pieces=11)
    theirs, given = write(givers, pieces=11)
    counts = []
    for at in range(4):
        patched, _ = write(takers, given, notebook["every_head"], at=at, pieces=11)
        rows = [[until_end(ids) for ids in three] for three in zip(own, theirs, patched)]
        rows = [(pair, *three) for pair, three in zip(notebook["pairs_ab"], rows)]
        differ = [row for row in rows if at < min(len(row[1]), len(row[2])) and row[1][at] != row[2][at]]
        takes = sum(new[at : at + 1] == [other[at]] for _, _, other, new in differ)
        digit = sum(decode(new) in notebook["with_a_digit"](*pair) for pair, _, _, new in differ)
        counts.append([len(differ), takes, digit])
    return counts


def read_ahead(notebook: dict) -> list:
    takers, _ = zip(*notebook["pairs_ab"])
    own, read = notebook["write"](takers, pieces=3)
    counts = []
    for later in (1, 2):
        ahead = {layer: reads[later:] for layer, reads in read.items()}
        begun, _ = notebook["write"](takers, ahead, notebook["every_head"], at=0)
        begins = [new[0] == ids[later] for new, ids in zip(begun, own) if ids[later] != ids[0]]
        counts.append([sum(begins), len(begins)])
    return counts


def repairs(notebook: dict, seed: int) -> dict:
    pairs, six, small = notebook["train_pairs"], notebook["six_digits"], notebook["small_again"]
    ways = {
        "600 updates": (pairs, 600, 400), "six-digit numbers": (pairs + six, 450, 400),
        "small numbers again": (pairs + small, 450, 400), "500 pieces": (pairs, 450, 500),
    }
    results = {}
    for way, (shown, steps, pieces) in ways.items():
        translator = notebook["trained_on"](shown, seed, steps, pieces)
        wrong = [notebook["mistakes"](translator, notebook["kinds"][name]) for name in ("six digits", "0 to 99")]
        null = all(number for number, _ in wrong[1])
        results[way] = [round(1 - len(w) / 100, 2) for w in wrong] + [null]
    return results
