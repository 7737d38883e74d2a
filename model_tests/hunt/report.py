"""What is shown of a hunt, and the files that are kept of its faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.table import Table

from model_tests.histories.failures import DIRECTORY
from model_tests.hunt.hunt import Catch, Count, Fault
from model_tests.hunt.turns import Turn

DEFAULT: Final = "failures"


def directory() -> Path:
    """Return where failures are kept, and tell those who look into the environment."""
    return Path(os.environ.setdefault(DIRECTORY, DEFAULT))


def keep(turn: Turn, text: str) -> str:
    """Write what is known of a turn into a file; return where it is."""
    path = directory() / f"hunt-{re.sub('[^a-z0-9-]', '-', turn.name)}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{turn.command}\n\n{text}\n", "utf-8")
    return str(path)


def progress(catch: Catch, seconds: float) -> str:
    """Return a line of how far a hunt is."""
    total = total_of(catch)
    faults = f", {len(catch.faults)} faults" if catch.faults else ""
    return f"{seconds / 60:.1f} min, {total.turns:,} turns, {total.cases:,} cases{faults}"


def total_of(catch: Catch) -> Count:
    """Return the counts of all kinds together."""
    total = Count()
    for count in catch.counts.values():
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(count, name))
    return total


def table_of(catch: Catch) -> Table:
    """Return the counts as a table, with a line of totals."""
    table = Table(title="What was hunted", show_footer=True)
    total = total_of(catch)
    table.add_column("kind", footer="total")
    for name in vars(total):
        table.add_column(name, justify="right", footer=_shown(getattr(total, name)))
    for name, count in catch.counts.items():
        table.add_row(name, *(_shown(value) for value in vars(count).values()))
    return table


def _shown(value: float) -> str:
    return f"{value:,.0f}"


def found(fault: Fault) -> str:
    """Return what is said of a fault that is new."""
    return f"FAILED {fault.turn.name}: {fault.outcome.message}"


def lines_of(catch: Catch) -> Iterator[str]:
    """Yield what is said at the end, and keep each fault in a file."""
    for fault in catch.faults.values():
        times = f" ({fault.times} times)" if fault.times > 1 else ""
        yield f"FAILED {fault.turn.name}{times}: {fault.outcome.message}"
        yield f"  kept in {keep(fault.turn, fault.outcome.text)}; to repeat it: {fault.turn.command}"
    for turn, where in catch.late:
        yield f"out of time, which is no failure: {turn.name}, after {turn.kind.seconds:.0f} s"
        yield f"  kept in {keep(turn, where or 'it did not say where it was')}; to repeat it: {turn.command}"
    if catch.cut_off:
        yield f"{catch.cut_off} turns were cut off at the end, and count nowhere"
    if not catch.faults:
        yield "nothing failed"
