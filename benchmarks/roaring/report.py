"""Tables, plot and verdict of a run, all of them from its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.roaring.published import TABLE, Row

USABLE_MS = 5000
"""What each step on a file of two billion rows may take to be called usable."""

COLUMNS = {
    "add": ("add", ("add-array", "add-mask")),
    "serialization": ("serialize", ("serialize",)),
    "deserialization": ("deserialize", ("deserialize",)),
    "contains": ("contains", ("mask",)),
}
"""By column of the paper: the step per value, and the steps that do the same in bulk."""


class Results:
    """The least time of every step of every cell."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.skipped: dict[str, str] = result["skipped"]
        self.cells = {
            (cell["row"], cell["kind"], cell["bits"], cell["implementation"]): cell
            for cell in result["cells"]
        }
        self.kinds = list(dict.fromkeys((kind, bits) for _, kind, bits, _ in self.cells))
        self.rows = list(dict.fromkeys(name for name, _, _, _ in self.cells))

    def best(self, row: str, kind: str, bits: int, implementation: str, *steps: str) -> float:
        """Return the least milliseconds of any step named so, or so with a variant after a dot."""
        walls = self.cells[row, kind, bits, implementation]["wall_ms"]
        return min(min(times) for name, times in walls.items() if name.partition(".")[0] in steps)

    def variant(self, row: str, kind: str, bits: int, step: str) -> str:
        """Return which of Java's variants of a step was the fastest."""
        walls = self.cells[row, kind, bits, "java-bulk"]["wall_ms"]
        names = [name for name in walls if name.startswith(f"{step}.")]
        return min(names, key=lambda name: min(walls[name])).partition(".")[2]

    def megabytes(self, row: str, kind: str, bits: int, implementation: str) -> float:
        return int(self.cells[row, kind, bits, implementation]["facts"]["bytes"]) / (1 << 20)


def write_report(result: dict[str, Any], path: Path) -> None:
    results = Results(result)
    path.write_text("\n".join(_lines(result, results)) + "\n")


