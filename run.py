"""Set the course up and run it, with nothing but Python 3.11 or newer (no shell, no make).

    python run.py translate   translate numbers that you type; the first time it trains the translator, about a minute
    python run.py lab         read and run the course in JupyterLab
    python run.py test        check everything; test 05 only one notebook and its tests
    python run.py bench       measure ours beside others, about an hour
    python run.py readme      make README.md anew
    python run.py site        make the course as web pages, and the glass translator (needs Node.js)
    python run.py pictures    before that: the pages' sliders and sharp figures, by running all notebooks (20 minutes)
    python run.py book        the same, and one PDF (needs Chromium or Chrome, too)

lab opens your own copies of the notebooks, in my_notebooks/; lab --edit opens those of the repository. It also takes a
port (lab 9000) and Jupyter's options (lab --no-browser). test --as-laptop checks as on a processor without AVX-512.

The first call makes the folder .venv; delete it and everything is as before.
"""
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parent
python = root / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
sources = [root / name for name in ("settings.ini", "setup.py", "constraints.txt")]
cpu_index = "https://download.pytorch.org/whl/cpu"
copies = root / "my_notebooks"


def call(*command: object) -> None:
    "Run it; a failure, already told by the program itself, ends this one with the same code."
    process = subprocess.Popen([str(word) for word in command], cwd=root)
    while process.returncode is None:
        try:
            process.wait()
        except KeyboardInterrupt:
            pass  # Ctrl-C reaches the program, too: it saves its work and ends, and this one waits for it
    if process.returncode:
        sys.exit(process.returncode)


