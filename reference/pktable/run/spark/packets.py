"""Packets: rows of one task after a shuffle, as one value of bytes, which Spark moves faster than rows.

1. `packed` divides the rows of a task, some at a time, among the tasks they go to. Those of one become packets, Arrow
   streams of up to about a megabyte. Packets have ascending numbers: their rows follow in that order.
2. `Gathered` takes packets in any order and gives their rows in that of the numbers, within bounded memory.

Clauses: TBL-6, LSM-5.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pktable.ingest.parts import in_tables
from pktable.store.scratch import Scratch

SCHEMA: Final = "task int, number bigint, packet binary"
PACKET_BYTES: Final = 1 << 20
DIVIDED_BYTES: Final = 32 << 20
"""Arrow memory of the rows that are divided at a time, at most."""
SHARE_BYTES: Final = PACKET_BYTES // 4
"""Each task should get about that of these rows. Much less, and Arrow's part of a packet costs more than its rows; more
only fills memory.
"""
SMALL_PACKET_BYTES: Final = 128 << 10
"""For versions of Spark that send a worker 10,000 rows at a time, however large these are."""

FAILED: Final = -1
"""The number of a packet that is an error."""
FIRST: Final = -(1 << 62)
"""Numbers from here on are of packets that come before all rows."""


@dataclass(frozen=True)
class Division:
    """How rows are divided. ``task_of``: says for each of n rows to which of ``tasks`` it goes.

    ``packet_bytes``: of Arrow memory, that the rows of a packet take at most if they are several.
    """

    task_of: Callable[[pa.Table], npt.NDArray[Any]]
    tasks: int
    packet_bytes: int


def packed(tables: Iterable[pa.Table], division: Division, first_number: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of `SCHEMA` with all rows of ``tables``, whose packets are numbered from ``first_number`` on."""
    number = first_number
    for table in in_tables(tables, min(DIVIDED_BYTES, division.tasks * SHARE_BYTES)):
        tasks = division.task_of(table).astype(np.int32)
        order = np.argsort(tasks, kind="stable")
        distinct, starts = np.unique(tasks[order], return_index=True)
        (batch,) = table.combine_chunks().take(pa.array(order)).combine_chunks().to_batches()
        most_rows = max(1, division.packet_bytes * batch.num_rows // max(1, batch.nbytes))
        pieces = [
            (task, batch.slice(at, min(most_rows, end - at)))
            for task, start, end in zip(distinct, starts, [*starts[1:], len(order)], strict=True)
            for at in range(start, end, most_rows)
        ]
        yield _packets([task for task, _ in pieces], number, [piece for _, piece in pieces])
        number += len(pieces)


def failure(error: Exception) -> pa.RecordBatch:
    """Return a packet that makes its task fail with ``error``."""
    packet = pickle.dumps(error)
    return _batch([0], FAILED, [0, len(packet)], pa.py_buffer(packet))


def _packets(tasks: Sequence[int], first: int, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    offsets = [0]
    for piece in pieces:
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_batch(piece)
        offsets.append(sink.tell())
    return _batch(tasks, first, offsets, sink.getvalue())


def _batch(tasks: Sequence[int], first: int, offsets: Sequence[int], values: pa.Buffer) -> pa.RecordBatch:
    """Return packets as a batch. ``offsets``: where each begins in ``values``, and where the last one ends."""
    count = len(tasks)
    numbers = pa.array(range(first, first + count), pa.int64())
    starts = pa.array(offsets, pa.int32()).buffers()[1]
    packets = pa.Array.from_buffers(pa.binary(), count, [None, starts, values])
    columns = [pa.array(tasks, pa.int32()), numbers, packets]
    return pa.RecordBatch.from_arrays(columns, names=["task", "number", "packet"])


class Gathered:
    """Packets, whose rows it gives in the order of their numbers.

    ``most_bytes``: of packets that are in memory at a time; further ones go to local disk. Use it as a context manager:
    it gives the disk back.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[tuple[int, int], pa.Buffer] = {}
        self._held_bytes = 0
        self._scratch = Scratch()
        self._stored: dict[tuple[int, int], tuple[int, int]] = {}

    def __enter__(self) -> Gathered:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.clear()
        self._scratch.close()

    def _add(self, batch: pa.RecordBatch) -> None:
        places = zip(batch.column("task").to_pylist(), batch.column("number").to_pylist(), strict=True)
        for place, value in zip(places, batch.column("packet"), strict=True):
            packet = value.as_buffer()
            if place[1] == FAILED:
                raise pickle.loads(packet)
            self._held[place] = packet
            self._held_bytes += packet.size
        if self._held_bytes >= self._most:
            self._store()

    def _store(self) -> None:
        for place, packet in self._held.items():
            self._stored[place] = self._scratch.write(packet)
        self._held.clear()
        self._held_bytes = 0

    def in_order(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows of all packets of ``batches``, in tables of about ``most_bytes``.

        Those that have the same number of a task follow each other, in the order of their packets, which are in tables
        apart if their numbers are negative. Raises the error that a packet is.
        """
        for batch in batches:
            self._add(batch)
        if self._stored and self._held:
            self._store()
        places = sorted(self._stored or self._held)
        for _, same in groupby(places, key=lambda place: (place[0], place[1] < 0)):
            yield from in_tables(map(self._rows, same), self._most)

    def _rows(self, place: tuple[int, int]) -> pa.Table:
        stored = self._stored.get(place)
        return pa.ipc.open_stream(self._scratch.read(*stored) if stored else self._held.pop(place)).read_all()
