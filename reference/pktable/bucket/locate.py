"""Where keys live: the one primitive behind deletion vectors.

Files are skipped by their key range, row groups by their statistics; of what remains only the key columns
are read, and the sorted keys are searched for the wanted ones. Row groups already read are remembered as
long as the memory for it lasts, because the keys of a compaction come in ascending windows.

Clauses: DV-6, DV-9, LSM-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import CorruptFileError

from pktable.bucket.data_reader import BATCH_ROWS, DataReader
from pktable.bucket.keys import Encoded, encode_keys
from pktable.bucket.table_files import Place, TableFiles
from pktable.format.manifest import DataFileMeta
from pktable.format.types import values_of
from pktable.lsm.runs import Key, total_order

Positions = npt.NDArray[np.int64]


class Locator:
    """Finds keys in some files of a bucket. The files are those of one snapshot, above one level."""

    def __init__(self, files: TableFiles, place: Place, candidates: Sequence[DataFileMeta]) -> None:
        self._files, self._place = files, place
        self._candidates = sorted(candidates, key=lambda file: file.level)
        self._cursors: dict[str, _Cursor] = {}

    def locate(self, keys: pa.Table) -> Iterator[tuple[DataFileMeta, Positions]]:
        """Yield (file, positions) for the files that hold any of ``keys``.

        ``keys``: the key columns, rows ascending and unique, not below those of an earlier call.
        Positions ascending; a record is found whether or not a vector marks it.
        Raises CorruptFileError, also where the rows of a file are not in key order.
        """
        if not keys.num_rows or not self._candidates:
            return
        low, high = self._key(keys, 0), self._key(keys, keys.num_rows - 1)
        order = self._files.order
        for file in self._candidates:
            if order.smallest(file) <= high and low <= order.greatest(file):
                cursor = self._cursors.setdefault(file.file_name, _Cursor(self._files, self._place, file))
                positions = cursor.find(keys)
                if len(positions):
                    yield file, positions

    def _key(self, keys: pa.Table, row: int) -> Key:
        one = keys.slice(row, 1)
        values = []
        for name, kind in zip(self._files.key_columns, self._files.key_types, strict=True):
            value: Any = values_of(one.column(name), kind)[0]
            values.append(total_order(value) if kind.root in ("FLOAT", "DOUBLE") else value)
        return tuple(values)


class _Cursor:
    """One file's keys, read forward in batches as the searches advance."""

    def __init__(self, files: TableFiles, place: Place, file: DataFileMeta) -> None:
        self._files = files
        self._reader = DataReader(files, place, file)
        self._batches = self._reader.read(files.key_columns, batch_rows=BATCH_ROWS)
        self._held: list[tuple[int, pa.Table]] = []
        self._ended = False

    def find(self, keys: pa.Table) -> Positions:
        """Return the ascending positions of ``keys`` in the file."""
        found: list[Positions] = []
        kept: list[tuple[int, pa.Table]] = []
        covered = False
        for start, batch in self._held:
            positions, beyond = self._search(start, batch, keys)
            found.append(positions)
            covered = beyond
            if beyond:
                kept.append((start, batch))
        while not covered and not self._ended:
            following = next(self._batches, None)
            if following is None:
                self._ended = True
                break
            positions, covered = self._search(*following, keys)
            found.append(positions)
            if covered:
                kept.append(following)
        self._held = kept
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _search(self, start: int, batch: pa.Table, keys: pa.Table) -> tuple[Positions, bool]:
        """Return the positions of ``keys`` in ``batch``, and whether the batch reaches beyond all of them."""
        if not batch.num_rows:
            return np.empty(0, np.int64), False
        names = self._files.key_columns
        stored, wanted = encode_keys(
            [[table.column(name) for name in names] for table in (batch, keys)], self._files.key_types
        )
        self._expect_ascending(stored)
        at = np.searchsorted(stored, wanted)
        inside = at < len(stored)
        at = at[inside]
        hits = at[stored[at] == wanted[inside]]
        return hits.astype(np.int64) + start, bool(stored[-1] >= wanted[-1])

    def _expect_ascending(self, stored: Encoded) -> None:
        if not bool(np.all(stored[1:] > stored[:-1])):
            raise CorruptFileError(
                "key order",
                at=self._reader.path,
                expected="strictly ascending keys",
                found="a key not above the one before",
            )
