"Seven plans of batches: for each, rows of (slots, loss, loss below 100, loss of six digits) during three epochs."
before = "c8e2c343"
ways = ("mixed", "mixed, kept", "alike, 50 each", "TokenBatches", "short first", "pools of 250")


def run(notebook: dict, seed: int) -> dict:
    learn, planned, batches, fixed = (notebook[name] for name in ("learn", "planned", "numbers", "fixed"))
    curves = {way: learn(planned(way, seed), batches, seed, fixed, every=6)[1] for way in ways}
    alike = planned("alike, 50 each", seed)
    curves["alike, tokens equal"] = learn(alike, batches, seed, fixed, every=6, per_token=True)[1]
    return {way: curve.round(4).tolist() for way, curve in curves.items()}
