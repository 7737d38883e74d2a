"""Scripts of tables whose schema changes: what is known of files that were written before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from unittest import mock

from pktable import Table
from pktable.format import binary_row
from pktable.format.binary_row import decode_row, encode_row
from pktable.format.metadata.schema import TableSchema, encode_schema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import Field, parse_type

from model_tests.append.evolved import made
from model_tests.damage.table_damage import Surgeon
from model_tests.store_work.play import Play, rows

CONDITIONS: Final = (
    "new = 1; new IS NULL; new IS NOT NULL; wide > 5000000000; wide = 2; renamed = 'b'; "
    "renamed < 'b' AND new IS NULL; k = 2; k > 4 OR new = 1"
)


def _change(table: Table, fields: Sequence[Field]) -> Table:
    """Give the table a new schema, as another engine would."""
    schema = table.schema
    new: TableSchema = replace(
        schema,
        id=schema.id + 1,
        fields=tuple(fields),
        highest_field_id=max(schema.highest_field_id, *(one.id for one in fields)),
    )
    Path(table.path, "schema", f"schema-{new.id}").write_bytes(encode_schema(new))
    return Table.open(table.path, store=table.catalog.context.store)


def _written(play: Play, options: dict[str, str], key: str | None) -> Table:
    """Return a table with a file of each of three schemas."""
    table = play.create("k INT, wide INT, name STRING, gone INT", options, primary_key=key)
    write = Table.upsert if key else Table.append
    play.step("write", partial(write, table, rows(table.schema, (1, 1, "a", 1), (2, 2, None, 1))))
    k, wide, name, _ = table.schema.fields
    fields = [k, replace(wide, type=parse_type("BIGINT")), replace(name, name="renamed")]
    table = _change(table, fields)
    play.step("write after a change", partial(write, table, rows(table.schema, (3, 1 << 40, "b"))))
    table = _change(table, [*fields, Field(9, "new", parse_type("INT"))])
    play.step("write after another", partial(write, table, rows(table.schema, (4, 4, "c", 1))))
    play.step("write nulls", partial(write, table, rows(table.schema, (5, None, None, None))))
    return table


def _ask(play: Play, table: Table) -> None:
    for where in CONDITIONS.split("; "):
        play.step(f"read where {where}", partial(table.to_arrow, where=where))
        with mock.patch.object(binary_row, "FEW_ROWS", 0):
            play.step(f"as of many files: {where}", partial(table.count, where=where))


def evolved_keys(play: Play) -> None:
    """Columns that are added, renamed, dropped and widened, in files that are not merged."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "false"}
    table = _written(play, options, "k")
    _ask(play, table)
    play.step("read an old snapshot", lambda: table.to_arrow(snapshot=1))
    play.step("read a column that was not there", lambda: table.to_arrow(columns=["new"], where="k < 4"))
    play.step("compact fully", lambda: table.compact(full=True))


def evolved_rows(play: Play) -> None:
    """The same without a key."""
    table = _written(play, {"compaction.min.file-num": "2"}, None)
    _ask(play, table)
    play.step("count of a column that was not there", lambda: table.to_arrow(columns=["new"], snapshot=3))
    play.step("compact", table.compact)


def without_statistics(play: Play) -> None:
    """Files of which no statistics are known are read, unless their keys rule them out."""
    table = _written(play, {"metadata.stats-mode": "none", "write-only": "true"}, "k")
    table.compact(full=True)
    _ask(play, play.open())


def statistics_of_few(play: Play) -> None:
    """Of files that others wrote with statistics of some columns, the others are read."""
    table = _written(play, {"write-only": "true"}, None)
    surgeon = Surgeon(Path(play.path))
    for file in [file for live in table.catalog.state().files.values() for file in live]:
        (low, *_), (high, *_) = (
            decode_row(
                row, [one.type for one in table.catalog.context.schema_of(file.schema_id).fields], at=""
            )
            for row in (file.value_stats.min_values, file.value_stats.max_values)
        )
        kinds = [table.schema.fields[0].type]
        stats = SimpleStats(encode_row([low], kinds), encode_row([high], kinds), (0,))
        surgeon.edit_file(file.file_name, value_stats=stats, value_stats_cols=("k",))
    _ask(play, play.open())


def columns_in_several_files(play: Play) -> None:
    """With data evolution the newest file that has a column gives it, and no file is read for others."""
    made(Path(play.path), random.Random(6))
    table = play.open()
    for names in (["id"], ["a"], ["b", "id"], ["a", "b", "id"]):
        play.step(f"read {', '.join(names)}", partial(table.to_arrow, columns=names))
    play.step("read where", partial(table.to_arrow, columns=["id"], where="b > 1 AND a = 'new'"))
    play.step("count", table.count)
    play.step("changes", table.changes(0).to_arrow)
    surgeon = Surgeon(Path(play.path))
    files = [file for live in table.catalog.state().files.values() for file in live]
    with_columns = next(file for file in files if file.write_cols)
    surgeon.edit_file(with_columns.file_name, row_count=with_columns.row_count + 1)
    play.step("files of as many rows are expected", lambda: play.open().to_arrow())
