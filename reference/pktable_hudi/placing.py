"""Decide into which file group each row of a write goes.

1. The indexes of all file slices of the partition are asked for the keys. A row goes where its key lives, also if the
   key was deleted there: a later record of it must meet its delete.
2. Rows of other keys fill the smallest file groups, up to the greatest size. A group that is small in its base file may
   be large in its log, so both count.
3. The remaining rows go to new file groups.

Clauses: LOG-41, LOG-54, LOG-55.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable.format.types import DataType, Field
from pktable_spec.errors import InvalidRequestError

from pktable_hudi.format.key_summary import KeyBatch
from pktable_hudi.lookup import SliceLookup
from pktable_hudi.pieces import Pieces
from pktable_hudi.slices import FileSlice

Numbers = npt.NDArray[np.int64]

LOG_RATIO: Final = 0.35
"""The size of rows in a base file, of that in a log, as Hudi assumes it."""

TAGS: Final = (Field(0, "slice", DataType("BIGINT", False)), Field(1, "key", DataType("BIGINT", False)))


@dataclass(frozen=True)
class WriteOptions:
    """``small_bytes``: a file group below it takes new keys. ``most_bytes``: the size up to which it does.

    The defaults are those of Hudi. Raises InvalidRequestError for what is no such number.
    """

    small_bytes: int = 100 << 20
    most_bytes: int = 120 << 20

    def __post_init__(self) -> None:
        for name, least in (("small_bytes", 0), ("most_bytes", 1)):
            if type(found := getattr(self, name)) is not int or found < least:
                raise InvalidRequestError(f"{name}: expected an integer of {least} or more, found {found!r}")


@dataclass(frozen=True)
class Share:
    """The rows of a write that go to one file group. ``slice``: None for a new group. ``known``: with known keys."""

    partition: str
    slice: FileSlice | None
    rows: Numbers
    known: int


def tagged(
    lookups: Sequence[tuple[SliceLookup, Numbers]], keys: Sequence[str], pieces: Pieces
) -> list[Numbers]:
    """Return for each slice the numbers of the rows whose keys it has.

    ``lookups``: of file slices, each with the numbers of the rows of its partition. ``keys``: of all rows.
    Clauses: LOG-41, LOG-54.
    """
    batches: dict[str, KeyBatch] = {}
    work: list[Callable[[], Iterator[pa.Table]]] = []
    for i, (lookup, numbers) in enumerate(lookups):
        partition = lookup.slice.partition
        if partition not in batches:
            batches[partition] = KeyBatch([keys[number] for number in numbers.tolist()])
        work.append(partial(_tag, i, lookup, batches[partition]))
    found = pieces.rows(work, TAGS)
    slices, places = (found.column(i).to_numpy() for i in range(2))
    return [numbers[np.sort(places[slices == i])] for i, (_, numbers) in enumerate(lookups)]


def _tag(i: int, lookup: SliceLookup, batch: KeyBatch) -> Iterator[pa.Table]:
    places = lookup.locate(batch)
    slices = np.full(len(places), i, np.int64)
    yield pa.table(
        {"slice": slices, "key": places}, schema=pa.schema([("slice", pa.int64()), ("key", pa.int64())])
    )


def placed(
    partition: str,
    numbers: Numbers,
    slices: Sequence[FileSlice],
    known: Sequence[Numbers],
    options: WriteOptions,
    row_bytes: int,
) -> list[Share]:
    """Return the shares of the rows ``numbers`` of a partition.

    ``known``: for each of ``slices`` the rows whose keys it has. ``row_bytes``: of a row in a base file, estimated.
    Clauses: LOG-54, LOG-55.
    """
    new = np.setdiff1d(numbers, np.concatenate([*known, np.empty(0, np.int64)]), assume_unique=False)
    added: dict[int, Numbers] = {}
    rest: list[Numbers] = []
    for i, count in rooms(len(new), slices, options, row_bytes):
        part, new = new[:count], new[count:]
        if i is None:
            rest.append(part)
        else:
            added[i] = part
    shares = [
        Share(partition, slice_, np.sort(np.concatenate([own, added.get(i, own[:0])])), len(own))
        for i, (slice_, own) in enumerate(zip(slices, known, strict=True))
    ]
    shares += [Share(partition, None, part, 0) for part in rest]
    return [one for one in shares if len(one.rows)]


def rooms(
    count: int, slices: Sequence[FileSlice], options: WriteOptions, row_bytes: int
) -> Iterator[tuple[int | None, int]]:
    """Yield where ``count`` rows of new keys go: (number of the slice, None for a new group; number of rows).

    Clauses: LOG-55.
    """
    sizes = [group_bytes(one) for one in slices]
    small = sorted((i for i, size in enumerate(sizes) if size < options.small_bytes), key=lambda i: sizes[i])
    places: list[tuple[int | None, int]] = [
        (i, max(1, (options.most_bytes - sizes[i]) // row_bytes)) for i in small
    ]
    while count:
        i, room = places.pop(0) if places else (None, max(1, options.most_bytes // row_bytes))
        yield i, min(room, count)
        count -= min(room, count)


def group_bytes(slice_: FileSlice) -> int:
    """Return the size that a file slice would have as a base file, estimated. Clauses: LOG-55."""
    logs = sum(slice_.sizes[log.name] for log in slice_.logs)
    return (slice_.sizes[slice_.base.name] if slice_.base else 0) + int(logs * LOG_RATIO)
