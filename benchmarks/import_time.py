"""How much longer is `import transformer_nbdev` than `import torch`?

    python benchmarks/import_time.py
"""
import statistics
import subprocess
import sys
import time

from common import env, save


def seconds(module: str) -> float:
    "A fresh interpreter that imports one module."
    start = time.perf_counter()
    code = f"import {module}; getattr({module}, 'Transformer', None)"  # the package loads when it is first used
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    return time.perf_counter() - start


times = {"torch": [], "transformer_nbdev": []}
for _ in range(12):
    for module, measured in times.items():
        measured.append(seconds(module))
medians = {module: statistics.median(measured[1:]) for module, measured in times.items()}
ratio = medians["transformer_nbdev"] / medians["torch"]
print(f"ratio {ratio:.3f}", medians)
save("import_time", {"ratio": round(ratio, 3), "median_seconds": {m: round(s, 3) for m, s in medians.items()}})
