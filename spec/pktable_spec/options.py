"""Table options: Paimon's names and defaults, parsed once, refused by name where not implemented.

An option is one of five: implemented (a field of `TableOptions`); harmless (it cannot change what we
write or read); of writers only (a reader may ignore it, a writer that cannot honour it must refuse);
of readers too; unknown. `parse_options` never guesses: what it cannot honour is remembered, and
`require_writable`, `require_readable` or `require_mergeable` raise it when the table is about to do the
thing the option would change.

Clauses: TBL-9, LSM-9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError

SIZE = re.compile(r"^\s*(\d+)\s*([a-z]*)\s*$", re.I)
UNITS = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}

JAVA_INT: Final = 1 << 31

# Options that name where a table lies or describe it; they change nothing that is written or read.
HARMLESS = frozenset({"path", "type", "owner", "comment", "metadata.iceberg.storage"})

# What a writer must do exactly so, with the only value that is implemented.
ONLY_VALUE = {
    "bucket-function.type": "default",
    "changelog-producer": "none",
    "file.format": "parquet",
    "manifest.format": "avro",
    "manifest.compression": "zstd",
    "file.compression": "zstd",
    "metadata.stats-dense-store": "true",
    "lookup-wait": "true",
    "lookup-compact": "RADICAL",
    "commit.force-compact": "true",
}

# What changes the meaning of a merge: whoever merges must honour it.
OF_MERGE = frozenset({"sequence.field", "ignore-delete", "rowkind.field", "sequence.field.sort-order"})


# What changes which rows a plain read returns, with the values that change nothing.
OF_READING = {
    "branch": ("main",),
    "chain-table.enabled": ("false",),
    "pk-clustering-override": ("false",),
    "postpone.merge-on-read": ("false",),
    "query-auth.enabled": ("false",),
    "scan.mode": ("default", "latest", "latest-full", "full"),
    "table-read.sequence-number.enabled": ("false",),
    **dict.fromkeys(
        (
            "incremental-between",
            "incremental-between-timestamp",
            "incremental-to-auto-tag",
            "record-level.expire-time",
            "scan.bucket",
            "scan.creation-time-millis",
            "scan.fallback-branch",
            "scan.fallback-delta-branch",
            "scan.fallback-snapshot-branch",
            "scan.file-creation-time-millis",
            "scan.primary-branch",
            "scan.snapshot-id",
            "scan.tag-name",
            "scan.timestamp",
            "scan.timestamp-millis",
            "scan.version",
            "scan.watermark",
        ),
        (),
    ),
}


GROWING: Final = -1
"""The number of buckets that Paimon assumes where none is given: it grows with the table. Not implemented."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The implemented options of one table. Sizes in bytes, ratios in percent."""

    bucket: int = GROWING
    bucket_key: tuple[str, ...] = ()
    deletion_vectors_enabled: bool = False
    deletion_vectors_bitmap64: bool = False
    write_only: bool = False
    compaction_trigger: int = 5
    levels: int = 6
    target_file_bytes: int = 128 << 20
    max_size_amplification_percent: int = 200
    size_ratio_percent: int = 1
    write_buffer_bytes: int = 256 << 20
    zstd_level: int = 1
    row_group_bytes: int = 128 << 20
    row_group_rows: int | None = None
    stats_truncate: int | None = 16
    stats_mode: str = "truncate"
    manifest_target_bytes: int = 8 << 20
    manifest_merge_min_count: int = 30
    manifest_full_compaction_bytes: int = 16 << 20
    read_merges_level_zero: bool = False
    partition_legacy_names: bool = True
    partition_default_name: str = "__DEFAULT_PARTITION__"
    data_directory: str = ""
    index_in_data_directory: bool = False
    first_row: bool = False
    hashes_buckets: bool = True
    unreadable: tuple[UnsupportedOptionError, ...] = ()
    unwritable: tuple[UnsupportedOptionError, ...] = ()
    unmergeable: tuple[UnsupportedOptionError, ...] = ()

    @property
    def max_level(self) -> int:
        return self.levels - 1

    @property
    def one_record_per_key(self) -> bool:
        """Whether levels above 0 hold at most one live record per key, and a read leaves level 0 out."""
        return self.deletion_vectors_enabled or self.first_row

    def require_writable(self) -> None:
        """Raise UnsupportedOptionError if a writer cannot honour every option of the table."""
        for error in (*self.unwritable, *self.unreadable, *self.unmergeable):
            raise error

    def require_readable(self) -> None:
        """Raise UnsupportedOptionError if an option asks for other rows than those a snapshot holds."""
        for error in self.unreadable:
            raise error

    def require_mergeable(self) -> None:
        """Raise UnsupportedOptionError if merging would need a merge engine that is not implemented."""
        for error in self.unmergeable:
            raise error


