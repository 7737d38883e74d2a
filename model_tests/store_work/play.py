"""A script being played: steps of work on a table, and the record of what they do on the store.

A step is a line ``# title -> result``, followed by the operations on the store in order, the result if it is long, the
rows of data files that were decoded, by position, and of which columns, and what was written, a line for each file,
snapshot and change of a manifest.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pktable import PkTableError, Table
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import array_of
from pktable.retry import RetryPolicy
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.histories.decoding import Work, counted
from model_tests.store_work.contents import Contents, of_data_file
from model_tests.store_work.recorder import Interference, Names, Recorder
from model_tests.store_work.text import Line, wrapped

RECORDS: Final = Path(__file__).parent / "records"
VECTORS: Final[Mapping[str, str]] = {"deletion-vectors.enabled": "true", "num-levels": "4"}
HOUR: Final = 3_600_000
"""Milliseconds between two steps, by the clock of a script."""
MOST_DIFFERENCES: Final = 40
"""Lines of a difference that a failure shows."""


class Play:
    """One script under way, in a new folder. ``store``: the directory that records."""

    def __init__(self, folder: str) -> None:
        self.path, self._time = f"{folder}/t", HOUR
        self.lines: list[str] = []
        self.full: dict[str, str] = {}
        self.store = Recorder(Names(self.path))
        self.fresh()

    def now(self) -> int:
        return self._time

    def create(self, columns: Any, options: Mapping[str, str], **more: Any) -> Table:
        """Create the table."""
        made: list[Table] = []
        self.step("create", lambda: made.append(self.define(columns, options, **more)))
        return made[0]

    def define(
        self, columns: Any, options: Mapping[str, str], *, primary_key: Any = "k", **more: Any
    ) -> Table:
        """Create the table in a step that is under way."""
        more = {"primary_key": primary_key, "options": options, "store": self.store, **more}
        return Table.create(self.path, columns, **more)

    def written(
        self, options: Mapping[str, str], *writes: Sequence[Sequence[Any]], key: str | None = "k"
    ) -> Table:
        """Return a table with columns ``k`` and ``v`` that has some rows. How it came about is not recorded."""
        table = self.define("k INT, v STRING", options, primary_key=key)
        write = table.upsert if key else table.append
        self.silently(*(partial(write, rows(table.schema, *some)) for some in writes))
        return table

    def other(self, columns: str, options: Mapping[str, str]) -> Table:
        """Return another table in the place of the first one. What is done to it is not recorded, but for results."""
        self.fresh()
        return Table.create(self.path, columns, primary_key="k", options=options)

    def fresh(self) -> None:
        """Remove the table, so that another one can take its place."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.store.describe = Contents(Path(self.path), self.now, self.store.names.short).of

    def open(self) -> Table:
        """Open the table in what might be another process: it remembers nothing."""
        return Table.open(self.path, store=self.store)

    def step(self, title: str, work: Callable[[], object]) -> None:
        """Do some work, and record it."""
        self._time += HOUR
        with counted() as decoded:
            self.tell(title, work)
        done, held = self.store.ended()
        short = self.store.names.short
        self._tell(*done, *wrapped(short(_decoded(decoded))))
        for line in (*held, *self._made()):
            shortened = Line(*map(short, line))
            self._tell(str(shortened))
            self.full[self.lines[-1]] = shortened.full

    def tell(self, title: str, work: Callable[[], object]) -> None:
        """Do some work, and record its result alone."""
        try:
            told = list(_shown(work()))
        except (PkTableError, KeyboardInterrupt) as error:
            told = [f"{type(error).__name__}: {error}"]
        text = f"# {title}" + (f" -> {' | '.join(told)}" if told else "")
        self._tell(*wrapped(self.store.names.spelled(text)))

    def upsert(self, title: str, table: Table, *some: Sequence[Any]) -> None:
        """Write some rows in a step."""
        self.step(title, lambda: table.upsert(rows(table.schema, *some)))

    def _tell(self, *lines: str) -> None:
        self.lines += [line if line.startswith("#") else f"  {line}" for line in lines]

    def silently(self, *works: Callable[[], object]) -> None:
        """Do some work, as in steps, without a record."""
        for work in works:
            self._time += HOUR
            work()
        self.store.forget()

    def _made(self) -> Iterator[Line]:
        made, self.store.made = self.store.made, []
        return (of_data_file(one, Path(one)) for one in made if one.endswith(".parquet"))

    def others_write(self, *some: Sequence[Any]) -> None:
        """Let others write rows, each in a commit."""
        for one in some:
            table = self.others()
            (table.upsert if table.schema.primary_keys else table.append)(rows(table.schema, one))

    def others(self) -> Table:
        """Open the table in another process, whose operations are not recorded."""
        return Table.open(self.path)

    def before(self, at: str, work: Callable[[], object], *, skip: int = 0) -> None:
        """Let others do ``work`` before an operation whose line begins with ``at``: the next one, or after some."""
        self.store.expect(Interference(at, work=work, skip=skip))

    def after(self, at: str, work: Callable[[], object]) -> None:
        """Let others do ``work`` after the next operation whose line begins with ``at``."""
        self.store.expect(Interference(at, then=work))

    def fail(
        self, at: str, *, after: bool = False, times: int = 1, error: BaseException | None = None
    ) -> None:
        """Let the next operations whose lines begin with ``at`` fail, or be done and not be answered.

        ``error``: what they raise, by default an error of the disk.
        """
        for _ in range(times):
            self.store.expect(Interference(at, fails="after" if after else "before", error=error))


