"""Read a table directory as states of the oracle.

Reads the files with general libraries (JSON, Avro, Parquet, roaring bitmaps) and no code of ours, so that a codec that
reads its own mistakes back is noticed. A state is the oracle's: files by number, in the order in which they first
appear, live files at their levels, vectors, and how often the bucket changed.

Clauses: DVF-1, DVF-2, DVF-3, DVF-9, META-2, META-3, META-7, META-9.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow.parquet as pq
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.interface import StoredRecord
from pktable_spec.model.levels import DataFile, FileId
from pktable_spec.model.mechanism import State
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind
from pyroaring import BitMap, BitMap64

MAGIC_32, MAGIC_64 = 1581511376, 1681511377

Bucket = tuple[bytes, int]
"""The partition as its BinaryRow, and the bucket's number."""


class StoredFile(NamedTuple):
    """A live data file: where it is, its level, its records."""

    name: str
    level: int
    records: tuple[StoredRecord, ...]

    @property
    def age(self) -> int:
        return min(record.sequence for record in self.records)


class Stored(NamedTuple):
    """One bucket at one snapshot: its live files by name, and the positions deleted in them."""

    files: Mapping[str, StoredFile]
    vectors: Mapping[str, frozenset[int]]


class Directory:
    """A table directory, unpartitioned or partitioned by values that need no escape in a path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Names of manifests and data files are never used twice.
        self._data: dict[str, tuple[StoredRecord, ...]] = {}
        self._manifests: dict[str, list[dict[str, Any]]] = {}
        self.last_groups: dict[str, int] = {}
        """Where the last row group of each data file begins, by name: the bytes after which it was not yet closed."""

    def kind(self, snapshot: int) -> str:
        """Return the kind of a snapshot: APPEND or COMPACT."""
        return str(self._snapshot(snapshot)["commitKind"])

    def buckets(self, snapshot: int) -> dict[Bucket, Stored]:
        """Return every bucket that has something at a snapshot."""
        found = self._snapshot(snapshot)
        live: dict[Bucket, dict[tuple[str, int], dict[str, Any]]] = {}
        for name in (found["baseManifestList"], found["deltaManifestList"]):
            for listed in self._avro(name):
                for entry in self._avro(listed["_FILE_NAME"]):
                    entries = live.setdefault((entry["_PARTITION"], entry["_BUCKET"]), {})
                    identity = entry["_FILE"]["_FILE_NAME"], entry["_FILE"]["_LEVEL"]
                    if entry["_KIND"] == 0:
                        entries[identity] = entry["_FILE"]
                    else:
                        del entries[identity]
        vectors: dict[Bucket, dict[str, frozenset[int]]] = {}
        for entry in self._avro(found["indexManifest"]) if found.get("indexManifest") else ():
            if entry["_INDEX_TYPE"] == "DELETION_VECTORS":
                vectors[entry["_PARTITION"], entry["_BUCKET"]] = dict(self._vectors(entry))
        return {
            bucket: Stored(
                {name: self._file(bucket[1], name, level) for name, level in live.get(bucket, ())},
                vectors.get(bucket, {}),
            )
            for bucket in {*live, *vectors}
            if live.get(bucket) or vectors.get(bucket)
        }

    def stored(self) -> set[str]:
        """Return the names of the manifests, index files and data files that are there."""
        return {
            path.name
            for path in self._path.rglob("*-*")
            if path.parent.name in ("manifest", "index") or path.parent.name.startswith("bucket-")
        }

    def named(self) -> set[str]:
        """Return the names of those that some snapshot, tag or kept changelog needs."""
        snapshots, tags, changelogs = (
            [json.loads(path.read_bytes()) for path in self._path.glob(f"{kind}/{kind}-*")]
            for kind in ("snapshot", "tag", "changelog")
        )
        found = {name for one in [*snapshots, *tags] for name in self._named(one)}
        return found | {name for one in [*snapshots, *changelogs] for name in self._of_changes(one)}

    def _named(self, snapshot: Mapping[str, Any]) -> Iterator[str]:
        live: dict[tuple[str, int], str] = {}
        for manifests in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
            yield manifests
            for listed in self._avro(manifests):
                yield listed["_FILE_NAME"]
                for entry in self._avro(listed["_FILE_NAME"]):
                    identity = entry["_FILE"]["_FILE_NAME"], entry["_FILE"]["_LEVEL"]
                    if entry["_KIND"] == 0:
                        live[identity] = identity[0]
                    else:
                        del live[identity]
        yield from live.values()
        if snapshot.get("indexManifest"):
            yield snapshot["indexManifest"]
            for entry in self._avro(snapshot["indexManifest"]):
                yield entry["_FILE_NAME"]

    def _of_changes(self, snapshot: Mapping[str, Any]) -> Iterator[str]:
        """Yield the names of the files that a read of a snapshot's changes needs. Clauses: CHG-1, CHG-17."""
        changes = snapshot.get("changelogManifestList")
        if self._producer == "none":
            yield snapshot["baseManifestList"]
            changes = snapshot["deltaManifestList"]
        if changes is not None:
            yield changes
            for listed in self._avro(changes):
                yield listed["_FILE_NAME"]
                added = (entry for entry in self._avro(listed["_FILE_NAME"]) if entry["_KIND"] == 0)
                yield from (
                    entry["_FILE"]["_FILE_NAME"]
                    for entry in added
                    if self._producer != "none" or entry["_FILE"]["_LEVEL"] == 0
                )

    @cached_property
    def _producer(self) -> str:
        """The option ``changelog-producer``, which never changes."""
        options = json.loads((self._path / "schema" / "schema-0").read_bytes())["options"]
        return str(options.get("changelog-producer", "none"))

    def _snapshot(self, snapshot: int) -> dict[str, Any]:
        snapshot_file = self._path / f"snapshot/snapshot-{snapshot}"
        fields: dict[str, Any] = json.loads(snapshot_file.read_bytes())
        return fields

    def _avro(self, name: str) -> list[dict[str, Any]]:
        if name not in self._manifests:
            with open(self._path / "manifest" / name, "rb") as file:
                self._manifests[name] = list(fastavro.reader(file))
        return self._manifests[name]

    def _vectors(self, entry: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[int]]]:
        data = (self._path / "index" / entry["_FILE_NAME"]).read_bytes()
        for vector in entry["_DELETIONS_VECTORS_RANGES"]:
            blob = data[vector["f1"] :]
            (magic,) = struct.unpack_from(">i", blob, 4)
            if magic == MAGIC_32:
                (length,) = struct.unpack_from(">i", blob)
                positions = frozenset(BitMap.deserialize(blob[8 : 4 + length]))
            else:
                (length,) = struct.unpack_from(">i", blob)
                assert struct.unpack_from("<i", blob, 4) == (MAGIC_64,), entry
                positions = frozenset(BitMap64.deserialize(blob[8 : 4 + length]))
            yield vector["f0"], positions

    def _file(self, bucket: int, name: str, level: int) -> StoredFile:
        if name not in self._data:
            (path,) = self._path.glob(f"**/bucket-{bucket}/{name}")
            stored = pq.ParquetFile(path)
            last = stored.metadata.row_group(stored.metadata.num_row_groups - 1).column(0)
            self.last_groups[name] = last.dictionary_page_offset or last.data_page_offset
            table = stored.read()
            names = table.column_names
            keys = [column for column in names if column.startswith(KEY_PREFIX)]
            values = names[names.index(VALUE_KIND) + 1 :]
            self._data[name] = tuple(
                StoredRecord(
                    tuple(row[key] for key in keys),
                    row[SEQUENCE_NUMBER],
                    RowKind(row[VALUE_KIND]),
                    tuple(row[value] for value in values),
                )
                for row in table.to_pylist()
            )
        return StoredFile(name, level, self._data[name])


