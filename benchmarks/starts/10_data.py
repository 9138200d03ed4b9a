"Six plans of batches: for each, rows of (slots, loss, loss below 100, loss of six digits) during three epochs."
before = "c8e2c343"
ways = ("mixed", "mixed, kept", "alike, 50 each", "TokenBatches", "short first", "pools of 250")


def run(notebook: dict, seed: int) -> dict:
    learn, planned, batches, fixed = (notebook[name] for name in ("learn", "planned", "fresh_batches", "fixed"))
    return {way: learn(planned(way, seed), batches, seed, fixed, every=6)[1].round(4).tolist() for way in ways}
