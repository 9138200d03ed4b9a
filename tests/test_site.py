"The reading site and the glass translator, built and looked at in a real browser."
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from helpers import root

docs = root / "docs"
browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)


@pytest.fixture(scope="module")
def site():
    "The folder of the built site."
    if not browser or not shutil.which("node"):
        pytest.skip("no Chromium or no Node.js here: the site is not looked at")
    if not importlib.util.find_spec("sphinx") or not (docs / "node_modules").is_dir():
        pytest.skip("the site's own packages are not here: python run.py site")
    done = subprocess.run([sys.executable, str(docs / "make_site.py")], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return docs / "_build" / "site"


def look(script, *arguments):
    command = ["node", str(docs / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "CHROMIUM": browser})
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


def test_every_page_link_and_question(site):
    look("check_site.mjs", site)


def test_the_glass_translator_is_the_one_of_python(site):
    look("check_glass.mjs", site, docs / "_build" / "model" / "checks.json")
