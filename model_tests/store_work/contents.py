"""What the files of a table hold, as lines of text: what a writer decides, and nothing that a library does.

Sizes of files are compared with the files, and not shown. Of a data file its rows are shown, with its row groups and
what is done to their columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
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

JSON: Final = ("schema", "snapshot", "tag", "changelog", "fence")
SIZES: Final = ("baseManifestListSize", "deltaManifestListSize", "changelogManifestListSize")
UNTOLD: Final = ("version", "uuid", "pktable.crc32")
"""Fields of JSON that are the same everywhere, or random."""
MOST_ROWS: Final = 6
"""Rows of a data file that are shown; of more the first ones and the last one."""


class Contents:
    """Describes the files of the table at ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._recorded: dict[str, DataFileMeta] = {}
        self._listed: list[ManifestFileMeta] = []

    def of(self, path: str, data: bytes) -> list[str]:
        """Return what a file holds that is written at once; nothing of a data file, see `of_data_file`."""
        place = Path(path)
        if place.parent.name in JSON:
            return list(self._of_json(data))
        of_prefix: dict[str, Callable[[bytes], Iterator[str]]] = {
            "manifest-list-": self._of_manifest_list,
            "manifest-": self._of_manifest,
            "index-manifest-": self._of_index_manifest,
        }
        for prefix, lines in of_prefix.items():
            if place.name.startswith(prefix):
                return list(lines(data))
        return []

    def _of_json(self, data: bytes) -> Iterator[str]:
        if not data.startswith(b"{"):  # a hint, or the name of who removes a file
            yield data.decode()
            return
        found = json.loads(data)
        parts = []
        for name, value in found.items():
            if name in SIZES:
                value = self._compared(value, found[name.removesuffix("Size")])
            if name not in UNTOLD:
                parts.append(f"{name} {json.dumps(value, ensure_ascii=False)}")
        yield ", ".join(parts)

    def _compared(self, size: int, name: str) -> str:
        path = self._root / "manifest" / name
        if not path.exists():
            return "of a file that has gone"
        true = path.stat().st_size
        return "its size" if size == true else f"{size} instead of {true}"

    def _of_manifest_list(self, data: bytes) -> Iterator[str]:
        for meta in decode_manifest_list(data, "the list"):
            if meta in self._listed:
                yield f"{meta.file_name}, as before"
                continue
            self._listed.append(meta)
            yield self._record(meta, {"file_size": self._compared(meta.file_size, meta.file_name)})

    def _of_manifest(self, data: bytes) -> Iterator[str]:
        for entry in decode_manifest(data, "the manifest"):
            yield ("adds " if entry.kind == 0 else "deletes ") + self._place(entry)
            yield f"  {self._file(entry.file)}"

    def _file(self, file: DataFileMeta) -> str:
        """Return the description of a data file: its level alone, if the rest was recorded before."""
        before = self._recorded.get(file.file_name)
        self._recorded[file.file_name] = file
        if before is not None and before.at_level(file.level) == file:
            return f"{file.file_name}, level {file.level}"
        return self._record(file, {"file_size": self._size(file.file_name, file)})

    def _of_index_manifest(self, data: bytes) -> Iterator[str]:
        for entry in decode_index_manifest(data, "the index manifest"):
            yield f"{entry.index_type} {self._place(entry)}, {entry.file_name}, row count {entry.row_count}"
            for path in self._root.rglob(entry.file_name):
                found = stored_vectors(path.read_bytes(), entry.ranges or ())
                for one in entry.ranges or ():
                    yield f"  {one.data_file}: {sorted(found[one.data_file])}, cardinality {one.cardinality}"

    def _size(self, name: str, file: DataFileMeta) -> str:
        sizes = {path.stat().st_size for path in self._root.rglob(name)}
        return "its size" if sizes <= {file.file_size} else f"{file.file_size} instead of {sizes}"

    def _place(self, entry: ManifestEntry | IndexManifestEntry) -> str:
        partition = self._values(entry.partition, self._schemas()[0].partition_fields)
        buckets = f" of {entry.total_buckets}" if isinstance(entry, ManifestEntry) else ""
        return f"{partition} bucket {entry.bucket}{buckets}"

    def _schemas(self) -> dict[int, TableSchema]:
        paths = (self._root / "schema").glob("schema-*")
        found = [decode_schema(path.read_bytes(), at=str(path)) for path in paths]
        return {one.id: one for one in found}

    def _record(self, record: DataFileMeta | ManifestFileMeta, shown: dict[str, str]) -> str:
        """Return the fields of a record that say something, as text."""
        schema = self._schemas()[record.schema_id]
        parts = []
        for one in fields(record):
            value = getattr(record, one.name)
            if value is None or value == ():
                continue
            if one.name in shown:
                value = shown[one.name]
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


def of_data_file(path: Path) -> Iterator[str]:
    """Yield what a Parquet file holds."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        columns = file.metadata.row_group(group)
        chunks = [columns.column(at) for at in range(columns.num_columns)]
        codecs = " ".join(sorted({one.compression for one in chunks}))
        dictionaries = [one.path_in_schema for one in chunks if one.has_dictionary_page]
        unknown = [one.path_in_schema for one in chunks if not one.is_stats_set]
        yield (
            f"{columns.num_rows} rows, {codecs}"
            + (f", dictionaries of {' '.join(dictionaries)}" if dictionaries else "")
            + (f", no statistics of {' '.join(unknown)}" if unknown else "")
        )
    rows = file.read()
    yield f"  {' '.join(rows.column_names)}"
    few = (
        rows
        if rows.num_rows <= MOST_ROWS
        else pa.concat_tables([rows.slice(0, MOST_ROWS - 1), rows.slice(rows.num_rows - 1)])
    )
    for row in zip(*(column.to_pylist() for column in few.columns), strict=True):
        yield f"  {' '.join(map(_short, row))}"


def _short(value: object) -> str:
    text = f"{value!r}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


LONGEST: Final = 30
