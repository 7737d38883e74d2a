"""The changes that a table with a changelog must have recorded: every one once, whoever raced for the commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pktable import Table
from pktable.format.metadata.snapshot import Snapshot
from pktable_spec.covers import covers
from pktable_spec.vocabulary import OVERWRITE

from model_tests.simulation.log_oracle import LogOracle, Rows, Writes
from model_tests.simulation.tables import DELETES, Setting, expect

GOES: Final = ("-U", "-D")


@covers("CHG-1", "CHG-2", "CHG-11")
def expect_changes(table: Table, oracle: LogOracle, setting: Setting, copies: Sequence[Snapshot]) -> None:
    """Expect the changes after the first snapshot that is there, or after the last rollback to a tag, to be right.

    With the producer ``lookup`` they are what default reads differ by. Else they are the rows as they were written.
    ``copies``: of the last snapshots that have expired, whose changes are there, too.
    """
    snapshots = table.snapshots() if setting.producer == "lookup" else [*copies, *table.snapshots()]
    first = max(
        [one for one in snapshots if one.commit_kind == OVERWRITE] or snapshots[:1], key=lambda one: one.id
    )
    last = snapshots[-1]
    changes = table.changes(first.id, last.id).to_arrow()
    if setting.producer == "lookup":
        found = applied(_default(table, first.id), changes)
        expected = _default(table, last.id)
        expect(
            found == expected, f"the changes after snapshot {first.id}: expected {expected}, found {found}"
        )
        return
    before, writes = oracle.writes(first) or (), oracle.writes(last) or ()
    new = [
        row for at in range(len(before), len(writes)) for row in written(writes[: at + 1], setting).items()
    ]
    logged = list(zip(changes["k"].to_pylist(), changes["v"].to_pylist(), strict=True))
    for key in {key for key, _ in (*new, *logged)}:
        expected_of, found_of = ([value for one, value in rows if one == key] for rows in (new, logged))
        expect(expected_of == found_of, f"changes of key {key}: expected {expected_of}, found {found_of}")


def written(writes: Writes, setting: Setting) -> Rows:
    """Return the rows that the last of some writes and statements has written, in a table with keys."""
    return setting.rows_of(writes[-1]) if writes[-1] < DELETES else {0: setting.rows_after(writes)[0]}


def applied(rows: Rows, changes: pa.Table) -> Rows:
    """Return ``rows`` after some changes, each of which must fit the rows before it."""
    rows = dict(rows)
    for change in changes.to_pylist():
        kind, key, value = change["_row_kind"], change["k"], change["v"]
        if kind in GOES:
            expect(rows.pop(key, None) == value, f"{kind} of a row that was not there: {key}, {value}")
        else:
            expect(key not in rows, f"{kind} of a key that was there: {key}, {value}")
            rows[key] = value
    return rows


def _default(table: Table, snapshot: int) -> Rows:
    rows = table.to_arrow(snapshot=snapshot)
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
