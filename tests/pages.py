"What tests of pages share: a browser, and the scripts that look with it."
import os
import shutil
import subprocess

import pytest
from helpers import root

docs = root / "docs"
browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    not (browser and shutil.which("node") and (docs / "node_modules").is_dir()),
    reason="needs Chromium, Node.js and what npm brings: python run.py site",
)


def look(script, *arguments):
    "Run a script of docs/, which fails if it sees what must not be."
    command = ["node", str(docs / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "CHROMIUM": browser})
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
