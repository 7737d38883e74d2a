"""The options the mechanism depends on, under Paimon's names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pktable_spec.model.merge import DEDUPLICATE, MergeEngine, UserOrder, engine_of, retracts_apart
from pktable_spec.vocabulary import COMPACT

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


@dataclass(frozen=True)
class ModelOptions:
    """The options that decide picks, levels, upgrades and merges of one bucket. Sizes in bytes.

    Clauses: BKT-5, BKT-7, LSM-3, LSM-9, CMP-4, CMP-5, CMP-28, CMP-30, MRG-1, MRG-19.
    """

    deletion_vectors: bool = True
    trigger: int = 5
    num_levels: int = 6
    max_amplification_percent: int = 200
    size_ratio_percent: int = 1
    target_file_size: int = 128 << 20
    bucket_count: int = 1
    keys_per_bucket: int = 2_000_000
    assigners: int = 1
    merge_engine: MergeEngine = DEDUPLICATE
    delete_ratio_threshold: Fraction | None = None
    changelog_producer: str = "none"
    force_lookup: bool = False
    order: UserOrder | None = None
    full_compaction_delta_commits: int | None = None

    @property
    def has_dynamic_buckets(self) -> bool:
        """Whether an index says in which bucket a key is. Clauses: BKT-1."""
        return self.bucket_count == -1

    @property
    def max_level(self) -> int:
        return self.num_levels - 1

    @property
    def one_record_per_key(self) -> bool:
        """Whether levels above 0 hold at most one live record per key, and default reads skip level 0."""
        return self.deletion_vectors or self.merge_engine.lookup == "presence"

    @property
    def looks_up_values(self) -> bool:
        """Whether a compaction reads the rows it replaces in older files, not only their positions."""
        return self.deletion_vectors and self.merge_engine.lookup == "values"

    @property
    def deeper_rows_are_merged(self) -> bool:
        """Whether a record above level 0 holds what deeper ones of its key hold. Clauses: CHG-19, CHG-20, CHG-35."""
        computed = self.merge_engine.lookup == "values" or self.order is not None
        return computed and self.looks_up

    @property
    def lookup_decides_rows(self) -> bool:
        """Whether the records that a compaction writes depend on older files that it does not rewrite."""
        return self.looks_up_values or self.deeper_rows_are_merged or self.merge_engine.lookup == "presence"

    @property
    def retractions_take_all(self) -> bool:
        """Whether a compaction with retractions takes all runs, because it looks nothing up. Clauses: MRG-8."""
        looks_up = self.looks_up_values or self.deeper_rows_are_merged
        return retracts_apart(self.merge_engine) and not looks_up

    @property
    def compacts_level_zero(self) -> bool:
        """Whether a compaction takes level 0 if nothing else is picked. Clauses: CMP-20, CHG-16."""
        return self.one_record_per_key or self.looks_up

    @property
    def looks_up(self) -> bool:
        """Whether every compaction looks up what lies deeper. Clauses: CHG-16, CHG-35."""
        return self.force_lookup or self.changelog_producer == "lookup"

    @property
    def records_full_compactions(self) -> bool:
        """Whether compactions to the greatest level record the changes. Clauses: CHG-7."""
        return self.changelog_producer == "full-compaction"

    @property
    def recorded_from(self) -> int | None:
        """The level from which on the rows are those that a compaction's changelog compares; None if it writes none.

        Clauses: CHG-5, CHG-7.
        """
        return {"lookup": 1, "full-compaction": self.max_level}.get(self.changelog_producer)

    def full_compaction_is_due(self, snapshots: Iterable[tuple[str, Collection[int]]]) -> bool:
        """Return whether the write after some snapshots compacts all buckets fully. Clauses: CMP-30.

        ``snapshots``: the newest first, each by its kind and the levels that it has files at. There is none after them.
        """
        if self.full_compaction_delta_commits is None:
            return False
        commits = 1
        for kind, levels in snapshots:
            if set(levels) <= {self.max_level}:
                break
            commits += kind != COMPACT
        return commits >= self.full_compaction_delta_commits

    @property
    def hides_retractions(self) -> bool:
        """Whether retractions stay for ever, deleted by the vector of their own file. Clauses: MRG-21, DV-21."""
        return self.deletion_vectors and self.order is not None

    @property
    def large_file_size(self) -> float:
        """The size from which a file alone in its section is upgraded. Clauses: CMP-23."""
        return self.target_file_size * 0.7

    @staticmethod
    def parse(options: Mapping[str, str], columns: Sequence[str] = ()) -> ModelOptions:
        """Read the options that matter here; the others are somebody else's to refuse. ``columns``: their names."""
        fields = [name.strip() for name in options.get("sequence.field", "").split(",") if name.strip()]
        descending = options.get("sequence.field.sort-order", "ascending") == "descending"
        trigger = int(options.get("num-sorted-run.compaction-trigger", "5"))
        threshold = options.get("compaction.delete-ratio-threshold")
        commits = options.get("full-compaction.delta-commits")
        return ModelOptions(
            deletion_vectors=options.get("deletion-vectors.enabled", "false") == "true",
            trigger=trigger,
            num_levels=int(options.get("num-levels", str(trigger + 1))),
            max_amplification_percent=int(options.get("compaction.max-size-amplification-percent", "200")),
            size_ratio_percent=int(options.get("compaction.size-ratio", "1")),
            target_file_size=parse_size(options.get("target-file-size", "128 mb")),
            bucket_count=int(options.get("bucket", "1")),
            keys_per_bucket=int(options.get("dynamic-bucket.target-row-num", "2000000")),
            assigners=int(options.get("dynamic-bucket.initial-buckets", "1")),
            merge_engine=engine_of(options, columns),
            order=UserOrder(tuple(map(columns.index, fields)), descending) if fields else None,
            delete_ratio_threshold=None if threshold is None else Fraction(threshold),
            changelog_producer=options.get("changelog-producer", "none"),
            force_lookup=options.get("force-lookup") == "true",
            full_compaction_delta_commits=None if commits is None else int(commits),
        )


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``128 mb``."""
    number, _, unit = text.strip().lower().partition(" ")
    return int(number) * _UNITS[unit or "b"]
