"What a reader sees in a real browser: notebooks in JupyterLab, the reading site and the glass translator."
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from helpers import root

docs = root / "docs"
browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    not (browser and shutil.which("node") and (docs / "node_modules").is_dir()),
    reason="needs Chromium, Node.js and what npm brings: python run.py site",
)


def look(script, *arguments):
    "Run a script of docs/, which fails if it sees what must not be."
    command = ["node", str(docs / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "CHROMIUM": browser})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site():
    "The folder of the built site."
    if not importlib.util.find_spec("sphinx"):
        pytest.skip("needs Sphinx: python run.py site")
    done = subprocess.run([sys.executable, str(docs / "make_site.py")], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return docs / "_build" / "site"


def test_every_page_link_and_question(site):
    look("check_site.mjs", site)


def test_the_glass_translator_is_the_one_of_python(site):
    look("check_glass.mjs", site, docs / "glass" / "model" / "checks.json")


@pytest.fixture
def lab(tmp_path):
    "The address of a JupyterLab over a copy of the notebooks."
    for folder in ("nbs", "benchmarks/results", "benchmarks/starts"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns(".*"))
    setting = tmp_path / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    setting.parent.mkdir(parents=True)
    setting.write_text('{"windowingMode": "none"}')  # all cells are on the page, not those in view alone
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}",
               "--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path / 'nbs'}"]
    places = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "spaces"}
    env = {**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}}
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as server:
        address, until = f"http://127.0.0.1:{port}", time.monotonic() + 60
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                opener.open(f"{address}/api").close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.3)
        yield address
        server.terminate()


def test_run_all_and_sliders_in_jupyterlab(lab):
    look("check_lab.mjs", lab, "00_foundations", "03_attention", "13_translation")
