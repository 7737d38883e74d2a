"""The backends a history can run on, each a context that gives a way to create tables.

`PaimonTable` is the thin adapter of `pktable.Table`, with and without Spark. Users' operations go through its public
methods; `StoredTable` shows its files, vectors and records, `AskedTable` answers other questions. To add a backend,
give it a context here and a line in `BACKENDS` and in `histories.profiles`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from pktable_spec.interface import (
    EVERYTHING,
    Change,
    Comparison,
    OpenTable,
    Query,
    Row,
    Scalar,
    Shape,
    Wanted,
)
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import RowKind

from model_tests.backends.asked_table import ROW_KIND, AskedTable
from model_tests.backends.definitions import defined
from model_tests.backends.spark_session import spark_session

if TYPE_CHECKING:
    pass

ROW_KIND_READ = "_row_kind"
COPIED = 2
"""The handle that is a copy of the first one, if that is open."""
REPEATED = 2
"""How often that handle repeats a commit, under one identifier."""


class PaimonTable(AskedTable):
    """A `pktable.Table`, ``table``, under test with every capability. ``spark``: a session, or None: no Spark.

    ``runner``: of the first handle, as in `Table.open`. The others do small work in this process, as users' do.
    """

    _threads = ThreadPoolExecutor(3)

    def __init__(
        self,
        shape: Shape,
        options: Mapping[str, str],
        path: Path | str,
        spark: Any = None,
        storage_options: Mapping[str, str] | None = None,
        runner: str | None = None,
    ) -> None:
        from pktable import Table

        super().__init__(shape, str(path))
        self._spark, self._storage = spark, storage_options
        self.directory = Path(path)
        self._handle = 0
        created = Table.create(
            path,
            defined(shape, options),
            primary_key=list(shape.primary_key),
            partition_by=list(shape.partition_keys),
            options=dict(options),
            storage_options=storage_options,
            spark=spark,
            runner=runner,
        )
        self._handles = {0: created}
        self._staged: dict[int, Any] = {}
        self._tickets = itertools.count()

    # -------------------------------------------------------------- handles

    @property
    def table(self) -> Any:
        """The `pktable.Table` of the handle in use. One of them is a copy of another, as executors get it."""
        from pktable import Table

        if self._handle not in self._handles:
            original = self._handles.get(0) if self._handle == COPIED and self._spark is None else None
            self._handles[self._handle] = (
                pickle.loads(pickle.dumps(original))
                if original
                else Table.open(self._path, storage_options=self._storage, spark=self._spark)
            )
        return self._handles[self._handle]

    def use(self, handle: int) -> None:
        self._handle = handle

    @contextlib.contextmanager
    def _windows(self) -> Iterator[None]:
        """Let the first handle work as it is, and the others as if tables were large.

        They merge in windows of as many rows as their number, and decode the metadata of files by columns.
        """
        from pktable.bucket import windows
        from pktable.format import binary_row

        number = self._handle
        if not number:
            yield
            return
        few = mock.patch.object(windows, "rows_to_hold", return_value=number)
        with few, mock.patch.object(binary_row, "FEW_ROWS", 0):
            yield

    # ------------------------------------------------------ what users do

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        kinds, commit_id = {kind for kind, _ in changes}, self._commit_id(next(self._tickets))
        with self._windows():
            if write_only:
                self._stage_write(changes, write_only=True).commit(commit_id)
            elif kinds == {RowKind.INSERT}:
                for _ in range(REPEATED if self._handle == COPIED else 1):
                    self.table.upsert(self._rows(changes), commit_id=commit_id)
            elif kinds == {RowKind.DELETE} and self._deletes_by_key:
                self.table.delete(self._rows(changes).select(list(self._shape.primary_key)))
            else:
                self.table.write_changes(self._rows_with_kinds(changes), row_kind=ROW_KIND)

    @property
    def _deletes_by_key(self) -> bool:
        """Whether rows are deleted by keys alone; where keys move, such a deletion has no partition (BKT-24)."""
        context = self.table.catalog.context
        return context.merge_engine.deletes and context.user_order is None and not context.moves_keys

    def compact(self, *, full: bool = False) -> None:
        with self._windows():
            self.table.compact(full=full)

    def update(self, where: Comparison, values: Mapping[str, Scalar]) -> None:
        with self._windows():
            self.table.update({name: _as_sql(value) for name, value in values.items()}, where=where.sql)

    def delete_where(self, where: Comparison) -> None:
        with self._windows():
            self.table.delete(where=where.sql)

    def merge(self, source: Sequence[Row]) -> None:
        rows = self._rows([Change(RowKind.INSERT, row) for row in source])
        merge = self.table.merge(rows, on=list(self._shape.primary_key))
        merge = merge.when_matched_delete("source.v IS NULL").when_matched_update_all()
        with self._windows():
            merge.when_not_matched_insert_all("source.v IS NOT NULL").execute()

    def overwrite(self, rows: Sequence[Row], where: Comparison | None) -> None:
        new = self._rows([Change(RowKind.INSERT, row) for row in rows])
        with self._windows():
            self.table.overwrite(new, where=where.sql if where else None)

    def truncate(self) -> None:
        self.table.truncate()

    def race(self, statement: Callable[[], None], other: Callable[[], None]) -> None:
        runner, mine = type(self.table.runner), self._handle
        original, waiting = runner.write, [other]

        def write(*arguments: Any) -> Any:
            found = original(*arguments)
            if waiting:
                self.use(0 if mine else 1)
                waiting.pop()()
                self.use(mine)
            return found

        with mock.patch.object(runner, "write", write):
            statement()

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        found = self.table.to_arrow(
            **self._as_of(snapshot),
            fresh=fresh,
            where=" AND ".join(one.sql for one in query.where) or None,
            columns=list(query.columns) if query.columns is not None else None,
            limit=query.limit,
        )
        return [tuple(row.values()) for row in found.to_pylist()]

    def _as_of(self, snapshot: int | None) -> dict[str, Any]:
        """Return the keyword for a snapshot: its id or, through the copied handle, its time where no other has that."""
        if snapshot is None or self._handle != COPIED:
            return {"snapshot": snapshot}
        times = {one.id: one.time_millis for one in self.table.snapshots()}
        if times.get(snapshot + 1) == times[snapshot]:
            return {"snapshot": snapshot}
        return {"timestamp": _spelled(times[snapshot], snapshot)}

    def read_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        # A small read on Spark is mostly waiting; three at a time keep two cores busy.
        do = self._threads.map if self._spark is not None else map
        with self._windows():
            return list(
                do(lambda one: self.read(snapshot=one.snapshot, fresh=one.fresh, query=one.query), wanted)
            )

    def changes(self, start: int, end: int) -> Sequence[Change]:
        rows = self.table.changes(start, end).to_arrow().to_pylist()
        return [Change(self._kind(row.pop(ROW_KIND_READ)), tuple(row.values())) for row in rows]

    @staticmethod
    def _kind(symbol: str) -> RowKind:
        return next(kind for kind in RowKind if kind.symbol == symbol)

    def reopen(self) -> None:
        self._handles.pop(self._handle, None)

    def expire(self, retain_last: int) -> None:
        expected = self.table.expire_snapshots(retain_last=retain_last, dry_run=True)
        assert self.table.expire_snapshots(retain_last=retain_last) == expected

    def create_tag(self, tag: str, snapshot: int) -> None:
        self.table.create_tag(tag, snapshot=snapshot)

    def delete_tag(self, tag: str) -> None:
        self.table.delete_tag(tag)

    def count(self, *, snapshot: int | None = None, fresh: bool = False) -> int:
        return int(self.table.count(snapshot=snapshot, fresh=fresh))

    def read_tag(self, tag: str, *, fresh: bool = False) -> list[Row]:
        return [tuple(row.values()) for row in self.table.to_arrow(tag=tag, fresh=fresh).to_pylist()]

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    # ------------------------- what other writers, programs and disks do

    def write_concurrently(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        staged = [self._stage_write(changes, write_only=True) for changes in (first, second)]
        for write in staged:
            # Paimon's writers do not compare their numbers with those of others when they commit.
            write.rules = ()
            write.commit(self._commit_id())

    def enable_vectors(self) -> None:
        from pktable.format.metadata.schema import encode_schema

        schema = self.table.schema
        options = {**schema.options, "deletion-vectors.enabled": "true"}
        new = encode_schema(replace(schema, id=schema.id + 1, options=options))
        self._store_bytes(f"{self._path}/schema/schema-{schema.id + 1}", new)
        self._handles.clear()

    def damage_vectors(self, number: int) -> bool:
        from pktable import CorruptFileError, Table

        files = self.table.catalog.context
        paths = [files.index_path(index) for (index,) in self.table.catalog.state().indexes.values()]
        path = paths[number % len(paths)]
        good = self._stored_bytes(path)
        byte, bit = divmod(number % (8 * len(good)), 8)
        damaged = bytearray(good)
        damaged[-1 - byte] ^= 1 << bit
        self._store_bytes(path, bytes(damaged))
        try:
            Table.open(self._path, storage_options=self._storage, spark=self._spark).to_arrow()
        except CorruptFileError:
            return True
        finally:
            self._store_bytes(path, good)
        return False

    def reorder_vectors(self) -> None:
        from pktable.format.metadata.manifest import decode_index_manifest, encode_index_manifest

        snapshot = self.table.snapshots()[-1]
        path = f"{self._path}/manifest/{snapshot.index_manifest}"
        entries = decode_index_manifest(self._stored_bytes(path), path)
        self._store_bytes(
            path, encode_index_manifest([replace(one, ranges=(one.ranges or ())[::-1]) for one in entries])
        )
        self._handles.clear()

    # --------------------------------------------------------- staged work

    def begin_write(self, changes: Sequence[Change], *, write_only: bool = False) -> int:
        with self._windows():
            return self._keep(self._stage_write(changes, write_only=write_only))

    def begin_compaction(self, *, full: bool = False) -> int | None:
        with self._windows():
            staged = self.table.stage_compaction(full=full)
        return self._keep(staged) if staged.changes else None

    def commit(self, ticket: int) -> str | None:
        from pktable.staged import StagedCompaction

        from model_tests.backends.as_planned import commit_as_planned

        staged = self._staged.pop(ticket)
        if isinstance(staged, StagedCompaction):
            conflicts = commit_as_planned(staged, self._commit_id())
            return next((conflict.clause for conflict in conflicts.values()), None)
        with self._windows():  # it may have to be planned again
            staged.commit(self._commit_id())
        return None

    def abandon(self, ticket: int) -> None:
        # A crash removes nothing: the files stay, and nothing may read them.
        self._staged.pop(ticket)

    def _keep(self, staged: Any) -> int:
        ticket = next(self._tickets)
        self._staged[ticket] = staged
        return ticket

    def _stage_write(self, changes: Sequence[Change], *, write_only: bool) -> Any:
        from pktable.ingest.changes import ChangeKind

        rows = self._rows_with_kinds(changes)
        return self.table.stage_write(rows, ChangeKind(column=ROW_KIND), write_only=write_only)

    def _commit_id(self, *number: int) -> Any:
        """Return a new commit identifier; with a number of its own the commit can be repeated."""
        from pktable.catalog.changes import CommitId

        return CommitId(f"test-{next(self._tickets)}", *number)


def _spelled(millis: int, number: int) -> int | str | dt.datetime:
    """Return a time in one of the forms that reads take."""
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)
    text = moment.isoformat(timespec="milliseconds")
    forms = (millis, moment, moment.replace(tzinfo=None), text, text.replace("+00:00", "Z"))
    return forms[number % len(forms)]


def _as_sql(value: Scalar) -> Scalar:
    """Return a value as an assignment takes it: text in quotes."""
    return f"'{value}'" if isinstance(value, str) else value


@contextlib.contextmanager
def model_backend() -> Iterator[OpenTable]:
    """The oracle's mechanism, in memory."""
    yield ModelTable