def _lines(result: dict[str, Any], results: Results) -> Iterable[str]:
    about = result["machine"]
    yield "# The RoaringBitmap table of PIP-16, measured again"
    yield ""
    yield f"`{result['command']}`, begun {result['began']}, {result['minutes']} minutes. {about['cpu']}, {about['cores']} cores, "
    yield f"{about['memory_gib']} GiB, {about['system']}; {about['java']}, RoaringBitmap {about['RoaringBitmap']}; "
    yield f"Python {about['python']}, numpy {about['numpy']}, pyroaring {about['pyroaring']}. Load average before "
    yield f"{about['load_before']}, after {about['load_after']}. Milliseconds, each the least of its repeats; one process per cell; "
    yield "`roaring.json` has every repeat, as wall and as processor time."
    yield ""
    yield "*Java* adds and asks value by value, as the paper did. *Java bulk* is the fastest of the library's ways: from a"
    yield "sorted array by `RoaringBitmapWriter`, `addN`, ranges, or words and `BitSetUtil`; from a mask by words; serialized and"
    yield "deserialized through a `ByteBuffer`; asked by words, ranges or batches. *ours* is `pktable.format`: positions come as"
    yield "sorted arrays or masks, and what is asked is the mask of every row, batch by batch. A vector of ours is built"
    yield "run-optimised and as its bytes, so that *add* includes what others do later, and *serialization* is a copy."
    yield ""
    if ("random", 32) in results.kinds:
        yield "![add and contains against the size](roaring.svg)"
        yield ""
        yield "## The paper's table: random deletions, 32 bits"
        for lines in (_add(results), _serialization(results), _size(results), _contains(results)):
            yield ""
            yield from lines
    for kind, bits in results.kinds:
        if (kind, bits) != ("random", 32):
            yield ""
            yield f"## {kind.capitalize()} deletions, {bits} bits"
            yield ""
            yield from _short(results, kind, bits)
    yield ""
    yield "## The stored vector, with length, magic and CRC-32, run-optimised"
    yield ""
    yield from _stored(results)
    yield ""
    yield "## Peak memory"
    yield ""
    yield from _memory(results)
    yield ""
    yield "## Verdict"
    yield ""
    yield from _verdict(results)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "| --- |" + " ---: |" * (len(heads) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _each_row(
    results: Results, width: int, cells: Callable[[Row, str], Sequence[str]]
) -> Iterable[Sequence[str]]:
    for row in TABLE:
        if row.name in results.skipped:
            yield [row.name, f"skipped: {results.skipped[row.name]}", *[""] * (width - 2)]
        elif row.name in results.rows:
            yield [row.name, *cells(row, row.name)]


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _times(value: float) -> str:
    return f"{value:,.0f}x" if value >= 10 else f"{value:.1f}x"


def _add(results: Results) -> Iterable[str]:
    heads = [
        "add",
        "published",
        "Java",
        "pyroaring",
        "Java bulk, array",
        "Java bulk, mask",
        "ours, array",
        "ours, mask",
        "Java's best / ours",
    ]

    def cells(row: Row, name: str) -> Sequence[str]:
        def of(implementation: str, *steps: str) -> float:
            return results.best(name, "random", 32, implementation, *steps)

        array = f"{_ms(of('java-bulk', 'add-array'))} ({results.variant(name, 'random', 32, 'add-array')})"
        both = ("add-array", "add-mask")
        return [
            _ms(TABLE[row].add),
            _ms(of("java-per-value", "add")),
            _ms(of("pyroaring", "add")),
            array,
            _ms(of("java-bulk", "add-mask")),
            _ms(of("ours", "add-array")),
            _ms(of("ours", "add-mask")),
            _times(min(of("java-bulk", *both), of("java-per-value", "add")) / of("ours", *both)),
        ]

    return _table(heads, _each_row(results, len(heads), cells))


def _serialization(results: Results) -> Iterable[str]:
    heads = [
        "",
        *(
            f"{step}: {who}"
            for step in ("serialization", "deserialization")
            for who in ("published", "Java", "pyroaring", "Java bulk", "ours")
        ),
    ]

    def cells(row: Row, name: str) -> Sequence[str]:
        found = []
        for step, published in (("serialize", TABLE[row].serialize), ("deserialize", TABLE[row].deserialize)):
            found.append(_ms(published))
            for implementation in ("java-per-value", "pyroaring", "java-bulk", "ours"):
                found.append(_ms(results.best(name, "random", 32, implementation, step)))
        return found

    return _table(heads, _each_row(results, len(heads), cells))


def _size(results: Results) -> Iterable[str]:
    heads = ["MB of 2^20 bytes", "published", "Java", "pyroaring", "Java bulk, run-optimised", "ours"]

    def cells(row: Row, name: str) -> Sequence[str]:
        sizes = [
            results.megabytes(name, "random", 32, who)
            for who in ("java-per-value", "pyroaring", "java-bulk", "ours")
        ]
        return [f"{TABLE[row].megabytes:g}", *(f"{size:.2f}" for size in sizes)]

    return _table(heads, _each_row(results, len(heads), cells))


def _contains(results: Results) -> Iterable[str]:
    heads = [
        "contains",
        "published",
        "Java, deleted rows",
        "pyroaring, deleted rows",
        "Java, every row",
        "Java bulk, every row",
        "ours, every row",
        "Java's best / ours",
    ]

    def cells(row: Row, name: str) -> Sequence[str]:
        def of(implementation: str, step: str) -> float:
            return results.best(name, "random", 32, implementation, step)

        return [
            _ms(TABLE[row].contains),
            _ms(of("java-per-value", "contains")),
            _ms(of("pyroaring", "contains")),
            _ms(of("java-per-value", "contains-rows")),
            f"{_ms(of('java-bulk', 'mask'))} ({results.variant(name, 'random', 32, 'mask')})",
            _ms(of("ours", "mask")),
            _times(of("java-bulk", "mask") / of("ours", "mask")),
        ]

    return _table(heads, _each_row(results, len(heads), cells))


def _short(results: Results, kind: str, bits: int) -> Iterable[str]:
    heads = ["Java / pyroaring / Java bulk / ours", *COLUMNS, "MB: as added / run-optimised"]

    def cells(row: Row, name: str) -> Sequence[str]:
        found = []
        for per_value, bulk in COLUMNS.values():
            times = [
                results.best(name, kind, bits, who, per_value) for who in ("java-per-value", "pyroaring")
            ]
            times += [results.best(name, kind, bits, who, *bulk) for who in ("java-bulk", "ours")]
            found.append(" / ".join(map(_ms, times)))
        sizes = [results.megabytes(name, kind, bits, who) for who in ("java-per-value", "ours")]
        return [*found, " / ".join(f"{size:.4g}" for size in sizes)]

    return _table(heads, _each_row(results, len(heads), cells))


def _stored(results: Results) -> Iterable[str]:
    heads = ["write / read: Java bulk, ours", *(f"{kind}, {bits}" for kind, bits in results.kinds)]

    def cells(row: Row, name: str) -> Sequence[str]:
        return [
            "; ".join(
                f"{_ms(results.best(name, kind, bits, who, 'store'))} / {_ms(results.best(name, kind, bits, who, 'load'))}"
                for who in ("java-bulk", "ours")
            )
            for kind, bits in results.kinds
        ]

    return _table(heads, _each_row(results, len(heads), cells))


def _memory(results: Results) -> Iterable[str]:
    names = list(dict.fromkeys(implementation for *_, implementation in results.cells))
    heads = ["MiB resident, over all kinds", *names]

    def cells(row: Row, name: str) -> Sequence[str]:
        def peak(implementation: str) -> int:
            return max(
                cell["peak_bytes"]
                for key, cell in results.cells.items()
                if (key[0], key[3]) == (name, implementation)
            )

        return [f"{peak(implementation) >> 20:,}" for implementation in names]

    return _table(heads, _each_row(results, len(heads), cells))


def _verdict(results: Results) -> Iterable[str]:
    cases = len(results.cells) // len({key[3] for key in results.cells})
    yield f"* **Bytes.** In all {cases} cases Java, pyroaring and ours stored the same bytes, run-optimised; Java and pyroaring also before."
    behind = [
        f"{name}, {kind}, {bits} bits, {column}: {_ms(ours)} ms, Java {_ms(java)}"
        for name, kind, bits in dict.fromkeys(key[:3] for key in results.cells)
        for column, (per_value, bulk) in COLUMNS.items()
        for ours in [results.best(name, kind, bits, "ours", *bulk)]
        for java in [
            min(
                results.best(name, kind, bits, "java-bulk", *bulk),
                *(
                    []
                    if column == "contains"
                    else [results.best(name, kind, bits, "java-per-value", per_value)]
                ),
                math.inf,
            )
        ]
        if ours > java
    ]
    total = cases * len(COLUMNS)
    yield f"* **Against Java's best**, whichever form of input is best for each: ahead in {total - len(behind)} of {total} cells{':' if behind else '.'}"
    if behind:
        yield "  behind in " + "; ".join(behind) + "."
    if ("random", 32) in results.kinds:
        yield from _proportional(results)
    yield from _usable(results)


def _proportional(results: Results) -> Iterable[str]:
    """The first conclusion: cost is proportional to size."""
    measured = [row for row in TABLE if row.name in results.rows]
    if len({row.rows for row in measured}) < 2:
        yield "* **Cost is proportional to size**: not judged, one size only."
        return

    def of(implementation: str, *steps: str) -> Callable[[Row], float]:
        return lambda row: results.best(row.name, "random", 32, implementation, *steps)

    series: dict[str, tuple[Callable[[Row], float], Callable[[Row], float]]] = {
        "published": (lambda row: TABLE[row].add, lambda row: TABLE[row].contains),
        "Java": (of("java-per-value", "add"), of("java-per-value", "contains")),
        "Java bulk": (of("java-bulk", "add-array", "add-mask"), of("java-bulk", "mask")),
        "ours": (of("ours", "add-array", "add-mask"), of("ours", "mask")),
    }
    largest = max(measured, key=lambda row: (row.rows, row.percent))
    told = []
    for name, (add, contains) in series.items():
        told.append(
            f"{name} {_slope(measured, add):.2f} and {_slope(measured, contains):.2f} "
            f"({add(largest) * 1e6 / largest.rows:.2f} and {contains(largest) * 1e6 / largest.rows:.2f} ns per row of {largest.name})"
        )
    yield '* **"Cost is proportional to size"** holds for random deletions, for everyone: the exponents of add and contains over the size are'
    yield "  " + "; ".join(told) + ". What differs is the constant."
    if ("clustered", 32) in results.kinds:
        random, clustered = (
            results.megabytes(largest.name, kind, 32, "ours") for kind in ("random", "clustered")
        )
        yield f"  It does not hold for bytes where deletions lie together: {largest.name} are {random:.1f} MB at random and {clustered:.2f} MB clustered."


def _slope(rows: Sequence[Row], cost: Callable[[Row], float]) -> float:
    """Return the least-squares exponent of ``cost`` over the rows, each rate with its own factor."""
    top = bottom = 0.0
    for percent in {row.percent for row in rows}:
        some = [row for row in rows if row.percent == percent]
        xs, ys = [math.log(row.rows) for row in some], [math.log(cost(row)) for row in some]
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        top += sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
        bottom += sum((x - mean_x) ** 2 for x in xs)
    return top / bottom


def _usable(results: Results) -> Iterable[str]:
    """The second conclusion: two billion is essentially unusable."""
    greatest = max(row.rows for row in TABLE)
    names = [row.name for row in TABLE if row.rows == greatest and row.name in results.rows]
    if not names:
        yield f'* **"Two billion is essentially unusable"**: not judged, no row of {greatest:,} was run.'
        return
    steps = {
        "build from an array": "add-array",
        "build from a mask": "add-mask",
        "store": "store",
        "load": "load",
        "mask of every row": "mask",
    }
    worst = {
        what: max(
            results.best(*key[:3], "ours", step)
            for key in results.cells
            if key[0] in names and key[3] == "ours"
        )
        for what, step in steps.items()
    }
    peak = max(cell["peak_bytes"] for key, cell in results.cells.items() if key[0] in names)
    over = [what for what, ms in worst.items() if ms > USABLE_MS]
    yield f'* **"Two billion is essentially unusable"** is {"not yet " if over else ""}overturned. The worst of all cases of {greatest:,} rows:'
    yield "  " + ", ".join(f"{what} {ms / 1e3:.2f} s" for what, ms in worst.items())
    yield f"  (each is to be under {USABLE_MS // 1000} s{'; over it: ' + ', '.join(over) if over else ''}). No process took more than {peak / (1 << 30):.1f} GiB."


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot add and contains against the size, log-log: the mean of the rates, and a band from least to most."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "roaring"
    import matplotlib.pyplot as plt

    results = Results(result)
    if ("random", 32) not in results.kinds:
        return
    rows = [row for row in TABLE if row.name in results.rows]

    def of(implementation: str, *steps: str) -> Callable[[Row], float]:
        return lambda row: results.best(row.name, "random", 32, implementation, *steps)

    panels: dict[str, dict[str, Callable[[Row], float]]] = {
        "add": {
            "published": lambda row: TABLE[row].add,
            "pyroaring": of("pyroaring", "add"),
            "Java, per value": of("java-per-value", "add"),
            "Java, best bulk": of("java-bulk", "add-array", "add-mask"),
            "ours, sorted array": of("ours", "add-array"),
            "ours, mask": of("ours", "add-mask"),
        },
        "contains": {
            "published, deleted rows": lambda row: TABLE[row].contains,
            "pyroaring, deleted rows": of("pyroaring", "contains"),
            "Java, deleted rows": of("java-per-value", "contains"),
            "Java, every row": of("java-per-value", "contains-rows"),
            "Java, best bulk, every row": of("java-bulk", "mask"),
            "ours, every row": of("ours", "mask"),
        },
    }
    figure, axes = plt.subplots(1, 2, figsize=(12, 5))
    sizes = sorted({row.rows for row in rows})
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for name, cost in lines.items():
            times = [[cost(row) for row in rows if row.rows == size] for size in sizes]
            means = [math.exp(sum(map(math.log, some)) / len(some)) for some in times]
            (line,) = axis.plot(sizes, means, marker="o", label=name)
            axis.fill_between(
                sizes, list(map(min, times)), list(map(max, times)), alpha=0.15, color=line.get_color()
            )
        axis.set(xscale="log", yscale="log", title=title, xlabel="rows of the file", ylabel="ms")
        axis.grid(which="both", alpha=0.3)
        axis.legend()
    figure.suptitle("Random deletions of 20, 50 and 80 %, 32 bits: mean, and band from least to most")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
