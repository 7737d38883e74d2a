"""A script being played: steps of work on a table, and the record of what they do on the store.

A step is a line ``# title``, the operations on the store in order, and the result: rows, a snapshot, or the error.
Below an operation that writes, indented, is what was written. ``decoded`` names the rows of data files, by position,
that were decoded, and of which columns.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pktable import PkTableError, Table
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import array_of
from pktable.retry import RetryPolicy
from pktable_spec.covers import covers

from model_tests.histories.checks import check, fail
from model_tests.histories.decoding import Work, counted
from model_tests.store_work.contents import Contents, of_data_file
from model_tests.store_work.recorder import Interference, Names, Recorder

RECORDS: Final = Path(__file__).parent / "records"
HOUR: Final = 3_600_000
"""Milliseconds between two steps, by the clock of a script."""
MOST_DIFFERENCES: Final = 40
"""Lines of a difference that a failure shows."""


class Play:
    """One script under way, in a new folder. ``store``: the directory that records."""

    def __init__(self, folder: str) -> None:
        self.path, self._time = f"{folder}/t", HOUR
        self.store = Recorder(Names(self.path), Contents(Path(self.path)).of)

    @property
    def text(self) -> str:
        """The record so far."""
        return "\n".join(self.store.lines) + "\n"

    def now(self) -> int:
        return self._time

    def create(
        self, columns: Any, options: Mapping[str, str], *, primary_key: Any = "k", partition_by: Any = ()
    ) -> Table:
        """Create the table."""
        made: list[Table] = []

        def work() -> None:
            made.append(
                Table.create(
                    self.path,
                    columns,
                    primary_key=primary_key,
                    partition_by=partition_by,
                    options=options,
                    store=self.store,
                )
            )

        self.step("create", work)
        assert made, self.store.lines[-1]
        return made[0]

    def fresh(self) -> None:
        """Remove the table, so that another one can take its place."""
        shutil.rmtree(self.path, ignore_errors=True)

    def open(self) -> Table:
        """Open the table in what might be another process: it remembers nothing."""
        return Table.open(self.path, store=self.store)

    def reopened(self) -> Table:
        """Open the table in a step of its own."""
        found: list[Table] = []
        self.step("open", lambda: found.append(self.open()))
        return found[0]

    def step(self, title: str, work: Callable[[], object], *, show: bool = True) -> None:
        """Do some work, and record it. ``show``: whether its result is recorded."""
        self._time += HOUR
        self.store.note(f"# {title}")
        with counted() as decoded:
            try:
                result = work()
            except (PkTableError, KeyboardInterrupt) as error:
                self.store.note(f"-> {type(error).__name__}: {error}")
            else:
                for line in _shown(result) if show else ():
                    self.store.note(f"-> {line}")
        for line in _decoded(decoded):
            self.store.note(line)
        self._show_files()
        for at in self.store.forgotten():
            self.store.note(f"no operation: {at}")

    def _show_files(self) -> None:
        made, self.store.made = self.store.made, []
        for path in (Path(one) for one in made if one.endswith(".parquet")):
            self.store.note(f"file {path}" + ("" if path.exists() else ": gone"))
            for line in of_data_file(path) if path.exists() else ():
                self.store.note(f"  {line}")

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
        for row in result.to_pylist():
            yield "  " + " ".join(f"{value!r}" for value in row.values())
    elif isinstance(result, Mapping):
        yield from (f"{name}: {value}" for name, value in result.items())
    elif isinstance(result, list):
        yield from map(str, result) if result else ["none"]
    elif result is not None:
        yield str(result)


def _decoded(work: Work) -> Iterator[str]:
    """Yield the rows that were decoded, by file and columns."""
    places: dict[tuple[str, int], dict[str, list[int]]] = {}
    for (file, column, at), times in sorted(work.decoded.items()):
        places.setdefault((file, times), {}).setdefault(column, []).append(at)
    for file in work.opened:
        for (name, times), columns in places.items():
            if name != file:
                continue
            same: dict[str, list[str]] = {}
            for column, found in columns.items():
                same.setdefault(_ranges(found), []).append(column)
            for span, some in same.items():
                yield f"decoded {file}: {span} of {' '.join(some)}" + (f", {times} times" * (times > 1))


def _ranges(positions: Sequence[int]) -> str:
    found = []
    for _, run in itertools.groupby(enumerate(positions), lambda one: one[1] - one[0]):
        places = [at for _, at in run]
        found.append(f"{places[0]}" if len(places) == 1 else f"{places[0]}-{places[-1]}")
    return ",".join(found)


Script = Callable[[Play], None]


def played(script: Script) -> str:
    """Play a script in a new folder, and return the record of it."""
    with tempfile.TemporaryDirectory() as folder:
        play = Play(folder)
        with _by_its_clock(play):
            script(play)
        return play.text


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
    path = RECORDS / f"{name}.txt"
    before = path.read_text("utf-8").splitlines() if path.exists() else []
    now = played(script).splitlines()
    if now != before:
        found = list(unified_diff(before, now, "recorded", "now", lineterm="", n=2))[2:]
        more = f"\nand {len(found) - MOST_DIFFERENCES} lines more" if len(found) > MOST_DIFFERENCES else ""
        shown = "\n".join(found[:MOST_DIFFERENCES])
        fail(
            f"{name}: the work on the store has changed. If that is meant: "
            f"python -m model_tests.store_work {name}\n{shown}{more}"
        )
