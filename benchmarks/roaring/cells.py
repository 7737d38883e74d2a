"""One implementation on one set of positions: a process of its own, what it prints, and its peak memory."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.roaring import machine
from benchmarks.roaring.published import Row

PER_VALUE = ("java-per-value", "pyroaring")
IMPLEMENTATIONS = (*PER_VALUE, "java-bulk", "ours")


@dataclass
class Cell:
    """What one implementation showed, over all its turns. Times are by step, one per repeat."""

    row: str
    rows: int
    kind: str
    bits: int
    implementation: str
    wall_ms: dict[str, list[float]] = field(default_factory=dict)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    peak_bytes: int = 0

    def run(self, path: Path, *, repeats: int, warm_seconds: float) -> None:
        """Measure in a process of its own. Its facts must be those of the turns before."""
        if self.implementation.startswith("java"):
            command = machine.java_command(machine.heap_mebibytes(self.rows))
            command.append(self.implementation.removeprefix("java-"))
        else:
            command = [sys.executable, "-m", "benchmarks.roaring.python_cell", self.implementation]
        command += [str(path), str(self.rows), str(self.bits), str(repeats), str(warm_seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{shlex.join(command)}: exit code {process.returncode}")
        self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss << 10)
        for line in output.splitlines():
            name, *values = line.split()
            if len(values) == 2:
                self.wall_ms.setdefault(name, []).append(float(values[0]))
                self.cpu_ms.setdefault(name, []).append(float(values[1]))
            else:
                (value,) = values
                before = self.facts.setdefault(name, value)
                if before != value:
                    raise RuntimeError(
                        f"{self.implementation} on {self.row}: {name} {value}, before {before}"
                    )


def cells_of(row: Row, kind: str, bits: int) -> list[Cell]:
    """Return a cell for each implementation."""
    return [Cell(row.name, row.rows, kind, bits, implementation) for implementation in IMPLEMENTATIONS]


def expect_same_bytes(cells: Sequence[Cell]) -> None:
    """All implementations must store the same positions as the same bytes, run-optimised; per value also before."""
    for fact in ("digest", "raw-digest"):
        found = {cell.implementation: cell.facts[fact] for cell in cells if fact in cell.facts}
        if len(set(found.values())) != 1:
            raise RuntimeError(
                f"{cells[0].row}, {cells[0].kind}, {cells[0].bits} bits: {fact} differs: {found}"
            )
