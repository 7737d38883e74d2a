"""Table options: Paimon's names and defaults, parsed once, refused by name where not implemented.

`pktable_spec.option_table` lists the options that are known. `parse_options` goes through the options of a table:

1. An implemented option is parsed into its field of `TableOptions`; a malformed value is refused at once.
2. A harmless option is ignored. So is an older name of an option that is there under its newer one.
3. Any other option, and any value that is not honoured, is remembered as an error. `require_writable`,
   `require_readable`, `require_mergeable` and `require_changes_readable` raise it when the table is about to do what
   the option would change.
4. A name that nobody knows is remembered as such, too, if it does not begin as options do that change rows.

So a reader may open a table that only a writer must refuse. The options that the caller ignores are refused by writers
only.

Clauses: TBL-9, TBL-30 to TBL-36, LSM-9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.option_table import (
    CHANGING_ROWS,
    MERGE_ENGINES,
    OPTIONS,
    closest_name,
    option_named,
)
from pktable_spec.option_values import Effect, Option, StatsMode

__all__ = [
    "MERGE_ENGINES",
    "OPTIONS",
    "Effect",
    "Option",
    "StatsMode",
    "TableOptions",
    "option_named",
    "parse_options",
]

UNKNOWN: Final = "one of the implemented options, which `pktable options` lists"
NOT_KNOWN_TO_BE_HARMLESS: Final = (
    "an option whose meaning is known, because one that begins so may change rows; "
    "a read ignores it if it is among `ignore_options`"
)
WRITABLE_BUCKETS: Final = (
    "a fixed number of buckets, at least 1, -1 for dynamic ones, or -2 for rows that wait"
)
DYNAMIC_BUCKETS: Final = -1
"""Written as the number of buckets: in a key table they grow in number, an append table has none."""
POSTPONE_BUCKET: Final = -2
"""The number of buckets that says of a key table that rows wait in a bucket of their own."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The implemented options of one table. Sizes in bytes, ratios in percent; defaults are those of `OPTIONS`.

    ``changelog_retained_*``, ``snapshot_retained_*``, ``consumer_expiration_millis``: None if the option is absent.
    ``changelog_stats``, ``changelog_format``, ``tag_retained_millis``: None if the option is absent.
    ``most_buckets``: None for no limit. ``initial_buckets``, ``assigner_parallelism``: None if the option is absent.
    ``delete_ratio_threshold``: a share of rows, None if the option is absent.
    ``full_compaction_delta_commits``: a number of commits, None if the option is absent.
    ``unusable``: what forbids reads of rows and of changes. ``unreadable``, ``unmergeable``: what forbids reads of
    rows, and those that merge. ``unwritable``: what forbids writes and compactions.
    ``unknown``: the names that nobody knows and that forbid no read.
    """

    bucket: int
    bucket_key: tuple[str, ...]
    bucket_function: str
    keys_per_bucket: int
    most_buckets: int | None
    initial_buckets: int | None
    assigner_parallelism: int | None
    buckets_of_waiting: int
    partition_default_name: str
    partition_legacy_names: bool
    deletion_vectors_enabled: bool
    deletion_vectors_bitmap64: bool
    read_merges_level_zero: bool
    index_in_data_directory: bool
    merge_engine: str
    sequence_fields: tuple[str, ...]
    sequence_order: str
    kept_retractions: str
    write_only: bool
    lookup_wait: bool
    force_lookup: bool
    compaction_trigger: int
    levels: int
    max_size_amplification_percent: int
    size_ratio_percent: int
    target_file_bytes: int
    write_buffer_bytes: int
    row_group_bytes: int
    min_compacted_files: int
    data_evolution: bool
    row_tracking: bool
    changelog_retained_max: int | None
    changelog_retained_min: int | None
    changelog_retained_millis: int | None
    snapshot_retained_min: int | None
    snapshot_retained_max: int | None
    snapshot_retained_millis: int | None
    snapshots_expired_at_once: int
    consumer_expiration_millis: int | None
    tag_retained_millis: int | None
    delete_ratio_threshold: Fraction | None
    full_compaction_delta_commits: int | None
    index_target_bytes: int
    open_file_cost_bytes: int
    row_group_rows: int | None
    page_rows: int | None
    zstd_level: int
    data_directory: str
    file_format: str
    level_formats: tuple[tuple[int, str], ...]
    changelog_format: str | None
    manifest_target_bytes: int
    manifest_merge_min_count: int
    manifest_full_compaction_bytes: int
    stats: StatsMode
    changelog_stats: StatsMode | None
    changelog_producer: str
    changelog_row_deduplicate: bool
    changelog_ignored_fields: tuple[str, ...]
    unusable: tuple[UnsupportedOptionError, ...] = ()
    unreadable: tuple[UnsupportedOptionError, ...] = ()
    unmergeable: tuple[UnsupportedOptionError, ...] = ()
    unwritable: tuple[UnsupportedOptionError, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def max_level(self) -> int:
        return self.levels - 1

    def stats_of(self, *, changelog: bool) -> StatsMode:
        """Return which statistics data files or changelog files have. Clauses: CHG-25."""
        return self.changelog_stats if changelog and self.changelog_stats is not None else self.stats

    def format_of(self, level: int, *, changelog: bool) -> str:
        """Return the format of new data files of a level, or of changelog files about it. Clauses: META-71."""
        if changelog and self.changelog_format is not None:
            return self.changelog_format
        return dict(self.level_formats).get(level, self.file_format)

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats that new files may have, each with an option that says so."""
        changelogs = {} if self.changelog_format is None else {self.changelog_format: "changelog-file.format"}
        levels = {one: "file.format.per.level" for _, one in self.level_formats}
        return {**changelogs, **levels, self.file_format: "file.format"}

    @property
    def hashes_buckets(self) -> bool:
        """Whether the bucket of a key can be computed: by Paimon's default hash, over a fixed number of buckets."""
        return self.bucket > 0 and self.bucket_function == "default"

    @property
    def one_record_per_key(self) -> bool:
        """Whether levels above 0 hold at most one live record per key, and a default read skips level 0."""
        return self.deletion_vectors_enabled or self.merge_engine == "first-row"

    @property
    def leaves_compaction(self) -> bool:
        """Whether writes leave compaction to another process. Clauses: CMP-17."""
        return self.write_only or (self.compacts_level_zero and not self.lookup_wait)

    @property
    def compacts_level_zero(self) -> bool:
        """Whether every compaction takes all files of level 0. Clauses: CMP-3, CHG-16."""
        return self.one_record_per_key or self.looks_up

    @property
    def looks_up(self) -> bool:
        """Whether a compaction of level 0 looks up what lies deeper, whatever else it needs it for.

        Clauses: CHG-16, CHG-35.
        """
        return self.force_lookup or self.changelog_producer == "lookup"

    @property
    def records_full_compactions(self) -> bool:
        """Whether compactions to the greatest level record the changes. Clauses: CHG-7."""
        return self.changelog_producer == "full-compaction"

    @property
    def deeper_rows_are_merged(self) -> bool:
        """Whether a record above level 0 holds what deeper ones of its key hold, without deletion vectors.

        Clauses: CHG-19, CHG-20, CHG-35.
        """
        computed = self.merge_engine not in ("deduplicate", "first-row") or self.remembers_deletions
        return computed and self.looks_up and not self.deletion_vectors_enabled

    @property
    def remembers_deletions(self) -> bool:
        """Whether compactions keep retractions at every level, as a late record may be older. Clauses: MRG-21."""
        return bool(self.sequence_fields)

    @property
    def full_compaction_forgets_deletions(self) -> bool:
        """Whether a full compaction drops these retractions. Clauses: MRG-22."""
        return self.kept_retractions != "keep"

    def require_writable(self) -> None:
        """Raise UnsupportedOptionError if a writer cannot honour every option of the table. Clauses: TBL-9, TBL-33."""
        for error in self.unwritable:
            raise error

    def require_writable_buckets(self) -> None:
        """Raise UnsupportedOptionError unless the option `bucket` of a table with a primary key is one that is written.

        Clauses: BKT-1, BKT-13, TBL-20.
        """
        if self.bucket < 1 and self.bucket not in (DYNAMIC_BUCKETS, POSTPONE_BUCKET):
            raise UnsupportedOptionError("bucket", str(self.bucket), WRITABLE_BUCKETS)
        if self.bucket == DYNAMIC_BUCKETS and self.bucket_key:
            expected = "the option to be absent where bucket is -1: a key has one bucket whatever it is"
            raise UnsupportedOptionError("bucket-key", ",".join(self.bucket_key), expected)

    def require_readable(self) -> None:
        """Raise UnsupportedOptionError if an option asks for other rows than those a snapshot holds.

        Clauses: TBL-30, TBL-34.
        """
        for error in (*self.unusable, *self.unreadable):
            raise error

    def require_mergeable(self) -> None:
        """Raise UnsupportedOptionError if records are merged in a way that is not implemented. Clauses: TBL-31."""
        for error in self.unmergeable:
            raise error

    def require_changes_readable(self) -> None:
        """Raise UnsupportedOptionError if an option says that files hold rows in another way.

        A read of changes says itself of which snapshots. Clauses: TBL-30, TBL-34.
        """
        for error in self.unusable:
            raise error


