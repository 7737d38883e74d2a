"""How plots are saved, and those of compactions, of growth and of lookups in logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "pktable"


def draw_bars(panels: Mapping[str, Mapping[str, float]], label: str, path: Path) -> None:
    """Draw a panel of horizontal bars for each title, on one logarithmic scale."""
    import matplotlib.pyplot as plt

    heights = [len(bars) for bars in panels.values()]
    size = (9, 0.45 * sum(heights) + 1.2 * len(panels))
    figure, axes = plt.subplots(
        len(panels), 1, figsize=size, sharex=True, height_ratios=heights, squeeze=False
    )
    for (axis,), (title, bars) in zip(axes, panels.items(), strict=True):
        names = list(bars)[::-1]
        drawn = axis.barh(names, [bars[name] for name in names])
        axis.bar_label(drawn, fmt="{:,.0f}", padding=3)
        axis.set(title=title, xscale="log")
        axis.margins(x=0.25)
    axes[-1][0].set_xlabel(label)
    save(figure, path)


def draw_growth(found: Mapping[str, Mapping[int, Mapping[str, float]]], path: Path) -> None:
    """Draw milliseconds against size, log-log, a panel for each thing that grows."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(5 * len(found), 4.5), squeeze=False)
    for axis, (what, by_size) in zip(axes[0], found.items(), strict=True):
        sizes: Sequence[int] = list(by_size)
        for name in by_size[sizes[0]]:
            axis.plot(sizes, [by_size[size][name] for size in sizes], marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel=what, ylabel="ms")
        axis.grid(which="both", alpha=0.3)
        axis.legend(fontsize="small")
    figure.suptitle("What grows with what")
    save(figure, path)


def draw_lookups(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]], yardstick: float, path: Path
) -> None:
    """Draw kilobytes against the number of log files, log-log: a panel for each title, a line for each index.

    ``yardstick``: the kilobytes of the footer of a base file.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4.5), squeeze=False)
    colours: dict[str, Any] = {}
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for name, by_size in lines.items():
            sizes, values = list(by_size), list(by_size.values())
            (line,) = axis.plot(sizes, values, marker="o", color=colours.get(name), label=name)
            colours[name] = line.get_color()
        axis.axhline(yardstick, color="grey", linestyle=":", label="footer of the base file")
        axis.set(xscale="log", yscale="log", title=title, xlabel="log files", ylabel="kB")
        axis.grid(which="both", alpha=0.3)
        axis.legend(fontsize="small")
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure, the same bytes for the same figure."""
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
