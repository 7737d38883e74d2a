"""Hudi tables made by the tests: base files, log files and timelines of any version, complete or not.

The columns are ``k`` (the key), ``ts`` (the ordering field) and ``v``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pktable import HudiTable
from pktable.store.file_io import LocalFileIO
from pktable_hudi.format.avro_content import BLOCK_VERSION, AvroContent, encode_avro_content
from pktable_hudi.format.delete_content import (
    DELETE_VERSION,
    Delete,
    DeleteContent,
    encode_delete_content,
)
from pktable_hudi.format.log_block import BlockKind, HeaderKey, LogBlock, encode_block
from pktable_hudi.format.log_index import LogIndex, with_index
from pktable_hudi.format.positions import encode_positions
from pktable_hudi.index_writer import DEFAULT, IndexPolicy, IndexWriter
from pktable_hudi.slices import FileGroup, file_groups, writing_slice

OWN = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
Row = Mapping[str, Any]


def instant(number: int) -> str:
    """The instant of a number, in order."""
    return f"2026010100{number:07d}"


def schema_of(columns: Sequence[str]) -> dict[str, Any]:
    kinds: dict[str, Any] = {
        **dict.fromkeys((*OWN, "k"), "string"),
        "ts": "long",
        "v": "int",
        "_hoodie_is_deleted": "boolean",
    }
    return {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": ["null", kinds.get(name, "string")]} for name in columns],
    }


@dataclass
class MadeTable:
    """A table with file groups by name, below ``root``. ``settings``: properties in addition to those of a version."""

    root: Path
    version: int = 8
    settings: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ("k", "ts", "v")

    def __post_init__(self) -> None:
        given = {
            "hoodie.table.name": "made",
            "hoodie.table.version": str(self.version),
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.recordkey.fields": "k",
            "hoodie.table.ordering.fields": "ts",
            **({"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"} if self.version > 6 else {}),
            **self.settings,
        }
        self.timeline.mkdir(parents=True)
        lines = [f"{name}={value}" for name, value in given.items()]
        (self.root / ".hoodie" / "hoodie.properties").write_text("\n".join(lines))
        (self.root / ".hoodie_partition_metadata").write_text("depth=0\n")

    @property
    def timeline(self) -> Path:
        return self.root / ".hoodie" / "timeline" if self.version > 6 else self.root / ".hoodie"

    def open(self, **options: Any) -> HudiTable:
        return HudiTable.open(self.root, **options)

    def rows(self, **options: Any) -> dict[str, Any]:
        """The value of each key."""
        found = self.open().to_arrow(**options).to_pylist()
        assert len({row["_hoodie_record_key"] for row in found}) == len(found)
        return {row["_hoodie_record_key"]: row["v"] for row in found}

    # The timeline

    def commit(
        self,
        number: int,
        *,
        action: str = "deltacommit",
        completed: int | None = None,
        replaced: Sequence[str] = (),
        wrote: Sequence[str] = (),
    ) -> None:
        """Complete a write. ``completed``: the number of its completion time, by default its own."""
        content = {
            "partitionToWriteStats": {"": [{"path": name, "numWrites": 1} for name in wrote]},
            "extraMetadata": {"schema": json.dumps(schema_of(self.columns))},
            "operationType": "UPSERT",
            "partitionToReplaceFileIds": {"": list(replaced)} if replaced else {},
        }
        suffix = f"_{instant(number if completed is None else completed)}" if self.version > 6 else ""
        (self.timeline / f"{instant(number)}{suffix}.{action}").write_text(json.dumps(content))

    def begin(self, number: int, action: str = "deltacommit") -> None:
        """Begin a write that is not complete."""
        (self.timeline / f"{instant(number)}.{action}.inflight").write_text("")

    def plan_compaction(self, number: int, groups: Sequence[str]) -> None:
        operations = [{"partitionPath": "", "fileId": group} for group in groups]
        (self.timeline / f"{instant(number)}.compaction.requested").write_text(
            json.dumps({"operations": operations})
        )

    # Files

    def base(self, number: int, rows: Sequence[Row], group: str = "g", **options: Any) -> Path:
        """Write a base file of a commit."""
        path = self.root / f"{group}_0-0-0_{instant(number)}.parquet"
        kinds = {"ts": pa.int64(), "v": pa.int32(), "_hoodie_is_deleted": pa.bool_()}
        columns = {
            name: pa.array([row.get(name) for row in self._full(rows, number)], kinds.get(name, pa.string()))
            for name in (*OWN, *self.columns)
        }
        pq.write_table(pa.table(columns), path, **options)
        return path

    def log(
        self, number: int, *blocks: LogBlock, group: str = "g", base: int | None = None, version: int = 1
    ) -> Path:
        """Write a log file. ``base``: before version 8 the number of the base file's commit."""
        named = instant(number if base is None else base)
        path = self.root / f".{group}_{named}.log.{version}_0-0-0"
        path.write_bytes(b"".join(map(encode_block, blocks)))
        return path

    def index(
        self,
        number: int,
        block: LogBlock,
        keys: Sequence[str],
        policy: IndexPolicy = DEFAULT,
        group: str = "g",
    ) -> list[LogBlock]:
        """The block with the index of a new log file of a file group. ``keys``: those of its rows, in order."""
        return with_index(block, self.next_index(number, keys, policy, group), keys)

    def next_index(
        self, number: int, keys: Sequence[str], policy: IndexPolicy = DEFAULT, group: str = "g"
    ) -> LogIndex:
        """The index of a new log file of a file group."""
        store, table = LocalFileIO(), self.open()
        groups = {one.id: one for one in file_groups(store, str(self.root))}
        timeline, found = table.timeline(), groups.get(group, FileGroup("", group))
        slice_ = writing_slice(found, timeline, table.settings, instant(number))
        writer = IndexWriter(store, str(self.root), slice_, ("", group) in timeline.planned, policy)
        return writer.next_index(instant(number), keys)

    def data(
        self,
        number: int,
        rows: Sequence[Row],
        *,
        columns: Sequence[str] | None = None,
        tail: bytes = b"",
        header: Mapping[HeaderKey, bytes] | None = None,
    ) -> LogBlock:
        """A block of rows. ``columns``: those of a partial update."""
        names = (*OWN, *(self.columns if columns is None else columns))
        schema = schema_of(names)
        parsed = fastavro.parse_schema(schema)
        records = []
        for row in self._full(rows, number):
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, parsed, {name: row.get(name) for name in names})
            records.append(stream.getvalue())
        partial = {HeaderKey.IS_PARTIAL: b"true"} if columns is not None else {}
        return self._block(
            BlockKind.AVRO,
            number,
            encode_avro_content(AvroContent(BLOCK_VERSION, records, tail)),
            {HeaderKey.SCHEMA: json.dumps(schema).encode(), **partial, **(header or {})},
        )

    def parquet(self, number: int, rows: Sequence[Row]) -> LogBlock:
        """A block of rows as Parquet."""
        path = self.base(number, rows, "temporary")
        content = path.read_bytes()
        path.unlink()
        schema = json.dumps(schema_of((*OWN, *self.columns))).encode()
        return self._block(BlockKind.PARQUET, number, content, {HeaderKey.SCHEMA: schema})

    def deletes(
        self, number: int, *deletes: Delete, header: Mapping[HeaderKey, bytes] | None = None
    ) -> LogBlock:
        content = encode_delete_content(DeleteContent(DELETE_VERSION, deletes))
        return self._block(BlockKind.DELETE, number, content, header or {})

    def rollback(self, number: int, target: int) -> LogBlock:
        header = {HeaderKey.COMMAND: b"0", HeaderKey.TARGET_INSTANT: instant(target).encode()}
        return self._block(BlockKind.COMMAND, number, b"", header)

    def _block(
        self, kind: BlockKind, number: int, content: bytes, header: Mapping[HeaderKey, bytes]
    ) -> LogBlock:
        entries = {HeaderKey.INSTANT: instant(number).encode(), **header}
        return LogBlock(kind, tuple((int(key), value) for key, value in entries.items()), content)

    def _full(self, rows: Sequence[Row], number: int) -> list[dict[str, Any]]:
        own = {"_hoodie_commit_time": instant(number), "_hoodie_partition_path": ""}
        return [{**own, "_hoodie_record_key": row["k"], **row} for row in rows]


def row(k: str, ts: int, v: int, **more: Any) -> Row:
    return {"k": k, "ts": ts, "v": v, **more}


def at_positions(base: int, *positions: int) -> dict[HeaderKey, bytes]:
    """Header entries that say where the records of a block are in the base file of commit ``base``."""
    return {
        HeaderKey.POSITIONS: encode_positions(np.array(positions, np.int64)),
        HeaderKey.BASE_INSTANT_OF_POSITIONS: instant(base).encode(),
    }
