"""Run notebooks and keep what their pages cannot compute: the frames of each slider, each figure sharp and in words.

    python docs/make_pictures.py [03_attention ...]

A page has no Python, so a slider there steps through pictures made here, one for each value. Each figure is also drawn
with twice as many pixels, and its titles and axes become the alternative text. All of it lies in `docs/pictures`, one
folder per notebook; `make_site.py` takes from there what belongs to the cells as they are, and leaves out what is old.
All notebooks take about a quarter of an hour.
"""
import hashlib
import json
import shutil
import sys
from base64 import b64decode
from pathlib import Path

import nbformat
from nbclient import NotebookClient

root = Path(__file__).resolve().parent.parent
pictures = root / "docs" / "pictures"
mime = "application/x-frames+json"

recorder = '''
%matplotlib inline
import base64 as _b64, io as _io, itertools as _it, math as _math
import ipywidgets as _w, matplotlib.pyplot as _plt
from IPython.core.pylabtools import print_figure as _print
from IPython.display import display as _display
from IPython.utils.capture import capture_output as _capture
from matplotlib.figure import Figure as _Figure
from matplotlib_inline.backend_inline import flush_figures as _flush
from PIL import Image as _Image

def _packed(png, colors):
    "A PNG as WebP with few colors: line drawings need no more."
    out, image = _io.BytesIO(), _Image.open(_io.BytesIO(png)).convert("RGB")
    few = image.quantize(colors, dither=_Image.Dither.NONE).convert("RGB")
    few.save(out, "WEBP", lossless=True, quality=60, method=4)
    return _b64.b64encode(out.getvalue()).decode(), image.size

def _in_words(figure):
    "Titles and axes of a figure, as a person would read them out."
    said = [figure.get_suptitle()]
    for ax in figure.axes:
        title, x, y = ax.get_title() or ax.get_title("left"), ax.get_xlabel(), ax.get_ylabel()
        axes = " against ".join(part for part in (y, x) if part)
        said.append(": ".join(part for part in (title, axes) if part))
    said = said if any(said) else ["Drawing", *(text.get_text() for ax in figure.axes for text in ax.texts)][:16]
    return ". ".join(dict.fromkeys(" ".join(part.replace("$", "").split()) for part in said if part))

def _png(figure):
    "The figure as the notebook stores it; in its metadata the same with twice the pixels, and in words."
    if not figure.axes and not figure.lines:
        return None
    plain = _print(figure, "png", bbox_inches="tight", base64=True)
    sharp, size = _packed(_print(figure, "png", bbox_inches="tight", dpi=2 * figure.dpi), 64)
    return plain, {"alt": _in_words(figure), "sharp": sharp, "size": size}

get_ipython().display_formatter.formatters["image/png"].for_type(_Figure, _png)

def _values(widget):
    "All values that a control can take."
    if isinstance(widget, (_w.Dropdown, _w.SelectionSlider)):
        return [(str(label), value) for label, value in zip(widget._options_labels, widget._options_values)]
    if isinstance(widget, _w.Checkbox):
        return [("no", False), ("yes", True)]
    if isinstance(widget, (_w.FloatSlider, _w.IntSlider)):
        n = round((widget.max - widget.min) / widget.step)
        values = [type(widget.value)(round(widget.min + i * widget.step, 9)) for i in range(n + 1)]
        return [(format(value, widget.readout_format), value) for value in values]
    return [("", widget.value)]

def _start(widget, values):
    "The place of the value that is shown first, or of the nearest."
    if widget.value in values:
        return values.index(widget.value)
    return min(range(len(values)), key=lambda i: abs(values[i] - widget.value))

def _interactive(f, **controls):
    "In place of the slider: its frames."
    widgets = {w._kwarg: w for w in _real(f, **controls).kwargs_widgets}
    values = {name: _values(w) for name, w in widgets.items()}
    start = lambda name: _start(widgets[name], [value for _, value in values[name]])
    numeric = [name for name, w in widgets.items() if isinstance(w, (_w.FloatSlider, _w.IntSlider))]
    total = lambda: _math.prod(map(len, values.values()))
    while total() > 130 and (long := [name for name in numeric if len(values[name]) > 8]):  # fewer steps
        name = max(long, key=lambda one: len(values[one]))
        values[name] = values[name][start(name) % 2::2]  # the first value shown is among them
    if total() > 130:  # too many pictures, as for a game: the page links to the notebook
        return _display({"application/x-frames+json": {"controls": [], "frames": []}}, raw=True)
    frames = []
    for chosen in _it.product(*values.values()):
        with _capture() as got:
            f(**{name: value for name, (_, value) in zip(values, chosen)})
            for number in _plt.get_fignums():
                _plt.close(number)
        images = [out.metadata.get("image/png", out.metadata) for out in got.outputs if "image/png" in out.data]
        frames.append({"text": got.stdout, "images": [[image["sharp"], image["size"]] for image in images]})
    names = {name: getattr(w, "description", "") or name for name, w in widgets.items()}
    moved = [{"name": names[name], "labels": [label for label, _ in some], "start": start(name),
              "list": isinstance(widgets[name], (_w.Dropdown, _w.Checkbox))}
             for name, some in values.items() if len(some) > 1]
    _display({"application/x-frames+json": {"controls": moved, "frames": frames}}, raw=True)

_real = _w.interactive
_w.interactive = _w.interact = _interactive
'''


def fingerprint(source: str) -> str:
    "By this a page knows that its pictures belong to the cell as it is."
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def record(name: str) -> None:
    "Run one notebook and keep its pictures."
    notebook = nbformat.read(root / "nbs" / f"{name}.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(recorder))
    resources = {"metadata": {"path": str((root / "nbs" / f"{name}.ipynb").parent)}}
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=resources)
    client.comm_open_handlers = {"jupyter.widget": lambda _: None}  # its answers to widgets can hang it (nbclient #312)
    client.execute()
    folder = pictures / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = {}
    for cell in notebook.cells[1:]:
        if cell.cell_type != "code":
            continue
        entry = {"figures": [], "frames": None}
        for output in cell.outputs:
            data, metadata = output.get("data", {}), output.get("metadata", {})
            if "image/png" in data and "sharp" in metadata.get("image/png", metadata):
                about = metadata.get("image/png", metadata)
                file = f"{cell.id}-{len(entry['figures'])}.webp"
                (folder / file).write_bytes(b64decode(about["sharp"]))
                entry["figures"].append({"file": file, "alt": about["alt"], "size": about["size"]})
            if mime in data:
                frames = data[mime]
                blob, listed = b"", []
                for frame in frames["frames"]:
                    images = []
                    for image, size in frame["images"]:
                        one = b64decode(image)
                        images.append([len(blob), len(one), *size])
                        blob += one
                    listed.append({"text": frame["text"], "images": images})
                (folder / f"{cell.id}.bin").write_bytes(blob)
                entry["frames"] = {"controls": frames["controls"], "frames": listed}
        if entry["figures"] or entry["frames"]:
            kept[cell.id] = {"source": fingerprint(cell.source), **entry}
    (folder / "about.json").write_text(json.dumps(kept, ensure_ascii=False, indent=0), encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    figures = sum(len(entry["figures"]) for entry in kept.values())
    frames = sum(len(entry["frames"]["frames"]) for entry in kept.values() if entry["frames"])
    print(f"{name}: {figures} figures, {frames} frames, {size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    paths = sorted(path for path in (root / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    for chosen in sys.argv[1:] or [path.relative_to(root / "nbs").with_suffix("").as_posix() for path in paths]:
        record(chosen)
