"""Whether a staged compaction must be refused when it commits, and by which clauses: the oracle's answer.

Nothing is asked of the implementation but what its snapshots show. For each bucket of a staged compaction

1. the snapshot it was planned on and the latest one become states of the oracle (`OracleStates`);
2. the oracle's mechanism plans the same pick on the first state, records, vectors and all;
3. the mechanism says which clauses forbid to commit that plan on the second state.

The table must refuse exactly if a clause forbids the commit in some bucket, and it must name one such clause. Where
several apply at once the clauses do not say which comes first, so any of them is right.

The subtle case is CMT-8. A DV index file may have been replaced twice, so that the vectors are what they were and the
file is another: an implementation that compares files refuses, one that compares vectors commits, and both are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pktable_spec.interface import BucketId, StoredRecord
from pktable_spec.model.levels import DataFile, FileId
from pktable_spec.model.mechanism import Mechanism, State
from pktable_spec.model.picks import Pick

from pktable_conform.judge.layout import ExpectedCompaction, FileKey, Layout

SAME_INDEX = "CMT-8"


class OracleStates:
    """The layouts of one table as states of the oracle. Files have a number in each bucket, by age."""

    def __init__(self) -> None:
        self._numbers: dict[BucketId, dict[str, FileId]] = {}
        self._files: dict[BucketId, list[DataFile]] = {}

    def add(self, layout: Layout, records: Mapping[FileKey, Sequence[StoredRecord]]) -> None:
        """Give the new files of ``layout`` their numbers; ``records`` holds what is in them."""
        for file in sorted(layout.files.values(), key=lambda file: (file.created, file.level, file.min_key)):
            numbers = self._numbers.setdefault(file.bucket, {})
            if file.name not in numbers:
                files = self._files.setdefault(file.bucket, [])
                numbers[file.name] = len(files)
                files.append(DataFile(tuple(records[file.bucket, file.name]), file.level))

    def state(self, layout: Layout, bucket: BucketId) -> State:
        """Return the state of a bucket at a snapshot, with nothing staged."""
        numbers = self._numbers.get(bucket, {})
        return State(
            files=tuple(self._files.get(bucket, ())),
            live=frozenset(
                (numbers[file.name], file.level) for file in layout.files.values() if file.bucket == bucket
            ),
            vectors=frozenset(
                (numbers[name], position)
                for name, positions in layout.vectors_of(bucket).items()
                for position in positions
            ),
        )

    def numbered(self, pick: Pick, bucket: BucketId) -> Pick:
        """Return a pick of files by name as a pick of the same files by number."""
        numbers = self._numbers[bucket]
        return pick._replace(files=tuple(file._replace(name=numbers[str(file.name)]) for file in pick.files))


@dataclass(frozen=True)
class Refusals:
    """The clauses by which a commit must be refused, and those by which it may be."""

    must: frozenset[str]
    may: frozenset[str]

    def problem_of(self, clause: str | None) -> str | None:
        """Return what is wrong with a commit that was refused by ``clause`` (None: not refused), None if nothing."""
        broken = ", ".join(sorted(self.must))
        if clause is None:
            return f"committed, though it breaks {broken}" if self.must else None
        if clause in self.must | self.may:
            return None
        return f"refused by {clause}, though it breaks {f'only {broken}' if self.must else 'no clause'}"


def refusals(
    mechanism: Mechanism,
    states: OracleStates,
    base: Layout,
    latest: Layout,
    compactions: Mapping[BucketId, ExpectedCompaction],
) -> Refusals:
    """Return by which clauses ``compactions``, planned on ``base``, must or may be refused on ``latest``.

    Clauses: CMT-7, CMT-8, CMT-9, CMT-11, CMT-14.
    """
    must, may = set[str](), set[str]()
    for bucket, expected in compactions.items():
        large = mechanism.options.large_file_size
        plan = mechanism.plan(
            states.state(base, bucket),
            states.numbered(expected.pick, bucket),
            lambda file, large=large: file.size >= large,  # type: ignore[misc]
        )
        must |= set(mechanism.conflicts(states.state(latest, bucket), plan))
        if base.index_files.get(bucket) != latest.index_files.get(bucket):
            may.add(SAME_INDEX)
    return Refusals(frozenset(must), frozenset(may))
