"""Make constraints.txt anew: a pin for every package of the extras, with markers, for Python 3.11.0 to 3.14.

Needs `pip install uv`. Pins that still fit stay as they are; `--upgrade` takes the newest of everything.
"""
import re
import subprocess
import sys
from pathlib import Path

root = Path(__file__).parent.parent
path = root / "constraints.txt"
extras = [f"--extra={name}" for name in ("dev", "bench")]
subprocess.run(
    [sys.executable, "-m", "uv", "pip", "compile", "setup.py", *extras, "--universal", "--python-version=3.11.0",
     "--no-annotate", "--no-header", "--quiet", f"--output-file={path}", *sys.argv[1:]], cwd=root, check=True)
# CUDA's own packages are pinned by PyTorch itself; its CPU build has none.
lines = [line for line in path.read_text().splitlines() if not re.match(r"nvidia-|cuda-|triton", line)]
path.write_text("\n".join(lines) + "\n")
