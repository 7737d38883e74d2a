"""``pktable compact --follow`` as real processes, while others write and leave compaction to them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.format.metadata.schema import encode_schema
from pktable_spec.covers import covers

from model_tests.patience import wait_for

WRITES, KEYS = 12, 20
OPTIONS = {"deletion-vectors.enabled": "true", "write-only": "true", "bucket": "2"}


class Follower:
    """A process that compacts a table until it is ended; its notes and errors go to a file."""

    def __init__(self, path: Path, log: Path) -> None:
        command = [sys.executable, "-m", "pktable", "compact", str(path), "--follow", "--interval", "0.05"]
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [*command, "--format", "jsonl"], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.wait_for(lambda: "interrupt ends it" in log.read_text(), "its first note")

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds, which this process brings about."""
        wait_for(holds, what, failure=self._failure)

    def _failure(self) -> str:
        code = self.process.poll()
        return "" if code is None else f"the follower ended with {code}: {self.log.read_text()}"

    def end(self, number: int) -> dict[str, Any]:
        """End the process by a signal, and return its summary."""
        self.process.send_signal(number)
        summary = self.summary()
        assert self.process.returncode == 0, self.log.read_text()
        return summary

    def summary(self) -> dict[str, Any]:
        """Return what the process printed when it ended."""
        wait_for(lambda: self.process.poll() is not None, "an end of the follower")
        out, _ = self.process.communicate()
        summary: dict[str, Any] = json.loads(out)
        return summary


def rows(first: int) -> pa.Table:
    return pa.table({"k": range(KEYS), "v": range(first, first + KEYS)})


def write(path: Path, writer: int) -> None:
    table = Table.open(path)
    for number in range(WRITES):
        table.upsert(
            pa.table({"w": [writer] * KEYS, **dict(zip(("k", "v"), rows(number).columns, strict=True))})
        )


@covers("CMP-17", "CMT-7", "CMT-14", "RD-15")
def test_two_followers_compact_what_writers_leave_and_end_at_an_interrupt(tmp_path: Path) -> None:
    path = tmp_path / "t"
    Table.create(path, "w INT, k INT, v INT", primary_key=["w", "k"], options=OPTIONS)
    followers = [Follower(path, tmp_path / name) for name in ("first", "second")]
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda writer: write(path, writer), range(2)))
        table = Table.open(path)
        followers[0].wait_for(
            lambda: table.count() == 2 * KEYS and 0 not in table.files().column("level").to_pylist(),
            "that all is compacted",
        )
        summaries = [followers[0].end(signal.SIGINT), followers[1].end(signal.SIGTERM)]
    finally:
        for follower in followers:
            follower.process.kill()
    kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
    assert kinds.count("APPEND") == 2 * WRITES
    assert kinds.count("COMPACT") == sum(summary["snapshots"] for summary in summaries) > 0
    assert table.to_arrow().num_rows == 2 * KEYS
    assert set(table.to_arrow().column("v").to_pylist()) == set(rows(WRITES - 1).column("v").to_pylist())
    assert table.check().findings == []


@covers("TBL-19")
def test_a_follower_goes_on_after_the_table_was_altered(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = Table.create(path, "k INT, v INT", primary_key=["k"], options=OPTIONS)
    follower = Follower(path, tmp_path / "log")
    try:
        table.upsert(rows(0))
        follower.wait_for(lambda: table.count() == KEYS, "a compaction")
        altered = replace(table.schema, id=1, options={**table.schema.options, "num-levels": "5"})
        Path(path, "schema", "schema-1").write_bytes(encode_schema(altered))
        table = Table.open(path)
        table.upsert(rows(1))
        follower.wait_for(
            lambda: table.to_arrow(where="k = 0").column("v").to_pylist() == [1],
            "a compaction of what is new",
        )
        assert follower.end(signal.SIGINT)["snapshots"] == 2
    finally:
        follower.process.kill()


@pytest.mark.parametrize("what", ["data", "schema"])
def test_a_follower_ends_at_an_error_that_stays(tmp_path: Path, what: str) -> None:
    path = tmp_path / "t"
    table = Table.create(path, "k INT, v INT", primary_key=["k"], options=OPTIONS)
    table.upsert(rows(0))
    table.upsert(rows(1))  # a single file would be moved up unread
    if what == "data":
        for file in Path(path).glob("bucket-*/data-*"):
            file.unlink()
    else:
        altered = replace(table.schema, options={**table.schema.options, "file.format": "lance"})
        Path(path, "schema", "schema-0").write_bytes(encode_schema(altered))
    follower = Follower(path, tmp_path / "log")
    try:
        summary = follower.summary()
    finally:
        follower.process.kill()
    lines = follower.log.read_text().splitlines()
    assert follower.process.returncode == (1 if what == "data" else 2), lines
    assert len(lines) == 2, "the note of the beginning, and one error"
    assert summary["snapshots"] == 0
