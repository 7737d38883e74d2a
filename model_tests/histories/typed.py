"""Drawn schedules of tables whose keys and values are of every atomic type, compared with a dict.

The oracle knows integers and text alone. So a table is drawn with one or two key columns of any types and a value
column of any, and takes upserts, deletes and compactions. After each, both reads must give the rows of a dict, and
those of a condition the rows that plain Python chooses. At some time another handle may change the schema: a column
comes, that of the values gets a wider type, and full compactions may become due. The handle from before must refuse to
write, and reads on.
"""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.bucket import windows
from pktable.format import binary_row
from pktable.format.metadata.schema import encode_schema
from pktable.format.types import Field, parse_type
from pktable_conform.judge.checks import check, fail
from pktable_conform.judge.read_expectations import Stats
from pktable_spec.covers import covers
from pktable_spec.vocabulary import COMPACT, KEY_PREFIX

from model_tests.histories import typed_conditions
from model_tests.seeded import play_drawn
from model_tests.table.foreign_tables import as_avro, as_orc, of_parquet, rewritten

VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 1, 127],
    "SMALLINT": [-32768, -1, 0, 32767],
    "INT": [-(2**31), -1, 0, 1, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 2**63 - 1],
    "FLOAT": [float("-inf"), -1.5, -0.0, 0.0, 0.25, float("inf"), float("nan")],
    "DOUBLE": [float("-inf"), -1.5, -0.0, 0.0, 0.1, 1e300, float("inf"), float("nan")],
    "DECIMAL(9, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("12.34")],
    "DECIMAL(38, 10)": [
        Decimal("-9999999999999999999999999999.0000000001"),
        Decimal("0E-10"),
        Decimal("1.0000000001"),
    ],
    "CHAR(3)": ["a", "ab", "abc"],
    "VARCHAR(20)": ["", "a", "ab", "zz"],
    "STRING": ["", "a", "a\0", "ab", "\uffee", "\U0001f600", "x" * 200],
    "BINARY(2)": [b"\0\0", b"\0\1", b"\xff\0"],
    "BYTES": [b"", b"\0", b"\0\0", b"a", b"\xff" * 120],
    "DATE": [dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "TIME(3)": [dt.time(0), dt.time(0, 0, 0, 1000), dt.time(12, 30), dt.time(23, 59, 59, 999000)],
    "TIMESTAMP(3)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 1, 2, 3, 4, 5)],
    "TIMESTAMP(6)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "TIMESTAMP(9)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc),
        dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
    ],
}
"""Some values of each atomic type, in their order."""

OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "2"),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "parquet.block.row.count.limit": ("2", "100"),
    "target-file-size": ("128 mb", "2 kb"),
}

WIDER: Final[Mapping[str, str]] = {
    "TINYINT": "SMALLINT",
    "SMALLINT": "BIGINT",
    "INT": "BIGINT",
    "FLOAT": "DOUBLE",
    "DECIMAL(9, 2)": "DECIMAL(20, 2)",
    "CHAR(3)": "STRING",
    "VARCHAR(20)": "STRING",
    "BINARY(2)": "BYTES",
    "TIMESTAMP(3)": "TIMESTAMP(6)",
}
"""A type that has all values of another: files of the former are read as the latter."""

NANOSECONDS: Final = "TIMESTAMP(9)"
DELTA_COMMITS: Final = "full-compaction.delta-commits"
CONDITIONS: Final = 3
"""How many conditions are asked after each step."""

Row = dict[str, Any]
Key = tuple[str, ...]


def draw(number: int, seed: int) -> Stats:
    """Play some drawn schedules, and count. Raises CheckFailed, or what a table raises, at the first that fails."""
    stats = Stats()
    play_drawn(number, seed, lambda data: play(data, stats))
    return stats


def play(data: st.DataObject, stats: Stats) -> None:
    """Do one schedule on a new table, and count it in ``stats``."""
    kinds = dict(zip("abv", data.draw(st.tuples(*[st.sampled_from(list(VALUES))] * 3)), strict=True))
    keys = data.draw(st.sampled_from((["a"], ["a", "b"])))
    options = {name: data.draw(st.sampled_from(values)) for name, values in OPTIONS.items()}
    values = {
        name: st.sampled_from(VALUES[kind]) if name in keys else st.sampled_from([None, *VALUES[kind]])
        for name, kind in kinds.items()
    }
    rows = st.fixed_dictionaries(values)
    batches = data.draw(
        st.lists(st.tuples(st.lists(rows, min_size=1, max_size=8), st.integers(0, 7)), max_size=6)
    )
    drawn = random.Random(data.draw(st.integers(0, 1 << 30)))
    changed_at = drawn.randrange(9)
    with tempfile.TemporaryDirectory() as folder:
        typed = TypedTable(
            Table.create(folder + "/t", kinds, primary_key=keys, options=options), kinds, keys, drawn
        )
        for number, (batch, do) in enumerate(batches):
            if number == changed_at:
                typed.change_schema(batch)
            typed.write(batch, deletes=do % 4 == 3)
            if do > 3:
                typed.table.compact(full=do > 5)
            few = mock.patch.object(windows, "rows_to_hold", return_value=1 + number)
            with few, mock.patch.object(binary_row, "FEW_ROWS", number):
                typed.compare()
            stats.steps += 1
            stats.snapshots_compared += 1
            stats.reads += 2 + CONDITIONS
        if batches:
            for batch in (batches[0][0], batches[-1][0]):
                typed.write(batch, deletes=False)
                typed.to_another_format()
                typed.compare()
        is_sound(typed.table)
        files_are_as_readers_need_them(typed.table, kinds)
    stats.histories += 1