def has_gpu() -> bool:
    "Whether there is an NVIDIA GPU that works."
    if Path("/proc/driver/nvidia").exists():
        return True
    tool = shutil.which("nvidia-smi")
    return bool(tool) and not subprocess.run([tool], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def reachable(index: str) -> bool:
    "Whether pip, with the certificates and proxies it knows, finds a CPU build of PyTorch there within seconds."
    command = [python, "-m", "pip", "index", "versions", "torch", "--index-url", index, "--timeout=5", "--retries=0"]
    try:
        done = subprocess.run([*map(str, command)], timeout=30, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and "+cpu" in done.stdout


def told() -> list:
    "What pip was told, by variables or in its configuration, about where packages are."
    done = subprocess.run([str(python), "-m", "pip", "config", "list"], capture_output=True, text=True)
    return re.findall(r"\b((?:extra-)?index-url|find-links)=", done.stdout)


def choose_pytorch() -> str:
    """Which PyTorch pip will install, in words; on Linux without a GPU pip is pointed to the CPU build.

    On Linux the ordinary build brings NVIDIA's libraries with it, two thirds of all that is installed.
    """
    if sys.platform != "linux":
        return "about 2 GB on the disk, a third of it PyTorch"
    settings = told()
    if settings:
        return f"2 GB on the disk, or 6 if your setting of pip's {settings[0]} leads to PyTorch with NVIDIA's libraries"
    if has_gpu():
        return "about 6 GB on the disk, 2.5 to download, most of it PyTorch for your NVIDIA GPU"
    if reachable(cpu_index):
        os.environ["PIP_EXTRA_INDEX_URL"] = cpu_index
        return f"about 2 GB on the disk\n   (PyTorch's CPU build from {cpu_index}, as there is no NVIDIA GPU here)"
    return ("about 6 GB on the disk, 2.5 to download\n   (there is no NVIDIA GPU here, but the index with its CPU "
            f"build, {cpu_index},\n   does not answer, so pip takes the ordinary build, with NVIDIA's libraries)")


def pip(*words: str, first: bool) -> tuple:
    "Run pip and show its progress, later without what is there already; its exit code and its complaints."
    command = [str(python), "-m", "pip", *words]
    streams = {"stderr": subprocess.PIPE} if first else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    complaints = ""
    with subprocess.Popen(command, cwd=root, text=True, errors="replace", **streams) as process:
        for line in process.stderr or process.stdout:
            if not line.startswith("Requirement already satisfied"):
                print(line, end="", flush=True)
                complaints += line
    return process.returncode, complaints


def pip_install(extra: str, first: bool = False) -> None:
    "This package, to be edited in place, with an extra: by the pins, or if one has vanished by the ranges."
    # Python compiles a module when it is first imported; compiling all of them now would take 20 seconds more.
    install = ["install", "--disable-pip-version-check", "--no-compile", "-e", f".[{extra}]"]
    code, complaints = pip(*install, "-c", "constraints.txt", first=first)
    if code and any(line in complaints for line in ("No matching distribution", "ResolutionImpossible")):
        print("== a version of constraints.txt cannot be had here: installing by the ranges of settings.ini instead")
        code, complaints = pip(*install, first=first)
    if code:
        sys.exit(code)


def set_up() -> None:
    "Make .venv, or renew it if what it was made from has changed."
    stamp = root / ".venv" / ".installed"
    first = not stamp.exists()
    if not first and all(stamp.stat().st_mtime >= path.stat().st_mtime for path in sources):
        return
    if first and subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")]).returncode:
        sys.exit("no virtual environment could be made; on Debian and Ubuntu: apt install python3-venv")
    chosen = choose_pytorch()
    print(f"== making .venv, once, in 2 to 10 minutes: {chosen}" if first else "== renewing .venv", flush=True)
    pip_install("dev", first)
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


def fingerprints(path: Path) -> list:
    "Of a file: what is written in it, which in a notebook is its cells (to run it is no change); and of every byte."
    content = path.read_bytes()
    written = content
    if path.suffix == ".ipynb":
        try:
            cells = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(content)["cells"]]
            written = json.dumps(cells).encode()
        except (ValueError, KeyError, TypeError):
            pass  # it is no notebook any more: every byte counts
    return [hashlib.sha256(part).hexdigest() for part in (written, content)]


def renew_copies() -> list:
    """Copy nbs/ to my_notebooks/, but keep what the reader has changed; of that, the names of what is newer in nbs/.

    `.copied` has the fingerprints that each file had when it was copied.
    """
    record = copies / ".copied"
    copied = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    nbs = root / "nbs"
    paths = [path for path in nbs.rglob("[!.]*") if path.is_file() and ".ipynb_checkpoints" not in path.parts]
    here = {path.relative_to(nbs).as_posix(): fingerprints(path) for path in paths}
    newer = []
    for name in sorted({*here, *copied}):
        mine, old, new = copies / name, copied.get(name, [""]), here.get(name, [""])
        if mine.exists() and fingerprints(mine)[0] not in (old[0], new[0]):
            newer += [name] * (new != [""] and new[0] != old[0])
        elif name not in here:
            mine.unlink(missing_ok=True)
            del copied[name]
        elif not mine.exists() or new != old:
            mine.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(nbs / name, mine)
            copied[name] = new
    record.write_text(json.dumps(copied, indent=1), encoding="utf-8")
    return newer


def lab(*words: str) -> None:
    "JupyterLab, on the first page of the reader's own copies."
    port = next((int(word) for word in words if word.isdigit()), 8888)
    options = [word for word in words if not word.isdigit() and word != "--edit"]
    folder = root / "nbs" if "--edit" in words else copies
    free(port)
    if folder == copies:
        newer = renew_copies()
        print("== your notebooks are in my_notebooks/; nothing you do there touches those of the course")
        if newer:
            print(f"== kept because you changed them, though nbs/ has newer ones: {', '.join(newer)}\n"
                  "   To get a new one, rename or delete yours and start again.", flush=True)
    page = ["--ServerApp.port_retries=0", f"--LabApp.default_url=/lab/tree/{folder.name}/index.ipynb"]
    as_root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    call(python, "-m", "jupyter", "lab", f"--port={port}", *page, *as_root, *options)


def translate() -> None:
    "Train the translator of numbers unless that is done, then translate what is typed."
    run = root / "runs" / "numbers"
    command = [python, "-m", "transformer_nbdev"]
    if not (run / ".trained").exists():
        begun = any(run.glob("checkpoints/step-*"))
        print("== " + ("going on with the training" if begun else "training a translator of numbers, about a minute"))
        print("   Ctrl-C stops it; the next `run.py translate` goes on from there.", flush=True)
        call(*command, "train", "--out", run, *["--resume"] * begun)
        (run / ".trained").touch()
    call(*command, "translate", "--model", run)


def bench() -> None:
    "The two benchmarks that the first page names, and their table."
    pip_install("bench")
    for script in ("train.py", "decode.py", "report.py"):
        call(python, f"benchmarks/{script}")


def site(*options: str) -> None:
    "The course as web pages."
    pip_install("docs")
    call(python, "docs/make_site.py", *options)


tasks = {
    "translate": translate,
    "lab": lab,
    "test": lambda *words: call(python, ".ci/check.py", *words),
    "bench": bench,
    "readme": lambda: call(python, ".ci/readme.py"),
    "site": site,
    "book": lambda: site("--book"),
    "pictures": lambda *words: call(python, "docs/make_pictures.py", *words),
}


def main() -> None:
    "What the command line asks for."
    if sys.version_info < (3, 11):  # noqa: UP036  # this file has no syntax that an older one would not read
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    # Two threads, which wait for each other not too busily (see speed/bench); freed memory is kept (see speed/parts).
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    # Without what Python compiled once, each process would compile PyTorch anew, in six seconds.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    task, *words = sys.argv[1:] or [""]
    if task in ("-h", "--help", "help"):
        print(__doc__)
        return
    wrong = task not in tasks or (words and task not in ("lab", "test", "pictures"))
    if task == "lab":
        plain = [word for word in words if not word.startswith("--")]
        wrong = len(plain) > 1 or not all(map(str.isdigit, plain))
    if wrong:
        sys.exit(__doc__)
    set_up()
    tasks[task](*words)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
