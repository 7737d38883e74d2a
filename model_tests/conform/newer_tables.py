"""The tables of the archive that newer releases of Paimon write: VARIANT, and files that hold some of the columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.format.binary_row import EMPTY_ROW, encode_row
from pktable.format.metadata.manifest import ADD, DataFileMeta, ManifestEntry
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import parse_type
from pyspark.sql.variant_utils import VariantBuilder

from model_tests.append.evolved import evolved, written
from model_tests.conform.tables import KEYS, VECTORS, Made, created
from model_tests.table.foreign_tables import commit

VARIANTS: Final = ('{"a":1}', "null", '"short"', '[true,2.5,{"b":{"a":-300}}]')


def variants(root: Path) -> None:
    table = created(root, "k INT, v VARIANT, r ROW<a ARRAY<VARIANT>>", VECTORS)
    built = [VariantBuilder().build(text) for text in VARIANTS]
    found: list[Any] = [{"value": bytes(value), "metadata": bytes(metadata)} for value, metadata in built]
    rows = [{"k": at, "v": one, "r": {"a": [one, None]}} for at, one in enumerate((*found, None))]
    table.upsert(rows)
    table.compact(full=True)
    table.upsert([{"k": 1, "v": found[0], "r": None}])


def _part(rows: pa.Table, like: DataFileMeta, number: int, names: Sequence[str], root: Path) -> DataFileMeta:
    """Return a file of some columns, with statistics of these and no list of them, as Paimon writes it."""
    file = written(root, rows.select(names), replace(like, first_row_id=number), number, names)
    kinds = [parse_type("STRING" if pa.types.is_string(rows.schema.field(n).type) else "INT") for n in names]
    low, high = ([of(rows.column(n).to_pylist()) for n in names] for of in (min, max))
    stats = SimpleStats(encode_row(low, kinds), encode_row(high, kinds), (0,) * len(names))
    return replace(file, first_row_id=None, value_stats=stats, value_stats_cols=None)


def some_columns(root: Path) -> None:
    """Append rows of some columns: one file has a and c, one c alone; the columns were renamed since."""
    table = created(root, "a INT, b STRING, c INT", {}, key=None)
    rows = [pa.table({"a": ints(start), "b": ["x"] * 4, "c": ints(100 + start)}) for start in (0, 4, 8)]
    for each in rows:
        table.append(each)
    whole, *others = table.catalog.state().files[EMPTY_ROW, 0]
    parts = zip(rows[1:], others, (["a", "c"], ["c"]), strict=True)
    files = [whole, *(_part(some, file, at, names, root) for at, (some, file, names) in enumerate(parts, 1))]
    commit(root, [ManifestEntry(ADD, EMPTY_ROW, 0, -1, file) for file in files], [])
    Table.open(root).alter(rename={"c": "z"}, add="later INT")
    Table.open(root).append([{"a": 12, "b": "y", "z": 112, "later": 1}])


def ints(start: int) -> pa.Array:
    return pa.array(range(start, start + 4), pa.int32())


def several_files(root: Path) -> None:
    """Put newer values of columns into files of their own, which name the first row id of the file before."""
    table = created(root, "id INT, a STRING, b INT", {}, key=None)
    for start in (0, 4):
        table.append(pa.table({"id": ints(start), "a": ["first"] * 4, "b": ints(start)}))
    before = table.catalog.state().files[EMPTY_ROW, 0]
    files = [
        replace(file, first_row_id=4 * at, min_sequence_number=1, max_sequence_number=1)
        for at, file in enumerate(before)
    ]
    for sequence, stored in (
        (2, pa.table({"a": [f"second {at}" for at in range(4)], "b": ints(50)})),
        (3, pa.table({"b": pa.array([7, None, 9, None], pa.int32())})),
    ):
        files.append(written(root, stored, files[0], sequence, stored.column_names))
    evolved(table, files)
    for number in (1, 2):  # of before, when the files had no row ids
        (root / f"snapshot/snapshot-{number}").unlink()
    (root / "snapshot/EARLIEST").write_text(json.dumps(3))


TABLES: Final = (
    Made(
        "variants",
        "columns of VARIANT, also in an array of a row",
        ("META-78", "META-19"),
        (*KEYS, "variant", "nested"),
        variants,
    ),
    Made(
        "files-of-some-columns",
        "an append table of files that hold some of the columns, one of which was renamed later",
        ("RD-31", "META-77", "META-15"),
        ("append", "files of some columns", "evolution"),
        some_columns,
        (
            {"where": [["a", "=", "5"]]},
            {"where": [["z", ">=", "108"]], "columns": ["b", "z"]},
            {"where": [["z", "<", "106"]]},
        ),
    ),
    Made(
        "rows-of-several-files",
        "rows whose columns lie in several files, of which the newest decides",
        ("APP-23", "RD-31"),
        ("append", "files of some columns", "data evolution"),
        several_files,
        ({"where": [["b", "=", "9"]]}, {"columns": ["a"]}, {"where": [["b", "=", "0"]]}),
    ),
)
