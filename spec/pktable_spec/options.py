"""Table options: Paimon's names and defaults, parsed once, refused by name where not implemented.

`pktable_spec.option_table` lists the options that are known. `parse_options` goes through the options of a table:

1. An implemented option is parsed into its field of `TableOptions`; a malformed value is refused at once.
2. A harmless option is ignored.
3. Any other option, and any value that is not honoured, is remembered as an error. `require_writable`,
   `require_readable` and `require_mergeable` raise it when the table is about to do what the option would change.

So a reader may open a table that only a writer must refuse.

Clauses: TBL-9, LSM-9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.option_table import (
    MERGE_ENGINES,
    OPTIONS,
    Effect,
    Option,
    StatsMode,
    closest_name,
    option_named,
)

__all__ = ["MERGE_ENGINES", "OPTIONS", "Effect", "Option", "StatsMode", "TableOptions", "parse_options"]

UNKNOWN: Final = "one of the implemented options, which `pktable options` lists"
FIXED: Final = "a fixed number of buckets, at least 1"
DYNAMIC_BUCKETS: Final = -1
"""The number of buckets that says of a key table that they grow in number, and of an append table that it has none."""
POSTPONE_BUCKET: Final = -2
"""The number of buckets that says of a key table that rows wait in a bucket of their own."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The implemented options of one table. Sizes in bytes, ratios in percent; defaults are those of `OPTIONS`.

    ``changelog_retained_millis``: None, as its two neighbours, if the option is absent.
    ``changelog_stats``: None if the option is absent.
    ``delete_ratio_threshold``: a share of rows, None if the option is absent.
    ``full_compaction_delta_commits``: a number of commits, None if the option is absent.
    """

    bucket: int
    bucket_key: tuple[str, ...]
    bucket_function: str
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
    delete_ratio_threshold: Fraction | None
    full_compaction_delta_commits: int | None
    index_target_bytes: int
    open_file_cost_bytes: int
    row_group_rows: int | None
    page_rows: int | None
    zstd_level: int
    data_directory: str
    manifest_target_bytes: int
    manifest_merge_min_count: int
    manifest_full_compaction_bytes: int
    stats: StatsMode
    changelog_stats: StatsMode | None
    changelog_producer: str
    changelog_row_deduplicate: bool
    changelog_ignored_fields: tuple[str, ...]
    unreadable: tuple[UnsupportedOptionError, ...] = ()
    unwritable: tuple[UnsupportedOptionError, ...] = ()
    unmergeable: tuple[UnsupportedOptionError, ...] = ()

    @property
    def max_level(self) -> int:
        return self.levels - 1

    def stats_of(self, *, changelog: bool) -> StatsMode:
        """Return which statistics data files or changelog files have. Clauses: CHG-25."""
        return self.changelog_stats if changelog and self.changelog_stats is not None else self.stats

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
        return self.one_record_per_key or self.changelog_producer == "lookup"

    @property
    def deeper_rows_are_merged(self) -> bool:
        """Whether a record above level 0 holds what deeper ones of its key hold, without deletion vectors.

        Clauses: CHG-19, CHG-20.
        """
        computed = self.merge_engine not in ("deduplicate", "first-row") or self.remembers_deletions
        return computed and self.changelog_producer == "lookup" and not self.deletion_vectors_enabled

    @property
    def remembers_deletions(self) -> bool:
        """Whether compactions keep retractions at every level, as a late record may be older. Clauses: MRG-21."""
        return bool(self.sequence_fields)

    @property
    def full_compaction_forgets_deletions(self) -> bool:
        """Whether a full compaction drops these retractions. Clauses: MRG-22."""
        return self.kept_retractions != "keep"

    def require_writable(self) -> None:
        """Raise UnsupportedOptionError if a writer cannot honour every option of the table."""
        for error in (*self.unwritable, *self.unreadable, *self.unmergeable):
            raise error

    def require_fixed_buckets(self) -> None:
        """Raise UnsupportedOptionError unless the number of buckets is fixed. Other tables are only read.

        Clauses: TBL-20.
        """
        if self.bucket < 1:
            kinds = {DYNAMIC_BUCKETS: "dynamic buckets", POSTPONE_BUCKET: "a postpone bucket"}
            what = f"; a table with {kinds[self.bucket]} can only be read" if self.bucket in kinds else ""
            raise UnsupportedOptionError("bucket", str(self.bucket), FIXED + what)

    def require_readable(self) -> None:
        """Raise UnsupportedOptionError if an option asks for other rows than those a snapshot holds."""
        for error in self.unreadable:
            raise error

    def require_mergeable(self) -> None:
        """Raise UnsupportedOptionError if merging would need a merge engine that is not implemented."""
        for error in self.unmergeable:
            raise error


def parse_options(options: Mapping[str, str]) -> TableOptions:
    """Return the parsed options. Raises InvalidRequestError for a malformed value.

    Clauses: TBL-9, LSM-9.
    """
    parsed: dict[str, object] = {}
    unreadable: list[UnsupportedOptionError] = []
    unwritable: list[UnsupportedOptionError] = []
    unmergeable: list[UnsupportedOptionError] = []
    refused_by = {Effect.READING: unreadable, Effect.MERGING: unmergeable}
    for name, value in options.items():
        option, text = option_named(name), str(value)
        if option is None:
            unwritable.append(UnsupportedOptionError(name, text, UNKNOWN, closest_name(name)))
            continue
        if option.field is not None:
            parsed[option.field] = option.parse(text)
        if not option.honours(text):
            error = UnsupportedOptionError(name, text, option.expected)
            refused_by.get(option.effect, unwritable).append(error)
    for option in OPTIONS:
        if option.field is not None and option.field not in parsed:
            parsed[option.field] = option.parse(option.default)
    if parsed["levels"] is None:
        parsed["levels"] = int(str(parsed["compaction_trigger"])) + 1
    result = TableOptions(
        **parsed,  # type: ignore[arg-type]
        unreadable=tuple(unreadable),
        unwritable=tuple(unwritable),
        unmergeable=tuple(unmergeable),
    )
    least, most = result.changelog_retained_min, result.changelog_retained_max
    if least is not None and most is not None and least > most:
        raise InvalidRequestError(
            f"option changelog.num-retained.min={least}: expected at most changelog.num-retained.max={most}"
        )
    if result.levels < 2:
        raise InvalidRequestError(f"option num-levels={result.levels}: expected at least 2")
    return result
