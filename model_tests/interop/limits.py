"""The known limits of the peers, why they exist, and the proof that they still do.

Where a limit applies to a snapshot, the peer must fail in the way the limit tells; if it answers, the run
fails and says that the limit is to be removed. A limit that a whole run never met is reported, and fails it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq
from pktable import Table
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.vectors.deletion_vector import MAGIC_64
from pktable_spec.vocabulary import DELETION_VECTORS, KEY_PREFIX, ROW_ID

from model_tests.interop.environments import JVM, NEWER_JVM, PYPAIMON, RUST
from model_tests.interop.histories import VECTORS


class Snapshot:
    """The stored bytes by which a limit applies or not, read without pktable."""

    def __init__(self, path: Path, id: int, table: Table) -> None:
        self.id, self.path, self._table = id, path, table
        self._snapshot = table.catalog.snapshots.read(id)

    @cached_property
    def manifests(self) -> list[str]:
        """The names of its manifests."""
        return [
            str(one["_FILE_NAME"])
            for name in (self._snapshot.base_manifest_list, self._snapshot.delta_manifest_list)
            for one in self._records(name)
        ]

    @cached_property
    def manifest_fields(self) -> list[frozenset[str]]:
        """The fields of the file record of each manifest."""
        return [self._file_fields(name) for name in self.manifests]

    @cached_property
    def visible_files(self) -> dict[str, pq.FileMetaData]:
        """The Parquet metadata, by name, of each file that a read looks into."""
        schema = self._table.schema
        lowest = 1 if schema.primary_keys and schema.options.get(VECTORS) == "true" else 0
        files = [one for one in self._table.files(self._snapshot.id).to_pylist() if one["level"] >= lowest]
        return {
            file["file_name"]: pq.read_metadata(
                self.path / file["partition"] / f"bucket-{file['bucket']}" / file["file_name"]
            )
            for file in files
        }

    @property
    def options(self) -> Mapping[str, str]:
        return self._table.schema.options

    @cached_property
    def is_merged(self) -> bool:
        """Whether a read merges files of one bucket: without vectors it merges them all."""
        files = self._table.files(self._snapshot.id).to_pylist()
        buckets = [(file["partition"], file["bucket"]) for file in files]
        return self.options[VECTORS] == "false" and len(set(buckets)) < len(buckets)

    @cached_property
    def empty_stats(self) -> set[bool]:
        """Of the entries with value statistics of no column, also those that remove a file: whether they say so."""
        files: list[Any] = [entry["_FILE"] for name in self.manifests for entry in self._records(name)]
        return {
            file.get("_VALUE_STATS_COLS") is not None
            for file in files
            if file["_VALUE_STATS"]["_MIN_VALUES"] == EMPTY_ROW
        }

    @cached_property
    def vectors(self) -> list[bytes]:
        """The magic and payload of each deletion vector of a live file. (Paimon 1.4 leaves others behind.)"""
        name = self._snapshot.index_manifest
        found = []
        for entry in self._records(name) if name else ():
            if entry["_INDEX_TYPE"] != DELETION_VECTORS:
                continue
            data = (self.path / "index" / str(entry["_FILE_NAME"])).read_bytes()
            ranges = entry["_DELETIONS_VECTORS_RANGES"]
            assert isinstance(ranges, list)
            live = [one for one in ranges if one["f0"] in self.visible_files]
            found += [data[one["f1"] + 4 : one["f1"] + 4 + one["f2"]] for one in live]
        return found

    @property
    def has_64_bit_vectors(self) -> bool:
        return any(vector[:4] == MAGIC_64 for vector in self.vectors)

    @property
    def container_kinds(self) -> set[str]:
        """The kinds of Roaring containers in its vectors, of `KINDS_OF_CONTAINERS`."""
        found: set[str] = set()
        for vector in self.vectors:
            if vector[:4] == MAGIC_64:
                found.add("64-bit")
            elif len(vector) > 8:
                found |= _container_kinds(vector[4:])
        return found

    def _records(self, name: str) -> list[dict[str, object]]:
        with (self.path / "manifest" / name).open("rb") as file:
            return list(fastavro.reader(file))

    def _file_fields(self, name: str) -> frozenset[str]:
        with (self.path / "manifest" / name).open("rb") as file:
            schema = fastavro.reader(file).writer_schema
        if isinstance(schema, list):  # pypaimon-rust declares its records nullable
            schema = schema[1]
        (record,) = (field["type"] for field in schema["fields"] if field["name"] == "_FILE")
        return frozenset(field["name"] for field in record["fields"])


KINDS_OF_CONTAINERS: Final = frozenset({"array", "bitmap", "run", "64-bit"})


def _container_kinds(bitmap: bytes) -> set[str]:
    """Return the kinds of containers of a portable Roaring bitmap."""
    cookie = int.from_bytes(bitmap[:4], "little")
    if cookie & 0xFFFF == 12347:
        count, runs = (cookie >> 16) + 1, 4
        start = runs + (count + 7) // 8
        flags = [bitmap[runs + at // 8] >> at % 8 & 1 for at in range(count)]
    else:
        count, start = int.from_bytes(bitmap[4:8], "little"), 8
        flags = [0] * count
    sizes = [
        int.from_bytes(bitmap[start + 4 * at + 2 : start + 4 * at + 4], "little") + 1 for at in range(count)
    ]
    return {
        "run" if is_run else "array" if size <= 4096 else "bitmap"
        for is_run, size in zip(flags, sizes, strict=True)
    }


@dataclass(frozen=True)
class Limit:
    """``peer`` cannot read a snapshot that ``applies``: it fails with an error that matches ``error``, because ``why``.

    ``always``: each time; else it may also return the right rows. ``filtered``: only under a condition. An ``error``
    may also tell of rows that differ, as the comparison does.
    """

    peer: str
    what: str
    why: str
    error: str
    applies: Callable[[Snapshot], bool]
    always: bool = True
    filtered: bool = False

    def is_met(self, wrong: Sequence[str]) -> bool:
        """Whether the peer failed in this way. ``wrong``: what the comparison says of its answer."""
        return any(re.search(self.error, one) for one in wrong)


def _has_short_decimals_as_bytes(snapshot: Snapshot) -> bool:
    for file in snapshot.visible_files.values():
        for at in range(file.num_columns):
            column = file.schema.column(at)
            if column.physical_type != "FIXED_LEN_BYTE_ARRAY" or column.logical_type.type != "DECIMAL":
                continue
            if column.precision <= 18:
                return True
    return False


def _stores_row_ids(snapshot: Snapshot) -> bool:
    return any(ROW_ID in file.schema.to_arrow_schema().names for file in snapshot.visible_files.values())


def _retracts_in_ways(snapshot: Snapshot) -> bool:
    ways = ("ignore-retract", "sequence-group", "remove-record-on-delete")
    return any(option.endswith(ways) for option in snapshot.options)


def _functions(snapshot: Snapshot) -> dict[str, str]:
    """Return the functions that a read merges by, by their options."""
    options = snapshot.options.items() if snapshot.is_merged else ()
    return {option: value for option, value in options if option.endswith(".aggregate-function")}


def _aggregates(snapshot: Snapshot) -> bool:
    return bool(_functions(snapshot))


def _merges_maps(snapshot: Snapshot) -> bool:
    return "merge_map" in _functions(snapshot).values()


def _adds_up(snapshot: Snapshot) -> bool:
    return any(one in ADDING for one in _functions(snapshot).values())


def _has_thin_files(snapshot: Snapshot) -> bool:
    return any(
        not any(name.startswith(KEY_PREFIX) for name in file.schema.to_arrow_schema().names)
        for file in snapshot.visible_files.values()
    )


ADDING: Final = ("sum", "product", "collect", "nested_update")
"""Functions that give something else if they are given a part of the values twice."""

LIMITS = (
    Limit(
        JVM,
        "decimals of up to 18 digits that pypaimon wrote",
        "pypaimon stores them as bytes, in dictionaries, which the reader expects of wide decimals only",
        "UnsupportedOperationException: .*PlainBinaryDictionary",
        _has_short_decimals_as_bytes,
        always=False,
    ),
    Limit(
        JVM,
        "by merging what has no columns of keys",
        "it merges by these columns, which pypaimon-rust leaves out",
        "Required column is missing in data file. Col: \\[_KEY_",
        _has_thin_files,
        always=False,
    ),
    Limit(
        JVM,
        "conditions on files with statistics of no column",
        "it takes statistics to be of all columns; Paimon 1.0 leaves out those that have none",
        "ArrayIndexOutOfBoundsException",
        lambda snapshot: bool(snapshot.empty_stats),
        filtered=True,
    ),
    Limit(
        NEWER_JVM,
        "conditions on files with statistics of no column that Paimon 0.9 compacts, even away",
        "0.9 does not copy the list of columns, and without it they are taken to be of all, in removals too",
        "ArrayIndexOutOfBoundsException",
        lambda snapshot: False in snapshot.empty_stats,
        filtered=True,
    ),
    Limit(
        JVM,
        "64-bit vectors",
        "they came with Paimon 1.1",
        "Size not match",
        lambda snapshot: snapshot.has_64_bit_vectors,
    ),
    Limit(
        PYPAIMON,
        "manifests without _VALUE_STATS_COLS",
        "it asks for the field by name, and Paimon 0.9 did not write it",
        "KeyError: '_VALUE_STATS_COLS'",
        lambda snapshot: any("_VALUE_STATS_COLS" not in fields for fields in snapshot.manifest_fields),
    ),
    Limit(
        RUST,
        "files that store the ids of their rows",
        "it expects a first row id, which updated and compacted files have not, Paimon's neither",
        "Row-tracked file '.*' is missing first_row_id",
        _stores_row_ids,
    ),
    Limit(
        PYPAIMON,
        "tables whose options say otherwise what retractions do",
        "it knows no sequence groups, removals of rows and columns that ignore retractions, and refuses the tables",
        "options that pypaimon does not yet implement",
        _retracts_in_ways,
    ),
    Limit(
        PYPAIMON,
        "by merging retractions",
        "its merge of aggregation does not implement them",
        "does not yet implement retract",
        _aggregates,
        always=False,
    ),
    Limit(
        PYPAIMON,
        "by merging maps",
        "it puts maps of merged rows, which are dicts, and of others, which are lists of pairs, into one column",
        "ArrowTypeError: Could not convert",
        _merges_maps,
        always=False,
    ),
    *(
        Limit(
            peer,
            "by merging, after lookups, values that add up",
            "it merges the files of all levels, and a lookup has put the whole result into each of them",
            "rows missing",
            _adds_up,
            always=False,
        )
        for peer in (PYPAIMON, RUST)
    ),
    Limit(
        PYPAIMON,
        "64-bit vectors",
        "it knows the magic of 32-bit vectors only",
        "Invalid magic number",
        lambda snapshot: snapshot.has_64_bit_vectors,
    ),
)
