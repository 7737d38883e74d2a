"""``python -m benchmarks.summary``: the last run that pytest-benchmark has stored, as a table for people.

Each time stands beside the least of its group and, where a run before has it too, beside what it was then. Reads
against everybody are left out: they have a report of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.machine import hardware

HERE = Path(__file__).parent
STORED = HERE.parent / ".benchmarks"
OWN_REPORT = "test_reads.py"


def main() -> None:
    argparse.ArgumentParser(prog="python -m benchmarks.summary", description=__doc__).parse_args()
    runs = sorted(STORED.glob("*/*.json"), key=lambda path: path.name)
    if not runs:
        sys.exit(f"benchmarks.summary: expected a stored run in {STORED}, found none; make bench stores one")
    before = json.loads(runs[-2].read_text()) if len(runs) > 1 else {"benchmarks": []}
    text = "\n".join(_lines(json.loads(runs[-1].read_text()), before)) + "\n"
    (HERE / "results" / "bench.md").write_text(text)
    print(text)


def _lines(run: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    about, commit = run["machine_info"], run["commit_info"]
    yield "# What pytest-benchmark measured"
    yield ""
    yield (
        f"`make bench` at {commit['id'][:10]}{' and changes' if commit['dirty'] else ''}, {run['datetime'][:16]} UTC. "
        f"{hardware(about)}, {about['java']}, Python {about['python']}, pyarrow {about['pyarrow']}, pyspark "
        f"{about['pyspark']}, numpy {about['numpy']}; load before: {about['load_before'][0]}."
    )
    then = {one["fullname"]: one["stats"]["min"] for one in before["benchmarks"]}
    cells = sorted((one for one in run["benchmarks"] if OWN_REPORT not in one["fullname"]), key=_group)
    for title, group in groupby(cells, _group):
        yield from _table(title, list(group), then)


def _group(cell: Mapping[str, Any]) -> str:
    return str(cell["group"] or cell["fullname"].partition("::")[0].rpartition("/")[2])


def _table(title: str, cells: list[dict[str, Any]], then: Mapping[str, float]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield "|  | least, ms | median, ms | rounds | of the least | of the run before | |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    least = min(cell["stats"]["min"] for cell in cells)
    for cell in cells:
        stats, name = cell["stats"], cell["name"].removeprefix("test_").replace("_", " ")
        old = then.get(cell["fullname"])
        change = f"{stats['min'] / old:.2f}" if old else ""
        more = "; ".join(
            f"{key}: {value:,}" if isinstance(value, int) else f"{key}: {value}"
            for key, value in cell["extra_info"].items()
        )
        yield (
            f"| {name} | {stats['min'] * 1e3:,.1f} | {stats['median'] * 1e3:,.1f} | {stats['rounds']} "
            f"| {stats['min'] / least:.2f} | {change} | {more} |"
        )


if __name__ == "__main__":
    main()
