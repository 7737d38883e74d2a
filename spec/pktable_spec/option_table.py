"""The table of options: Paimon's names, what each does, its default, and how far it is implemented.

`OPTIONS` holds one `Option` per name. Its effect decides what `pktable_spec.options.parse_options` does with it:

* implemented: parsed into a field of `TableOptions`;
* harmless: changes nothing that is written or read, so it is ignored;
* writing, reading, merging: only the listed values are honoured, and any other is refused by whoever writes,
  reads or merges;
* refused: known, not implemented, refused by writers whatever its value.

An option that is not in the table is refused by writers, too. ``spec/options.md`` is generated from the table.

Clauses: TBL-9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from typing import Final, NamedTuple

from pktable_spec.errors import InvalidRequestError

SIZE: Final = re.compile(r"^\s*(\d{1,18})\s*([a-z]*)\s*$", re.I)
UNITS: Final = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb"), 1 << 10),
    **dict.fromkeys(("m", "mb"), 1 << 20),
    **dict.fromkeys(("g", "gb"), 1 << 30),
}
SPAN: Final = SIZE
SPANS: Final = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
JAVA_INT: Final = 1 << 31
NO_VALUE: Final = "no value"
ALIKE: Final = 0.7  # from which ratio of `difflib` on a name is taken for a misspelling


class Effect(Enum):
    """The effect of an option. The value is its name for readers."""

    IMPLEMENTED = "implemented"
    HARMLESS = "ignored"
    WRITING = "writers refuse other values"
    READING = "readers refuse other values"
    MERGING = "merges refuse other values"
    REFUSED = "writers refuse it"


class Parser(NamedTuple):
    """How a value is read. ``takes``: the values it allows, in words. ``parse`` raises InvalidRequestError."""

    takes: str
    parse: Callable[[str, str], object]


class StatsMode(NamedTuple):
    """``metadata.stats-mode``: none, full or truncate, and for truncate the length that is kept."""

    name: str
    truncate: int | None


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``name``: Paimon's; a final ``*`` stands for any ending.

    ``default``: the value that counts if the option is absent, as text; None if there is none. ``description``: one
    sentence; for a refused option, the reason. ``field``: of `TableOptions`, which ``parser`` fills.
    ``values``: the only ones that are honoured, in upper or lower case; None if ``parser`` accepts or refuses.
    """

    name: str
    effect: Effect
    default: str | None
    description: str
    field: str | None = None
    parser: Parser | None = None
    values: Collection[str] | None = None

    def honours(self, value: str) -> bool:
        """Return whether ``value`` has the meaning that is implemented; parsing may still refuse it."""
        if self.effect is Effect.REFUSED:
            return False
        return self.values is None or value.lower() in {one.lower() for one in self.values}

    @property
    def expected(self) -> str:
        """The values that are honoured, as an error names them."""
        reason = f", because {self.description}" if self.effect is Effect.REFUSED else ""
        return " or ".join(sorted(self.values or ())) or f"the option to be absent{reason}"

    @property
    def takes(self) -> str:
        """The values that are honoured, as a page lists them."""
        if self.values is not None:
            return ", ".join(sorted(self.values)) or NO_VALUE
        return self.parser.takes if self.parser else NO_VALUE if self.effect is Effect.REFUSED else "any text"

    def parse(self, value: str | None) -> object:
        """Return the value of the field, None where there is neither a value nor a default."""
        assert self.parser is not None, "only an option with a field is parsed"
        return None if value is None else self.parser.parse(self.name, value)


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


def _ratio(name: str, value: str) -> Fraction:
    """Return the exact value of a decimal number."""
    try:
        number = Fraction(repr(float(value)))
    except ValueError:  # also of nan and inf
        number = Fraction(-1)
    if not 0 <= number <= 1:
        raise InvalidRequestError(f"option {name}={value!r}: expected a number from 0 to 1")
    return number


