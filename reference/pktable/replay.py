"""Replay a stream of changes, such as a git history, into a table, and compare the table with its source.

1. `write` writes the commits in batches, in order, and records the snapshot after each batch.
2. `replay` reads each of these snapshots by time travel, by a default and by a fresh read, and compares the rows path
   by path with the tree of the source at that commit.

A source is a stream stored in a Parquet file (`StoredStream`), or a git repository (`GitHistory`):

1. Every commit is compared with its first parent, and the oldest commit with an empty tree. Thus the history of a
   shallow clone begins with its whole oldest tree.
2. A rename is a delete and an add. A submodule is an entry of mode 160000; its blob is a commit and has no size.
3. A path that is not UTF-8 cannot be a STRING. It is written as ``raw:`` and its bytes, those outside ASCII as
   ``\\xNN``. A path that begins with ``raw:`` is written so, too, which keeps all paths distinct.

Clauses: TBL-7, CMT-15, RD-3, RD-15.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError

from pktable.table import Table
from pktable.watching import Progress

RAW: Final = "raw:"
KINDS: Final = {"A": "+I", "M": "+U", "T": "+U", "D": "-D"}
SUBMODULE: Final = "160000"
CHUNK_BYTES: Final = 1 << 20
DIFF_OPTIONS: Final = (
    *("--stdin", "--always", "-r", "--root", "--raw", "-z"),
    *("--no-abbrev", "--no-renames", "--ignore-submodules=none"),
)

Entry = tuple[str, str]
"""The mode and the blob of a path."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """A change of a path by a commit: +I, +U or -D, and the new entry, None for a delete."""

    kind: str
    path: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, and the changes since its first parent. ``time``: in seconds since the epoch."""

    name: str
    time: int
    changes: tuple[PathChange, ...]


class GitHistory:
    """The first-parent history of ``HEAD``, oldest commit first.

    Raises InvalidRequestError if git is not installed, or there is no repository or no commit.
    """

    def __init__(self, repository: str | os.PathLike[str]) -> None:
        self._repository = Path(repository)
        self.shallow = self._run("rev-parse", "--is-shallow-repository").strip() == b"true"
        listing = self._run(
            "rev-list", "--first-parent", "--reverse", "--parents", "--timestamp", "HEAD", "--"
        )
        self._commits = [line.split() for line in listing.decode("ascii").splitlines()]

    @property
    def commit_count(self) -> int:
        """The number of commits."""
        return len(self._commits)

    def commits(self) -> Iterator[Commit]:
        """Yield every commit with its changes. Raises InvalidRequestError if git ends early."""
        # For a line "commit parent", diff-tree compares with that parent only, also for a merge.
        pairs = "".join(" ".join(names[1:3]) + "\n" for names in self._commits)
        with tempfile.TemporaryFile() as asked:
            asked.write(pairs.encode("ascii"))
            asked.seek(0)
            command = self._command("diff-tree", *DIFF_OPTIONS)
            with subprocess.Popen(
                command, stdin=asked, stdout=subprocess.PIPE, env=_environment()
            ) as process:
                assert process.stdout is not None
                parts = _parts(process.stdout)
                header, whole = next(parts, b""), True
                for time, name, *_ in self._commits:
                    whole = header.decode("ascii") == name
                    if not whole:
                        break
                    changes, header = _changes(parts)
                    yield Commit(name, int(time), changes)
        if process.returncode or header or not whole:
            raise InvalidRequestError(
                f"{self._repository}: git diff-tree did not return every commit of the history"
            )

    def tree(self, commit: str) -> Mapping[str, Entry]:
        """Return the entry of every path of a commit, as git lists them."""
        found = {}
        for part in self._run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            entry, _, path = part.partition(b"\t")
            mode, _, blob = entry.decode("ascii").split(" ")
            found[path_text(path)] = (mode, blob)
        return found

    def sizes(self, entries: Collection[Entry]) -> Mapping[str, int]:
        """Return the sizes in bytes of the blobs that the repository has."""
        blobs = sorted({blob for mode, blob in entries if mode != SUBMODULE})
        if not blobs:
            return {}
        asked = "".join(f"{blob}\n" for blob in blobs).encode("ascii")
        answers = self._run("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", stdin=asked)
        pairs = (line.split(" ") for line in answers.decode("ascii").splitlines())
        return {blob: int(size) for blob, size in pairs if size.isdigit()}

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "-C", str(self._repository), "--no-replace-objects", *arguments]

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        command = self._command(*arguments)
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=_environment())
        except FileNotFoundError:
            raise InvalidRequestError("git is not on PATH; install git") from None
        if done.returncode:
            reason = (
                done.stderr.decode("utf-8", "replace").strip().partition("\n")[0] or "git gives no reason"
            )
            raise InvalidRequestError(
                f"{self._repository}: expected a git repository with a commit: {reason}"
            )
        return done.stdout


def _environment() -> dict[str, str]:
    """Return the environment without the variables of a git hook, which name another repository."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    return {**kept, "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


def path_text(path: bytes) -> str:
    """Return a path as text. Different paths give different texts."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = RAW
    if not text.startswith(RAW):
        return text
    return RAW + path.replace(b"\\", b"\\\\").decode("ascii", "backslashreplace")


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the parts that end with a NUL."""
    rest = b""
    while chunk := stream.read(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def _changes(parts: Iterator[bytes]) -> tuple[tuple[PathChange, ...], bytes]:
    """Return the changes up to the next part that is not a change, and that part, empty at the end."""
    changes: list[PathChange] = []
    for part in parts:
        if not part.startswith(b":"):
            return tuple(changes), part
        _, mode, _, blob, status = part.decode("ascii").split(" ")
        kind = KINDS[status[0]]
        changes.append(PathChange(kind, path_text(next(parts)), None if kind == "-D" else (mode, blob)))
    return tuple(changes), b""


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