def parse_options(options: Mapping[str, str], ignored: Collection[str] = ()) -> TableOptions:
    """Return the parsed options. Raises InvalidRequestError for a malformed value.

    ``ignored``: the names that no read refuses, since the caller says so; writers do.
    Clauses: TBL-9, TBL-30 to TBL-36, LSM-9.
    """
    parsed: dict[str, object] = {}
    unusable: list[UnsupportedOptionError] = []
    unreadable: list[UnsupportedOptionError] = []
    unmergeable: list[UnsupportedOptionError] = []
    unwritable: list[UnsupportedOptionError] = []
    unknown = []
    refused_by = {
        Effect.EVERYTHING: (unusable, unwritable),
        Effect.READING: (unreadable,),
        Effect.MERGING: (unmergeable, unwritable),
        Effect.WRITING: (unwritable,),
    }
    texts = {name: str(value) for name, value in options.items()}
    for name, text in texts.items():
        option = option_named(name)
        if option is None:
            closest = closest_name(name)
            unwritable.append(UnsupportedOptionError(name, text, UNKNOWN, closest))
            if name.startswith(CHANGING_ROWS):
                unusable.append(UnsupportedOptionError(name, text, NOT_KNOWN_TO_BE_HARMLESS))
            else:
                unknown.append(name)
            continue
        if option.newer in texts:
            continue
        if option.field is not None:
            parsed[option.field] = option.parse(text)
        if not option.honours(text, texts):
            for side in refused_by[option.effect]:
                side.append(UnsupportedOptionError(name, text, option.expected))
    for option in OPTIONS:
        if option.field is not None and option.field not in parsed:
            parsed[option.field] = option.parse(option.default)
    if parsed["levels"] is None:
        parsed["levels"] = int(str(parsed["compaction_trigger"])) + 1
    result = TableOptions(
        **parsed,  # type: ignore[arg-type]
        unusable=_without(ignored, unusable),
        unreadable=_without(ignored, unreadable),
        unmergeable=_without(ignored, unmergeable),
        unwritable=tuple(unwritable),
        unknown=tuple(name for name in unknown if name not in ignored),
    )
    for kept, least, most in (
        ("changelog", result.changelog_retained_min, result.changelog_retained_max),
        ("snapshot", result.snapshot_retained_min, result.snapshot_retained_max),
    ):
        if least is not None and most is not None and least > most:
            raise InvalidRequestError(
                f"option {kept}.num-retained.min={least}: expected at most {kept}.num-retained.max={most}"
            )
    if result.levels < 2:
        raise InvalidRequestError(f"option num-levels={result.levels}: expected at least 2")
    return result


def _without(
    ignored: Collection[str], errors: Iterable[UnsupportedOptionError]
) -> tuple[UnsupportedOptionError, ...]:
    return tuple(error for error in errors if error.option not in ignored)