def _size(name: str, value: str) -> int:
    """Return bytes."""
    found = SIZE.match(value)
    if not found or found[2].lower() not in UNITS:
        raise InvalidRequestError(f"option {name}={value!r}: expected a size such as 8 mb")
    return int(found[1]) * UNITS[found[2].lower()]


def _duration(name: str, value: str) -> int:
    """Return milliseconds."""
    found = SPAN.match(value)
    if not found or found[2].lower() not in SPANS:
        raise InvalidRequestError(f"option {name}={value!r}: expected a time such as 7 d")
    return int(found[1]) * SPANS[found[2].lower()]


def _stats_mode(name: str, value: str) -> StatsMode:
    if value in ("none", "full"):
        return StatsMode(value, None)
    found = re.match(r"^truncate\((\d{1,9})\)$", value)
    if not found:
        raise InvalidRequestError(f"option {name}={value!r}: expected none, full or truncate(N)")
    return StatsMode("truncate", int(found[1]))


def _directory(name: str, value: str) -> str:
    """Return a path below the table, without a slash at either end."""
    path = value.strip("/")
    if not {"..", "."}.isdisjoint(path.split("/")) or "\0" in path or "\\" in path:
        raise InvalidRequestError(
            f"option {name}={value!r}: expected a path below the table, without . and .."
        )
    return path


BOOLEAN: Final = Parser("true, false", _boolean)
INTEGER: Final = Parser("an integer", _integer)
POSITIVE: Final = Parser("an integer from 1", _positive)
DURATION: Final = Parser("a time such as 7 d", _duration)
TRUTH: Final = Parser("true, false", lambda name, value: value.lower() == "true")
RATIO: Final = Parser("a number from 0 to 1", _ratio)
SIZE_BYTES: Final = Parser("a size, such as 8 mb", _size)
NAMES: Final = Parser(
    "column names, comma-separated",
    lambda name, value: tuple(part.strip() for part in value.split(",") if part.strip()),
)
TEXT: Final = Parser("any text", lambda name, value: value)
WORD: Final = Parser("a word", lambda name, value: value.lower())
DIRECTORY: Final = Parser("a relative path", _directory)
STATS_MODE: Final = Parser("none, full, truncate(N)", _stats_mode)

MERGE_ENGINES: Final = {"deduplicate", "partial-update", "aggregation", "first-row"}
"""The implemented merge engines, in lower case. Another engine adds its name here."""

FLAG: Final = ("true", "false")

IMPLEMENTED, HARMLESS, WRITING = Effect.IMPLEMENTED, Effect.HARMLESS, Effect.WRITING
READING, MERGING, REFUSED = Effect.READING, Effect.MERGING, Effect.REFUSED

