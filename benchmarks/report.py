"""Tables and plots from stored results: python benchmarks/report.py [benchmarks/results/*/train_*.json …]

For each FILE.json a table is printed and FILE.png is drawn. Without a name: train.json and decode.json of this machine,
which `python run.py bench` makes.
"""
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from common import results


def table(record: dict) -> str:
    "Markdown: tokens a second with their range, and peak memory where it was measured, of every system."
    lines = ["| | system | tokens/s | range | extra MiB |", "|---|---|---|---|---|"]
    for task, rows in record["rows"].items():
        for name, row in rows.items():
            if "error" in row:
                lines.append(f"| {task} | {name} | failed: {row['error'][:60]} | | |")
                continue
            span = f"{row['lowest']:,} – {row['highest']:,}"
            lines.append(f"| {task} | {name} | {row['tokens_per_second']:,} | {span} | {row['extra_mib']:,} |")
    return "\n".join(lines)


def plot(record: dict, path: Path) -> None:
    "Horizontal bars with their ranges, a panel a task."
    tasks = record["rows"]
    figure, axes = plt.subplots(len(tasks), figsize=(7, 0.6 + 1.9 * len(tasks)), layout="constrained", squeeze=False)
    for ax, (task, rows) in zip(axes[:, 0], tasks.items()):
        rows = {name: row for name, row in rows.items() if "error" not in row}
        medians = [row["tokens_per_second"] for row in rows.values()]
        low = [m - row["lowest"] for m, row in zip(medians, rows.values())]
        high = [row["highest"] - m for m, row in zip(medians, rows.values())]
        colours = ["#d55e00" if name.startswith("ours") else "#0072b2" for name in rows]
        ax.barh(list(rows), medians, xerr=[low, high], color=colours, ecolor="#666666")
        ax.set(title=task, xlabel="tokens a second")
        ax.invert_yaxis()
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    for name in sys.argv[1:] or (results / "train.json", results / "decode.json"):
        found = json.loads(Path(name).read_text(encoding="utf-8"))
        print(f"{found['task']}; {found['machine']}, {found['device']}, {found['date']}\n\n{table(found)}\n")
        plot(found, Path(name).with_suffix(".png"))
