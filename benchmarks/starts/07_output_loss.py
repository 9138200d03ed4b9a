"Clouds with a fifth of random labels, with and without smoothing: lists over the updates 10, 20, 40, 80, 160, 320."
import numpy as np

before = "d73e9c29"


def run(notebook: dict, seed: int) -> dict:
    watch, found = notebook["watch"], {}
    for e in (0.0, 0.1, 0.3):
        for name, values in watch(e, seed).items():
            found[f"{name}, ε = {e}"] = np.round(values, 4).tolist()
    for e in (0.0, 0.1):
        found[f"clean, ε = {e}"] = round(watch(e, seed, wrong=0.0)["accuracy"][-1], 4)
    return found
