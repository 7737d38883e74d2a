"""Values of metadata that a hostile writer may state, and what users then do with such a table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import PkTableError, Table
from pktable.table import check

from model_tests.damage.table_damage import Surgeon

Edit = Callable[[Surgeon], None]

LAST = 5
"""The latest snapshot of the template."""


def operations(path: Path, **arguments: Any) -> Iterator[Callable[[], Any]]:
    """Yield what users do with a table, those operations that change it last."""
    rows = pa.table({"p": ["a"], "k": pa.array([3], pa.int32()), "v": ["z"], "n": pa.array([1], pa.int32())})

    def table() -> Table:
        return Table.open(path, **arguments)

    yield lambda: table().to_arrow()
    yield lambda: table().to_arrow(fresh=True, where="n >= 3")
    yield lambda: table().to_arrow(where="p = 'a' AND k = 3")
    yield lambda: table().to_arrow(timestamp=10**13)
    yield lambda: table().to_arrow(tag="a")
    yield lambda: [table().count(fresh=fresh) for fresh in (False, True)]
    yield lambda: [table().files(), table().inspect.buckets(), table().inspect.vectors()]
    yield lambda: [table().snapshots(), table().tags()]
    yield lambda: table().plan_compaction()
    yield lambda: check(path, **arguments)
    yield lambda: table().upsert(rows)
    yield lambda: table().compact(full=True)
    yield lambda: table().expire_snapshots(retain_last=1)
    yield lambda: table().delete_tag("a")


def refusals(path: Path, **arguments: Any) -> list[PkTableError]:
    """Return the errors of all operations. Any error of another kind is a failure, and so is an endless one."""
    found = []
    for operation in operations(path, **arguments):
        began = time.monotonic()
        try:
            operation()
        except PkTableError as error:
            found.append(error)
        assert time.monotonic() - began < 20
    return found


def outside(path: Path) -> dict[str, bytes | None]:
    """Return the files around a table, which no operation may change."""
    return {
        str(file): file.read_bytes() if file.is_file() else None
        for file in path.parent.parent.rglob("*")
        if not file.is_relative_to(path)
    }


INTEGERS = (-1, -(1 << 63), (1 << 31) - 1, 1 << 31, (1 << 63) - 1)
TEXTS = ("", "..", "../../victim/kept", "/etc/passwd", "a\0b", "a\\b", "x" * 300, "\x1b[31m")
BYTES = (b"", b"\xff" * 20, b"\x7f\xff\xff\xff" + bytes(80))
EXTERNAL = "file:/etc/passwd"


def live(surgeon: Surgeon) -> str:
    return surgeon.at_level(LAST, 5).file.file_name


def file_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_file(live(surgeon), **changes)


def entry_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_entries(LAST, lambda entry: replace(entry, **changes))


def index_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_index(LAST, lambda entry: replace(entry, **changes))


def range_edit(**changes: Any) -> Edit:
    def edit(surgeon: Surgeon) -> None:
        def changed(entry: Any) -> Any:
            first, *others = entry.ranges
            return replace(entry, ranges=(replace(first, **changes), *others))

        surgeon.edit_index(LAST, changed)

    return edit


def meta_edit(**changes: Any) -> Edit:
    def edit(surgeon: Surgeon) -> None:
        name = surgeon.lists(LAST)[1]
        surgeon.put_metas(name, [replace(meta, **changes) for meta in surgeon.metas(name)])

    return edit


def snapshot_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_snapshot(LAST, **changes)


def schema_edit(change: Callable[[dict[str, Any]], None]) -> Edit:
    def edit(surgeon: Surgeon) -> None:
        path = surgeon.root / "schema/schema-0"
        fields = json.loads(path.read_bytes())
        del fields["pktable.crc32"]
        change(fields)
        path.write_text(json.dumps(fields), "utf-8")

    return edit


def field_edit(number: int, name: str, value: Any) -> Edit:
    return schema_edit(lambda schema: schema["fields"][number].update({name: value}))


def option_edit(name: str, value: str) -> Edit:
    return schema_edit(lambda schema: schema["options"].update({name: value}))


FIELDS: tuple[tuple[Callable[..., Edit], str, tuple[Any, ...]], ...] = (
    (file_edit, "file_name", TEXTS),
    (file_edit, "extra_files", (("../../victim/kept",), ("/etc/passwd",), ("a", "a"))),
    (file_edit, "external_path", (EXTERNAL, "file:///etc/../etc/passwd", "nosuch://a/b", "relative/../..")),
    (file_edit, "file_size", INTEGERS),
    (file_edit, "row_count", INTEGERS),
    (file_edit, "level", (-1, (1 << 31) - 1)),
    (file_edit, "schema_id", INTEGERS),
    (file_edit, "min_key", BYTES),
    (file_edit, "max_sequence_number", INTEGERS),
    (file_edit, "value_stats_cols", (("nosuch",), ("k", "k"))),
    (entry_edit, "partition", BYTES),
    (entry_edit, "bucket", (-1, -2, (1 << 31) - 1, 1 << 31, 1 << 40)),
    (entry_edit, "total_buckets", (0, -1, (1 << 31) - 1)),
    (meta_edit, "file_name", TEXTS),
    (meta_edit, "file_size", INTEGERS),
    (index_edit, "file_name", TEXTS),
    (index_edit, "external_path", (EXTERNAL,)),
    (index_edit, "file_size", INTEGERS),
    (index_edit, "partition", BYTES),
    (index_edit, "bucket", (-1, (1 << 31) - 1)),
    (range_edit, "data_file", TEXTS),
    (range_edit, "offset_bytes", (-1, (1 << 31) - 1)),
    (range_edit, "length_bytes", (-1, (1 << 31) - 1)),
    (range_edit, "cardinality", INTEGERS),
    (snapshot_edit, "base_manifest_list", TEXTS),
    (snapshot_edit, "index_manifest", TEXTS),
    (snapshot_edit, "schema_id", INTEGERS),
    (snapshot_edit, "time_millis", INTEGERS),
    (snapshot_edit, "total_record_count", INTEGERS),
)
ATTACKS: dict[str, Edit] = {
    **{
        f"{edit.__name__.removesuffix('_edit')} {name} {value!r:.30}": edit(**{name: value})
        for edit, name, values in FIELDS
        for value in values
    },
    **{
        f"option {name} {value[:30]!r}": option_edit(name, value)
        for name in (
            "bucket",
            "num-levels",
            "target-file-size",
            "metadata.stats-mode",
            "data-file.path-directory",
        )
        for value in ("-1", "2147483647", "9" * 5000, "truncate(" + "9" * 5000 + ")", "..", "a/../..", "a\0b")
    },
    **{
        f"type {str(value)[:30]!r}": field_edit(2, "type", value)
        for value in ("ARRAY<" * 2000, f"DECIMAL({'9' * 5000})", "ROW<a INT>", {"type": "ROW", "fields": []})
    },
    **{
        f"schema {name} {value!r:.30}": schema_edit(lambda schema, n=name, v=value: schema.update({n: v}))  # type: ignore[misc]
        for name, value in (
            ("primaryKeys", []),
            ("primaryKeys", ["p"]),
            ("highestFieldId", 10**400),
            ("id", 1 << 70),
            ("options", {"bucket": None}),
        )
    },
}
