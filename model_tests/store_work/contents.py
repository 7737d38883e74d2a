"""What the files of a table hold: what a writer decides, and nothing that a library does.

Of each file, change of a manifest and snapshot there is a line that shows what tells most of it; the rest, such as
statistics, is in a digest at its end. Sizes and times are compared with the files and the clock of the script, and not
shown. A manifest list is shown with the snapshot that names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import (
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
)
from pktable.format.metadata.schema import TableSchema, decode_schema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import Field

from model_tests.refinement.stored_vectors import stored_vectors
from model_tests.store_work.text import Line, digest, spans

UNTOLD: Final = ("version", "uuid", "pktable.crc32")
"""Fields of JSON that are the same everywhere, or random."""
LONGEST: Final = 30
"""Characters of a value that are shown."""
TIMES: Final = ("timeMillis", "creation_time", "tagCreateTime")


class Contents:
    """Describes the files of the table at ``root``. ``now``: returns the time by the clock of the script.

    ``short``: shortens names.
    """

    def __init__(self, root: Path, now: Callable[[], int], short: Callable[[str], str]) -> None:
        self._root, self._now, self._short = root, now, short
        self._recorded: dict[str, DataFileMeta] = {}
        self._listed: dict[str, ManifestFileMeta] = {}
        self._lists: dict[str, tuple[str, str]] = {}
        self._known: dict[Path, TableSchema] = {}

    def of(self, path: str, data: bytes) -> list[Line]:
        """Return what a file holds that is written at once; nothing of a data file, see `of_data_file`."""
        name = Path(path).name
        if data.startswith(b"{"):
            return [self._of_json(name, json.loads(data))]
        if name.startswith("manifest-list-"):
            metas = decode_manifest_list(data, "the list")
            new = [self._short(one.file_name) for one in metas if self._listed.get(one.file_name) != one]
            old = [f"{len(metas) - len(new)} as before"] if len(metas) > len(new) else []
            rest = "; ".join(map(self._manifest, metas))
            self._lists[name] = " ".join([*spans(new), *old]) or "nothing", rest
            return []
        if name.startswith("manifest-"):
            return list(self._of_manifest(data))
        return list(self._of_index_manifest(data)) if name.startswith("index-manifest-") else []

    def _of_json(self, name: str, found: dict[str, Any]) -> Line:
        parts = []
        for field, value in found.items():
            if field.endswith("ListSize"):
                value = self._compared(value, found[field.removesuffix("Size")])
            elif isinstance(value, str) and value in self._lists:
                value = self._lists[value][1]
            elif field in TIMES and value == self._now():
                value = "now"
            if field not in UNTOLD:
                parts.append(f"{field} {json.dumps(value, ensure_ascii=False)}")
        rest = ", ".join(parts)
        if "commitKind" in found:
            return Line(f"{name}: {self._snapshot(found)}", rest)
        if "primaryKeys" in found:
            columns = ", ".join(f"{one['name']} {one['type']}" for one in found["fields"])
            return Line(f"{name}: {columns}; {found['options']}", rest)
        return Line(f"{name}: {rest}")

    def _snapshot(self, found: dict[str, Any]) -> str:
        """Return what tells most of a snapshot."""
        names = (found.get(f"{name}ManifestList") or "" for name in ("base", "delta", "changelog"))
        base, delta, changelog = (self._lists.get(one, (one, ""))[0] for one in names)
        return (
            f"{found['commitKind']} {found['totalRecordCount']} rows, {found['deltaRecordCount']:+}, "
            f"base {base}, delta {delta}"
            + (f", changelog {changelog} of {found['changelogRecordCount']} rows" if changelog else "")
            + (f", {found['indexManifest']}" if "indexManifest" in found else "")
        )

    def _compared(self, size: int, name: str) -> str:
        where = (self._root / "manifest").glob(name) if "manifest" in name else self._root.rglob(name)
        true = {path.stat().st_size for path in where}
        return "its size" if true <= {size} else f"{size} instead of {true}"

    def _manifest(self, meta: ManifestFileMeta) -> str:
        """Return the description of a manifest: its name alone, if the rest was recorded before."""
        if self._listed.get(meta.file_name) == meta:
            return meta.file_name
        self._listed[meta.file_name] = meta
        return self._record(meta)

    def _of_manifest(self, data: bytes) -> Iterator[Line]:
        deleted: list[Line] = []
        for entry in decode_manifest(data, "the manifest"):
            shown = self._file(entry)
            if entry.kind:
                deleted.append(shown)
            else:
                yield shown._replace(head=f"adds {shown.head}")
        if deleted:
            heads, rests = zip(*deleted, strict=True)
            yield Line(f"deletes {'; '.join(heads)}", "; ".join(filter(None, rests)))

    def _file(self, entry: ManifestEntry) -> Line:
        """Return the description of a data file: its level alone, if the rest was recorded before."""
        file, place = entry.file, self._place(entry)
        before = self._recorded.get(file.file_name)
        self._recorded[file.file_name] = file
        head = f"{place}{file.file_name} level {file.level}"
        if before is not None and before.at_level(file.level) == file:
            return Line(head)
        of = self._schemas()[file.schema_id].key_fields
        low, high = (self._values(one, of) for one in (file.min_key, file.max_key))
        return Line(
            f"{head}, {file.row_count} rows"
            + (f", {file.delete_row_count} of them deletions" if file.delete_row_count else "")
            + (f", keys {low} to {high}" if low else "")
            + f", numbers {file.min_sequence_number} to {file.max_sequence_number}"
            + (f", ids from {file.first_row_id}" if file.first_row_id is not None else ""),
            self._record(file),
        )

    def _of_index_manifest(self, data: bytes) -> Iterator[Line]:
        for entry in decode_index_manifest(data, "the index manifest"):
            shown = []
            for path in self._root.rglob(entry.file_name):
                found = stored_vectors(path.read_bytes(), entry.ranges or ())
                shown = [f"{one.data_file} {sorted(found[one.data_file])}" for one in entry.ranges or ()]
            counts = [one.cardinality for one in entry.ranges or ()]
            head = f"{entry.index_type} {self._place(entry)}{entry.file_name}: {', '.join(shown)}"
            yield Line(head, f"row count {entry.row_count}, cardinalities {counts}")

    def _place(self, entry: ManifestEntry | IndexManifestEntry) -> str:
        """Return partition and bucket, unless they are the only ones."""
        partition = self._values(entry.partition, self._schemas()[0].partition_fields)
        buckets = entry.total_buckets if isinstance(entry, ManifestEntry) else 1
        bucket = f"bucket {entry.bucket} of {buckets} " if (entry.bucket, buckets) != (0, 1) else ""
        return (f"{partition} " if partition else "") + bucket

    def _schemas(self) -> dict[int, TableSchema]:
        for path in (self._root / "schema").glob("schema-*"):
            if path not in self._known:
                self._known[path] = decode_schema(path.read_bytes(), at=str(path))
        return {one.id: one for one in self._known.values()}

    def _record(self, record: DataFileMeta | ManifestFileMeta) -> str:
        """Return the fields of a record that say something, as text."""
        schema = self._schemas()[record.schema_id]
        parts = []
        for one in fields(record):
            value = getattr(record, one.name)
            if value is None or value == ():
                continue
            if one.name == "file_size":
                value = self._compared(value, record.file_name)
            elif one.name in TIMES and value == self._now():
                value = "now"
            elif isinstance(value, SimpleStats):
                value = self._stats(value, _fields_of(record, one.name, schema))
            elif isinstance(value, bytes):
                value = self._values(value, schema.key_fields)
            parts.append(f"{one.name.replace('_', ' ')} {value}")
        return ", ".join(parts)

    def _stats(self, stats: SimpleStats, of: Sequence[Field]) -> str:
        low, high = (self._values(row, of) for row in (stats.min_values, stats.max_values))
        return f"{low} to {high} nulls {list(stats.null_counts or ())}"

    @staticmethod
    def _values(row: bytes, of: Sequence[Field]) -> list[Any]:
        return list(decode_row(row, [field.type for field in of], at="")) if of else []


def _fields_of(record: DataFileMeta | ManifestFileMeta, name: str, schema: TableSchema) -> Sequence[Field]:
    if name == "key_stats":
        return schema.key_fields
    if isinstance(record, DataFileMeta):
        return record.value_stats_fields(schema) or ()
    return schema.partition_fields


def of_data_file(name: str, path: Path) -> Line:
    """Return what a Parquet file holds: its rows, and what is done to the columns of each row group."""
    if not path.exists():
        return Line(f"{name}: gone")
    file = pq.ParquetFile(path)
    groups = []
    for group in range(file.num_row_groups):
        columns = file.metadata.row_group(group)
        chunks = [columns.column(at) for at in range(columns.num_columns)]
        codecs = " ".join(sorted({one.compression for one in chunks}))
        dictionaries = [one.path_in_schema for one in chunks if one.has_dictionary_page]
        unknown = [one.path_in_schema for one in chunks if not one.is_stats_set]
        groups.append(f"{columns.num_rows} {codecs}, dictionaries {dictionaries}, no statistics {unknown}")
    rows = file.read()
    columns = [column.to_pylist() for column in rows.columns]
    shown = " | ".join(" ".join(map(_short, row)) for row in zip(*columns, strict=True))
    return Line(f"{name}: {shown}", f"{' '.join(rows.column_names)}; row groups: {'; '.join(groups)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…{digest(text)}"
