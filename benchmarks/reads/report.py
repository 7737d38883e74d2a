"""What a run found: a table for people, the same as JSON, and a plot."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, hardware, load
from benchmarks.reads.measure import Variant
from benchmarks.reads.plot import draw
from benchmarks.reads.queries import COUNT, Query
from benchmarks.reads.variants import FLOOR, MERGED, READ

MERGE_GOAL = 6.0
SETTINGS = ("PKTABLE_BENCH_SCALE", "PKTABLE_BENCH_ROUNDS")
TITLES = {"Spark": "With Spark", "local": "Without Spark"}


class Results:
    """Gathers the cells of a run. ``scale`` of TPC-H."""

    def __init__(self, scale: float, rounds: int, slow_rounds: int) -> None:
        self._began = time.time()
        self._about = describe()
        self._scale, self._rounds, self._slow_rounds = scale, rounds, slow_rounds
        self._cells: list[dict[str, Any]] = []

    def add(
        self, runner: str, percent: int, query: Query, variants: list[Variant], extra: dict[str, Any]
    ) -> None:
        """Keep what was measured of one query; put the times and ratios into ``extra``."""
        times = {variant.name: variant.summary() for variant in variants}
        ratios = _ratios(times)
        extra.update({"percent marked": percent, "seconds": times, "ratios": ratios})
        self._cells.append(
            {
                "runner": runner,
                "percent": percent,
                "query": query.name,
                "what": query.what,
                "goal": query.goal,
                "variants": times,
                "ratios": ratios,
            }
        )

    def write(self, folder: Path) -> None:
        """Write reads.json, reads.md and, where matplotlib is installed, reads.svg."""
        if not self._cells:
            return
        result = {
            "command": _command(),
            "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self._began)),
            "minutes": round((time.time() - self._began) / 60, 1),
            "machine": {**self._about, "load_after": load()},
            "scale": self._scale,
            "rounds": self._rounds,
            "slow_rounds": self._slow_rounds,
            "cells": self._cells,
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reads.json").write_text(json.dumps(result, indent=1) + "\n")
        (folder / "reads.md").write_text("\n".join(_lines(result)) + "\n")
        draw(result, folder / "reads.svg")


def _ratios(times: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return how many times as long as the floor each took, and how many times as long as ours merging took."""
    found = {}
    pairs = [(name, FLOOR) for name in times if name != FLOOR] + [(MERGED, READ)]
    for name, other in pairs:
        if "failed" not in times[name]:
            found[f"{name} / {other}"] = {
                how: round(times[name][how] / times[other][how], 3)
                for how in ("least", "median", "processor")
                if times[other][how]
            }
    return found


def _command() -> str:
    settings = [f"{name}={value}" for name, value in os.environ.items() if name in SETTINGS]
    return " ".join([*settings, "python -m pytest", shlex.join(sys.argv[1:])])


def _lines(result: dict[str, Any]) -> Iterator[str]:
    about = result["machine"]
    yield "# Reads with deletion vectors"
    yield ""
    yield f"`{result['command']}`, begun {result['began']}, {result['minutes']} minutes."
    yield f"{hardware(about)};"
    yield f"{about['java']}; Python {about['python']}, pyspark {about['pyspark']}, pyarrow {about['pyarrow']}."
    yield f"Load average {about['load_before']} before, {about['load_after']} after."
    yield ""
    yield f"TPC-H lineitem, scale {result['scale']:g}, 4 buckets; so many percent of the top-level rows marked"
    yield f"by an upsert. {result['rounds']} rounds in which all take turns, after one to warm up; merge-on-read"
    yield f"and the other readers {result['slow_rounds']}, warming up included. The ratios are"
    yield "of the least times, of medians, and of processor seconds of all processes (least): on a machine"
    yield "that has other work too, the last are the ones to trust."
    yield "The floor reads the same files with all their rows, so a filter that leaves fewer can be faster."
    for runner, title in TITLES.items():
        cells = [cell for cell in result["cells"] if cell["runner"] == runner]
        if cells:
            yield from ["", f"## {title}", ""]
            yield from _goals(cells)
            yield ""
            yield from _times(cells)
    yield ""


def _goals(cells: list[dict[str, Any]]) -> Iterator[str]:
    yield "| marked | query | DV read / floor: least, median, processor | goal | merge-on-read / DV read | goal |"
    yield "| ---: | --- | --- | --- | --- | --- |"
    for cell in cells:
        to_floor, to_merge = (cell["ratios"][f"{a} / {b}"] for a, b in ((READ, FLOOR), (MERGED, READ)))
        of_count = cell["query"] == COUNT.name
        read = "from metadata" if of_count else _verdict(to_floor, cell["goal"], at_most=True)
        merge = _verdict(to_merge, MERGE_GOAL, at_most=False)
        shares = f"{cell['percent']} % | {cell['query']}"
        yield f"| {shares} | {_three(to_floor)} | {read} | {_three(to_merge)} | {merge} |"


def _three(ratio: dict[str, float]) -> str:
    return ", ".join(f"{ratio[how]:.2f}" if how in ratio else "-" for how in ("least", "median", "processor"))


def _verdict(ratio: dict[str, float], goal: float, *, at_most: bool) -> str:
    """Tell by the least times whether the goal was reached, and whether processor seconds say otherwise."""
    held = [(value <= goal) == at_most for value in (ratio["least"], ratio.get("processor", ratio["least"]))]
    word = "held" if all(held) else "missed" if not any(held) else "held by " + ("time", "processor")[held[1]]
    return f"{'<=' if at_most else '>='} {goal:g}: {word}"


def _times(cells: list[dict[str, Any]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for cell in cells for name in cell["variants"]))
    yield "Seconds, least (median):"
    yield ""
    yield "| marked | query | " + " | ".join(names) + " |"
    yield "| ---: | --- |" + " ---: |" * len(names)
    for cell in cells:
        times = " | ".join(_time(cell["variants"].get(name)) for name in names)
        yield f"| {cell['percent']} % | {cell['query']} | {times} |"
    failed = {
        (name, one["failed"]) for cell in cells for name, one in cell["variants"].items() if "failed" in one
    }
    for name, why in sorted(failed):
        yield f"\n{name} failed: {' '.join(why.split())[:300]}"


def _time(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    return "failed" if "failed" in one else f"{one['least']:.3f} ({one['median']:.3f})"
