"""Small tables for the tests of changelogs, and a consumer that applies changes in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import Table

Row = tuple[Any, ...]
KIND = "_row_kind"


def new_table(path: Path, producer: str, *, columns: str = "id BIGINT, v INT", **options: str) -> Table:
    """Create a table with key ``id`` and deletion vectors; ``options``: with _ for - and __ for a dot."""
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    defaults = {"changelog-producer": producer, "deletion-vectors.enabled": "true"}
    return Table.create(path, columns, primary_key=["id"], options=defaults | given)


def put(table: Table, *changes: tuple[str, int, int | None], write_only: bool = False) -> int:
    """Write changes, each a row kind, an id and a value; return the id of the latest snapshot."""
    from pktable import CommitId
    from pktable.ingest.changes import ChangeKind

    rows = pa.table(
        {
            "op": [kind for kind, _, _ in changes],
            "id": [key for _, key, _ in changes],
            "v": pa.array([value for _, _, value in changes], pa.int32()),
        }
    )
    staged = table.stage_write(rows, ChangeKind(column="op"), write_only=write_only)
    assert staged is not None
    after = staged.commit(CommitId.new())
    assert after is not None, "there is a row"
    return after.id


def three_writes(path: Path) -> Table:
    """Create a table by three writes; each is a snapshot of rows and one of their compaction."""
    table = new_table(path, "lookup", bucket="2")
    put(table, ("+I", 1, 1), ("+I", 2, 2))
    put(table, ("+U", 1, 5), ("+I", 3, 3))
    put(table, ("-D", 2, None))
    return table


def changes(table: Table, start: int | str, end: int | str | None = None) -> list[Row]:
    """Return changes as tuples, the row kind first."""
    return [tuple(row.values()) for row in table.changes(start, end).to_pylist()]


def applied(rows: Iterable[Row], found: Sequence[Row]) -> set[Row]:
    """Return ``rows`` after changes: a retraction removes the row that it names, and an add comes where none is."""
    held = {row[0]: row for row in rows}
    for kind, *values in found:
        row = tuple(values)
        if kind in ("-U", "-D"):
            assert held.pop(row[0]) == row, (kind, row)
        else:
            assert row[0] not in held, (kind, row)
            held[row[0]] = row
    return set(held.values())


def folded(held: Iterable[Row], found: Iterable[Row]) -> set[Row]:
    """Return rows after changes that say what a key has, not what it had."""
    after = {row[0]: row for row in held}
    for kind, *values in found:
        if kind in ("+I", "+U"):
            after[values[0]] = tuple(values)
        elif kind == "-D":
            after.pop(values[0], None)
    return set(after.values())


def rows(table: Table, **options: Any) -> set[Row]:
    return {tuple(row.values()) for row in table.to_arrow(**options).to_pylist()}


def stored(table: Table) -> set[str]:
    """Return the paths of all files in the directories of buckets and manifests, relative to the table."""
    root = Path(table.path)
    return {
        str(path.relative_to(root))
        for folder in ("manifest", "index", *(one.name for one in root.glob("bucket-*")))
        for path in (root / folder).glob("*")
    }