# fmt: off
OPTIONS: Final = (
    # Buckets and partitions.
    Option("bucket", IMPLEMENTED, "-1",
           "The number of buckets of a partition, at least 1 to write; `create` sets 1 if none is given.",
           "bucket", INTEGER),
    Option("bucket-key", IMPLEMENTED, "",
           "The columns whose hash is the bucket of a row; by default the primary key without the partition keys.",
           "bucket_key", NAMES),
    Option("bucket-function.type", WRITING, "default",
           "The function that hashes the bucket key.", "bucket_function", TEXT, values=("default",)),
    Option("partition.default-name", IMPLEMENTED, "__DEFAULT_PARTITION__",
           "The directory name of a partition value that is null or blank.", "partition_default_name", TEXT),
    Option("partition.legacy-name", IMPLEMENTED, "true",
           "Whether directory names spell a date as its number of days, and a timestamp with a T.",
           "partition_legacy_names", BOOLEAN),
    # Deletion vectors.
    Option("deletion-vectors.enabled", IMPLEMENTED, "false",
           "Whether compaction records the positions of replaced rows, so that default reads need not merge.",
           "deletion_vectors_enabled", BOOLEAN),
    Option("deletion-vectors.bitmap64", IMPLEMENTED, "false",
           "Whether new deletion vectors hold 64-bit positions, in the encoding that Iceberg reads.",
           "deletion_vectors_bitmap64", BOOLEAN),
    Option("deletion-vectors.merge-on-read", IMPLEMENTED, "false",
           "Whether default reads merge level 0, as fresh reads do.", "read_merges_level_zero", BOOLEAN),
    Option("index-file-in-data-file-dir", IMPLEMENTED, "false",
           "Whether DV index files lie in the directory of their bucket instead of `index`.",
           "index_in_data_directory", BOOLEAN),
    # Merging.
    Option("merge-engine", MERGING, "deduplicate",
           "How the records of one key become one row.", "merge_engine", WORD, values=MERGE_ENGINES),
    Option("ignore-delete", MERGING, "false", "Whether merging ignores deletions.", values=FLAG),
    *(
        Option(f"{engine}.ignore-delete", MERGING, "false", "An older name of `ignore-delete`.", values=FLAG)
        for engine in ("deduplicate", "partial-update", "first-row")
    ),
    Option("partial-update.remove-record-on-delete", MERGING, "false",
           "Whether -D removes the row; without it partial-update refuses deletions.", values=FLAG),
    Option("partial-update.remove-record-on-sequence-group", MERGING, None,
           "The columns of sequence groups by which a -D with the greatest value removes the row."),
    Option("aggregation.remove-record-on-delete", MERGING, "false",
           "Whether -D removes the row; without it aggregation takes its values back.", values=FLAG),
    Option("fields.*", MERGING, None,
           "For partial-update and aggregation: `fields.<column>.aggregate-function`, "
           "`fields.default-aggregate-function`, `fields.<column>.ignore-retract`, "
           "`fields.<column>.list-agg-delimiter`, `fields.<column>.distinct`, `fields.<column>.nested-key`, "
           "`fields.<column>.count-limit` and `fields.<columns>.sequence-group`."),
    Option("rowkind.field", MERGING, None, "The column that holds the row kind of each row.", values=()),
    Option("sequence.field", IMPLEMENTED, "",
           "The columns that decide which record of a key is the newest; of equal ones the later written is.",
           "sequence_fields", NAMES),
    Option("sequence.field.sort-order", MERGING, "ascending",
           "Whether the greatest (ascending) or the smallest value of `sequence.field` is the newest.",
           "sequence_order", WORD, values=("ascending", "descending")),
    Option("sequence.field.retractions", MERGING, "keep",
           "Whether deleted keys of a table with `sequence.field` are remembered for ever (keep), or forgotten by a "
           "full compaction (drop-in-full-compaction). A forgotten key comes back with a late row. Not of Paimon.",
           "kept_retractions", WORD, values=("keep", "drop-in-full-compaction")),
    # Compaction.
    Option("write-only", IMPLEMENTED, "false",
           "Whether writes leave compaction to another process.", "write_only", BOOLEAN),
    Option("num-sorted-run.compaction-trigger", IMPLEMENTED, "5",
           "The number of sorted runs of a bucket from which they are compacted.",
           "compaction_trigger", POSITIVE),
    Option("num-levels", IMPLEMENTED, None,
           "The number of levels, at least 2; by default one more than `num-sorted-run.compaction-trigger`.",
           "levels", POSITIVE),
    Option("compaction.max-size-amplification-percent", IMPLEMENTED, "200",
           "A bucket is compacted in full once its newer runs exceed this percentage of the size of its oldest run.",
           "max_size_amplification_percent", POSITIVE),
    Option("compaction.size-ratio", IMPLEMENTED, "1",
           "By how many percent the next older run may exceed the runs picked so far and still be picked.",
           "size_ratio_percent", INTEGER),
    Option("compaction.delete-ratio-threshold", IMPLEMENTED, None,
           "The share of deleted rows above which a compaction rewrites a file; by default 0.2 in an append table. "
           "With a key it has no default, since Paimon rewrites no file of such a table for its deleted rows: it "
           "counts if it is set, and only with deletion vectors. PIP-16 proposes 0.5.",
           "delete_ratio_threshold", RATIO),
    Option("changelog.num-retained.max", IMPLEMENTED, None,
           "The number of newest snapshots and changelogs that may be kept; older changelogs go with an expiry.",
           "changelog_retained_max", POSITIVE),
    Option("changelog.num-retained.min", IMPLEMENTED, None,
           "The number of newest snapshots and changelogs that are kept, however old they are.",
           "changelog_retained_min", POSITIVE),
    Option("changelog.time-retained", IMPLEMENTED, None,
           "The age from which a changelog goes with an expiry.",
           "changelog_retained_millis", DURATION),
    Option("commit.force-compact", WRITING, "true",
           "Whether a write compacts before it ends.", values=("true",)),
    Option("full-compaction.delta-commits", IMPLEMENTED, None,
           "After so many commits a write compacts the whole table fully; by default, none does. "
           "Not with changelog-producer=lookup.",
           "full_compaction_delta_commits", POSITIVE),
    Option("lookup-compact", WRITING, "RADICAL",
           "Whether every write compacts level 0 (RADICAL) or only some do.", values=("RADICAL",)),
    Option("lookup-wait", IMPLEMENTED, "true",
           "Whether a write compacts level 0 where default reads skip it; if not, that is left to another process.",
           "lookup_wait", BOOLEAN),
    # Append tables.
    Option("row-tracking.enabled", IMPLEMENTED, "false",
           "Whether each row of an append table without buckets has an id, which it keeps when it is written again.",
           "row_tracking", BOOLEAN),
    Option("compaction.min.file-num", IMPLEMENTED, "5",
           "The number of small files of an append table that are compacted, however small they are together.",
           "min_compacted_files", POSITIVE),
    Option("deletion-vector.index-file.target-size", IMPLEMENTED, "2 mb",
           "The size at which a DV index file of an append table without buckets is closed and the next one begun.",
           "index_target_bytes", SIZE_BYTES),
    Option("source.split.open-file-cost", IMPLEMENTED, "4 mb",
           "The size that opening a file counts as, when small files of an append table are grouped for compaction.",
           "open_file_cost_bytes", SIZE_BYTES),
    Option("data-evolution.enabled", WRITING, "false",
           "Whether columns of the same rows may lie in several files.",
           "data_evolution", TRUTH, values=("false",)),
    # Data files.
    Option("target-file-size", IMPLEMENTED, "128 mb",
           "The size at which a data file is closed and the next begun; by default twice that in an append table.",
           "target_file_bytes", SIZE_BYTES),
    Option("write-buffer-size", IMPLEMENTED, "256 mb",
           "How much a Spark task collects before it sorts and writes it.", "write_buffer_bytes", SIZE_BYTES),
    Option("file.block-size", IMPLEMENTED, "128 mb",
           "The size of a Parquet row group before compression.", "row_group_bytes", SIZE_BYTES),
    Option("parquet.block.row.count.limit", IMPLEMENTED, None,
           "The number of rows of a Parquet row group; by default its size decides.",
           "row_group_rows", POSITIVE),
    Option("parquet.page.row.count.limit", IMPLEMENTED, None,
           "The number of rows of a Parquet page, 20,000 by default. Small pages make point lookups cheaper.",
           "page_rows", POSITIVE),
    Option("file.format", WRITING, "parquet",
           "The format of new data files; existing ORC and Avro files can be read.", values=("parquet",)),
    Option("file.compression", WRITING, "zstd", "The compression of new data files.", values=("zstd",)),
    Option("file.compression.zstd-level", IMPLEMENTED, "1",
           "The zstd level of new data files.", "zstd_level", POSITIVE),
    Option("data-file.path-directory", IMPLEMENTED, "",
           "The directory below the table that holds its partitions and buckets; by default the table itself.",
           "data_directory", DIRECTORY),
    # Manifests and statistics.
    Option("manifest.format", WRITING, "avro", "The format of new manifests.", values=("avro",)),
    Option("manifest.compression", WRITING, "zstd", "The compression of new manifests.", values=("zstd",)),
    Option("manifest.target-file-size", IMPLEMENTED, "8 mb",
           "The size at which a manifest is closed and the next one begun.",
           "manifest_target_bytes", SIZE_BYTES),
    Option("manifest.merge-min-count", IMPLEMENTED, "30",
           "The number of small manifests from which a commit merges them.",
           "manifest_merge_min_count", POSITIVE),
    Option("manifest.full-compaction-threshold-size", IMPLEMENTED, "16 mb",
           "The size of small manifests and of those with deletions from which a commit rewrites all manifests.",
           "manifest_full_compaction_bytes", SIZE_BYTES),
    Option("metadata.stats-mode", IMPLEMENTED, "truncate(16)",
           "The statistics of columns that manifests hold: none, exact bounds, or bounds cut to N characters.",
           "stats", STATS_MODE),
    Option("metadata.stats-dense-store", WRITING, "true",
           "Whether manifests leave out columns without statistics.", values=("true",)),
    # Changelogs.
    Option("changelog-producer", WRITING, "none",
           "Who writes changelog files: nobody, a write (input), the compaction of level 0 (lookup), or a compaction "
           "to the greatest level (full-compaction).",
           "changelog_producer", WORD, values=("none", "input", "lookup", "full-compaction")),
    Option("changelog-producer.row-deduplicate", IMPLEMENTED, "false",
           "Whether a compaction leaves out of the changelog rows that were replaced by equal ones.",
           "changelog_row_deduplicate", BOOLEAN),
    Option("changelog-producer.row-deduplicate-ignore-fields", IMPLEMENTED, "",
           "The columns that `changelog-producer.row-deduplicate` does not compare.",
           "changelog_ignored_fields", NAMES),
    Option("changelog-file.format", WRITING, "parquet", "The format of changelog files.", values=("parquet",)),
    Option("changelog-file.compression", WRITING, "zstd",
           "The compression of changelog files.", values=("zstd",)),
    Option("changelog-file.stats-mode", IMPLEMENTED, None,
           "The statistics of columns that manifests hold of changelog files; by default those of "
           "`metadata.stats-mode`.", "changelog_stats", STATS_MODE),
    Option("changelog-file.prefix", WRITING, "changelog-",
           "How the names of changelog files begin.", values=("changelog-",)),
    # Options that ask for other rows than those of the snapshot that is read.
    Option("branch", READING, "main", "The branch that is read and written.", values=("main",)),
    Option("chain-table.enabled", READING, "false",
           "Whether an absent partition is read from a chain of branches.", values=("false",)),
    Option("incremental-between", READING, None, "Reads the changes between two snapshots or tags.", values=()),
    Option("incremental-between-timestamp", READING, None, "Reads the changes between two times.", values=()),
    Option("incremental-to-auto-tag", READING, None, "Reads the changes up to an automatic tag.", values=()),
    Option("pk-clustering-override", READING, "false",
           "Whether data files are sorted by other columns than the key.", values=("false",)),
    Option("postpone.merge-on-read", READING, "false",
           "Whether reads merge rows that no bucket has yet.", values=("false",)),
    Option("query-auth.enabled", READING, "false",
           "Whether a catalog decides which rows and columns may be read.", values=("false",)),
    Option("record-level.expire-time", READING, None, "The age from which rows are dropped.", values=()),
    Option("scan.bucket", READING, None, "Reads one bucket.", values=()),
    Option("scan.creation-time-millis", READING, None, "Reads what was created after a time.", values=()),
    Option("scan.fallback-branch", READING, None,
           "The branch from which a partition is read that is absent here.", values=()),
    Option("scan.fallback-delta-branch", READING, None,
           "The branch of a chain table that holds increments.", values=()),
    Option("scan.fallback-snapshot-branch", READING, None,
           "The branch of a chain table that holds whole partitions.", values=()),
    Option("scan.file-creation-time-millis", READING, None,
           "Reads the data files created after a time.", values=()),
    Option("scan.mode", READING, "default",
           "Where a read begins.", values=("default", "latest", "latest-full", "full")),
    Option("scan.primary-branch", READING, None, "The branch that is read before this one.", values=()),
    Option("scan.snapshot-id", READING, None,
           "Reads one snapshot; pass `snapshot` to the read instead.", values=()),
    Option("scan.tag-name", READING, None, "Reads one tag; pass `tag` to the read instead.", values=()),
    Option("scan.timestamp", READING, None,
           "Reads as of a time; pass `timestamp` to the read instead.", values=()),
    Option("scan.timestamp-millis", READING, None,
           "Reads as of a time; pass `timestamp` to the read instead.", values=()),
    Option("scan.version", READING, None,
           "Reads one snapshot or tag; pass `snapshot` or `tag` to the read instead.", values=()),
    Option("scan.watermark", READING, None, "Reads the first snapshot from a watermark on.", values=()),
    Option("table-read.sequence-number.enabled", READING, "false",
           "Whether the audit log shows sequence numbers.", values=("false",)),
    # Options that describe a table.
    Option("path", HARMLESS, None, "Where the table lies; the path that it was opened by is used."),
    Option("type", HARMLESS, None, "The type of the table in a catalog."),
    Option("owner", HARMLESS, None, "The owner of the table."),
    Option("comment", HARMLESS, None, "The comment of the table; the one of the schema is used."),
    Option("metadata.iceberg.storage", HARMLESS, None, "Where Paimon also writes Iceberg metadata."),
    # Options of Paimon that are not implemented; the description is the reason.
    Option("aggregation.*", REFUSED, None, "aggregation has no such option here"),
    Option("changelog-file.*", REFUSED, None, "changelog files are otherwise written as data files are"),
    Option("changelog-producer.*", REFUSED, None, "the changelog producers have no such option here"),
    Option("consumer-id", REFUSED, None, "consumers of streams are not implemented"),
    Option("data-file.external-paths", REFUSED, None, "all files lie below the table"),
    Option("data-file.thin-mode", REFUSED, None, "data files hold the key columns twice"),
    Option("dynamic-bucket.*", REFUSED, None, "the number of buckets is fixed"),
    Option("file-index.*", REFUSED, None, "file indexes are not implemented"),
    Option("file.compression.per.level", REFUSED, None, "all levels are written alike"),
    Option("file.format.per.level", REFUSED, None, "all levels are written alike"),
    Option("partial-update.*", REFUSED, None, "partial-update has no such option here"),
    Option("partition.expiration-time", REFUSED, None, "partitions do not expire"),
    Option("snapshot.num-retained.*", REFUSED, None, "snapshots expire on request only"),
    Option("snapshot.time-retained", REFUSED, None, "snapshots expire on request only"),
    Option("tag.automatic-creation", REFUSED, None, "tags are created on request only"),
)
# fmt: on
"""Every option that is known, by subject."""

_EXACT: Final = {option.name: option for option in OPTIONS if not option.name.endswith("*")}
_PREFIXES: Final = {option.name[:-1]: option for option in OPTIONS if option.name.endswith("*")}


def option_named(name: str) -> Option | None:
    """Return the option that ``name`` names, None if none is known."""
    if name in _EXACT:
        return _EXACT[name]
    return next((option for prefix, option in _PREFIXES.items() if name.startswith(prefix)), None)


def closest_name(name: str) -> str | None:
    """Return the option whose name is most like ``name``, of those that may be set; None if none is like it."""
    supported = [option.name for option in _EXACT.values() if option.takes != NO_VALUE]
    return next(iter(get_close_matches(name, supported, n=1, cutoff=ALIKE)), None)
