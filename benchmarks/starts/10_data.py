"Six plans of batches: for each, rows of (positions, loss, loss below 100, loss of six digits) during three epochs."
before = "c8e2c343"
ways = ("mixed", "mixed, kept", "alike, 50 each", "TokenBatches", "short first", "pools of 250")


def run(notebook: dict, seed: int) -> dict:
    learn, planned, numbers = notebook["learn"], notebook["planned"], notebook["numbers"]
    return {way: learn(planned(way, seed), numbers, seed).round(4).tolist() for way in ways}
