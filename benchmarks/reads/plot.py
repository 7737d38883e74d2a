"""The plot of a run: how many times the floor each way of reading takes, by the share of marked rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.plots import save


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw a panel for each query and runner; counts are left out, because they read nothing."""
    import matplotlib.pyplot as plt

    cells = [cell for cell in result["cells"] if cell["query"] != "count"]
    queries = list(dict.fromkeys(cell["query"] for cell in cells))
    runners = list(dict.fromkeys(cell["runner"] for cell in cells))
    if not cells:
        return
    size = (4 * len(queries), 3.6 * len(runners))
    figure, axes = plt.subplots(len(runners), len(queries), figsize=size, squeeze=False, sharey=True)
    for row, runner in zip(axes, runners, strict=True):
        for axis, query in zip(row, queries, strict=True):
            _panel(axis, [cell for cell in cells if (cell["runner"], cell["query"]) == (runner, query)])
            axis.set(title=f"{query}, {runner}", xlabel="% of the rows marked", yscale="log")
        row[0].set_ylabel("times the floor (least)")
    axes[0][0].legend()
    figure.suptitle("Reading a table with deletion vectors")
    save(figure, path)


def _panel(axis: Any, cells: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for cell in cells for name in cell["variants"]))
    axis.axhline(1, color="grey", linewidth=1)
    for name in names[1:]:  # the first is the floor
        points = [
            (cell["percent"], cell["ratios"][f"{name} / {names[0]}"]["least"])
            for cell in cells
            if f"{name} / {names[0]}" in cell["ratios"]
        ]
        axis.plot(*zip(*points, strict=True) if points else ((), ()), marker="o", label=name)
    axis.set_xticks([cell["percent"] for cell in cells])
    axis.grid(which="both", alpha=0.3)
