"Run every check, one line of result each; stop at the end of the first stage that fails."
import os
import subprocess
import sys
import time
from pathlib import Path

root = Path(__file__).parent.parent
python = sys.executable
workers = str(min(2, os.cpu_count() or 1))
longest = ["13_translation", "16_performance", "11_training", "17_command_line", "12_inference", "15_serving",
           "05_encoder", "08_optimisation", "06_decoder", "03_attention"]
notebooks = sorted((root / "nbs").glob("*.ipynb"), key=lambda p: (p.stem not in longest, p.name))  # ends meet
pytest = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", workers, "--dist", "loadfile"]
stages = {
    "package = what the notebooks export": [python, ".ci/drift.py"],
    "README = nbs/index.ipynb": [python, ".ci/readme.py", "--check"],
    "notebooks, outputs and figures compared": [
        *pytest, "--nbval", "--nbval-current-env", "--nbval-sanitize-with", ".ci/sanitize.cfg",
        "--nbval-cell-timeout", "600", *notebooks],
    "tests": [*pytest, "tests"],
    "types": [python, "-m", "mypy"],
    "lint": [python, "-m", "ruff", "check", "."],
}
# The notebooks must not need the network: requests go to a port where nobody listens.
env = {**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}", "JUPYTER_PLATFORM_DIRS": "1",
       "HF_HUB_OFFLINE": "1", **{k: "http://127.0.0.1:9" for k in ("http_proxy", "https_proxy")}}
env["OMP_NUM_THREADS"] = "1" if workers == "2" else env.get("OMP_NUM_THREADS", "2")

start = time.monotonic()
for name, command in stages.items():
    began = time.monotonic()
    print(f"   {name} …", end="\r", flush=True)
    result = subprocess.run(command, cwd=root, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    summary = result.stdout.strip().splitlines()[-1] if "pytest" in command else ""
    print(f"{'✗' if result.returncode else '✓'} {name}  {time.monotonic() - began:.0f} s  {summary}", flush=True)
    print(*(f"    {line}\n" for line in result.stdout.splitlines() if line.startswith("SKIPPED")), sep="", end="")
    if result.returncode:
        print(result.stdout)
        sys.exit(result.returncode)
print(f"all {len(stages)} stages in {time.monotonic() - start:.0f} s")
