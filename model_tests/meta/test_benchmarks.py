"""The reports of benchmarks follow from what they measured."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import dv_layouts, growth, log_groups, log_index
from benchmarks.compaction.report import report as compaction_report
from benchmarks.log_groups import NONE, SCHEMES, cost, group, writes
from benchmarks.roaring.cells import IMPLEMENTATIONS
from benchmarks.roaring.published import TABLE, Row
from benchmarks.roaring.report import write_report

SMALL, LARGE = Row(20, 2_000_000), Row(20, 2_000_000_000)


def a_run(rows: list[Row], ours_ms: float, skipped: dict[str, str] | None = None) -> dict[str, Any]:
    """A run in which Java takes 10 ns per row for everything, and ours ``ours_ms`` per million rows."""
    cells = []
    for row in rows:
        for kind in ("random", "clustered"):
            for name in IMPLEMENTATIONS:
                cost = (ours_ms if name == "ours" else 10.0) * row.rows / 1e6
                steps = ["add", "add-array.words", "add-mask.words", "serialize", "deserialize", "contains"]
                steps += ["contains-rows", "mask.bits", "store", "load"]
                times = {step: [2 * cost, cost] for step in steps}
                facts = {"bytes": str(row.rows // 8), "digest": "same"}
                cells.append(
                    {"row": row.name, "rows": row.rows, "kind": kind, "bits": 32, "implementation": name}
                    | {"wall_ms": times, "cpu_ms": times, "facts": facts, "peak_bytes": 3 << 30}
                )
    machine = dict.fromkeys(("cpu", "cores", "memory_gib", "system", "java", "RoaringBitmap"), "x")
    machine |= dict.fromkeys(("python", "numpy", "pyroaring", "load_before", "load_after"), "x")
    return {
        "command": "python", "clock": "wall", "began": "", "minutes": 1, "machine": machine,
        "skipped": skipped or {}, "cells": cells,
    }  # fmt: skip


def report_of(result: dict[str, Any], directory: Path) -> str:
    write_report(result, directory / "report.md")
    return (directory / "report.md").read_text()


def test_a_faster_run_is_ahead_in_every_cell_and_makes_two_billion_usable(tmp_path: Path) -> None:
    text = report_of(a_run([SMALL, LARGE], ours_ms=1.0), tmp_path)
    assert "ahead in 16 of 16 cells" in text
    assert "Behind" not in text
    assert '"Two billion is essentially unusable"** is overturned' in text
    assert "ours: 1.00, 1.00 ns and 1.00, 1.00 ns" in text
    assert "No process took more than 3.0 GiB." in text


def test_a_slower_run_names_where_it_is_behind_and_what_is_not_usable(tmp_path: Path) -> None:
    text = report_of(a_run([SMALL, LARGE], ours_ms=11.0), tmp_path)
    assert "ahead in 0 of 16 cells" in text
    assert f"{LARGE.name}, clustered, 32 bits, contains: 22,000 to 20,000 ms" in text
    assert "is not overturned in every step" in text
    assert "Over it: built from arrays, built from masks, stored, loaded, masked." in text


def test_a_row_that_does_not_fit_is_in_every_table_by_name(tmp_path: Path) -> None:
    skipped = {LARGE.name: "needs 3.0 GiB of memory, 1.0 GiB are available"}
    text = report_of(a_run([SMALL], ours_ms=1.0, skipped=skipped), tmp_path)
    tables = text.count("| --- |")
    assert text.count(f"| {LARGE.name} | skipped: needs 3.0 GiB of memory") == tables > 5
    assert "not judged, no such row was run" in text
    assert "not judged, there is one size only" in text


def test_the_published_table_has_the_twelve_rows() -> None:
    sizes = [2 * 10**power for power in (6, 7, 8, 9)]
    assert list(TABLE) == [Row(percent, rows) for rows in sizes for percent in (20, 50, 80)]


def test_the_three_layouts_say_the_same_and_only_offsets_need_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dv_layouts, "FILES", 2)
    monkeypatch.setattr(dv_layouts, "ROWS", 400_000)
    monkeypatch.setattr(dv_layouts, "WRITES", 4)
    results = {
        name: dv_layouts.measure(scenario, tmp_path / str(i), time.perf_counter)
        for i, (name, scenario) in enumerate(dv_layouts.SCENARIOS.items())
    }
    for found in results.values():
        assert found["map"].files == 1
        assert found["map"].kept == found["offsets"].kept - (found["offsets"].files - 1)  # of a version each
        assert found["list"].files == 4
        assert found["map"].read_one_bytes == found["offsets"].read_one_bytes < found["map"].kept
    text = "\n".join(dv_layouts.report(results, "python", "wall"))
    assert all(name[1:] in text for name in dv_layouts.SCENARIOS)
    assert "The choice of one map per bucket" in text


def writing(paimon_seconds: float) -> dict[str, Any]:
    """A run of the compaction benchmark in which ours takes 1 second, a copy half of one."""
    machine = dict.fromkeys(
        ("cpu", "cores", "memory_gib", "system", "java", "python", "pyarrow", "pyspark"), "x"
    )
    seconds = {"pktable": 1.0, "copy": 0.5, "Paimon 0.9": paimon_seconds, "pktable, no vectors": 0.8}
    outcomes = [
        {"contender": name, "work": work, "seconds": took * turn, "processor_seconds": took * turn}
        | {"written": 300, "marked": 7}
        for work in ("upsert", "full")
        for name, took in seconds.items()
        for turn in (2, 1)  # the best of the rounds counts
    ]
    return {
        "command": "python", "machine": machine | {"load_before": [0]}, "rows": 100, "upserts": 20,
        "ingested_bytes": 100, "absent": {"Spark SQL": "no Java"}, "outcomes": outcomes,
    }  # fmt: skip


def test_the_report_of_compactions_says_which_goals_are_met_and_who_is_absent() -> None:
    text = compaction_report(writing(paimon_seconds=6.0))
    assert "| pktable | 1.00 | 1.00 | 20 | 2.00 | 3.00 | 7 |" in text
    assert "* upsert: time 2.00 of the copy; the goal is at most 1.5: not met." in text
    assert "* full: rows per processor second 6.00 times Paimon's; the goal is at least 5.0: met." in text
    assert "vectors, with the compaction that makes them, take 1.2 times as long" in text
    assert "Not measured: Spark SQL: no Java" in text
    assert "times Paimon's; the goal is at least 5.0: not met" in compaction_report(
        writing(paimon_seconds=4.0)
    )


def test_growth_is_measured_at_every_size_and_told_as_an_exponent(tmp_path: Path) -> None:
    for what, measure in growth.GROWN.items():
        found = {size: measure(tmp_path / f"{what}-{size}", size) for size in (2, 4)}
        assert all(milliseconds > 0 for one in found.values() for milliseconds in one.values())
    assert growth.exponent((10, 1000), (3.0, 300.0)) == pytest.approx(1)
    assert growth.exponent((10, 1000), (3.0, 3.0)) == pytest.approx(0)


def test_lookups_in_logs_are_counted_for_every_index_and_share_of_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_groups, "BASE_ROWS", 300)
    monkeypatch.setattr(log_index, "SIZES", (1, 4))
    monkeypatch.setattr(log_index, "MODEL_FILES", 4)
    monkeypatch.setattr(log_index, "SMALL_FILES", 3)
    logs = writes(tmp_path / "rows", 4)
    found = log_index.measure(tmp_path, logs, (1, 4))
    assert len(found) == 2 * (2 * len(SCHEMES) - 1)
    assert found["both", False, 4].miss.reads == found["both", True, 4].miss.reads == 1
    assert found["individual", False, 4].miss.reads == 4
    assert found[NONE, False, 4].miss.reads == 8
    assert (
        found[NONE, False, 4].added == 0 < found["individual", False, 4].added < found["both", False, 4].added
    )
    assert all(one.miss.base_reads > one.hit.base_reads == 0 for one in found.values())
    behind = cost(group(tmp_path / "old", SCHEMES["ours"], logs, range(2, 4)), "0500-absent")
    small = {2: log_index.measure_small(tmp_path, 2, 3)}
    text = "\n".join(
        log_index.report(found, {"the newer half": [behind, None, None]}, small, logs[0], "here")
    )
    assert "the RFC's claim holds: a miss takes 1 / 33 at 1, 1 / 33 at 4 log files" in text
    assert "| the newer half | 5 / " in text
    assert re.search(r"\| 2 \| 0\.7 \| 0\.\d \| 1 / \d+ \| [34] / \d+ \|", text)
    assert {len(lines) for lines in log_index.panels(found).values()} == {5, 6}


def test_what_was_not_measured_is_told_row_by_row(tmp_path: Path) -> None:
    result = a_run([SMALL, LARGE], ours_ms=1.0)
    result["cells"] = [
        cell for cell in result["cells"] if (cell["row"], cell["kind"]) != (LARGE.name, "clustered")
    ]
    text = report_of(result, tmp_path)
    assert text.count(f"| {LARGE.name} | not measured |") == 1
    assert "ahead in 12 of 12 cells" in text
    assert '"Two billion is essentially unusable"** is overturned' in text