class TypedTable:
    """A table and the rows it must have. ``kinds``: the types of its columns."""

    def __init__(
        self, table: Table, kinds: Mapping[str, str], keys: Sequence[str], drawn: random.Random
    ) -> None:
        self.table, self.kinds, self._keys, self._drawn = table, dict(kinds), keys, drawn
        self._values = {name: VALUES[kind] for name, kind in kinds.items()}
        self._expected: dict[Key, Row] = {}

    def write(self, batch: Sequence[Row], *, deletes: bool) -> None:
        if deletes:
            self.table.delete(self._arrow(batch).select(self._keys))
            for row in batch:
                self._expected.pop(_key(row, self._keys), None)
        else:
            self.table.upsert(self._arrow(batch))
            self._expected |= {_key(row, self._keys): self._whole(row) for row in batch}
        full_compactions_come_in_time(self.table)

    def change_schema(self, batch: Sequence[Row]) -> None:
        """Let another handle add a column and widen that of the values; the handle in use becomes stale."""
        stale, before = self.table, self.table.catalog.state().id
        old, expected = list(self.kinds), list(self._expected.values())
        self.kinds = {"n": "INT", **self.kinds, "v": WIDER.get(self.kinds["v"], self.kinds["v"])}
        self._values["n"] = VALUES["INT"]
        schema = stale.schema
        fields = {field.name: field for field in schema.fields}
        new = Field(schema.highest_field_id + 1, "n", parse_type("INT"))
        value = replace(fields["v"], type=parse_type(self.kinds["v"]))
        others = [field for name, field in fields.items() if name != "v"]
        options = dict(schema.options)
        if self._drawn.random() < 0.5:
            options[DELTA_COMMITS] = "2"
        later = replace(
            schema,
            id=schema.id + 1,
            fields=(new, *others, value),
            highest_field_id=schema.highest_field_id + 1,
            options=options,
        )
        Path(stale.path, "schema", f"schema-{later.id}").write_bytes(encode_schema(later))
        self.table = Table.open(stale.path)
        stale_handle_refuses_to_write(stale, self._arrow(batch).select(old))
        rows_agree(stale, expected, old)
        self._expected = {key: self._whole(row) for key, row in self._expected.items()}
        self.compare()
        if before:
            rows_agree(self.table, expected, old, snapshot=before)
            self.write(batch, deletes=False)
            rows_agree(self.table, expected, old, snapshot=before)
            rows_agree(stale, list(self._expected.values()), old, cast=True)

    def to_another_format(self) -> None:
        """Put the rows into ORC or Avro files, as other writers do. Avro of Paimon's has no nanoseconds."""
        formats = [as_orc] if NANOSECONDS in self.kinds.values() else [as_orc, as_avro]
        rewritten(Path(self.table.path), of_parquet(self._drawn.choice(formats)))
        self.table = Table.open(self.table.path)

    def compare(self) -> None:
        expected = list(self._expected.values())
        rows_agree(self.table, expected, list(self.kinds))
        for _ in range(CONDITIONS):
            one = typed_conditions.condition(self.kinds, self._values, self._drawn)
            condition_agrees(self.table, one, expected, list(self.kinds), fresh=self._drawn.random() < 0.5)
            files_are_ruled_out(self.table, one, self.kinds)

    def _whole(self, row: Row) -> Row:
        return {name: row.get(name) for name in self.kinds}

    def _arrow(self, rows: Sequence[Row]) -> pa.Table:
        schema = self.table.schema.arrow_schema
        return pa.table({f.name: pa.array([row.get(f.name) for row in rows], f.type) for f in schema})


@check
@covers(
    "MRG-5", "MRG-7", "TBL-5", "TBL-10", "LSM-1", "DV-6", "META-8", "META-15", "META-39", "RD-14", "CMT-15"
)
def rows_agree(
    table: Table,
    expected: Sequence[Row],
    names: Sequence[str],
    *,
    snapshot: int | None = None,
    cast: bool = False,
) -> None:
    """Compare a fresh and a default read with the rows expected: each write compacts, so both have all of them.

    ``cast``: whether files may have other types than ``table``. Then text may come with the spaces that CHAR adds.
    """
    fixed = [name for name in names if cast and table.columns[name].startswith("CHAR")]

    def texts(row: Row) -> tuple[str, ...]:
        return _texts({**row, **{name: row[name] and row[name].rstrip() for name in fixed}}, names)

    wanted = sorted(_texts(row, names) for row in expected)
    for fresh in (True, False):
        found = table.to_arrow(fresh=fresh, snapshot=snapshot)
        if found.column_names != names:
            fail(
                f"{table.columns}, snapshot {snapshot}: expected the columns {names}, found {found.column_names}"
            )
        if sorted(map(texts, found.to_pylist())) != wanted:
            fail(
                f"{table.columns}, fresh={fresh}, snapshot {snapshot}: expected {expected}, found {found.to_pylist()}"
            )


