"""The damaged tables of the archive."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pktable.format.metadata.manifest import ADD

from model_tests.conform.damages import (
    Damage,
    as_older_releases,
    avro,
    beyond_32_bits,
    bytes_of,
    column_type,
    counts,
    cut,
    data_file,
    entries,
    file,
    flipped,
    gone,
    hints,
    in_parts,
    index,
    index_file,
    last,
    longer,
    manifest_file,
    named,
    never_added,
    no_snapshots,
    number_too_great,
    of_version,
    options,
    page,
    positions,
    put,
    ranges,
    schema_file,
    snapshot,
    twice,
    two_vectors_of_a_file,
    vector,
    with_field,
    without_column,
    wrong_checksum,
    wrong_footer,
    wrong_sync_marker,
)

KEYLESS: Final[Mapping[str, Any]] = {"base": "row-kinds", "features": ("merge on read",)}
OF_64: Final[Mapping[str, Any]] = {"base": "pairs-of-64-bits", "features": ("keys", "vectors of 64 bits")}
BASE, DELTA, INDEX = named("baseManifestList"), named("deltaManifestList"), named("indexManifest")
VECTOR, FILE = ("DVF-5", "RD-11"), ("RD-11",)
CUT: Final = ("META-34", "RD-11")


def _with_a_byte_more(root: Path) -> None:
    longer(index_file)(root)
    index(file_size=index_file(root).stat().st_size)(root)


def _added_twice(found: Sequence[Any]) -> list[Any]:
    return [*found, *(one for one in found if one.kind == ADD)]


DAMAGES: Final = (
    Damage(
        "vector-crc",
        "the CRC-32 of a vector is another",
        VECTOR,
        bytes_of(index_file, lambda data: flipped(data, -1)),
    ),
    Damage(
        "vector-bit",
        "a bit of a vector is flipped",
        VECTOR,
        bytes_of(index_file, lambda data: flipped(data, -5)),
    ),
    Damage(
        "vector-magic",
        "the magic of a vector is unknown",
        VECTOR,
        vector(put(0, struct.pack(">i", 1581511377))),
    ),
    Damage(
        "vector-length",
        "the length before a vector is not that of its range",
        VECTOR,
        ranges(length_bytes=lambda n: n + 4),
    ),
    Damage(
        "vector-offset",
        "the range of a vector begins behind it",
        ("DVF-9", "RD-11"),
        ranges(offset_bytes=lambda n: n + 1),
    ),
    Damage(
        "vector-cardinality",
        "a vector has not as many positions as the index manifest says",
        VECTOR,
        ranges(cardinality=lambda n: n + 1),
    ),
    Damage(
        "vector-beyond",
        "a vector deletes a position that its file has not",
        ("DV-2", "RD-11"),
        positions(3, 5, 12),
        may_be_read=True,
    ),
    Damage(
        "vector-beyond-32-bits",
        "a vector deletes the position 2^32 + 4, and not the position 4",
        ("DVF-3", "DV-2"),
        beyond_32_bits,
        may_be_read=True,
        **OF_64,
    ),
    Damage(
        "vector-64-crc",
        "the CRC-32 of a vector of 64 bits is another",
        VECTOR,
        bytes_of(index_file, lambda data: flipped(data, -1)),
        **OF_64,
    ),
    Damage(
        "vector-64-magic",
        "the magic of a vector of 64 bits is unknown",
        VECTOR,
        vector(put(0, struct.pack("<i", 1681511378))),
        **OF_64,
    ),
    Damage(
        "vector-64-length",
        "the range of a vector of 64 bits does not count length and CRC",
        VECTOR,
        ranges(length_bytes=lambda n: n - 8),
        **OF_64,
    ),
    Damage(
        "vector-64-cardinality",
        "a vector of 64 bits has not as many positions as the index manifest says",
        VECTOR,
        ranges(cardinality=lambda n: n - 1),
        **OF_64,
    ),
    Damage(
        "index-version",
        "the first byte of a DV index file is 2",
        ("DVF-1", "RD-11"),
        bytes_of(index_file, put(0, b"\2")),
    ),
    Damage("index-cut", "a DV index file is half as long", CUT, cut(index_file)),
    Damage(
        "index-longer",
        "a DV index file has a byte left over",
        ("DVF-1", "DVF-8", "RD-11"),
        _with_a_byte_more,
    ),
    Damage(
        "index-size",
        "a DV index file has not the size that the index manifest says",
        ("DVF-8", "RD-11"),
        lambda root: index(file_size=index_file(root).stat().st_size + 1)(root),
    ),
    Damage(
        "index-count",
        "a DV index file has not as many vectors as the index manifest says",
        ("DVF-8",),
        index(row_count=2),
        may_be_read=True,
    ),
    Damage("index-missing", "a DV index file is missing", ("RD-19",), gone(index_file)),
    Damage("index-twice", "a bucket has two DV index files", ("DV-16", "RD-11"), twice),
    Damage("index-manifest-missing", "an index manifest is missing", ("RD-19",), gone(INDEX)),
    Damage("index-manifest-cut", "an index manifest is half as long", CUT, cut(INDEX)),
    Damage("manifest-list-missing", "a base manifest list is missing", ("RD-19",), gone(BASE)),
    Damage("manifest-list-cut", "a delta manifest list is half as long", CUT, cut(DELTA)),
    Damage(
        "manifest-list-size",
        "a delta manifest list has not the size that the snapshot says",
        FILE,
        longer(DELTA),
    ),
    Damage("manifest-missing", "a manifest is missing", ("RD-19",), gone(manifest_file)),
    Damage("manifest-cut", "a manifest is half as long", CUT, cut(manifest_file)),
    Damage(
        "manifest-added-twice",
        "a file is added twice",
        ("CMT-4", "RD-11"),
        entries(_added_twice),
        may_be_read=True,
    ),
    Damage(
        "manifest-never-added",
        "a file is deleted that was never added",
        ("CMT-4", "RD-11"),
        entries(never_added),
    ),
    Damage("data-missing", "a data file is missing", ("RD-19",), gone(data_file)),
    Damage("data-cut", "a data file is half as long", CUT, cut(data_file)),
    Damage("data-size", "a data file has a byte left over", FILE, longer(data_file)),
    Damage(
        "data-rows",
        "a data file has not as many rows as its manifest says",
        ("LSM-7", "RD-11"),
        file(row_count=13),
    ),
    Damage("data-column", "a data file has not the columns of its schema", FILE, without_column),
    Damage("snapshot-id", "a snapshot has the id of another", FILE, snapshot(id=1)),
    Damage(
        "snapshot-version", "a snapshot is of an unknown version", ("META-2", "RD-11"), snapshot(version=4)
    ),
    Damage(
        "snapshot-field",
        "a snapshot names no base manifest list",
        ("META-2", "RD-11"),
        snapshot(baseManifestList=None),
    ),
    Damage(
        "snapshot-cut",
        "a snapshot is half as long",
        CUT,
        lambda root: cut(lambda r: r / f"snapshot/snapshot-{last(r)}")(root),
    ),
    Damage("schema-missing", "the schema of a snapshot is missing", ("RD-19",), gone(schema_file)),
    Damage("schema-cut", "a schema is half as long", CUT, cut(schema_file)),
    Damage(
        "engine-unknown",
        "a merge engine that no release has",
        ("RD-20",),
        options(merge__engine="median"),
        **KEYLESS,
    ),
    Damage("vector-twice", "a data file has two vectors", ("DV-5", "RD-11"), two_vectors_of_a_file),
    Damage("index-kind", "an entry of an index manifest takes a file away", ("META-84",), index(kind=1)),
    Damage(
        "index-manifest-version", "an index manifest of version 2", ("META-3",), avro(INDEX, of_version(2))
    ),
    Damage("manifest-version", "a manifest of version 3", ("META-3",), avro(manifest_file, of_version(3))),
    Damage("manifest-list-version", "a manifest list of version 3", ("META-3",), avro(DELTA, of_version(3))),
    Damage(
        "manifest-field",
        "a value in a field of a manifest that no release has",
        ("META-60",),
        avro(manifest_file, with_field(1)),
    ),
    Damage(
        "index-manifest-field",
        "a value in a field of an index manifest that no release has",
        ("META-60",),
        avro(INDEX, with_field(1)),
    ),
    Damage(
        "manifest-counts",
        "a manifest adds fewer files than its list says",
        ("META-12", "RD-11"),
        counts,
        may_be_read=True,
    ),
    Damage(
        "snapshot-checksum",
        "the checksum of a snapshot is another",
        ("META-14", "META-35", "META-38"),
        wrong_checksum,
        may_be_read=True,
    ),
    Damage(
        "manifest-checksum",
        "the sync marker of a manifest is not its digest",
        ("META-14", "META-36", "META-38"),
        wrong_sync_marker,
        may_be_read=True,
    ),
    Damage(
        "data-footer",
        "the CRC-32 of the footer of a data file is another",
        ("META-14", "META-37", "META-38"),
        wrong_footer,
        may_be_read=True,
    ),
    Damage("data-page", "a page of a data file is not that of its CRC-32", ("META-33", "RD-11"), page),
    Damage(
        "snapshot-all-missing",
        "a table has hints and no snapshots",
        ("CMT-51",),
        no_snapshots,
    ),
    Damage(
        "option-of-rows",
        "an option says that the table is another thing",
        ("TBL-30",),
        options(type="object-table"),
    ),
    Damage(
        "option-unknown",
        "an option of no release that begins as options of rows do",
        ("TBL-34",),
        options(fields___v___no__such__option="1"),
    ),
    Damage(
        "option-of-merges",
        "an option asks for another order of records",
        ("TBL-31",),
        options(sequence___snapshot__ordering="true"),
        **KEYLESS,
    ),
    Damage(
        "key-type",
        "the type of a key column has changed",
        ("META-41",),
        column_type("k", "BIGINT NOT NULL"),
        features=("keys", "evolution"),
    ),
    Damage(
        "map-key-type",
        "the type of the keys of a MAP has changed",
        ("META-43",),
        column_type("m", {"type": "MAP", "key": "INT NOT NULL", "value": "BIGINT"}),
        base="nested",
        features=("keys", "nested", "evolution"),
    ),
    Damage(
        "variant-in-parts",
        "a VARIANT is stored in parts",
        ("META-78",),
        in_parts,
        base="variants",
        features=("keys", "variant", "nested"),
    ),
)

HARMLESS: Final = (
    Damage("hints-behind", "hints of older snapshots", ("CMT-13",), hints(1, 1), harmless=True),
    Damage("hints-ahead", "hints of snapshots that do not exist", ("CMT-13",), hints(99, 98), harmless=True),
    Damage(
        "number-too-great",
        "a file whose number has more than 63 bits after the next one",
        ("META-57",),
        number_too_great,
        harmless=True,
    ),
    Damage(
        "snapshot-field-unknown",
        "a field of a snapshot that no release has",
        ("META-21", "META-2"),
        snapshot(noSuchField={"a": [1]}),
        harmless=True,
    ),
    Damage(
        "manifest-field-null",
        "a null in a field of a manifest that no release has",
        ("META-60", "META-22"),
        avro(manifest_file, with_field(None)),
        harmless=True,
    ),
    Damage(
        "manifest-older",
        "a manifest without the fields of newer releases",
        ("META-22", "META-27"),
        avro(manifest_file, as_older_releases),
        harmless=True,
    ),
    Damage(
        "manifest-deflated",
        "a manifest compressed by another codec",
        ("META-23",),
        avro(manifest_file, lambda schema, records: None, "deflate"),
        harmless=True,
    ),
    Damage(
        "manifest-uncompressed",
        "an index manifest that is not compressed",
        ("META-23",),
        avro(INDEX, lambda schema, records: None, "null"),
        harmless=True,
    ),
    Damage(
        "option-harmless",
        "options that change no row, one of them of no release",
        ("TBL-32", "TBL-33", "META-1"),
        options(sink___parallelism="4", no__such__option="1"),
        harmless=True,
    ),
)
"""What differs from a table as it is written, and is read as if it did not."""
