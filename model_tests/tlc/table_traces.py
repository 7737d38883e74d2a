"""Let tables of every backend work at random, and record traces of them for TLC."""

from __future__ import annotations

from random import Random
from typing import Protocol

from pktable_conform.judge.history import SHAPES
from pktable_spec.interface import Change, StagesWork, TableUnderTest
from pktable_spec.vocabulary import RowKind

from model_tests.backends.tables import BACKENDS
from model_tests.tlc.traces import Recorder, Trace

SHAPE = SHAPES["int"]
TABLE_OPTIONS = {
    "bucket": "1",
    "deletion-vectors.enabled": "true",
    "num-levels": "6",
    "num-sorted-run.compaction-trigger": "5",
}


class StagingTable(TableUnderTest, StagesWork, Protocol):
    """A table that can be held between staging and commit, and whose records can be seen."""


def changes(random: Random, number: int) -> list[Change]:
    kinds = (RowKind.INSERT, RowKind.DELETE)
    return [
        Change(random.choice(kinds), (key, "v", number))
        for key in random.sample(range(3), random.randint(1, 2))
    ]


def worked_on(table: StagingTable, random: Random, steps: int, bucket_count: int = 1) -> Recorder:
    """Do random operations on a table, staged and not, and record them."""
    recorder = Recorder(table, SHAPE, bucket_count)
    tickets: dict[str, int] = {}
    for number in range(steps):
        job = random.choice(
            ["write", "compact", "w", "c1", "c2"] if bucket_count == 1 else ["write", "compact"]
        )
        if job in tickets:
            ticket, abandoned = tickets.pop(job), random.random() < 0.2
            committed = not abandoned and table.commit(ticket) is None
            if abandoned:
                table.abandon(ticket)
            recorder.ended(job, committed=committed, abandoned=abandoned)
        elif job == "write":
            table.write(changes(random, number), write_only=random.random() < 0.5)
            recorder.caught_up()
        elif job == "compact":
            table.compact(full=random.random() < 0.3)
            recorder.caught_up()
        elif job == "w":
            tickets[job] = table.begin_write(changes(random, number), write_only=True)
            recorder.begun(job, "Write")
        else:
            begun = table.begin_compaction(full=random.random() < 0.3)
            if begun is not None:
                tickets[job] = begun
                recorder.begun(job, "Compaction")
    return recorder


def traces_of(backend: str, tables: int, steps: int) -> list[Trace]:
    """Return the traces of so many tables of a backend, with so many random steps each."""
    traces = []
    with BACKENDS[backend]() as open_table:
        for seed in range(tables):
            table = open_table(SHAPE, TABLE_OPTIONS)
            assert isinstance(table, StagesWork)
            traces.append(worked_on(table, Random(seed), steps).trace(TABLE_OPTIONS))
            table.close()
    return traces
