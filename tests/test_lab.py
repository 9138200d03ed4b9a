"Notebooks in JupyterLab, in a real browser."
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from helpers import root
from pages import look, needs_browser

pytestmark = needs_browser


@pytest.fixture
def lab(tmp_path):
    "The address of a JupyterLab over a copy of the notebooks."
    shutil.copytree(root / "nbs", tmp_path / "nbs", ignore=shutil.ignore_patterns(".*"))
    (tmp_path / "benchmarks").mkdir()
    shutil.copytree(root / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    setting = tmp_path / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    setting.parent.mkdir(parents=True)
    setting.write_text('{"windowingMode": "none"}')  # all cells are on the page, not those in view alone
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}",
               "--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path / 'nbs'}"]
    places = {"JUPYTERLAB_SETTINGS_DIR": tmp_path / "settings", "JUPYTERLAB_WORKSPACES_DIR": tmp_path / "spaces"}
    env = {**os.environ, **{name: str(place) for name, place in places.items()}}
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
