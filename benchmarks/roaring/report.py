"""The report of a run: tables, all of them from its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import hardware
from benchmarks.roaring.cells import IMPLEMENTATIONS
from benchmarks.roaring.published import TABLE, Row
from benchmarks.roaring.results import COLUMNS, Results, ms
from benchmarks.roaring.verdict import verdict

HOW = """
*Java* and *pyroaring* add and ask value by value, as the paper did; asked are the deleted rows. *Java bulk* is the
fastest of what the library offers: from a sorted array by `RoaringBitmapWriter`, `addN`, ranges, or words and
`BitSetUtil`; from a mask by words; serialized into a `ByteBuffer` that is there, and deserialized from one; asked for
every row by words, ranges or batches. *ours* is `pktable.format`: positions come in windows, as sorted arrays or masks,
and asked is the mask of every row, batch by batch, as a reader needs it. A vector of ours is made run-optimised and as
its bytes, so that *add* includes what others do later and *serialization* is a copy, into a buffer that is there too;
*deserialization* includes all checks of the bitmap. `roaring.json` has every repeat by either clock.
"""


def write_report(result: dict[str, Any], path: Path) -> None:
    path.write_text("\n".join(_lines(result)) + "\n")


def _lines(result: dict[str, Any]) -> Iterator[str]:
    results = Results(result)
    yield "# The RoaringBitmap table of PIP-16, measured again"
    yield ""
    yield from _circumstances(result)
    yield HOW
    if ("random", 32) in results.kinds:
        yield "![add and contains against the size](roaring.svg)"
        yield ""
        yield "## Random deletions, 32 bits: the paper's table"
        for table in (_add, _codec, _size, _contains):
            yield ""
            yield from table(results)
    for kind, bits in results.kinds:
        if (kind, bits) != ("random", 32):
            yield ""
            yield f"## {kind.capitalize()} deletions, {bits} bits"
            yield ""
            yield from _all_columns(results, kind, bits)
    for title, table in (
        ("The stored vector: run-optimised, with length, magic and CRC-32", _stored),
        ("Peak memory of a process", _memory),
        ("Verdict", verdict),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        yield from table(results)


def _circumstances(result: dict[str, Any]) -> Iterator[str]:
    about = result["machine"]
    clock = "wall time" if result["clock"] == "wall" else "processor time of the thread that works"
    yield f"`{result['command']}`, begun {result['began']}, {result['minutes']} minutes."
    yield f"{hardware(about)};"
    yield f"{about['java']}, RoaringBitmap {about['RoaringBitmap']}; Python {about['python']},"
    yield f"numpy {about['numpy']}, pyroaring {about['pyroaring']}."
    yield f"Load average {about['load_before']} before, {about['load_after']} after."
    yield f"Milliseconds of {clock}, the least of the repeats; a process per cell, the implementations in turns."


def _table(
    results: Results,
    heads: Sequence[str],
    cells: Callable[[Row], Sequence[str]],
    of: tuple[str, int] | None = ("random", 32),
) -> Iterator[str]:
    """Yield a table with a line for each row of the paper that was asked for.

    ``of``: the kind and the bits the table is about, None for whatever was measured of a row.
    """
    measured = {case[0] for case in (results.cases(*of) if of else results.cases())}
    yield "| " + " | ".join(heads) + " |"
    yield "| --- |" + " ---: |" * (len(heads) - 1)
    for row in TABLE:
        if row.name in results.skipped:
            rest = [f"skipped: {results.skipped[row.name]}", *[""] * (len(heads) - 2)]
        elif row.name in measured:
            rest = list(cells(row))
        elif row.name in results.rows:
            rest = ["not measured", *[""] * (len(heads) - 2)]
        else:
            continue
        yield f"| {row.name} | " + " | ".join(rest) + " |"


def _add(results: Results) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        of = results.of(row, "random", 32)
        java_array = f"{ms(of('java-bulk', 'add-array'))} ({of.variant('add-array')})"
        both = ("add-array", "add-mask")
        return [
            ms(TABLE[row].add),
            ms(of("java-per-value", "add")),
            ms(of("pyroaring", "add")),
            java_array,
            ms(of("java-bulk", "add-mask")),
            ms(of("ours", "add-array")),
            ms(of("ours", "add-mask")),
            f"{of('java-bulk', *both) / of('ours', *both):.1f}",
        ]

    heads = ["add", "published", "Java", "pyroaring", "Java bulk, array", "Java bulk, mask"]
    return _table(results, [*heads, "ours, array", "ours, mask", "Java's best / our best"], cells)


def _codec(results: Results) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        of = results.of(row, "random", 32)
        found = []
        for step, published in (("serialize", TABLE[row].serialize), ("deserialize", TABLE[row].deserialize)):
            found += [published, *(of(implementation, step) for implementation in IMPLEMENTATIONS)]
        return [ms(value) for value in found]

    who = ("published", "Java", "pyroaring", "Java bulk", "ours")
    heads = [f"{step}: {name}" for step in ("serialization", "deserialization") for name in who]
    return _table(results, ["", *heads], cells)


def _size(results: Results) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        of = results.of(row, "random", 32)
        sizes = [f"{of.megabytes(implementation):.3g}" for implementation in IMPLEMENTATIONS]
        return [f"{TABLE[row].megabytes:g}", *sizes]

    heads = ["MB of 2^20 bytes", "published", "Java", "pyroaring", "Java bulk, run-optimised", "ours"]
    return _table(results, heads, cells)


def _contains(results: Results) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        of = results.of(row, "random", 32)
        return [
            ms(TABLE[row].contains),
            ms(of("java-per-value", "contains")),
            ms(of("pyroaring", "contains")),
            ms(of("java-per-value", "contains-rows")),
            f"{ms(of('java-bulk', 'mask'))} ({of.variant('mask')})",
            ms(of("ours", "mask")),
            f"{of('java-bulk', 'mask') / of('ours', 'mask'):.1f}",
        ]

    heads = ["contains", "published", "Java", "pyroaring", "Java, every row", "Java bulk, every row"]
    return _table(results, [*heads, "ours, every row", "Java bulk / ours"], cells)


def _all_columns(results: Results, kind: str, bits: int) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        of = results.of(row, kind, bits)
        found = []
        for per_value, bulk in COLUMNS.values():
            times = [of("java-per-value", per_value), of("pyroaring", per_value)]
            times += [of("java-bulk", *bulk), of("ours", *bulk)]
            found.append(" / ".join(map(ms, times)))
        sizes = [f"{of.megabytes(implementation):.3g}" for implementation in ("java-per-value", "ours")]
        return [*found, " / ".join(sizes)]

    heads = ["Java / pyroaring / Java bulk / ours", *COLUMNS, "MB: Java / ours"]
    return _table(results, heads, cells, (kind, bits))


def _stored(results: Results) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        found = []
        for kind, bits in results.kinds:
            if (row.name, kind, bits) not in results.cases():
                found.append("not measured")
                continue
            of = results.of(row, kind, bits)
            times = [f"{ms(of(who, 'store'))} / {ms(of(who, 'load'))}" for who in ("java-bulk", "ours")]
            found.append("; ".join(times))
        return found

    heads = ["write / read: Java bulk; ours", *(f"{kind}, {bits} bits" for kind, bits in results.kinds)]
    return _table(results, heads, cells, None)


def _memory(results: Results) -> Iterator[str]:
    def cells(row: Row) -> Sequence[str]:
        peaks = [results.peak_bytes(row, implementation) for implementation in IMPLEMENTATIONS]
        return [f"{peak >> 20:,}" for peak in peaks]

    return _table(results, ["MiB, over all kinds", "Java", "pyroaring", "Java bulk", "ours"], cells, None)
