"""The comparison with Paimon's Spark connector as text and as a plot."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import hardware
from benchmarks.paimon_spark.workload import LEAST

GOALS = {
    "load": 1.5,
    "upsert of a fifth": 2,
    "MERGE of a twentieth": 2,
    "DELETE of a hundredth": 3,
    "full compaction": 3.6,
    "full, 5 columns, our table": 1,
    "narrow sum, our table": 1.5,
    "value filter, our table": 1.2,
    "key range, our table": 1.5,
    "20 points, our table": 5,
    "many files: narrow sum, our table": 2,
    "many files: 5 points, our table": 2,
    "50 small commits": 8,
}
"""How many times the processor time of pktable on Spark the connector is to take."""


def report(result: Mapping[str, Any]) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    about, sizes, rounds = result["about"], result["sizes"], result["rounds"]
    count = "one round" if len(rounds) == 1 else f"medians of {len(rounds)} rounds"
    yield "# Beside Paimon's Spark connector"
    yield ""
    yield (
        f"{about['paimon']} on Spark 3.5 beside pktable on Spark {about['pyspark']} and without Spark: the same "
        f"rows, options and queries, `local[2]` and {result['memory']} of heap for each JVM. TPC-H with "
        f"{sizes['orders']:,} orders, lineitem in four buckets. "
        f"Processor seconds of the process tree, {count}; "
        "in each round the three take turns stage by stage, and what they find is compared after every stage. "
        "Before the first stage each does a little of everything, pktable with Spark's workers. "
        "A read is the median of five, after six to warm up, or two for reads of points. "
        "Ratios above 1: pktable takes less. Reads come after the DELETE, with vectors, from the tables that "
        "pktable wrote (our) and that the connector wrote (its). At least: what pktable on Spark cannot leave "
        "out, done after each step by the same process. For loads it is Spark's scan with all rows handed to Python, "
        "which writes nothing; for small commits, Spark's part: their rows computed and brought to the driver; for the "
        "full compaction, Arrow reading the same files and writing as many rows in a new process, without Spark. For "
        "reads it is Spark's own scan of the same files, all rows, with what a vector needs to find them: the file and "
        "the position; for many files, Arrow opening each and reading the column, and Spark's work on these rows; for "
        "points, Spark's work on the rows that were found. Memory, of writes: the most that "
        "all processes had resident, pages that they share once; in brackets that of the least work. "
        f"{hardware(about)}, {about['java']}; load before: {about['load_before'][0]}. `make bench-paimon`."
    )
    yield ""
    yield (
        "| stage | Paimon s | on Spark s | at least s | without s | Paimon / on Spark (time) | goal | / without "
        "| memory MB |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"
    for stage in rounds[0]:
        yield _row(stage, rounds)


def _row(stage: str, rounds: list[Mapping[str, Any]]) -> str:
    cpu = {name: _median(rounds, stage, name, "cpu") for name in rounds[0][stage]}
    time = ratio(_median(rounds, stage, "paimon", "wall"), _median(rounds, stage, "spark", "wall"))
    found = ratio(cpu["paimon"], cpu["spark"])
    goal = GOALS.get(stage)
    verdict = "" if goal is None else f"{goal:g}, {'met' if found >= goal else 'missed'}"
    most = ratio(cpu["paimon"], cpu[LEAST]) if LEAST in cpu else None
    # Spark's own scan is no limit of reads that it does not do; these have met their goals.
    if goal is not None and most is not None and max(found, most) < goal:
        verdict += f", at most {most:,.2f}" if found <= most else ", at the limit"
    least = f"{cpu[LEAST]:,.2f}" if LEAST in cpu else ""
    memory = ""
    if "memory" in rounds[0][stage]["paimon"]:
        memory = " / ".join(
            f"{_median(rounds, stage, name, 'memory') / 1e6:,.0f}" for name in ("paimon", "spark", "local")
        )
        if LEAST in cpu:
            memory += f" ({_median(rounds, stage, LEAST, 'memory') / 1e6:,.0f})"
    return (
        f"| {stage} | {cpu['paimon']:,.2f} | {cpu['spark']:,.2f} | {least} | {cpu['local']:,.2f} | "
        f"{found:,.2f} ({time:,.2f}) | {verdict} | {ratio(cpu['paimon'], cpu['local']):,.1f} | {memory} |"
    )


def ratio(theirs: float, ours: float) -> float:
    """Return how many times ``ours`` goes into ``theirs``. The clock has hundredths of a second."""
    return theirs / max(ours, 0.01)


def _median(rounds: list[Mapping[str, Any]], stage: str, contender: str, what: str) -> float:
    found: float = statistics.median(one[stage][contender][what] for one in rounds)
    return round(found, 2) if what == "cpu" else found  # a sum of hundredths, which binary fractions are not


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw how many times the processor time of pktable the connector takes, stage by stage."""
    import matplotlib.pyplot as plt

    from benchmarks.plots import save

    rounds = result["rounds"]
    stages = list(rounds[0])[::-1]
    figure, axis = plt.subplots(figsize=(9, 0.35 * len(stages) + 1.5))
    for offset, (name, label) in enumerate({"local": "without Spark", "spark": "on Spark"}.items()):
        values = [
            ratio(_median(rounds, stage, "paimon", "cpu"), _median(rounds, stage, name, "cpu"))
            for stage in stages
        ]
        drawn = axis.barh([i + 0.4 * offset for i in range(len(stages))], values, 0.4, label=label)
        axis.bar_label(drawn, fmt="{:,.1f}", padding=3, fontsize="small")
    axis.axvline(1, color="black", linewidth=1)
    axis.set(
        yticks=[i + 0.2 for i in range(len(stages))],
        yticklabels=stages,
        xscale="log",
        xlabel="processor time of Paimon's connector, in times of pktable's",
    )
    axis.margins(x=0.2)
    axis.legend()
    save(figure, path)