@check
@covers("CMP-30", "META-55")
def full_compactions_come_in_time(table: Table) -> None:
    """After a write, fewer commits than the option says have followed the last snapshot that was compacted fully."""
    if DELTA_COMMITS not in table.options:
        return
    count, greatest = 0, table.catalog.context.options.max_level
    for snapshot in reversed(table.snapshots()):
        state = table.catalog.state(snapshot.id)
        if all(file.level == greatest for files in state.files.values() for file in files):
            break
        count += snapshot.commit_kind != COMPACT
    if count >= int(table.options[DELTA_COMMITS]):
        fail(f"{count} commits have followed the last full compaction")


@check
@covers("META-11")
def is_sound(table: Table) -> None:
    """The checker finds nothing but what `rewritten` does: it commits all files as if none had been there."""
    findings = [str(one) for one in table.check().findings if one.clause != "CMT-5"]
    if findings:
        fail(f"{table.columns}: {findings}")


@check
@covers("RD-6", "RD-8", "RD-16", "META-15")
def condition_agrees(
    table: Table, one: typed_conditions.Drawn, rows: Sequence[Row], names: Sequence[str], *, fresh: bool
) -> None:
    """Compare the rows of a condition with those that plain Python chooses."""
    expected = [row for row in rows if one.text.of(row) is True]
    found = table.to_arrow(where=one.text.sql, fresh=fresh).to_pylist()
    if sorted(_texts(row, names) for row in found) != sorted(_texts(row, names) for row in expected):
        fail(f"{table.columns}, {one.text.sql}, fresh={fresh}: expected {expected}, found {found}")


@check
@covers("RD-8", "RD-16", "META-6")
def files_are_ruled_out(table: Table, one: typed_conditions.Drawn, kinds: Mapping[str, str]) -> None:
    """A file whose least and greatest value rule out a comparison is not opened, where nothing is merged."""
    if one.alone is None or not table.catalog.context.options.one_record_per_key:
        return
    name = one.alone.column
    for split in table.scan(where=one.text.sql).splits():
        for file in split.part.state.files:
            values = table.inspect.records(file.file_name).column(name).to_pylist()
            if (
                file.schema_id == table.schema.id
                and typed_conditions.exact_bounds(kinds[name], values)
                and one.alone.is_ruled_out(values)
            ):
                fail(f"{table.columns}, {one.text.sql}: opens {file.file_name}, whose values are {values}")


@check
@covers("TBL-19")
def stale_handle_refuses_to_write(table: Table, rows: pa.Table) -> None:
    """A handle that was opened before the schema changed writes nothing."""

    def upsert() -> None:
        table.upsert(rows)

    def compact() -> None:
        table.compact(full=True)

    for write in (upsert, compact):
        try:
            write()
        except InvalidRequestError as error:
            if "the schema has changed" in str(error):
                continue
        fail(f"{table.columns}: a handle from before the schema changed may write")


@check
@covers("META-7", "META-32", "META-71")
def files_are_as_readers_need_them(table: Table, kinds: Mapping[str, str]) -> None:
    """Row groups are as small as the options say, tiny files are not compressed, and all values but floats are bounded.

    Arrow's bounds leave out NaN, and readers that order it would skip it.
    """
    limit = int(table.options["parquet.block.row.count.limit"])
    for path in Path(table.path).glob("bucket-*/data-*.parquet"):
        footer = pq.read_metadata(path)
        for group in map(footer.row_group, range(footer.num_row_groups)):
            if group.num_rows > limit:
                fail(f"{path.name}: a row group of {group.num_rows} rows, and the limit is {limit}")
            for column in map(group.column, range(group.num_columns)):
                name = column.path_in_schema
                floating = kinds.get(name.removeprefix(KEY_PREFIX)) in ("FLOAT", "DOUBLE")
                if floating if column.is_stats_set else not floating and column.physical_type != "INT96":
                    fail(f"{path.name}: {name} has {'' if floating else 'no '}bounds")
                if column.compression != "UNCOMPRESSED":
                    fail(f"{path.name}: {name} is compressed, and the file has {path.stat().st_size} bytes")


def _key(row: Row, keys: Sequence[str]) -> Key:
    return tuple(_text(row[name]) for name in keys)


def _texts(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_text(row[name]) for name in names)


def _text(value: Any) -> str:
    """Return a value as text: the two zeros differ, and NaN is NaN."""
    return str(value.normalize() if isinstance(value, Decimal) else value)
