"""How much reads and compactions decode, compared with what plain Python says that they need.

The other histories ask for rows alone: work that is done in vain they do not see. Here each data file is opened by a
reader that notes which rows of which columns it decodes. What a piece of work may decode follows from the rows of
the files, from the sizes of row groups and pages that the options name, and from the condition:

* A read that merges nothing needs the row groups whose integers, and the pages whose integers and texts, may fulfil the
  condition; files whose keys and values rule it out it does not open. Where the condition names keys it looks for them
  first, in the columns of the condition, and reads the others between the first and the last row that it found.
* A compaction needs the files that it writes again once, of those that only change their level at most the keys, and of
  deeper ones the keys between the least and the greatest that it still looks for. It opens no other.
* The guess of what a read decodes lies near to that.

Steps are drawn; more than that may not be decoded. Less may: whether the rows are right is compared as well.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pktable import Table
from pktable.catalog import file_bounds
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

from model_tests.histories.decoding import Condition, Row, StoredFile, Work, counted, files_of, is_near
from model_tests.histories.typed_conditions import Comparison
from model_tests.seeded import drawn_options, play_at_random

KEYS: Final = 60
BULK: Final = 300
"""Bytes of a row that do not compress, so that small runs are merged and large ones left."""
COLUMNS: Final = ("k", "v", "s", "b")
PAGE_ROWS: Final = 4
"""Rows that the estimate takes a page to have."""
QUESTIONS: Final = 3
"""How many conditions are asked after each compaction."""
PIECES: Final = file_bounds.PIECES
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1",),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "num-levels": ("4", "5"),
    "write-only": ("true",),
    "target-file-size": ("128 mb", "128 mb", "128 mb", "4 kb"),
    "parquet.block.row.count.limit": ("", "4", "7"),
    "parquet.page.row.count.limit": ("", "1", "3"),
}
INTEGERS: Final = ("INT",)


def draw(number: int, seed: int) -> None:
    """Play some drawn schedules. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Do one schedule on a new table."""
    options = drawn_options(drawn, OPTIONS)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(file_bounds, "PAGE_ROWS", PAGE_ROWS):
        worker = Worker(folder + "/t", options, drawn.choice(("INT", "INT", "STRING")), drawn)
        worker.write(range(0, KEYS, drawn.choice((1, 2))))
        worker.compact(full=True)
        for _ in range(drawn.randint(3, 7)):
            for _ in range(drawn.randint(1, 2)):
                worker.write_some()
            worker.compact(full=drawn.random() < 0.1)
            worker.ask()


class Worker:
    """A table, its rows, and what was asked of it."""

    def __init__(self, path: str, options: Mapping[str, str], kind: str, drawn: random.Random) -> None:
        self._kinds = {"k": kind, "v": "INT", "s": "STRING", "b": "BYTES"}
        ddl = f"k {kind} NOT NULL, v INT, s STRING, b BYTES"
        self._table = Table.create(path, ddl, primary_key=["k"], options=options)
        self._drawn, self._count = drawn, 0
        self._rows: dict[Any, Row] = {}
        page = options.get("parquet.page.row.count.limit")
        self._page = int(page) if page else None
        # Files that are large enough only change their level, and divide the others into groups.
        self._one_group = options["target-file-size"] == "128 mb"

    def _key(self, number: int) -> Any:
        return number if self._kinds["k"] == "INT" else f"{number:03}"

    def write_some(self) -> None:
        """Write, or delete, keys next to each other or anywhere."""
        count = self._drawn.choice((1, 3, 12, 20))
        first = self._drawn.randrange(0, KEYS, 10)
        near = range(first, min(first + count, KEYS))
        self.write(
            near if self._drawn.random() < 0.6 else self._drawn.sample(range(KEYS), count),
            deletes=self._drawn.random() < 0.2,
        )

    def write(self, numbers: Sequence[int], *, deletes: bool = False) -> None:
        keys = [self._key(number) for number in numbers]
        if deletes:
            self._table.delete(pa.table({"k": keys}, schema=self._schema(["k"])))
            for key in keys:
                self._rows.pop(key, None)
            return
        self._count += 1
        rows = [
            {
                "k": key,
                # Mostly in the order of the keys, so that row groups and pages differ.
                "v": self._drawn.choice([None, *[number // 5] * 7, self._drawn.randrange(12)]),
                "s": self._drawn.choice([f"t{number // 9}", f"t{self._drawn.randrange(7)}"]),
                "b": self._drawn.randbytes(BULK),
            }
            for number, key in zip(numbers, keys, strict=True)
        ]
        self._table.upsert(pa.Table.from_pylist(rows, self._schema([*COLUMNS])))
        self._rows |= {row["k"]: row for row in rows}

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self._table.schema.arrow_schema.field(name) for name in names])

    # ---------------------------------------------------------------- compactions

    def compact(self, *, full: bool) -> None:
        before = {file.name: file for file in files_of(self._table)}
        planned = self._table.plan_compaction(full=full)
        with counted() as work:
            snapshot = self._table.compact(full=full)
        after = {file.name: file for file in files_of(self._table)}
        if snapshot is None:
            after = before
        written = [file for name, file in before.items() if name not in after]
        moved = [file for name, file in before.items() if name in after and after[name].level != file.level]
        expected = Work()
        for file in written:
            expected.add(file, [*self._stored_columns], range(len(file.rows)))
        vectors = self._table.catalog.context.options.deletion_vectors_enabled
        for file in moved if vectors else ():
            if file.level == 0:
                expected.add(file, self._keys_of_files, range(len(file.rows)))
        groups = [some for some in (written, *([file] for file in moved if file.level == 0)) if some]
        for group in groups if vectors else ():
            deeper = [file for file in before.values() if file.level > planned[0].output_level]
            self._expect_lookups(expected, group, deeper)
        if self._one_group:
            compaction_does_no_more(work, expected, full=full)

    @property
    def _stored_columns(self) -> list[str]:
        return [KEY_PREFIX + "k", SEQUENCE_NUMBER, VALUE_KIND, *COLUMNS]

    @property
    def _keys_of_files(self) -> list[str]:
        return [KEY_PREFIX + "k", SEQUENCE_NUMBER, VALUE_KIND]

    def _expect_lookups(
        self, expected: Work, group: Sequence[StoredFile], deeper: Sequence[StoredFile]
    ) -> None:
        """Add the keys that a compaction of ``group`` looks up: those without an add of a deeper level in it."""
        live = [(file, at) for file in group for at in range(len(file.rows)) if at not in file.deleted]
        settled = {file.keys[at] for file, at in live if file.level and file.rows[at][VALUE_KIND] in (0, 2)}
        keys = sorted({file.keys[at] for file, at in live} - settled)
        for level in sorted({file.level for file in deeper}):
            found = set()
            for file in (one for one in deeper if one.level == level and keys):
                if file.keys[0] > keys[-1] or file.keys[-1] < keys[0]:
                    continue
                wanted = [rows for rows in file.groups if file.keys[rows[-1]] >= keys[0]]
                passed = [file.keys[rows[-1]] >= keys[-1] for rows in wanted]
                wanted = wanted[: passed.index(True) + 1] if True in passed else wanted
                positions = [at for rows in wanted for at in rows]
                expected.add(file, [KEY_PREFIX + "k"], positions)
                found |= {key for at, key in enumerate(file.keys) if at not in file.deleted}
            keys = [key for key in keys if key not in found]

    # ---------------------------------------------------------------- reads

    def ask(self) -> None:
        """Ask a few conditions, as reads of all or some columns and as counts."""
        for _ in range(QUESTIONS):
            condition = self._condition()
            columns = self._drawn.choice([[*COLUMNS], ["k", "v", "s"], ["s"], ["v", "k"]])
            self._read(condition, columns, fresh=self._drawn.random() < 0.3)
            self._guess(condition)
            self._guess(self._condition())
        self._count_all()

    def _condition(self) -> Condition:
        return Condition([self._clause() for _ in range(self._drawn.choice((1, 1, 2)))])

    def _clause(self) -> list[Comparison]:
        name = self._drawn.choice("kkkvs")
        if name == "k" and self._drawn.random() < 0.4:
            first = self._drawn.randrange(KEYS)
            numbers = {first, *(self._drawn.randrange(KEYS) for _ in range(self._drawn.choice((0, 0, 1))))}
            return [Comparison("k", "=", self._key(number)) for number in sorted(numbers)]
        value: Any = {"k": self._drawn.randrange(KEYS), "v": self._drawn.randrange(14), "s": "t"}[name]
        value = self._key(value) if name == "k" else value
        value = f"t{self._drawn.randrange(8)}" if name == "s" else value
        return [Comparison(name, self._drawn.choice(("=", "<", "<=", ">", ">=")), value)]

    def _read(self, condition: Condition, columns: Sequence[str], *, fresh: bool) -> None:
        scan = self._table.scan(where=condition.sql, columns=columns, fresh=fresh)
        with counted() as work:
            found = scan.to_arrow().to_pylist()
        files = {file.name: file for file in files_of(self._table)}
        expected = Work()
        for split in scan.splits():
            for path in split.paths:
                file = files[Path(path).name]
                if split.merges:
                    names = dict.fromkeys([*columns, *condition.columns])
                    expected.add(file, [*self._keys_of_files, *names], range(len(file.rows)))
                elif not condition.is_ruled_out(file.rows, ["k", "v", "s"]):
                    self._expect_rows(expected, file, condition, columns)
        read_decodes_no_more(work, expected, condition.sql, columns, fresh=fresh)
        if fresh:
            rows = [row for row in self._rows.values() if condition.holds(row)]
            rows_are_right(found, [{name: row[name] for name in columns} for row in rows], condition.sql)

    def _expect_rows(
        self, expected: Work, file: StoredFile, condition: Condition, columns: Sequence[str]
    ) -> None:
        """Add what a read of a file decodes that merges nothing."""
        wanted = self._may_hold(file, condition)
        needed = list(dict.fromkeys([*columns, *condition.columns]))
        if condition.key_count is not None and len(condition.columns) < len(needed):
            expected.add(file, condition.columns, self._granules(file, wanted))
            rows = [at for at in wanted if at not in file.deleted and condition.holds(file.rows[at])]
            wanted = [at for at in range(len(file.rows)) if rows and is_near(at, rows)]
        expected.add(file, needed, self._granules(file, wanted))

    def _may_hold(self, file: StoredFile, condition: Condition) -> list[int]:
        """Return the rows of the row groups, or of the pages, whose bounds do not rule out the condition."""
        integers = [name for name, kind in self._kinds.items() if kind in INTEGERS]
        found: list[int] = []
        for group in file.groups:
            rows = [file.rows[at] for at in group]
            # A row group without values has no bounds.
            bounded = [name for name in integers if any(row[name] is not None for row in rows)]
            if len(file.groups) > 1 and condition.is_ruled_out(rows, bounded):
                continue
            for page in self._pages(group):
                if self._page is None or not condition.is_ruled_out(
                    [file.rows[at] for at in page], ["k", "v", "s"]
                ):
                    found += page
        return found

    def _pages(self, group: range) -> list[range]:
        size = self._page or len(group)
        return [group[start : start + size] for start in range(0, len(group), size)]

    def _granules(self, file: StoredFile, wanted: Sequence[int]) -> list[int]:
        """Return the rows that come with those wanted: of a row group all, if pages do not save half of it."""
        found: list[int] = []
        some = set(wanted)
        for group in file.groups:
            pages = [page for page in self._pages(group) if not some.isdisjoint(page)]
            share = sum(map(len, pages)) / len(group)
            found += group if share > 0.5 or (pages and self._page is None) else sorted(some & set(group))
        return found

    def _guess(self, condition: Condition) -> None:
        """Compare what the read is guessed to decode with what the keys of the files say."""
        scan = self._table.scan(where=condition.sql)
        splits, files = scan.splits(), {file.name: file for file in files_of(self._table)}
        if not splits:
            return
        guess = file_bounds.rows_to_decode(
            splits[0].context, [one.part for one in splits], splits[0].predicate
        )
        least, most = 0.0, 0.0
        for split in splits:
            for path in split.paths:
                low, high = self._needed(files[Path(path).name], condition, merges=split.merges)
                least, most = least + low, most + high
        guess_is_near(guess, least, most, condition.sql)

    def _needed(self, file: StoredFile, condition: Condition, *, merges: bool) -> tuple[float, float]:
        """Return about how many rows a file is guessed to give: at least, and at most."""
        count = len(file.rows)
        if merges or "k" not in condition.columns:
            return count, count
        if condition.key_count is not None:
            needed = min(condition.key_count * PAGE_ROWS, count)
            return needed, needed
        if self._kinds["k"] not in INTEGERS:
            return count, count
        clauses = [one for one in condition.clauses if one[0].column == "k"]
        span = range(file.keys[0], file.keys[-1] + 1)
        share = sum(Condition(clauses).holds({"k": key}) for key in span) / len(span)
        slack = 2 * len(clauses) / min(PIECES, len(span)) * count + 1
        return min(share * count + PAGE_ROWS - slack, count), min(share * count + PAGE_ROWS + slack, count)

    def _count_all(self) -> None:
        """Count all rows: where nothing is merged, metadata says how many there are."""
        scan = self._table.scan()
        merged = [Path(path).name for split in scan.splits() if split.merges for path in split.paths]
        expected = Work()
        for file in files_of(self._table):
            if file.name in merged:
                expected.add(file, [*self._keys_of_files, "k"], range(len(file.rows)))
        with counted() as work:
            scan.count()
        read_decodes_no_more(work, expected, "a count", (), fresh=False)


@check
@covers("RD-8", "RD-16", "META-38")
def read_decodes_no_more(
    work: Work, expected: Work, what: str, columns: Sequence[str], *, fresh: bool
) -> None:
    """A read decodes no row that bounds rule out, and no column that it does not need."""
    problem = work.beyond(expected)
    if problem is not None:
        fail(f"{what}, columns {list(columns)}, fresh={fresh}: {problem}")


@check
@covers("CMP-9", "CMP-10", "DV-6", "DV-7", "DV-8")
def compaction_does_no_more(work: Work, expected: Work, *, full: bool) -> None:
    """A compaction decodes what it writes again, and of other files the keys that it must look for."""
    problem = work.beyond(expected)
    if problem is not None:
        fail(f"compaction, full={full}: {problem}")


@check
@covers("RD-16")
def guess_is_near(guess: int, least: float, most: float, what: str) -> None:
    """The guess of what a read decodes is near to what it needs, if keys lie evenly."""
    if not int(least) <= guess <= most + 1:
        fail(f"{what}: guessed {guess} rows, expected {least:.1f} to {most:.1f}")


@check
@covers("RD-1", "RD-6")
def rows_are_right(found: Sequence[Row], expected: Sequence[Row], what: str) -> None:
    """Compare the rows of a fresh read with those that plain Python chooses."""
    if Counter(str(row) for row in found) != Counter(str(row) for row in expected):
        fail(f"{what}: expected {expected}, found {found}")
