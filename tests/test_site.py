"The reading site and the glass translator, built and looked at in a real browser."
import importlib.util
import subprocess
import sys

import pytest
from pages import docs, look, needs_browser

pytestmark = [needs_browser, pytest.mark.skipif(
    not importlib.util.find_spec("sphinx"), reason="needs Sphinx: python run.py site")]


@pytest.fixture(scope="module")
def site():
    "The folder of the built site."
    done = subprocess.run([sys.executable, str(docs / "make_site.py")], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return docs / "_build" / "site"


def test_every_page_link_and_question(site):
    look("check_site.mjs", site)


def test_the_glass_translator_is_the_one_of_python(site):
    look("check_glass.mjs", site, docs / "_build" / "model" / "checks.json")
