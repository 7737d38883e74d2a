"""Columns that changed inside, or became text: Paimon reads what pktable has changed, and pktable what Paimon has.

pktable adds, renames, drops, widens and moves fields inside of columns; Paimon makes strings of an ARRAY, a MAP and a
ROW. After each step both must read the same of files of every format, also where a file has no field of a ROW, and
after a compaction by Paimon. A VARIANT is read, compacted and shown by Paimon.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.format.metadata.schema import encode_schema
from pktable.format.types import DataType, Field

from model_tests.interop.peers import Peer
from model_tests.interop.plain import rows_of

FORMATS: Final = ("parquet", "orc", "avro")
COLUMNS: Final = (
    "k INT, r ROW<a SMALLINT, b STRING>, l ARRAY<ROW<x INT, y ROW<z FLOAT>>>, m MAP<STRING, ROW<p DATE>>, "
    "s ARRAY<INT>, t MAP<INT, BOOLEAN>, u ROW<x TINYINT, y ARRAY<DATE>, z ROW<n DECIMAL(5, 2), t TIME(3)>>"
)
ROWS: Final[list[dict[str, Any]]] = [
    {
        "k": 1,
        "r": {"a": 7, "b": "old"},
        "l": [{"x": 1, "y": {"z": 0.5}}, None],
        "m": [("one", {"p": None}), ("two", None)],
        "s": [1, None],
        "t": [(1, True), (2, None)],
        "u": {
            "x": 1,
            "y": [dt.date(1969, 12, 31), None],
            "z": {"n": Decimal("1.50"), "t": dt.time(1, 2, 3, 4000)},
        },
    },
    {"k": 2, "r": None, "l": [], "m": [], "s": [], "t": [], "u": {"x": None, "y": None, "z": None}},
    {"k": 3, **dict.fromkeys("rlmstu")},
]
OBJECT: Final = {"value": bytes.fromhex("02010000020c01"), "metadata": bytes.fromhex("0101000161")}
"""The value of ``parse_json('{"a":1}')`` in Spark."""
EMPTIED: Final = {
    "r": "ROW<old INT>",
    "q": "ROW<x ROW<old INT>, y INT>",
    "l": "ARRAY<ROW<old INT>>",
    "m": "MAP<INT, ROW<old INT>>",
    "n": "MAP<STRING, ARRAY<ROW<old INT>>>",
}
"""Columns of whose fields called ``old`` a file has none."""
EMPTIED_ROWS: Final[list[dict[str, Any]]] = [
    {
        "k": 1,
        "r": {"old": 1},
        "q": {"x": {"old": 1}, "y": 2},
        "l": [{"old": 1}, None],
        "m": [(1, {"old": 1}), (2, None)],
        "n": [("a", [{"old": 1}, None]), ("b", [])],
    },
    {"k": 2, "r": None, "q": {"x": None, "y": None}, "l": [], "m": [], "n": []},
    {"k": 3, **dict.fromkeys("rqlmn")},
]
TEXTS: Final = (("s", "STRING"), ("t", "STRING"), ("u", "VARCHAR(3)"))
"""Columns, and the type that Paimon gives them. It does not cut these texts."""


def differences(peer: Peer, folder: Path) -> Iterator[str]:
    """Yield what is wrong, for a table of each format in ``folder``."""
    for format in FORMATS:
        options = {"file.format": format, "bucket": "1"}
        table = Table.create(folder / format, COLUMNS, primary_key=["k"], options=options)
        table.upsert(ROWS)
        table.alter(
            add={"r.n": "ARRAY<ROW<u INT>>", "l.element.y.w": "STRING", "m.value.q": "BIGINT"},
            rename={"r.a": "c"},
            drop="r.b",
            widen={"r.a": "BIGINT", "l.element.y.z": "DOUBLE"},
            move={"r.n": "FIRST", "l.element.y": "BEFORE x", "m.value.p": "LAST"},
        )
        at = f"{peer.name}, {format}"
        yield from _wrong(f"{at}, after our change", table, peer)
        table.upsert([{**ROWS[2], "k": 4, "r": {"c": 1 << 40, "n": [{"u": 3}]}}])
        yield from _wrong(f"{at}, after our write", table, peer)
        peer.ask("alter", table=table.path, changes=[["change type", *text] for text in TEXTS])
        yield from _wrong(f"{at}, after its change", table, peer)
        peer.ask("compact", table=table.path, full=True)
        yield from _wrong(f"{at}, after its compaction", table, peer)
        yield from _without_old_fields(peer, folder / f"{format}-new")
    yield from _variants(peer, folder / "variants")


def _without_old_fields(peer: Peer, path: Path) -> Iterator[str]:
    """Yield what is wrong where no field of a ROW is in the file, which no change by pktable leads to (TBL-63)."""
    columns = ", ".join(f"{name} {kind}" for name, kind in EMPTIED.items())
    table = Table.create(
        path, f"k INT, {columns}", primary_key=["k"], options={"file.format": path.name.partition("-")[0]}
    )
    table.upsert(pa.Table.from_pylist(EMPTIED_ROWS, table.schema.arrow_schema))
    schema = table.schema
    numbers = itertools.count(schema.highest_field_id + 1)

    def changed(kind: DataType) -> DataType:
        parts = [
            Field(next(numbers) if part.name == "old" else part.id, part.name, changed(part.type))
            for part in kind.children
        ]
        return replace(kind, children=tuple(parts))

    fields = tuple(replace(one, type=changed(one.type)) for one in schema.fields)
    after = replace(schema, id=1, fields=fields, highest_field_id=next(numbers))
    (path / "schema/schema-1").write_bytes(encode_schema(after))
    yield from _wrong(f"{peer.name}, {path.name}, none of the fields", table, peer)


def _variants(peer: Peer, path: Path) -> Iterator[str]:
    """Yield what is wrong with a VARIANT that pktable has written, as Paimon shows it, and after its compaction."""
    columns = "k INT, v VARIANT, r ROW<a ARRAY<VARIANT>>"
    table = Table.create(path, columns, primary_key=["k"], options={"bucket": "1"})
    rows = [{"k": 1, "v": OBJECT, "r": {"a": [OBJECT, None]}}, {"k": 2, "v": None, "r": None}]
    for row in rows:
        table.upsert([row])
    shown = peer.ask("read latest", table=table.path)
    if shown != [["1", '{"a":1}', '[["{\\"a\\":1}",null]]'], ["2", None, None]]:
        yield f"{peer.name}, a VARIANT of ours: {shown}"
    peer.ask("compact", table=table.path, full=True)
    found = Table.open(path).to_arrow().sort_by("k").to_pylist()
    if found != rows:
        yield f"{peer.name}, a VARIANT that it has compacted: {found}"


def _wrong(at: str, table: Table, peer: Peer) -> Iterator[str]:
    ours, theirs = rows_of(Table.open(table.path).to_arrow()), peer.ask("read latest", table=table.path)
    one, other = (sorted(tuple(row) for row in rows) for rows in (ours, theirs))
    if one != other:
        yield f"{at}: ours {one}, theirs {other}"
