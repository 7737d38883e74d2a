"""Make the index of the next log file of a file slice.

The index covers every log file that is there, whether its commit is complete or not: a file of a commit that is still
open may be complete by the time somebody asks. A file without an index is decoded for its keys, once: from then on the
new index answers for it.

1. The newest index of the slice is extended by the keys of the new file, and of the files that it does not cover.
2. If its filter is full, one of twice the size is made of the keys of all these files, which their indexes have. So
   each file of a clique is read for that about once, and small writes have small indexes.
3. If its clique is full, a new clique begins, and the chain names the old one.
4. If it was made for an earlier file slice (while a compaction was planned that is complete now), it admits keys that
   the base file has taken over. Then an exact one is made of the files of this slice.

Clauses: LOG-38 to LOG-42, LOG-45, LOG-46, LOG-79.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pktable.store.file_io import FileIO

from pktable_hudi.format.bloom import (
    HashedKeys,
    SimpleFilter,
    capacity,
    filter_of,
    filter_of_shape,
)
from pktable_hudi.format.key_summary import KeyCollation, KeySummary
from pktable_hudi.format.log_block import BlockKind, HeaderKey, blocks
from pktable_hudi.format.log_index import LogIndex, Member, decode_keys
from pktable_hudi.format.names import LogFileName
from pktable_hudi.log_rows import SIGNS, Wanted, block_rows
from pktable_hudi.log_scan import PlacedBlock, rolled_back
from pktable_hudi.lookup import index_of_file, opened
from pktable_hudi.slices import FileSlice

POINTER, LIST = "pointer", "list"


@dataclass(frozen=True)
class IndexPolicy:
    """How log files are indexed.

    ``false_positives``: how many of the absent keys a filter admits. ``clique_keys``: the number of keys at which a
    clique ends. ``first_keys``: the number of keys that `all` is sized for at least. ``clique_files``: the number
    of log files at which a clique ends, None for no limit. ``chain``: whether the chain names the clique before
    (``pointer``) or all of them (``list``).
    """

    false_positives: float = 0.001
    clique_keys: int = 1 << 12
    first_keys: int = 1 << 6
    clique_files: int | None = None
    chain: str = POINTER


DEFAULT: Final = IndexPolicy()


@dataclass(frozen=True)
class IndexWriter:
    """Makes indexes for one file slice. ``slice``: with all log files that are there, of open commits too.

    ``pending``: whether a compaction of the file group is planned.
    """

    store: FileIO
    root: str
    slice: FileSlice
    pending: bool = False
    policy: IndexPolicy = DEFAULT

    def next_index(self, instant: str, keys: Sequence[str]) -> LogIndex:
        """Return the index of a new log file of ``instant`` with the records of ``keys``, in order.

        Raises CorruptFileError. Clauses: LOG-42, LOG-45, LOG-46, LOG-79.
        """
        head, others, rolled = self._head()
        added = sorted({*keys, *(key for log in others for key in self._keys(log.name))})
        members = [Member(log.name, self.slice.sizes[log.name]) for log in others]
        chain: tuple[Member, ...] = ()
        before: LogIndex | None = None
        if head is not None:
            log, index = head
            itself = Member(log.name, self.slice.sizes[log.name])
            clique = [itself, *index.members]
            if self._has_room(index, len(added)):
                before, members, chain = index, [*members, *clique], index.chain
            elif self._may_grow(index, clique, len(added)):
                added = sorted({*added, *(key for one in clique for key in self._keys(one.name))})
                members, chain = [*members, *clique], index.chain
            elif self.policy.chain == POINTER:
                chain = (itself,)
            else:
                chain = (itself, *(one for one in index.chain if one.name in self.slice.sizes))
        everything, count = self._extended(before, added)
        own = self._summary(sorted(set(keys)), None)
        return LogIndex(
            (instant,) if keys else (),
            self.slice.instant,
            len(set(keys)),
            own,
            count,
            everything,
            tuple(members),
            chain,
            tuple(sorted(rolled)),
            self.pending,
        )

    def _head(self) -> tuple[tuple[LogFileName, LogIndex] | None, list[LogFileName], set[str]]:
        """Return the newest index that is of this slice, the files that it does not cover, and what is rolled back.

        The cliques of its chain answer for their files themselves. Clauses: LOG-46.
        """
        head: tuple[LogFileName, LogIndex] | None = None
        covered: set[str] = set()
        chained: set[str] = set()
        others: list[LogFileName] = []
        rolled: set[str] = set()
        for log in reversed(self.slice.logs):
            if log.name in covered:
                continue
            found = index_of_file(self.store, self.slice.path(self.root, log.name))
            rolled |= self._rolled_back(log) if found is None else set(found.index.rolled_back)
            is_current = found is not None and found.index.slice == self.slice.instant
            if found is None or not is_current or not (head is None or log.name in chained):
                others.append(log)
                continue
            head = head or (log, found.index)
            covered.add(log.name)
            covered |= {one.name for one in found.index.members if self.slice.sizes.get(one.name) == one.size}
            chained |= {one.name for one in found.index.chain}
        return head, [log for log in others if log.name not in covered], rolled

    def _has_room(self, index: LogIndex, added: int) -> bool:
        """Return whether a clique takes one more file with so many keys, also as the filter it has is sized.

        Clauses: LOG-48.
        """
        if index.all is None:
            return self._is_open(index, added)
        assert isinstance(index.all.filter, SimpleFilter)
        most = capacity(index.all.filter, self.policy.false_positives)
        return self._is_open(index, added) and index.all_count + added <= most

    def _may_grow(self, index: LogIndex, clique: Sequence[Member], added: int) -> bool:
        """Return whether a larger filter can be made of the keys of a clique: all its files are there as they were."""
        sizes = self.slice.sizes
        return self._is_open(index, added) and all(sizes.get(one.name) == one.size for one in clique)

    def _is_open(self, index: LogIndex, added: int) -> bool:
        policy, files = self.policy, self.policy.clique_files
        return index.all_count + added <= policy.clique_keys and (
            files is None or len(index.members) + 1 < files
        )

    def _extended(self, before: LogIndex | None, added: Sequence[str]) -> tuple[KeySummary | None, int]:
        if before is None or before.all is None:
            most, fewest = self.policy.clique_keys, self.policy.first_keys
            sized_for = min(most, max(fewest, 2 * len(added)))
            return self._summary(added, max(sized_for, len(added))), len(added)
        if not added:
            return before.all, before.all_count
        known = before.all
        assert isinstance(known.filter, SimpleFilter)
        more = filter_of_shape(_hashed(added), known.filter.bit_count, known.filter.hash_count)
        low, high = (
            choose((first, second), key=KeyCollation.BYTES.of)
            for choose, first, second in (
                (min, known.low, _least(added)),
                (max, known.high, _greatest(added)),
            )
        )
        summary = KeySummary(low, high, KeyCollation.BYTES, known.filter.union(more))
        return summary, before.all_count + len(added)

    def _summary(self, keys: Sequence[str], sized_for: int | None) -> KeySummary | None:
        if not keys:
            return None
        made = filter_of(
            KeyCollation.BYTES.of_all(keys),
            sized_for=sized_for or len(keys),
            false_positives=self.policy.false_positives,
        )
        return KeySummary(_least(keys), _greatest(keys), KeyCollation.BYTES, made)

    def _keys(self, log: str) -> list[str]:
        """Return the keys of a log file: from its index if it has one, else from its records."""
        path = self.slice.path(self.root, log)
        found = index_of_file(self.store, path)
        if found is not None and found.keys_at is not None:
            offset, size = found.keys_at

            def read(file: object) -> pa.Array:
                file.seek(offset)  # type: ignore[attr-defined]
                return decode_keys(bytes(file.read(size)), found, at=path)[0]  # type: ignore[attr-defined]

            keys: list[str] = opened(self.store, path, read).to_pylist()
            return keys
        rows = [
            block_rows(PlacedBlock(one, one.text(HeaderKey.INSTANT, path), path), Wanted(SIGNS[:1], None))
            for one in blocks(self.store.read(path), at=path)
            if one.kind in (BlockKind.AVRO, BlockKind.PARQUET)
        ]
        return [key for one in rows for key in one.keys.to_pylist()]

    def _rolled_back(self, log: LogFileName) -> set[str]:
        path = self.slice.path(self.root, log.name)
        found = blocks(self.store.read(path), at=path)
        return {rolled_back(one, path) for one in found if one.kind is BlockKind.COMMAND}


def _hashed(keys: Sequence[str]) -> HashedKeys:
    return HashedKeys(KeyCollation.BYTES.of_all(keys))


def _least(keys: Sequence[str]) -> str:
    return min(keys, key=KeyCollation.BYTES.of)


def _greatest(keys: Sequence[str]) -> str:
    return max(keys, key=KeyCollation.BYTES.of)
