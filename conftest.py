"""For nbval: what nbdev_clean removed is put back, a final semicolon counts, and figures are compared."""
import base64
import importlib.util
import io
import os
import tempfile

import numpy as np
import pytest


def _execute(self, cell_input=None, allow_stdin=None):
    "As nbval does, but with history: without it a semicolon at the end of a cell would hide nothing."
    return self.kc.execute(cell_input or "", store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


if importlib.util.find_spec("nbval"):  # `pytest tests` does without
    from nbval.kernel import RunningKernel

    RunningKernel.execute_cell_input = _execute

# What exercises are solved is the reader's own: notebooks under test write it elsewhere.
os.environ["TRANSFORMER_NBDEV_HOME"] = tempfile.mkdtemp(prefix="transformer_nbdev-")
os.environ["TRANSFORMER_NBDEV_CHECK_SOLUTIONS"] = "1"  # at the end of each notebook; a reader does not wait for it
# Every race is run, but briefly: no test depends on who wins.
os.environ["TRANSFORMER_NBDEV_ROUNDS"] = "2"

needed = {
    "marian.ipynb": ("transformers", "sentencepiece"),
    "quantization.ipynb": ("ctranslate2",),
    "ctranslate2.ipynb": ("transformers", "sentencepiece", "ctranslate2"),
    "folders.ipynb": ("ctranslate2",),
}


def pytest_collection_modifyitems(items):
    "nbdev_clean empties execution counts; nbval would take such cells for never run. And extras may be missing."
    for item in items:
        if type(item).__name__ == "IPyNbCell":
            item.cell.execution_count = item.cell_num + 1
        missing = [name for name in needed.get(item.path.name, ()) if not importlib.util.find_spec(name)]
        if missing:
            reason = f"{item.path.name} needs {', '.join(missing)}: pip install transformers sentencepiece ctranslate2"
            item.add_marker(pytest.mark.skip(reason=reason))


def _figures(outputs) -> list[np.ndarray]:
    "The PNG figures among a cell's outputs, as arrays."
    from matplotlib.image import imread
    pngs = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    return [imread(io.BytesIO(base64.b64decode(png))) * 255 for png in pngs]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    "A figure differs from the stored one: other number, other size, or a root mean square difference over 2 of 255."
    result = yield
    if type(item).__name__ == "IPyNbCell" and "NBVAL_IGNORE_OUTPUT" not in item.cell.source:
        stored, fresh = _figures(item.cell.outputs), _figures(getattr(item, "test_outputs", None) or [])
        assert len(stored) == len(fresh), f"{len(stored)} figures are stored, {len(fresh)} were drawn"
        for old, new in zip(stored, fresh):
            assert old.shape == new.shape, f"the figure was {old.shape}, is {new.shape}"
            difference = float(np.sqrt(((old - new) ** 2).mean()))
            assert difference < 2, f"the figure differs from the stored one by {difference:.1f} of 255"
    return result
