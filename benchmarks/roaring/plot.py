"""The plot of a run: add and contains against the size, log-log."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.plots import save
from benchmarks.roaring.published import TABLE, Row
from benchmarks.roaring.results import Results


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw random deletions of 32 bits, if there are any: the mean of the rates, in a band from least to most."""
    import matplotlib.pyplot as plt

    results = Results(result)
    if ("random", 32) not in results.kinds:
        return
    rows = [row for row in TABLE if (row.name, "random", 32) in results.cases()]
    sizes = sorted({row.rows for row in rows})
    figure, axes = plt.subplots(1, 2, figsize=(12, 5))
    for axis, (title, lines) in zip(axes, _panels(results).items(), strict=True):
        for name, cost in lines.items():
            times = [[cost(row) for row in rows if row.rows == size] for size in sizes]
            means = [math.exp(sum(map(math.log, some)) / len(some)) for some in times]
            (line,) = axis.plot(sizes, means, marker="o", label=name)
            least, most = list(map(min, times)), list(map(max, times))
            axis.fill_between(sizes, least, most, alpha=0.15, color=line.get_color())
        axis.set(xscale="log", yscale="log", title=title, xlabel="rows of the file", ylabel="ms")
        axis.grid(which="both", alpha=0.3)
        axis.legend()
    figure.suptitle("Random deletions of 20, 50 and 80 %, 32 bits: mean, in a band from least to most")
    save(figure, path)


def _panels(results: Results) -> dict[str, dict[str, Callable[[Row], float]]]:
    def of(implementation: str, *steps: str) -> Callable[[Row], float]:
        return lambda row: results.of(row, "random", 32)(implementation, *steps)

    return {
        "add": {
            "published": lambda row: TABLE[row].add,
            "pyroaring": of("pyroaring", "add"),
            "Java": of("java-per-value", "add"),
            "Java bulk, best": of("java-bulk", "add-array", "add-mask"),
            "ours, sorted array": of("ours", "add-array"),
            "ours, mask": of("ours", "add-mask"),
        },
        "contains": {
            "published": lambda row: TABLE[row].contains,
            "pyroaring": of("pyroaring", "contains"),
            "Java": of("java-per-value", "contains"),
            "Java, every row": of("java-per-value", "contains-rows"),
            "Java bulk, every row": of("java-bulk", "mask"),
            "ours, every row": of("ours", "mask"),
        },
    }
