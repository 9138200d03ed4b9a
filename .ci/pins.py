"""Make constraints.txt anew: a pin for every package of the extras, with markers, for Python 3.11.0 to 3.14; and
.ci/lock.txt, the pins of what the tests need with the SHA-256 of every file, for all systems, which CI installs.

    python .ci/pins.py             pins that still fit stay as they are
    python .ci/pins.py --upgrade   the newest of everything
    python .ci/pins.py --check     only look whether every Python on every system can be served by the pins

Needs `pip install uv`, and a package index.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

root = Path(__file__).parent.parent
path = root / "constraints.txt"
locked = root / ".ci" / "lock.txt"
extras = ["--extra=dev", "--extra=bench", "--extra=docs"]
pythons = ("3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0")
systems = ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")


def compile_pins(*options: str, extras: list[str] = extras, **how: object) -> subprocess.CompletedProcess:
    "uv's resolver on the extras of this package."
    command = [sys.executable, "-m", "uv", "pip", "compile", "setup.py", *extras]
    command += ["--no-annotate", "--no-header", "--quiet", "--refresh-package=transformer-nbdev"]  # settings.ini counts
    env = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"}  # the oldest that PyTorch has wheels for
    return subprocess.run([*command, *options], cwd=root, env=env, **how)


def lock() -> None:
    "The pins again, with hashes. PyTorch is not among them: which of its builds, is chosen by the index."
    done = compile_pins("--universal", "--python-version=3.11.0", "--generate-hashes", f"--constraint={path}",
                        extras=["--extra=dev"], check=True, capture_output=True, text=True)
    blocks = re.split(r"(?m)^(?=\S)", done.stdout)
    kept = [block for block in blocks if not re.match(r"torch==|nvidia-|cuda-|triton", block)]
    locked.write_text("".join(kept), encoding="utf-8")


def check() -> int:
    "Resolve for each Python and system, under the pins, with nothing but wheels; how many fail."
    failed = 0
    for python in pythons:
        for system in systems:
            where = (f"--python-version={python}", f"--python-platform={system}")
            done = compile_pins(f"--constraint={path}", *where, capture_output=True, text=True)
            loose = [] if done.returncode else unpinned(done.stdout)
            print(f"{'✗' if done.returncode or loose else '✓'} Python {python}, {system}", *loose, flush=True)
            print(done.stderr, end="")
            failed += bool(done.returncode or loose)
    return failed


def unpinned(resolved: str) -> list[str]:
    "What was resolved and is not in constraints.txt; CUDA's own packages are pinned by PyTorch."
    pins = set(re.findall(r"^[\w.-]+==[^\s;]+", path.read_text(encoding="utf-8"), re.M))
    found = re.findall(r"^[\w.-]+==[^\s;+]+", resolved, re.M)
    return [line for line in found if line not in pins and not re.match(r"nvidia-|cuda-|triton", line)]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check() > 0)
    compile_pins("--universal", "--python-version=3.11.0", f"--output-file={path}", *sys.argv[1:], check=True)
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not re.match(r"nvidia-|cuda-|triton", line)]  # pinned by PyTorch itself
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    lock()
