"""What a run says about the two conclusions of PIP-16, and about us; judged by its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from benchmarks.roaring.cells import IMPLEMENTATIONS
from benchmarks.roaring.published import TABLE, Row
from benchmarks.roaring.results import COLUMNS, Results, ms

USABLE_MS = 5000
"""What each step on a file of two billion rows may take to be called usable."""
STEPS = {
    "built from arrays": "add-array",
    "built from masks": "add-mask",
    "stored": "store",
    "loaded": "load",
    "masked": "mask",
}


def verdict(results: Results) -> Iterator[str]:
    by_name = {row.name: row for row in TABLE}
    cases = [(by_name[name], kind, bits) for name, kind, bits in results.cases()]
    measured = [by_name[name] for name, _, _ in results.cases("random", 32)]
    yield f"* **Bytes.** In all {len(cases)} cases Java, pyroaring and ours stored the same bytes, run-optimised;"
    yield "  Java and pyroaring also before."
    yield from _against_java(results, cases)
    if ("random", 32) in results.kinds:
        yield from _proportional(results, measured)
    yield from _usable(results, [case for case in cases if case[0].rows == max(row.rows for row in TABLE)])


def _against_java(results: Results, cases: Sequence[tuple[Row, str, int]]) -> Iterator[str]:
    """Whichever form of input is best for each."""
    behind = []
    for row, kind, bits in cases:
        of = results.of(row, kind, bits)
        for column, (per_value, bulk) in COLUMNS.items():
            java, ours = of("java-bulk", *bulk), of("ours", *bulk)
            if column != "contains":  # of every row, which is not what was asked per value
                java = min(java, of("java-per-value", per_value))
            if ours > java:
                behind.append(f"{row.name}, {kind}, {bits} bits, {column}: {ms(ours)} to {ms(java)} ms")
    total = len(cases) * len(COLUMNS)
    yield "* **Against Java's best**, each from the form of input that suits it:"
    yield f"  ahead in {total - len(behind)} of {total} cells."
    if behind:
        yield "  Behind, ours to Java's:"
        yield from (f"  * {cell}" for cell in behind)


def _proportional(results: Results, measured: Sequence[Row]) -> Iterator[str]:
    """The first conclusion: cost is proportional to size."""
    title = '* **"Cost is proportional to size"**'
    if len({row.rows for row in measured}) < 2:
        yield f"{title}: not judged, there is one size only."
        return

    def cost(implementation: str, *steps: str) -> Callable[[Row], float]:
        return lambda row: results.of(row, "random", 32)(implementation, *steps)

    lines: dict[str, tuple[Callable[[Row], float], Callable[[Row], float]]] = {
        "published": (lambda row: TABLE[row].add, lambda row: TABLE[row].contains),
        "Java": (cost("java-per-value", "add"), cost("java-per-value", "contains")),
        "Java bulk": (cost("java-bulk", "add-array", "add-mask"), cost("java-bulk", "mask")),
        "ours": (cost("ours", "add-array", "add-mask"), cost("ours", "mask")),
    }
    largest = max(measured, key=lambda row: (row.rows, row.percent))
    yield f"{title} holds for random deletions, whoever works; what differs is the constant."
    yield f"  Exponent over the size, and nanoseconds per row at {largest.name}, of add and of contains:"
    for name, costs in lines.items():
        told = [f"{_exponent(measured, of):.2f}, {of(largest) * 1e6 / largest.rows:.2f} ns" for of in costs]
        yield f"  * {name}: {' and '.join(told)}"
    if (largest.name, "clustered", 32) in results.cases():
        random, clustered = (
            results.of(largest, kind, 32).megabytes("ours") for kind in ("random", "clustered")
        )
        yield f"  * the bytes follow the runs, not the size: {random:.3g} MB at random, {clustered:.3g} MB clustered."


def _exponent(rows: Sequence[Row], cost: Callable[[Row], float]) -> float:
    """Return the least-squares exponent of ``cost`` over the size, each rate with its own factor."""
    top = bottom = 0.0
    for percent in {row.percent for row in rows}:
        some = [row for row in rows if row.percent == percent]
        xs, ys = [math.log(row.rows) for row in some], [math.log(cost(row)) for row in some]
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        top += sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
        bottom += sum((x - mean_x) ** 2 for x in xs)
    return top / bottom


def _usable(results: Results, cases: Sequence[tuple[Row, str, int]]) -> Iterator[str]:
    """The second conclusion: two billion is essentially unusable."""
    title = '* **"Two billion is essentially unusable"**'
    if not cases:
        yield f"{title}: not judged, no such row was run."
        return
    worst = {what: max(results.of(*case)("ours", step) for case in cases) for what, step in STEPS.items()}
    peak = max(
        results.peak_bytes(row, implementation) for row, _, _ in cases for implementation in IMPLEMENTATIONS
    )
    over = [what for what, time in worst.items() if time > USABLE_MS]
    told = ", ".join(f"{what} in {time / 1e3:.2f} s" for what, time in worst.items())
    yield f"{title} {'is not overturned in every step' if over else 'is overturned'}. At the worst,"
    yield f"  a vector of it is {told}; each is to take less than {USABLE_MS // 1000} s."
    if over:
        yield f"  Over it: {', '.join(over)}."
    yield f"  No process took more than {peak / (1 << 30):.1f} GiB."