def rows(schema: TableSchema, *values: Sequence[Any]) -> pa.Table:
    """Return rows of a table, each given as the values of its columns; fewer values are those of the first ones."""
    arrow = schema.arrow_schema
    names = arrow.names[: len(values[0])]
    columns = zip(*values, strict=True)
    return pa.table(
        {name: pa.array(column, arrow.field(name).type) for name, column in zip(names, columns, strict=True)}
    )


def changes(table: Table, given: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows with a column ``op``, each given as its kind and its values."""
    kinds, *columns = zip(*given, strict=True)
    fields = table.schema.fields
    values = {field.name: array_of(list(one), field.type) for field, one in zip(fields, columns, strict=True)}
    return pa.table({"op": list(kinds), **values})


def _shown(result: object) -> Iterator[str]:
    if isinstance(result, pa.Table):
        yield f"{result.num_rows} rows of {', '.join(result.column_names)}"
        yield from (" ".join(map(repr, row.values())) for row in result.to_pylist())
    elif isinstance(result, Mapping):
        yield from (f"{name}: {value}" for name, value in result.items())
    elif isinstance(result, list):
        yield from map(str, result) if result else ["none"]
    elif result is not None and not isinstance(result, Table):
        yield " | ".join(str(result).splitlines())


def _decoded(work: Work) -> str:
    """Return the rows that were decoded, by columns and file."""
    places: dict[tuple[str, int, str], list[int]] = {}
    for (file, column, at), times in sorted(work.decoded.items()):
        places.setdefault((file, times, column), []).append(at)
    columns: dict[tuple[str, int, str], list[str]] = {}
    for (file, times, column), positions in places.items():
        columns.setdefault((file, times, _ranges(positions)), []).append(column)
    of_columns: dict[str, list[str]] = {}
    for (file, times, span), some in sorted(
        columns.items(), key=lambda one: list(work.opened).index(one[0][0])
    ):
        of_columns.setdefault(" ".join(some), []).append(f"{file} {span}" + f" {times} times" * (times > 1))
    found = "; ".join(f"{names} of {', '.join(some)}" for names, some in of_columns.items())
    return f"decoded {found}" if found else ""


def _ranges(positions: Sequence[int]) -> str:
    found = []
    for _, run in itertools.groupby(enumerate(positions), lambda one: one[1] - one[0]):
        places = [at for _, at in run]
        found.append(f"{places[0]}" if len(places) == 1 else f"{places[0]}-{places[-1]}")
    return ",".join(found)


Script = Callable[[Play], None]


def played(script: Script) -> Play:
    """Play a script in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        play = Play(folder)
        with _by_its_clock(play):
            script(play)
        return play


@contextmanager
def _by_its_clock(play: Play) -> Iterator[None]:
    """Let tables take the time of a script, wait for nothing, and make names that ascend."""
    with (
        mock.patch("uuid.uuid4", side_effect=(uuid.UUID(int=number) for number in itertools.count(1))),
        mock.patch("pktable.table.now_millis", play.now),
        mock.patch("pktable.table_upkeep.now_millis", play.now),
        mock.patch.object(RetryPolicy, "wait", return_value=0.0),
    ):
        yield


@check
@covers("CMT-2", "CMT-16", "CMT-22", "META-2", "META-3", "META-5", "META-6", "RD-16", "RD-24")
def store_work_is_as_recorded(name: str, script: Script) -> None:
    """A script does on the store what its record says: no more operations, and the same contents."""
    path, play = RECORDS / f"{name}.txt", played(script)
    before = path.read_text("utf-8").splitlines() if path.exists() else []
    if play.lines != before:
        found = list(unified_diff(before, play.lines, "recorded", "now", lineterm="", n=2))[2:]
        shown = found[:MOST_DIFFERENCES]
        in_full = [
            play.full[one[1:]] for one in shown if one[:1] == "+" and " #" in one and one[1:] in play.full
        ]
        fail(
            f"{name}: the work on the store has changed. If that is meant: python -m model_tests.store_work {name}\n"
            + "\n".join(shown)
            + (f"\nand {len(found) - len(shown)} lines more" if len(found) > len(shown) else "")
            + "".join(f"\nin full: {one}" for one in in_full)
        )
