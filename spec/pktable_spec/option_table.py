"""The table of options: Paimon's names, what each does, its default, and how far it is implemented.

`OPTIONS` holds one `Option` per name. Its effect decides what `pktable_spec.options.parse_options` does with it:

* implemented: parsed into a field of `TableOptions`;
* harmless: changes nothing that is written or read, so it is ignored;
* writing, reading, merging, everything: only the listed values are honoured, and any other is refused by whoever
  writes, reads, merges, or does any of these.

A name that is not in the table is of no release that is known. Writers refuse it, and readers, too, if it begins as
options do that change rows (`CHANGING_ROWS`). ``spec/options.md`` is generated from the table.

Clauses: TBL-9, TBL-30 to TBL-36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from pktable_spec.harmless_options import HARMLESS_NAMES
from pktable_spec.option_values import (
    BOOLEAN,
    COUNT,
    DIRECTORY,
    DURATION,
    INTEGER,
    LEVEL_WORDS,
    LIMIT,
    NAMES,
    NO_VALUE,
    POSITIVE,
    RATIO,
    SIZE_BYTES,
    STATS_MODE,
    TEXT,
    TRUTH,
    WORD,
    Condition,
    Effect,
    Option,
)

ALIKE: Final = 0.7  # from which ratio of `difflib` on a name is taken for a misspelling

MERGE_ENGINES: Final = {"deduplicate", "partial-update", "aggregation", "first-row"}
"""The implemented merge engines, in lower case. Another engine adds its name here."""

FLAG: Final = ("true", "false")
FORMATS: Final = ("parquet", "orc", "avro")
"""The formats of data files, as options name them."""
WHOLE_READS: Final = ("default", "latest", "latest-full", "full")

IMPLEMENTED, HARMLESS, WRITING = Effect.IMPLEMENTED, Effect.HARMLESS, Effect.WRITING
READING, MERGING, EVERYTHING = Effect.READING, Effect.MERGING, Effect.EVERYTHING

CHANGING_ROWS: Final = (
    *("fields.", "field.", "sequence.", "merge-", "deletion-vectors.", "partial-update.", "aggregation."),
    *("deduplicate.", "first-row.", "ignore-", "force-", "rowkind.", "record-level.", "changelog-", "bucket"),
    *(
        "primary-key",
        "pk-",
        "scan.",
        "log.scan",
        "incremental-",
        "branch",
        "chain-table.",
        "postpone.",
        "batch-",
    ),
    *(
        "query-auth",
        "partition.",
        "data-evolution.",
        "row-tracking.",
        "data-file.",
        "index-file-",
        "manifest.",
    ),
)
"""Options whose names begin so change the rows of a table, or their places. Clauses: TBL-34."""


def _value(options: Mapping[str, str], name: str, default: str) -> str:
    return options.get(name, default).lower()


def _are_formats_of_levels(pairs: Sequence[tuple[str, str]]) -> bool:
    levels = [level.strip() for level, _ in pairs]
    return (
        all(level.isdecimal() for level in levels)
        and len(set(map(int, levels))) == len(levels)
        and all(word.strip().lower() in FORMATS for _, word in pairs)
    )


NOT_POSTPONED: Final = Condition("`bucket` is not -2", lambda given: _value(given, "bucket", "-1") != "-2")
NO_LEVEL_IS_SKIPPED: Final = Condition(
    "default reads do not skip level 0",
    lambda given: (
        _value(given, "deletion-vectors.enabled", "false") != "true"
        and _value(given, "merge-engine", "deduplicate") != "first-row"
    ),
)
NO_CHAIN: Final = Condition(
    "`chain-table.enabled` is not true", lambda given: _value(given, "chain-table.enabled", "false") != "true"
)
FORMATS_OF_LEVELS: Final = Condition(
    "it says avro, orc or parquet of levels, of each once, as in `0:avro,5:parquet`",
    lambda given: _are_formats_of_levels(
        [pair.partition(":")[::2] for pair in given["file.format.per.level"].split(",")]
    ),
)
NO_STRATEGY: Final = Condition(
    "`data-file.external-paths.strategy` is none",
    lambda given: _value(given, "data-file.external-paths.strategy", "none") == "none",
)
OTHERS_MAKE_TAGS: Final = Condition(
    "`write-only` is true",
    lambda given: _value(given, "write-only", _value(given, "write.compaction-skip", "false")) == "true",
)

# fmt: off
OPTIONS: Final = (
    # Buckets and partitions.
    Option("bucket", IMPLEMENTED, "-1",
           "The number of buckets of a partition, -1 if they are dynamic; `create` sets 1 if none is given.",
           "bucket", INTEGER),
    Option("bucket-key", IMPLEMENTED, "",
           "The columns whose hash is the bucket of a row; by default the primary key without the partition keys.",
           "bucket_key", NAMES),
    Option("bucket-function.type", WRITING, "default",
           "The function that hashes the bucket key.", "bucket_function", TEXT, values=("default",)),
    Option("dynamic-bucket.target-row-num", IMPLEMENTED, "2000000",
           "The number of keys from which a dynamic bucket gets no new ones.", "keys_per_bucket", COUNT),
    Option("dynamic-bucket.max-buckets", IMPLEMENTED, "-1",
           "The number of dynamic buckets of a partition from which on new keys go to those that are there.",
           "most_buckets", LIMIT),
    Option("dynamic-bucket.initial-buckets", IMPLEMENTED, None,
           "The number of dynamic buckets that are filled at once; by default one by a local write, and on Spark as "
           "many as there are tasks.", "initial_buckets", POSITIVE),
    Option("dynamic-bucket.assigner-parallelism", IMPLEMENTED, None,
           "The number of tasks that assign dynamic buckets, so the most that are filled at once.",
           "assigner_parallelism", POSITIVE),
    Option("postpone.default-bucket-num", IMPLEMENTED, "1",
           "The number of buckets of a partition into which the first compaction moves rows that wait for a bucket.",
           "buckets_of_waiting", POSITIVE),
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
    *(
        Option(f"fields.{ending}", MERGING, None, f"For partial-update and aggregation: {meaning}.")
        for ending, meaning in (
            ("*.aggregate-function", "how the values of a column are folded"),
            ("default-aggregate-function", "how the values of columns are folded that name no function"),
            ("*.ignore-retract", "whether retractions leave a column as it is"),
            ("*.list-agg-delimiter", "the text between joined values"),
            ("*.distinct", "whether equal elements count once"),
            ("*.nested-key", "the fields that identify a nested row"),
            ("*.count-limit", "how many nested rows a column takes"),
            ("*.sequence-group", "the columns that follow those of the name"),
        )
    ),
    Option("fields.*.nested-sequence-field", MERGING, None,
           "The fields that say which of the nested rows of one key is the newest.", values=()),
    Option("fields.*.nested-key-null-strategy", MERGING, "merge",
           "The fate of nested rows whose key holds a null.", values=("merge",)),
    Option("fields.*.ts-field", MERGING, None,
           "The field that says which entry of a map is the newest.", values=()),
    Option("fields.*.default-value", READING, None,
           "The value for null in reads of Paimon 0.9 to 1.2; later releases ignore it.", values=()),
    Option("fields.*.map.storage-layout", EVERYTHING, "default",
           "Whether files hold a MAP as a ROW of shared columns.", values=("default",)),
    Option("rowkind.field", WRITING, None, "The column that holds the row kind of each row.", values=()),
    Option("ignore-update-before", WRITING, "false", "Whether writers drop -U rows.", values=("false",)),
    Option("sequence.snapshot-ordering", MERGING, "false",
           "Whether the later of two commits wins, whatever the sequence numbers in its files.", values=("false",)),
    Option("primary-key.nullable", EVERYTHING, "false", "Whether key columns may hold null.", values=("false",)),
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
    Option("write.compaction-skip", IMPLEMENTED, None, "An older name of `write-only`.",
           "write_only", BOOLEAN, newer="write-only"),
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
    Option("snapshot.num-retained.min", IMPLEMENTED, None,
           "The number of newest snapshots that commits do not expire. With one of these three options, commits expire "
           "the others, unless `write-only` is true; it is then 10 by default.",
           "snapshot_retained_min", POSITIVE),
    Option("snapshot.num-retained.max", IMPLEMENTED, None,
           "The number of newest snapshots from which on commits expire older ones whatever their age.",
           "snapshot_retained_max", POSITIVE),
    Option("snapshot.time-retained", IMPLEMENTED, None,
           "The age from which commits expire snapshots; by default 1 h, if one of the others is set.",
           "snapshot_retained_millis", DURATION),
    Option("snapshot.expire.limit", IMPLEMENTED, "50",
           "The number of snapshots that one commit expires at most.",
           "snapshots_expired_at_once", POSITIVE),
    Option("consumer.expiration-time", IMPLEMENTED, None,
           "The age of its file from which a consumer keeps no snapshots any more.",
           "consumer_expiration_millis", DURATION),
    Option("tag.default-time-retained", IMPLEMENTED, None,
           "How long a tag is kept that is made without a time of its own.",
           "tag_retained_millis", DURATION),
    Option("full-compaction.delta-commits", IMPLEMENTED, None,
           "After so many commits a write compacts the whole table fully; by default, none does. "
           "Not with changelog-producer=lookup.",
           "full_compaction_delta_commits", POSITIVE),
    Option("lookup-wait", IMPLEMENTED, "true",
           "Whether a write compacts level 0 where default reads skip it; if not, that is left to another process.",
           "lookup_wait", BOOLEAN),
    Option("changelog-producer.lookup-wait", IMPLEMENTED, None, "An older name of `lookup-wait`.",
           "lookup_wait", BOOLEAN, newer="lookup-wait"),
    Option("force-lookup", IMPLEMENTED, "false",
           "Whether compactions of level 0 merge what lies deeper, as those of changelog-producer=lookup do.",
           "force_lookup", BOOLEAN),
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
           "How much memory the rows of a write may take in one process; more are sorted in parts that lie on local "
           "disk.", "write_buffer_bytes", SIZE_BYTES),
    Option("file.block-size", IMPLEMENTED, "128 mb",
           "The size of a Parquet row group before compression.", "row_group_bytes", SIZE_BYTES),
    Option("parquet.block.row.count.limit", IMPLEMENTED, None,
           "The number of rows of a Parquet row group; by default its size decides.",
           "row_group_rows", POSITIVE),
    Option("parquet.page.row.count.limit", IMPLEMENTED, None,
           "The number of rows of a Parquet page, 20,000 by default. Small pages make point lookups cheaper.",
           "page_rows", POSITIVE),
    Option("file.format", WRITING, "parquet",
           "The format of new data files; files of all three are read.", "file_format", WORD, values=FORMATS),
    Option("file.format.per.level", WRITING, "",
           "The formats of new data files by level; other levels have that of `file.format`.",
           "level_formats", LEVEL_WORDS, values=("",), unless=FORMATS_OF_LEVELS),
    Option("file.format.per.level.*", WRITING, None, "The format of new data files of one level.", values=()),
    Option("file.compression", HARMLESS, None, "The compression of new data files, which here is always zstd."),
    Option("file.compression.zstd-level", IMPLEMENTED, "1",
           "The zstd level of new data files.", "zstd_level", POSITIVE),
    Option("data-file.path-directory", IMPLEMENTED, "",
           "The directory below the table that holds its partitions and buckets; by default the table itself.",
           "data_directory", DIRECTORY),
    # Manifests and statistics.
    Option("manifest.format", WRITING, "avro", "The format of new manifests.", values=("avro",)),
    Option("manifest.compression", HARMLESS, None,
           "The compression of new manifests, which here is always zstd."),
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
    Option("metadata.stats-dense-store", HARMLESS, None,
           "Whether manifests leave out columns without statistics, as they always do here."),
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
    Option("changelog-file.format", WRITING, None,
           "The format of changelog files; by default that of data files of the level they are about.",
           "changelog_format", WORD, values=FORMATS),
    Option("changelog-file.compression", HARMLESS, None,
           "The compression of changelog files, which here is always zstd."),
    Option("changelog-file.stats-mode", IMPLEMENTED, None,
           "The statistics of columns that manifests hold of changelog files; by default those of "
           "`metadata.stats-mode`.", "changelog_stats", STATS_MODE),
    Option("changelog-file.prefix", HARMLESS, None,
           "How the names of changelog files begin, which here is always with `changelog-`."),
    # Options that ask for other rows than those of the snapshot that is read.
    Option("branch", EVERYTHING, "main", "The branch that is read and written.", values=("main",)),
    Option("batch-scan-mode", READING, "none",
           "Whether default reads include level 0, as those of some jobs do.", values=("none",),
           unless=NO_LEVEL_IS_SKIPPED),
    Option("chain-table.enabled", EVERYTHING, "false",
           "Whether an absent partition is read from a chain of branches.", values=("false",)),
    Option("chain-table.chain-partition-keys", EVERYTHING, None,
           "The partition keys that order a chain.", values=(), unless=NO_CHAIN),
    Option("incremental-between", READING, None, "Reads the changes between two snapshots or tags.", values=()),
    Option("incremental-between-timestamp", READING, None, "Reads the changes between two times.", values=()),
    Option("incremental-to-auto-tag", READING, None, "Reads the changes up to an automatic tag.", values=()),
    Option("pk-clustering-override", EVERYTHING, "false",
           "Whether data files are sorted by other columns than the key.", values=("false",)),
    Option("postpone.merge-on-read", READING, "false",
           "Whether reads merge rows that no bucket has yet.", values=("false",), unless=NOT_POSTPONED),
    Option("query-auth.enabled", READING, "false",
           "Whether a catalog decides which rows and columns may be read.", values=("false",)),
    Option("scan.bucket", READING, None, "Reads one bucket.", values=()),
    Option("scan.creation-time-millis", READING, None, "Reads what was created after a time.", values=()),
    Option("scan.fallback-branch", READING, None,
           "The branch from which a partition is read that is absent here.", values=("",)),
    Option("scan.fallback-delta-branch", EVERYTHING, None,
           "The branch of a chain table that holds increments.", values=(), unless=NO_CHAIN),
    Option("scan.fallback-snapshot-branch", EVERYTHING, None,
           "The branch of a chain table that holds whole partitions.", values=(), unless=NO_CHAIN),
    Option("scan.file-creation-time-millis", READING, None,
           "Reads the data files created after a time.", values=()),
    Option("scan.mode", READING, "default", "Where a read begins.", values=WHOLE_READS),
    Option("log.scan", READING, None, "An older name of `scan.mode`.", values=WHOLE_READS, newer="scan.mode"),
    Option("scan.primary-branch", READING, None, "The branch that is read before this one.", values=("",)),
    Option("scan.snapshot-id", READING, None,
           "Reads one snapshot; pass `snapshot` to the read instead.", values=()),
    Option("scan.tag-name", READING, None, "Reads one tag; pass `tag` to the read instead.", values=()),
    Option("scan.timestamp", READING, None,
           "Reads as of a time; pass `timestamp` to the read instead.", values=()),
    Option("scan.timestamp-millis", READING, None,
           "Reads as of a time; pass `timestamp` to the read instead.", values=()),
    Option("log.scan.timestamp-millis", READING, None, "An older name of `scan.timestamp-millis`.",
           values=(), newer="scan.timestamp-millis"),
    Option("scan.version", READING, None,
           "Reads one snapshot or tag; pass `snapshot` or `tag` to the read instead.", values=()),
    Option("scan.watermark", READING, None, "Reads the first snapshot from a watermark on.", values=()),
    # Options of which more is to be said than that they are ignored.
    Option("path", HARMLESS, None, "Where the table lies; the path that it was opened by is used."),
    Option("owner", HARMLESS, None, "The owner of the table."),
    Option("comment", HARMLESS, None, "The comment of the table; the one of the schema is used."),
    Option("commit.force-compact", HARMLESS, None,
           "Whether a write waits for its compaction, as it always does here."),
    Option("consumer-id", HARMLESS, None, "The consumer that a streaming read of Paimon goes on from."),
    Option("data-file.thin-mode", HARMLESS, None,
           "Whether new files leave out the second copy of the key; here they never do, and both are read."),
    Option("dynamic-partition-overwrite", HARMLESS, None,
           "Whether an INSERT OVERWRITE of Paimon replaces the partitions it writes; `overwrite` has a condition."),
    Option("global-index.column-update-action", HARMLESS, None,
           "The effect of an update on the index of its column; tables that have such an index are only read."),
    Option("lookup-compact", HARMLESS, None,
           "Whether every write compacts level 0, as it always does here, or only some do."),
    Option("metadata.iceberg.storage", HARMLESS, None,
           "Where Paimon also writes Iceberg metadata, which lag until its next commit."),
    Option("orc.timestamp-ltz.legacy.type", HARMLESS, None,
           "Whether ORC files hold instants shifted by the zone of a JVM; they are read as in a JVM in UTC."),
    Option("partition.expiration-time", HARMLESS, None,
           "The age from which `expire_partitions` removes a partition; reads show it until then."),
    Option("record-level.expire-time", HARMLESS, None,
           "The age from which a compaction of Paimon may drop a row; here it keeps it."),
    Option("table-read.sequence-number.enabled", HARMLESS, None,
           "Whether Paimon's audit log shows sequence numbers."),
    # Options of Paimon that ask writers for more than is implemented.
    Option("commit.callbacks", WRITING, None, "Java classes that run after each commit.", values=("",)),
    Option("commit.strict-mode.last-safe-snapshot", WRITING, None,
           "The snapshot from which on no other may have compacted or overwritten what a commit writes.", values=()),
    Option("data-file.external-paths", WRITING, None,
           "Where new data files go outside of the table.", values=(), unless=NO_STRATEGY),
    Option("data-file.external-paths.strategy", WRITING, "none",
           "How an external path is chosen.", values=("none",)),
    Option("data-file.external-paths.specific-fs", HARMLESS, None,
           "The file system of a strategy that is refused."),
    Option("global-index.external-path", WRITING, None,
           "Where files of global indexes lie outside of the table.", values=()),
    Option("partition.timestamp-format.strict", WRITING, "false",
           "Whether writers refuse partition values that are no times.", values=("false",)),
    *(
        Option(name, WRITING, None, "An index that compactions must keep, since searches rely on it.", values=())
        for name in ("pk-full-text.index.columns", "pk-vector.index.columns", "fields.*.pk-full-text.index.options",
                     "fields.*.pk-vector.distance.metric", "fields.*.pk-vector.index.options",
                     "fields.*.pk-vector.index.type")
    ),
    Option("tag.automatic-creation", WRITING, "none",
           "Whether commits create a tag for each period.", values=("none", "batch"), unless=OTHERS_MAKE_TAGS),
    Option("upsert-key", WRITING, None, "The columns by which Spark merges appended rows.", values=()),
    # Options that say that files hold columns in another way.
    Option("type", EVERYTHING, "table", "The kind of table in a catalog.", values=("table", "materialized-table")),
    *(
        Option(name, EVERYTHING, None, "Columns whose values lie elsewhere.", values=())
        for name in ("blob-descriptor-field", "blob-field", "blob-view-field", "blob.stored-descriptor-fields",
                     "vector.file.format", "video-frame-field")
    ),
    *(
        Option(name, HARMLESS, None, subject, is_one_of_many=True)
        for subject, names in HARMLESS_NAMES.items()
        for name in names.split()
    ),
)
# fmt: on
"""Every option that is known, by subject."""

_EXACT: Final = {option.name: option for option in OPTIONS if "*" not in option.name}
_PATTERNS: Final = [
    (re.compile(re.escape(option.name).replace(r"\*", ".*")), option)
    for option in sorted(OPTIONS, key=lambda one: len(one.name), reverse=True)
    if "*" in option.name
]


def option_named(name: str) -> Option | None:
    """Return the option that ``name`` names, None if none is known. Of patterns the longest counts."""
    if name in _EXACT:
        return _EXACT[name]
    return next((option for pattern, option in _PATTERNS if pattern.fullmatch(name)), None)


def closest_name(name: str) -> str | None:
    """Return the option whose name is most like ``name``, of those that may be set; None if none is like it."""
    supported = [option.name for option in _EXACT.values() if option.takes != NO_VALUE]
    return next(iter(get_close_matches(name, supported, n=1, cutoff=ALIKE)), None)