@dataclass
class Abstraction:
    """The states of every bucket of a table, snapshot by snapshot."""

    directory: Directory
    states: dict[Bucket, list[State]] = field(default_factory=dict)
    numbers: dict[Bucket, dict[str, FileId]] = field(default_factory=dict)
    snapshots: int = 0

    def follow(self) -> dict[Bucket, tuple[State, State]]:
        """Take in the next snapshot; return (before, after) of each bucket it changed. Raises CheckFailed."""
        self.snapshots += 1
        found = self.directory.buckets(self.snapshots)
        changed = {}
        for bucket in {*self.states, *found}:
            history = self.states.setdefault(bucket, [State()])
            before = history[-1]
            after = self._state(bucket, before, found.get(bucket, Stored({}, {})))
            if (after.live, after.vectors) != (before.live, before.vectors):
                history.append(after._replace(snapshot=before.snapshot + 1))
                changed[bucket] = before, history[-1]
        return changed

    def _state(self, bucket: Bucket, before: State, stored: Stored) -> State:
        numbers = self.numbers.setdefault(bucket, {})
        files = list(before.files)
        new = [file for file in stored.files.values() if file.name not in numbers]
        # New files of one run are numbered by key, those of level 0 by age.
        for file in sorted(new, key=lambda f: (f.level, f.age if f.level == 0 else f.records[0].key)):
            numbers[file.name] = len(files)
            files.append(DataFile(file.records, file.level))
        self.vectors_name_files(stored.vectors.keys() - numbers.keys())
        return State(
            files=tuple(files),
            live=frozenset((numbers[file.name], file.level) for file in stored.files.values()),
            vectors=frozenset(
                (numbers[name], position)
                for name, positions in stored.vectors.items()
                for position in positions
            ),
        )

    @check
    @covers("DV-4")
    def vectors_name_files(self, unknown: Collection[str]) -> None:
        if unknown:
            fail(f"vectors name files that the bucket never had: {sorted(unknown)}")