RUNNERS = ("spark", None, None)
"""The runners of the tables of a session, in turn: Spark does all work of a third, also what this process would do."""


@contextlib.contextmanager
def local_backend(spark: Any = None, runners: Sequence[str | None] = (None,)) -> Iterator[OpenTable]:
    """Tables of this process in a temporary directory, which is removed afterwards.

    ``runners``: of the tables, in turn, as in `Table.open`.
    """
    turns = itertools.cycle(runners)
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="pktable-") as folder:

        def open_table(shape: Shape, options: Mapping[str, str]) -> PaimonTable:
            path = Path(folder) / f"table-{next(numbers)}"
            return PaimonTable(shape, options, path, spark, runner=next(turns))

        yield open_table


# Small queries spend most of their time on these. Only histories change them; other tests keep Spark's defaults.
FOR_SMALL_QUERIES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.minPartitionNum": "1",
}


@contextlib.contextmanager
def spark_backend(runners: Sequence[str | None] = RUNNERS) -> Iterator[OpenTable]:
    """Tables of the test process's Spark session in a temporary directory. ``runners``: as in `local_backend`."""
    session = spark_session()
    before = {name: session.conf.get(name, None) for name in FOR_SMALL_QUERIES}
    try:
        for name, value in FOR_SMALL_QUERIES.items():
            session.conf.set(name, value)
        with local_backend(session, runners) as open_table:
            yield open_table
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


BACKENDS: Mapping[str, Callable[[], AbstractContextManager[OpenTable]]] = {
    "model": model_backend,
    "local": local_backend,
    "spark": spark_backend,
}
