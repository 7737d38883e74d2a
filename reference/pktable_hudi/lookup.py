"""Find keys in the file groups of a table, by indexes wherever there are any.

A key is in a file slice if the base file or a block that counts has it. A row that a later block deletes counts, too:
until a compaction drops it, a late record of the key belongs to the same file group.

1. The base file is asked by the summary in its footer, and if that admits a key by its column of keys.
2. The log files are asked newest first. An index at the end of a file answers for all files that it covers. A file
   that no index covers is asked by its own index, and without one it is decoded whole.
3. A file that may have a key is asked for its sorted keys. Rows are never read where there is an index.
4. Log files come first, because they are small. But if the base file may have a key that no log file has, its keys are
   read in any case. Then they come first, and log files are asked for the others.

An index that is missing, or admits too much, changes the cost and no answer. A file is damage if an index names it as
part of the slice and it is not there: a chain ends where the slice begins, not where files are missing.

Clauses: LOG-25, LOG-26, LOG-40 to LOG-44.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable.datafile.readers import Footer
from pktable.format.types import one_array
from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError

from pktable_hudi.format.key_summary import KeyBatch, KeySummary, summary_of_footer
from pktable_hudi.format.log_block import (
    BlockKind,
    DamagedRange,
    HeaderKey,
    LogBlock,
    blocks,
    decode_log,
)
from pktable_hudi.format.log_index import FoundIndex, Member, decode_keys, index_at_end
from pktable_hudi.format.names import LogFileName, log_file
from pktable_hudi.found_keys import found_keys
from pktable_hudi.log_rows import KEY, SIGNS, Wanted, block_rows
from pktable_hudi.log_scan import PlacedBlock, counting_blocks, rolled_back
from pktable_hudi.settings import HudiSettings
from pktable_hudi.slices import FileSlice
from pktable_hudi.stored import parquet_footer, parquet_tables
from pktable_hudi.timeline import Timeline

Numbers = npt.NDArray[np.int64]
NONE: Numbers = np.empty(0, np.int64)
MOST_AT_ONCE: Final = 1 << 10

Result = TypeVar("Result")


@dataclass
class SliceLookup:
    """Finds keys in one file slice as of an instant. It keeps the footer and the indexes that it has read."""

    store: FileIO
    root: str
    settings: HudiSettings
    timeline: Timeline
    instant: str
    slice: FileSlice
    _indexes: dict[str, FoundIndex | None] = field(default_factory=dict)
    _base: tuple[Footer, KeySummary | None] | None = None

    def locate(self, batch: KeyBatch) -> Numbers:
        """Return the numbers of the keys that the slice has, ascending. Raises CorruptFileError.

        Clauses: LOG-41, LOG-43.
        """
        if not batch.keys:
            return NONE
        candidates, rolled = self._candidates(batch, decodes=True)
        if self._base_may_have(batch, _without(batch.numbers, np.concatenate([NONE, *candidates.values()]))):
            found = self._in_base(batch, batch.numbers)
            found = self._in_log(batch, candidates, rolled, found)
        else:
            found = self._in_log(batch, candidates, rolled, NONE)
            found = np.concatenate([found, self._in_base(batch, _without(batch.numbers, found))])
        return np.sort(found)

    def may_have(self, batch: KeyBatch) -> bool:
        """Return False only if the slice has none of the keys, as far as summaries show it. Reads no keys and rows."""
        if self._base_may_have(batch, batch.numbers):
            return True
        candidates, _ = self._candidates(batch, decodes=False)
        return any(len(numbers) for numbers in candidates.values())

    # The base file

    def _base_path(self) -> str:
        assert self.slice.base is not None
        return self.slice.path(self.root, self.slice.base.name)

    def _base_may_have(self, batch: KeyBatch, numbers: Numbers) -> bool:
        """Return False only if the base file has none of the keys ``numbers``, as far as its summary shows it."""
        if self.slice.base is None or not len(numbers):
            return False
        summary = self._base_footer()[1]
        starts = range(0, len(numbers), MOST_AT_ONCE)  # the first keys usually tell
        return summary is None or any(
            len(summary.among(batch, numbers[start : start + MOST_AT_ONCE])) for start in starts
        )

    def _base_footer(self) -> tuple[Footer, KeySummary | None]:
        """Return the footer of the base file, and the summary in it, None without one."""
        if self._base is None:
            path = self._base_path()
            footer = self._opened(path, lambda file: parquet_footer(file, path))
            self._base = footer, summary_of_footer(footer.metadata.metadata, at=path)
        return self._base

    def _in_base(self, batch: KeyBatch, numbers: Numbers) -> Numbers:
        """Return those of the keys ``numbers`` that the base file has."""
        if self.slice.base is None or not len(numbers):
            return NONE
        path, (footer, summary) = self._base_path(), self._base_footer()
        admitted = numbers if summary is None else summary.among(batch, numbers)

        def search(file: Any) -> Numbers:
            left, found = admitted, NONE
            for _, table in parquet_tables(file, path, SIGNS[:1], footer=footer):
                here = _in(batch, left, one_array(table.column(KEY)))
                left, found = _without(left, here), np.concatenate([found, here])
            return found

        return self._opened(path, search) if len(admitted) else NONE

    # Log files

    def _in_log(
        self, batch: KeyBatch, candidates: dict[str, Numbers], rolled: set[str], found: Numbers
    ) -> Numbers:
        """Return the keys ``found``, and those of the other candidates that log files have."""
        for log in self.slice.logs:
            numbers = _without(candidates[log.name], found)
            if len(numbers):
                found = np.concatenate([found, self._in_file(log, batch, numbers, rolled)])
        return found

    def _candidates(self, batch: KeyBatch, *, decodes: bool) -> tuple[dict[str, Numbers], set[str]]:
        """Return by log file the keys that it may have, and the instants that are rolled back.

        ``decodes``: whether a file without an index is decoded for its rollback blocks. Clauses: LOG-41, LOG-42.
        """
        candidates: dict[str, Numbers] = {}
        rolled: set[str] = set()
        for log in reversed(self.slice.logs):
            if log.name in candidates:
                continue
            found = self._index(log)
            if found is None:
                candidates[log.name] = batch.numbers
                if decodes and not self.settings.has_completion_times:
                    rolled |= self._rolled_back(log)
                continue
            index = found.index
            self._expect_there((*index.members, *index.chain), index.slice)
            rolled |= set(index.rolled_back)
            admitted = NONE if index.all is None else index.all.among(batch)
            candidates[log.name] = admitted
            for member in index.members:
                if self.slice.sizes.get(member.name) == member.size:
                    candidates.setdefault(member.name, admitted)
        return candidates, rolled

    def _expect_there(self, members: Iterable[Member], began: str) -> None:
        """Raise CorruptFileError if a file that an index names is missing from the slice.

        ``began``: when the slice began, as the index says. A slice without a base file begins with its first log file,
        so it seems to begin later where that file is missing. Clauses: LOG-44.
        """
        begin = self.slice.instant if self.slice.base else min(began, self.slice.instant)
        for member in members:
            if member.name not in self.slice.sizes and self._belongs(member.name, begin):
                path = self.slice.path(self.root, member.name)
                raise CorruptFileError("log file", at=path, expected="a file", found="none")

    def _belongs(self, name: str, begin: str) -> bool:
        """Return whether a log file is part of the slice from ``begin`` on, by its commit and not by its presence."""
        parts = log_file(name)
        if parts is None:
            return False
        if not self.settings.has_completion_times:
            return parts.instant == self.slice.instant
        if not self.timeline.is_completed(parts.instant) or parts.instant > self.instant:
            return False
        return self.timeline.completion_of(parts.instant) >= begin

    def _in_file(self, log: LogFileName, batch: KeyBatch, numbers: Numbers, rolled: set[str]) -> Numbers:
        """Return those of the keys ``numbers`` that the file has in blocks that count. Clauses: LOG-25, LOG-43."""
        found = self._index(log)
        if found is None:
            return self._decoded(log, batch, numbers, rolled)
        index = found.index
        if index.own is None:
            return NONE
        numbers = index.own.among(batch, numbers)
        counting = [self._counts(one) for one in index.instants]
        if not len(numbers) or not any(counting):
            return NONE
        if not all(counting) or rolled & set(index.instants):
            return self._decoded(log, batch, numbers, rolled)
        keys = self._keys(log, found)
        return _in(batch, numbers, keys)

    def _counts(self, instant: str) -> bool:
        return instant <= self.instant and self.timeline.is_completed(instant)

    def _keys(self, log: LogFileName, found: FoundIndex) -> pa.Array:
        """Return the keys of a file that has an index, without reading a row."""
        path = self.slice.path(self.root, log.name)
        if found.keys_at is None:  # Parquet: its rows are sorted, and its column of keys is read alone
            (placed,) = self._placed(log)
            return block_rows(placed, Wanted(SIGNS[:1], None)).keys
        offset, size = found.keys_at

        def read(file: Any) -> pa.Array:
            file.seek(offset)
            return decode_keys(bytes(file.read(size)), found, at=path)[0]

        return self._opened(path, read)

    def _decoded(self, log: LogFileName, batch: KeyBatch, numbers: Numbers, rolled: set[str]) -> Numbers:
        """Return those of the keys ``numbers`` that the records of a file have. Clauses: LOG-40."""
        placed = [one for one in self._placed(log) if self._counts(one.instant)]
        if any(one.instant in rolled for one in placed):  # what counts depends on the files behind this one
            placed = [one for one in self._counting() if one.at == self.slice.path(self.root, log.name)]
        rows = [
            block_rows(one, Wanted(SIGNS[:1], None))
            for one in placed
            if one.block.kind is not BlockKind.DELETE
        ]
        if not rows:
            return NONE
        return _in(batch, numbers, one_array(pa.chunked_array([one.keys for one in rows])))

    def _placed(self, log: LogFileName) -> list[PlacedBlock]:
        """Return the blocks of a file that have records. Raises CorruptFileError if others are lost."""
        path = self.slice.path(self.root, log.name)
        found = decode_log(self.store.read(path), at=path)
        if any(isinstance(one, DamagedRange) for one in found):
            self._counting()  # what the other files have tells whether rows are lost
        return [
            PlacedBlock(one, one.text(HeaderKey.INSTANT, path), path)
            for one in found
            if isinstance(one, LogBlock) and one.kind is not BlockKind.COMMAND
        ]

    def _counting(self) -> list[PlacedBlock]:
        paths = [self.slice.path(self.root, log.name) for log in self.slice.logs]
        files = ((path, self.store.read(path)) for path in paths)
        return counting_blocks(files, self.timeline, self.instant)

    def _rolled_back(self, log: LogFileName) -> set[str]:
        path = self.slice.path(self.root, log.name)
        return {
            rolled_back(one, path)
            for one in blocks(self.store.read(path), at=path)
            if one.kind is BlockKind.COMMAND
        }

    def _index(self, log: LogFileName) -> FoundIndex | None:
        if log.name not in self._indexes:
            self._indexes[log.name] = index_of_file(self.store, self.slice.path(self.root, log.name))
        return self._indexes[log.name]

    def _opened(self, path: str, work: Callable[[Any], Result]) -> Result:
        return opened(self.store, path, work)


def _in(batch: KeyBatch, numbers: Numbers, keys: pa.Array) -> Numbers:
    """Return those of the keys ``numbers`` that are among ``keys``."""
    asked = batch.text.take(pa.array(numbers))
    # A table of hashes is made of the fewer of both.
    if len(keys) < len(asked):
        chosen = np.flatnonzero(pc.is_in(asked, value_set=keys).to_numpy(zero_copy_only=False))
    else:
        is_there = np.zeros(len(asked), np.bool_)
        is_there[found_keys(keys, asked)[1]] = True
        chosen = np.flatnonzero(is_there)
    found: Numbers = numbers[chosen]
    return found


def _without(numbers: Numbers, others: Numbers) -> Numbers:
    """Return those of ``numbers`` that are none of ``others``; each is there once."""
    if not len(others) or not len(numbers):
        return numbers
    is_other = np.zeros(max(numbers.max(), others.max()) + 1, np.bool_)
    is_other[others] = True
    found: Numbers = numbers[~is_other[numbers]]
    return found


def opened(store: FileIO, path: str, work: Callable[[Any], Result]) -> Result:
    """Return what ``work`` makes of the open file ``path``. Raises CorruptFileError if it is missing or unreadable."""
    try:
        with store.open(path) as file:
            return work(file)
    except FileNotFoundError:
        raise CorruptFileError("file", at=path, expected="a file", found="none") from None
    except pa.ArrowException as error:
        raise CorruptFileError("parquet data", at=path, expected="a readable file", found=error) from None


def index_of_file(store: FileIO, path: str) -> FoundIndex | None:
    """Return the index at the end of a log file, None if it has none. Raises CorruptFileError. Clauses: LOG-40."""

    def read(file: Any) -> FoundIndex | None:
        size = file.size()

        def tail(count: int) -> bytes:
            file.seek(size - count)
            return bytes(file.read(count))

        return index_at_end(tail, size, at=path)

    return opened(store, path, read)