def parse_options(options: Mapping[str, str]) -> TableOptions:
    """Return the parsed options. Raises InvalidRequestError on a value that is malformed.

    Clauses: TBL-9.
    """
    rest = {name: str(value) for name, value in options.items() if name not in HARMLESS}
    found: dict[str, object] = {}
    unreadable: list[UnsupportedOptionError] = []
    unwritable: list[UnsupportedOptionError] = []
    unmergeable: list[UnsupportedOptionError] = []
    for name, value in rest.items():
        if name in PARSERS:
            field, parse = PARSERS[name]
            found[field] = parse(name, value)
        elif name == "metadata.stats-mode":
            found |= _stats_mode(name, value)
        elif name == "merge-engine":
            if value != "deduplicate":
                unmergeable.append(UnsupportedOptionError(name, value, "deduplicate"))
                found["first_row"] = value == "first-row"
        elif name in OF_READING:
            if value.lower() not in OF_READING[name]:
                expected = " or ".join(OF_READING[name]) or "the option to be absent"
                unreadable.append(UnsupportedOptionError(name, value, expected))
        elif name in OF_MERGE:
            if value != "false":
                unmergeable.append(UnsupportedOptionError(name, value, "the option to be absent"))
        elif name in ONLY_VALUE:
            if value.lower() != ONLY_VALUE[name].lower():
                unwritable.append(UnsupportedOptionError(name, value, ONLY_VALUE[name]))
        else:
            unwritable.append(UnsupportedOptionError(name, value, "one of the implemented options"))
    found.setdefault("levels", int(str(found.get("compaction_trigger", 5))) + 1)
    buckets = int(str(found.setdefault("bucket", GROWING)))
    found["hashes_buckets"] = buckets > 0 and rest.get("bucket-function.type", "default") == "default"
    if buckets < 1:
        expected = "a fixed number of buckets, at least 1"
        unwritable.insert(0, UnsupportedOptionError("bucket", str(buckets), expected))
    parsed = TableOptions(
        **found,  # type: ignore[arg-type]
        unreadable=tuple(unreadable),
        unwritable=tuple(unwritable),
        unmergeable=tuple(unmergeable),
    )
    if parsed.levels < 2:
        raise InvalidRequestError(f"option num-levels={parsed.levels}: expected at least 2")
    return parsed


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidRequestError(f"option {name}={value!r}: expected true or false")
    return value.lower() == "true"


def _integer(name: str, value: str) -> int:
    """Return an integer that Paimon, too, can hold."""
    try:
        number = int(value)
    except ValueError:
        raise InvalidRequestError(f"option {name}={value!r}: expected an integer") from None
    if not -JAVA_INT <= number < JAVA_INT:
        raise InvalidRequestError(
            f"option {name}={value!r}: expected an integer from {-JAVA_INT} to {JAVA_INT - 1}"
        )
    return number


def _positive(name: str, value: str) -> int:
    number = _integer(name, value)
    if number < 1:
        raise InvalidRequestError(f"option {name}={value!r}: expected a positive integer")
    return number


def _size(name: str, value: str) -> int:
    found = SIZE.match(value)
    if not found or found[2].lower() not in UNITS:
        raise InvalidRequestError(f"option {name}={value!r}: expected a size such as 8 mb")
    return int(found[1]) * UNITS[found[2].lower()]


def _names(name: str, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _text(name: str, value: str) -> str:
    return value


def _directory(name: str, value: str) -> str:
    return value.strip("/")


def _stats_mode(name: str, value: str) -> dict[str, object]:
    if value in ("none", "full"):
        return {"stats_mode": value, "stats_truncate": None}
    found = re.match(r"^truncate\((\d+)\)$", value)
    if not found:
        raise InvalidRequestError(f"option {name}={value!r}: expected none, full or truncate(N)")
    return {"stats_mode": "truncate", "stats_truncate": int(found[1])}


PARSERS = {
    "bucket": ("bucket", _integer),
    "bucket-key": ("bucket_key", _names),
    "deletion-vectors.enabled": ("deletion_vectors_enabled", _boolean),
    "deletion-vectors.bitmap64": ("deletion_vectors_bitmap64", _boolean),
    "deletion-vectors.merge-on-read": ("read_merges_level_zero", _boolean),
    "partition.legacy-name": ("partition_legacy_names", _boolean),
    "partition.default-name": ("partition_default_name", _text),
    "data-file.path-directory": ("data_directory", _directory),
    "index-file-in-data-file-dir": ("index_in_data_directory", _boolean),
    "write-only": ("write_only", _boolean),
    "num-sorted-run.compaction-trigger": ("compaction_trigger", _positive),
    "num-levels": ("levels", _positive),
    "target-file-size": ("target_file_bytes", _size),
    "compaction.max-size-amplification-percent": ("max_size_amplification_percent", _positive),
    "compaction.size-ratio": ("size_ratio_percent", _integer),
    "write-buffer-size": ("write_buffer_bytes", _size),
    "file.compression.zstd-level": ("zstd_level", _positive),
    "file.block-size": ("row_group_bytes", _size),
    "parquet.block.row.count.limit": ("row_group_rows", _positive),
    "manifest.target-file-size": ("manifest_target_bytes", _size),
    "manifest.merge-min-count": ("manifest_merge_min_count", _positive),
    "manifest.full-compaction-threshold-size": ("manifest_full_compaction_bytes", _size),
}
