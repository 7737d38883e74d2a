"""The report of a run: one table per work, all of it from the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.compaction.contenders import WORKS
from benchmarks.machine import hardware

WHAT = {
    "upsert": "Upserts of {upserts:,} rows into a bucket of {rows:,}",
    "full": "Full compaction of {rows:,} rows and {upserts:,} newer ones",
}
HEAD = (
    "",
    "seconds",
    "processor seconds",
    "rows per processor second",
    "of the copy",
    "bytes written per byte come",
    "marked",
)
GOALS = {"of the copy": (1.5, "at most"), "times Paimon's": (5.0, "at least")}


def report(result: dict[str, Any]) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: dict[str, Any]) -> Iterator[str]:
    about = result["machine"]
    yield "# Writing and compacting, measured against everybody who can"
    yield ""
    yield (
        f"{hardware(about)}, {about['java']}, "
        f"Python {about['python']}, pyarrow {about['pyarrow']}, pyspark {about['pyspark']}; load before: "
        f"{about['load_before'][0]}. `{result['command']}`. TPC-H lineitem, 16 columns, a key of two; of the rounds "
        "the best counts, by either clock."
    )
    yield "\n![rows per processor second](compaction.svg)"
    for contender, why in result["absent"].items():
        yield f"\nNot measured: {contender}: {why}"
    for work in WORKS:
        yield ""
        yield f"## {WHAT[work].format(**result)}"
        yield ""
        yield from _table(result, [one for one in result["outcomes"] if one["work"] == work])
    yield ""
    yield from _verdicts(result)


def throughput(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return rows per processor second, by work and contender."""
    found: dict[str, dict[str, float]] = {}
    for work in WORKS:
        outcomes = [one for one in result["outcomes"] if one["work"] == work]
        names = dict.fromkeys(one["contender"] for one in outcomes)
        rows = _rows(result, work)
        found[WHAT[work].format(**result)] = {name: rows / _best(outcomes, name)[1] for name in names}
    return found


def _rows(result: dict[str, Any], work: str) -> int:
    return int(result["upserts"] if work == "upsert" else result["rows"] + result["upserts"])


def _table(result: dict[str, Any], outcomes: Sequence[dict[str, Any]]) -> Iterator[str]:
    rows = _rows(result, outcomes[0]["work"])
    yield from (f"| {' | '.join(line)} |" for line in (HEAD, ("---", *["---:"] * 6)))
    floor = _best(outcomes, "copy")
    for name in dict.fromkeys(one["contender"] for one in outcomes):
        seconds, processor = _best(outcomes, name)
        last = [one for one in outcomes if one["contender"] == name][-1]
        written = "" if last["written"] is None else f"{last['written'] / result['ingested_bytes']:.2f}"
        marked = "" if last["marked"] is None else f"{last['marked']:,}"
        yield (
            f"| {name} | {seconds:.2f} | {processor:.2f} | {rows / processor:,.0f} | {seconds / floor[0]:.2f} "
            f"| {written} | {marked} |"
        )


def _best(outcomes: Sequence[dict[str, Any]], contender: str) -> tuple[float, float]:
    """Return the least seconds and the least processor seconds of a contender."""
    own = [one for one in outcomes if one["contender"] == contender]
    return min(one["seconds"] for one in own), min(one["processor_seconds"] for one in own)


def _verdicts(result: dict[str, Any]) -> Iterator[str]:
    for work in WORKS:
        outcomes = [one for one in result["outcomes"] if one["work"] == work]
        ours, copied = _best(outcomes, "pktable"), _best(outcomes, "copy")
        yield _verdict(work, "of the copy", ours[0] / copied[0])
        if "Paimon 0.9" in {one["contender"] for one in outcomes}:
            yield _verdict(work, "times Paimon's", _best(outcomes, "Paimon 0.9")[1] / ours[1])
    upserts = [one for one in result["outcomes"] if one["work"] == "upsert"]
    for name in ("pktable", "Paimon 0.9"):
        if {name, f"{name}, no vectors"} <= {one["contender"] for one in upserts}:
            factor = _best(upserts, name)[0] / _best(upserts, f"{name}, no vectors")[0]
            yield f"* {name}: vectors, with the compaction that makes them, take {factor:.1f} times as long as none."


def _verdict(work: str, what: str, found: float) -> str:
    goal, side = GOALS[what]
    met = found <= goal if side == "at most" else found >= goal
    measure = "time" if what == "of the copy" else "rows per processor second"
    return (
        f"* {work}: {measure} {found:.2f} {what}; the goal is {side} {goal}: {'met' if met else 'not met'}."
    )
