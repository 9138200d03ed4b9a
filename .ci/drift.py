"Does the package hold exactly what the notebooks export? Both ways, in a copy; nothing here is changed."
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(__file__).parent.parent
by_hand = {"__init__.py", "__main__.py", "py.typed", "glass.html"}


def exported(folder: Path) -> dict[str, Path]:
    "The generated files below a package folder."
    return {str(p.relative_to(folder)): p for p in folder.rglob("*")
            if p.is_file() and "__pycache__" not in p.parts and p.name not in by_hand}


with tempfile.TemporaryDirectory() as name:
    copy = Path(name)
    (copy / "transformer_nbdev").mkdir()
    shutil.copytree(root / "nbs", copy / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    for file in ("settings.ini", "transformer_nbdev/__init__.py"):
        shutil.copy(root / file, copy / file)
    before = {p: p.read_bytes() for p in (copy / "nbs").rglob("*.ipynb")}
    tools = Path(sys.executable).parent
    for tool in ("nbdev_clean", "nbdev_export"):
        subprocess.run([tools / tool], cwd=copy, check=True, env={**os.environ, "PYTHONPATH": str(copy)})
    fresh, here = exported(copy / "transformer_nbdev"), exported(root / "transformer_nbdev")
    problems = [f"transformer_nbdev/{f} is exported but not in the package" for f in fresh.keys() - here.keys()]
    problems += [f"transformer_nbdev/{f} is exported by no notebook" for f in here.keys() - fresh.keys()]
    problems += [f"transformer_nbdev/{f} differs from what the notebooks export" for f in fresh.keys() & here.keys()
                 if not filecmp.cmp(fresh[f], here[f], shallow=False)]
    problems += [f"{p.relative_to(copy)} is not clean" for p, content in before.items() if p.read_bytes() != content]
if problems:
    sys.exit("\n".join(sorted(problems)) + "\nrun nbdev_clean and nbdev_export")
