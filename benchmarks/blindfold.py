"""Ten starts of the GPT in `16_gpt` that answers in the language of an example: does the blindfold always do the same?

    python benchmarks/blindfold.py [--seeds 10]

The chapter's own cells run first; then its GPT is trained from each start and asked the chapter's questions.
"""
import argparse
import sys
from collections import Counter
from dataclasses import replace

import torch
from common import root, save

sys.path.insert(0, str(root / "benchmarks" / "starts"))
from run import cells_before  # noqa: E402


def measure(names: dict, seed: int) -> dict:
    "Train the GPT from one start; count its answers as the chapter does."
    torch.manual_seed(seed)
    model = names["GPT"](names["GPTConfig"](names["card_tokenizer"].vocab_size, **names["shape"]))
    recipe = replace(names["recipe"], seed=seed)
    names["polyglot"] = names["train_on"](names["cards"], model, names["card_tokenizer"], recipe)
    right = Counter()
    for language in names["languages"]:
        prompts = [names["show_and_ask"](*question, language) for question in names["questions"]]
        for answer, (_, number) in zip(names["one_stack"](prompts), names["questions"]):
            told, spoken = names["meaning"].get(answer, (None, None))
            right["language"] += spoken == language
            right["both"] += (told, spoken) == (number, language)
    asked, words = names["asked"], names["words"]
    answers = {line: names["count_fates"]([f"{line}\n{words[n, 'en']} =" for n in asked], names["one_stack"])
               for line in names["first_lines"]}
    begins = {f"{blind}, {language}": Counter(names["first_language"](n, language, blind) for n in asked)
              for blind in ("nobody", "the last token", "all later tokens") for language in names["languages"]}
    return {"seed": seed, "hidden numbers": right, "answers": answers, "begins": begins}


def main() -> None:
    "One start after the other."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    names = cells_before(root / "nbs" / "16_gpt.ipynb", "16gptat5")
    runs = []
    for seed in range(arguments.seeds):
        runs.append(measure(names, seed))
        print(runs[-1], flush=True)
    save("blindfold", {"task": __doc__.splitlines()[0], "questions": 2 * len(names["questions"]), "runs": runs})


if __name__ == "__main__":
    main()
