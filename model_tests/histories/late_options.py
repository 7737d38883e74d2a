"""Tables that get ``full-compaction.delta-commits`` when they have commits already, compared with a count in Python.

A large run is at the greatest level, so that a compaction reaches it only if it is a full one. Some commits follow:
writes with their compaction, writes without, and compactions. Then the table gets the option. Each later write must
compact all of it exactly if so many commits have followed the last full compaction that was counted. Each commit from
before counts, for nothing says which of them compacted fully.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pktable import CommitId, Table
from pktable.format.metadata.schema import encode_schema
from pktable.ingest.changes import ChangeKind
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.vocabulary import COMPACT

from model_tests.seeded import drawn_options

DELTA_COMMITS: Final = "full-compaction.delta-commits"
MANY: Final = 20_000
BEFORE: Final = (("write only", "write only"), ("write", "write only", "compact"), ("write only", "write"))
"""The commits from before. Those of writes and of compactions are as many in none of them."""
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "2"),
    "deletion-vectors.enabled": ("true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "num-levels": ("6",),
}


def draw(seed: int) -> None:
    """Play a schedule for each of BEFORE. Raises CheckFailed, or what a table raises, at the first that fails."""
    drawn = random.Random(seed)
    for before in BEFORE:
        play(before, drawn)


def play(before: Sequence[str], drawn: random.Random) -> None:
    """Do one schedule on a new table."""
    with tempfile.TemporaryDirectory() as folder:
        options = drawn_options(drawn, OPTIONS)
        table = Table.create(folder + "/t", "k INT, v INT", primary_key=["k"], options=options)
        table.upsert(_rows(range(MANY), 0))
        table.compact(full=True)
        for number, do in enumerate(before):
            _do(table, do, drawn.randrange(MANY), number)
        schema = table.schema
        most = drawn.choice((len(before), len(before) + 1))
        later = replace(schema, id=schema.id + 1, options={**schema.options, DELTA_COMMITS: str(most)})
        Path(table.path, "schema", f"schema-{later.id}").write_bytes(encode_schema(later))
        for number in range(2 * most):
            table = Table.open(table.path)
            due = commits_since_full(table, later.id) + 1 >= most
            _do(table, "write", drawn.randrange(MANY), number)
            compacts_fully_when_due(table, due=due)


def commits_since_full(table: Table, since: int) -> int:
    """Return how many commits, compactions aside, have followed the last full compaction of the schema ``since``."""
    count = 0
    for snapshot in reversed(table.snapshots()):
        if snapshot.schema_id >= since and _is_full(table, snapshot.id):
            break
        count += snapshot.commit_kind != COMPACT
    return count


@check
@covers("CMP-30", "META-55")
def compacts_fully_when_due(table: Table, *, due: bool) -> None:
    """A write has compacted the whole table if that was due, and not otherwise."""
    last = table.snapshots()[-1].id
    if _is_full(table, last) != due:
        fail(
            f"snapshot {last}: a full compaction was {'' if due else 'not '}due, levels {_levels(table, last)}"
        )


def _do(table: Table, do: str, key: int, value: int) -> None:
    if do == "compact":
        table.compact()
    else:
        staged = table.stage_write(_rows([key], value), ChangeKind(), write_only=do == "write only")
        assert staged is not None, "there is a row"
        staged.commit(CommitId.new())


def _rows(keys: Sequence[int], value: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array([value] * len(keys), pa.int32())})


def _is_full(table: Table, snapshot: int) -> bool:
    return _levels(table, snapshot) == {table.catalog.context.options.max_level}


def _levels(table: Table, snapshot: int) -> set[int]:
    return set(table.files(snapshot).column("level").to_pylist())
