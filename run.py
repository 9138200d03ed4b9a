"""Set the course up and run it, with nothing but Python 3.11 or newer (no shell, no make).

    python run.py lab [PORT]      read and run it in JupyterLab
    python run.py test            everything that must hold
    python run.py bench           ours beside others, about an hour
    python run.py readme          make README.md anew
    python run.py site            the course as web pages, and the glass translator (needs Node.js)
    python run.py book            the same, and as one PDF (needs Chromium or Chrome, too)

The first call makes the folder .venv; delete it and everything is as before.
"""
import os
import socket
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parent
python = root / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
sources = [root / name for name in ("settings.ini", "setup.py", "constraints.txt")]
size = """\
== making .venv, once: 1.9 GB on the disk, a third of it PyTorch.
   On Linux pip takes PyTorch's build for NVIDIA GPUs, near 6 GB in all, unless it is told where the other one is:
   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu python3 run.py lab"""


def call(*command: object, **options: object) -> None:
    "Run it; a failure, already told by the program itself, ends this one with the same code."
    code = subprocess.run([str(word) for word in command], cwd=root, **options).returncode
    if code:
        sys.exit(code)


def pip_install(extra: str) -> None:
    "This package, to be edited in place, with an extra: by the pins, or if one has vanished by the ranges."
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", f".[{extra}]"]
    pinned = subprocess.run([*map(str, install), "-c", "constraints.txt"], cwd=root, stderr=subprocess.PIPE, text=True)
    if not pinned.returncode:
        return
    print(pinned.stderr, file=sys.stderr, end="")
    if not any(line in pinned.stderr for line in ("No matching distribution", "ResolutionImpossible")):
        sys.exit(pinned.returncode)
    print("== a version of constraints.txt cannot be had here: installing by the ranges of settings.ini instead")
    call(*install)


def set_up() -> None:
    "Make .venv, or renew it if what it was made from has changed."
    stamp = root / ".venv" / ".installed"
    if stamp.exists() and all(stamp.stat().st_mtime >= path.stat().st_mtime for path in sources):
        return
    if not python.exists():
        print(size, flush=True)
        if subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")]).returncode:
            sys.exit("no virtual environment could be made; on Debian and Ubuntu: apt install python3-venv")
    pip_install("dev")
    stamp.touch()


def free(port: int) -> int:
    "The port; or one line that says why it cannot be used."
    with socket.socket() as s:
        if os.name != "nt":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            sys.exit(f"port {port} cannot be used ({error}); choose another one: python run.py lab {port + 1}")
    return port


def lab(port: int = 8888) -> None:
    "JupyterLab, on the first page."
    page = ["--ServerApp.port_retries=0", "--LabApp.default_url=/lab/tree/nbs/index.ipynb"]
    as_root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    call(python, "-m", "jupyter", "lab", f"--port={free(port)}", *page, *as_root)


def bench() -> None:
    "The two benchmarks that the first page names, and their table."
    pip_install("bench")
    for script in ("train.py", "decode.py", "report.py"):
        call(python, f"benchmarks/{script}")


def site(*options: str) -> None:
    "The course as web pages."
    pip_install("docs")
    call(python, "docs/make_site.py", *options)


def main() -> None:
    "What the command line asks for."
    if sys.version_info < (3, 11):  # noqa: UP036  # this file has no syntax that an older one would not read
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    # Two threads, which wait for each other not too busily (see 16_performance); freed memory is kept (see 16_engine).
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    task, *rest = sys.argv[1:] or [""]
    known = task in ("lab", "test", "bench", "readme", "site", "book")
    if not known or len(rest) > (task == "lab") or not all(map(str.isdigit, rest)):
        sys.exit(__doc__)
    set_up()
    if task == "lab":
        lab(*map(int, rest))
    elif task == "bench":
        bench()
    elif task in ("site", "book"):
        site(*["--book"] * (task == "book"))
    else:
        call(python, {"test": ".ci/check.py", "readme": ".ci/readme.py"}[task])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
