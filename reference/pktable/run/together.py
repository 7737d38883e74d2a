"""Do several pieces of work at the same time, on threads: Arrow decodes and encodes without Python's lock.

Clauses: CMT-12, WH-29.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import chain, islice
from queue import Full, Queue
from typing import Any, Final, TypeVar

from pktable.watching import Counted

CORES: Final = os.cpu_count() or 1
AT_ONCE: Final = min(4, CORES)
"""More threads would wait for Python's lock, which a compaction holds for about a seventh of its time."""

WAIT: Final = 0.05
"""Seconds after which a thread that waits for room looks whether its caller has stopped."""

Work = TypeVar("Work")
Result = TypeVar("Result")


def together(
    do: Callable[[Work], Result],
    pieces: Sequence[Work],
    undo: Callable[[Result], None],
    *,
    threads: int,
    what: str,
) -> list[Result]:
    """Return what ``do`` returns for each of ``pieces``, in order. One thread is the caller's own.

    ``what``: how the work is called by those who watch it.

    On a failure no further piece is begun, and those that have succeeded are undone. Raises the error of the first
    piece, in order, that failed.
    """
    done: list[Result] = []
    counted = Counted(what, len(pieces))
    try:
        if threads == 1:
            for piece in pieces:
                done.append(do(piece))
                counted.ended()
        else:
            _do_on_threads(do, pieces, threads, done, counted)
    except BaseException:
        for result in done:
            undo(result)
        raise
    return done


def _do_on_threads(
    do: Callable[[Work], Result], pieces: Sequence[Work], threads: int, done: list[Result], counted: Counted
) -> None:
    """Put the results into ``done``, in order; on a failure those of all pieces that have succeeded."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(do, piece) for piece in pieces]
        try:
            for future in as_completed(futures):
                if future.exception() is not None:
                    break
                counted.ended()
        finally:  # also if the wait is interrupted: nothing may run any more that makes files
            pool.shutdown(cancel_futures=True)
            begun = [future for future in futures if not future.cancelled()]
            done += [future.result() for future in begun if future.exception() is None]
        for future in begun:
            future.result()  # raises the error of a piece that failed


def in_turn(
    sources: Sequence[Callable[[], Iterator[Result]]], *, threads: int, held: int = 2
) -> Generator[Result, None, None]:
    """Yield what each of ``sources`` yields, one source after the other, while threads read ahead.

    At most ``threads`` sources behind the caller's are begun, each at most ``held`` results ahead of the caller.
    So many results are in memory, however small the sources are.
    Raises the error of the first source, in order, that failed. The threads stop if the caller stops early.
    """
    if threads < 2 or len(sources) < 2:
        yield from chain.from_iterable(source() for source in sources)
        return
    stopped = threading.Event()
    rest, begun = iter(sources), deque[Queue[tuple[bool, Any]]]()

    def hand_over(queue: Queue[tuple[bool, Any]], is_last: bool, what: Any) -> None:
        while not stopped.is_set():
            with suppress(Full):
                return queue.put((is_last, what), timeout=WAIT)

    def drain(source: Callable[[], Iterator[Result]], queue: Queue[tuple[bool, Any]]) -> None:
        error = None
        try:
            for found in source() if not stopped.is_set() else ():
                hand_over(queue, False, found)
                if stopped.is_set():
                    break
        except BaseException as raised:
            error = raised
        hand_over(queue, True, error)

    with ThreadPoolExecutor(threads) as pool:

        def begin(count: int) -> None:
            for source in islice(rest, count):
                begun.append(Queue(held))
                pool.submit(drain, source, begun[-1])

        try:
            begin(1 + threads)
            while begun:
                while not (got := begun[0].get())[0]:
                    yield got[1]
                if got[1] is not None:
                    raise got[1]
                begun.popleft()
                begin(1)
        finally:
            stopped.set()
