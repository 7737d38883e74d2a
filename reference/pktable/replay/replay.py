"""Replay a stream of changes into a table, and compare the table with the source of the stream.

1. `write` writes the commits in batches, in order, and records the snapshot after each batch.
2. `replay` reads each of these snapshots by time travel, by a default and by a fresh read, and compares the rows path
   by path with the tree of the source at that commit.

A source is a git repository (`pktable.replay.git_history`) or a stream stored in a Parquet file (`StoredStream`).

Clauses: TBL-7, CMT-15, RD-3, RD-15.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError

from pktable.replay.git_history import KINDS, Commit, Entry, PathChange
from pktable.table import Table
from pktable.watching import Progress

COLUMNS: Final = "path STRING, mode STRING, blob STRING, size BIGINT, commit STRING, committed TIMESTAMP(3)"
ROW_KIND: Final = "op"
OPTIONS: Final = {"deletion-vectors.enabled": "true", "bucket": "2"}
BATCHES: Final = 40
STREAM_COLUMNS: Final = ("commit", "committed_at", "kind", "path", "mode", "blob")

ROWS: Final = pa.schema(
    [
        ("path", pa.string()),
        ("mode", pa.string()),
        ("blob", pa.string()),
        ("size", pa.int64()),
        ("commit", pa.string()),
        ("committed", pa.timestamp("ms")),
        (ROW_KIND, pa.string()),
    ]
)


class History(Protocol):
    """The source of changes, and of the trees that they lead to."""

    @property
    def commit_count(self) -> int: ...
    def commits(self) -> Iterator[Commit]:
        """Yield every commit with its changes, oldest first."""

    def tree(self, commit: str) -> Mapping[str, Entry]:
        """Return the entry of every path after ``commit``."""

    def sizes(self, entries: Collection[Entry]) -> Mapping[str, int]:
        """Return the sizes in bytes of the blobs whose size is known."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How much was replayed and compared.

    ``rows``: paths of the last commit. ``first``: the first mismatch as text, None if there is none.
    """

    commits: int
    changes: int
    snapshots_compared: int
    rows: int
    rows_compared: int
    mismatches: int
    first: str | None = None


def create_table(path: str | os.PathLike[str], *, spark: Any = None) -> Table:
    """Create the table for a replay. Raises InvalidRequestError if there already is a table at ``path``."""
    return Table.create(path, COLUMNS, primary_key=["path"], options=OPTIONS, spark=spark)


def replay(
    history: History, table: Table, *, batches: int = BATCHES, progress: Progress = lambda *_: None
) -> Summary:
    """Write ``history`` into ``table`` in about ``batches`` batches, then compare the snapshot after each of them."""
    checkpoints, change_count = write(history, table, batches, progress)
    found: list[str] = []
    rows_compared = row_count = 0
    for done, (commit, snapshot) in enumerate(checkpoints, 1):
        expected = history.tree(commit)
        for fresh in (False, True):
            differing, rows = _differences(table, snapshot, expected, fresh=fresh)
            found += [f"commit {commit}, snapshot {snapshot}, fresh {fresh}: {path}" for path in differing]
            rows_compared += rows
        row_count = len(expected)
        progress("comparing snapshots", done, len(checkpoints))
    return Summary(
        commits=history.commit_count,
        changes=change_count,
        snapshots_compared=len(checkpoints),
        rows=row_count,
        rows_compared=rows_compared,
        mismatches=len(found),
        first=found[0] if found else None,
    )


def write(
    history: History, table: Table, batches: int, progress: Progress = lambda *_: None
) -> tuple[list[tuple[str, int]], int]:
    """Write ``history`` into ``table`` in about ``batches`` batches.

    Returns the last commit of every batch with the snapshot after it, and the number of changes written.
    """
    size = max(1, -(-history.commit_count // batches))
    checkpoints: list[tuple[str, int]] = []
    pending: list[Commit] = []
    change_count = 0
    for done, commit in enumerate(history.commits(), 1):
        pending.append(commit)
        change_count += len(commit.changes)
        if done % size and done < history.commit_count:
            continue
        rows = _rows(history, pending)
        snapshot: int | None = None
        if rows.num_rows:
            snapshot = table.write_changes(rows, row_kind=ROW_KIND)
        if snapshot is None and checkpoints:
            snapshot = checkpoints[-1][1]
        if snapshot is not None:
            checkpoints.append((commit.name, snapshot))
        pending = []
        progress("writing commits", done, history.commit_count)
    return checkpoints, change_count


def _rows(history: History, commits: Sequence[Commit]) -> pa.Table:
    """Return a row of `ROWS` per change, in order."""
    sizes = history.sizes({change.entry for one in commits for change in one.changes if change.entry})
    columns: dict[str, list[Any]] = {name: [] for name in ROWS.names}
    for commit in commits:
        for change in commit.changes:
            mode, blob = change.entry or (None, None)
            values = (
                change.path,
                mode,
                blob,
                sizes.get(blob or ""),
                commit.name,
                commit.time * 1000,
                change.kind,
            )
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return pa.table(columns, schema=ROWS)


def _differences(
    table: Table, snapshot: int, expected: Mapping[str, Entry], *, fresh: bool
) -> tuple[list[str], int]:
    """Return the paths whose rows differ from the expected one, sorted, and the number of rows that were read."""
    rows = table.to_arrow(snapshot=snapshot, fresh=fresh, columns=["path", "mode", "blob"])
    found = Counter(zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True))
    wanted = Counter((path, *entry) for path, entry in expected.items())
    wrong = (found - wanted) + (wanted - found)
    return sorted({path for path, _, _ in wrong}), rows.num_rows


class StoredStream:
    """A stream of changes in a Parquet file: a row per change, in order, with the columns `STREAM_COLUMNS`.

    Raises InvalidRequestError if the file is not such a stream.
    """

    shallow = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise InvalidRequestError(f"{os.fspath(path)}: not a readable Parquet file: {error}") from None
        missing = [name for name in STREAM_COLUMNS if name not in table.column_names]
        if missing:
            found = ", ".join(table.column_names)
            raise InvalidRequestError(f"{os.fspath(path)}: expected a column {missing[0]}, found {found}")
        unknown = set(table.column("kind").to_pylist()) - set(KINDS)
        if unknown:
            raise InvalidRequestError(
                f"{os.fspath(path)}: expected kinds {', '.join(KINDS)}, found {unknown.pop()!r}"
            )
        self._commits = list(_stored_commits(table.select(STREAM_COLUMNS)))

    @property
    def commit_count(self) -> int:
        """The number of commits."""
        return len(self._commits)

    def commits(self) -> Iterator[Commit]:
        """Yield every commit with its changes, oldest first."""
        yield from self._commits

    def tree(self, commit: str) -> Mapping[str, Entry]:
        """Return the entries after ``commit``, by applying all changes up to it to a dict."""
        found: dict[str, Entry] = {}
        for one in self._commits:
            for change in one.changes:
                if change.entry is None:
                    found.pop(change.path, None)
                else:
                    found[change.path] = change.entry
            if one.name == commit:
                break
        return found

    def sizes(self, entries: Collection[Entry]) -> Mapping[str, int]:
        """Return nothing: a stream holds no sizes."""
        return {}


def _stored_commits(table: pa.Table) -> Iterator[Commit]:
    """Yield the commits of a stream: consecutive rows of the same commit."""
    rows = zip(*(table.column(name).to_pylist() for name in STREAM_COLUMNS), strict=True)
    name, time = None, 0
    changes: list[PathChange] = []
    for commit, committed, kind, path, mode, blob in rows:
        if commit != name:
            if name is not None:
                yield Commit(name, time, tuple(changes))
            name, time, changes = commit, committed, []
        kind = KINDS[kind]
        changes.append(PathChange(kind, path, None if kind == "-D" else (mode, blob)))
    if name is not None:
        yield Commit(name, time, tuple(changes))
