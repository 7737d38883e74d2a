"""What a run measured, looked up by cell and step."""

from __future__ import annotations

from typing import Any

from benchmarks.roaring.published import Row

COLUMNS = {
    "add": ("add", ("add-array", "add-mask")),
    "serialization": ("serialize", ("serialize",)),
    "deserialization": ("deserialize", ("deserialize",)),
    "contains": ("contains", ("mask",)),
}
"""By column of the paper: the step per value, and the steps that do the same in bulk."""


class Results:
    """The cells of a run. ``kinds``: how the deleted rows lay, and the bits of a vector."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.skipped: dict[str, str] = result["skipped"]
        self.clock = f"{result['clock']}_ms"
        self.cells = {
            (cell["row"], cell["kind"], cell["bits"], cell["implementation"]): cell
            for cell in result["cells"]
        }
        self.kinds = list(dict.fromkeys((kind, bits) for _, kind, bits, _ in self.cells))
        self.rows = list(dict.fromkeys(name for name, _, _, _ in self.cells))

    def cases(self, kind: str | None = None, bits: int | None = None) -> list[tuple[str, str, int]]:
        """Return the (row, kind, bits) that were measured, all of them or those of one kind."""
        every = dict.fromkeys((row, kind, bits) for row, kind, bits, _ in self.cells)
        return [case for case in every if case[1:] == (kind or case[1], bits or case[2])]

    def of(self, row: Row, kind: str, bits: int) -> Case:
        return Case(self, row.name, kind, bits)

    def peak_bytes(self, row: Row, implementation: str) -> int:
        """Return the peak memory of an implementation over all kinds of positions of a row."""
        peaks = [
            cell["peak_bytes"] for key, cell in self.cells.items() if key[::3] == (row.name, implementation)
        ]
        return max(map(int, peaks))


class Case:
    """The cells of all implementations on the same positions."""

    def __init__(self, results: Results, row: str, kind: str, bits: int) -> None:
        self._results, self._key = results, (row, kind, bits)

    def _cell(self, implementation: str) -> dict[str, Any]:
        row, kind, bits = self._key
        found: dict[str, Any] = self._results.cells[row, kind, bits, implementation]
        return found

    def __call__(self, implementation: str, *steps: str) -> float:
        """Return the least milliseconds of any of the steps, in whatever variant (after a dot in its name)."""
        times: dict[str, list[float]] = self._cell(implementation)[self._results.clock]
        return min(min(repeats) for name, repeats in times.items() if name.partition(".")[0] in steps)

    def variant(self, step: str) -> str:
        """Return which of Java's variants of a step was the fastest."""
        times: dict[str, list[float]] = self._cell("java-bulk")[self._results.clock]
        names = [name for name in times if name.startswith(f"{step}.")]
        return min(names, key=lambda name: min(times[name])).partition(".")[2]

    def megabytes(self, implementation: str) -> float:
        return int(self._cell(implementation)["facts"]["bytes"]) / (1 << 20)


def ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
