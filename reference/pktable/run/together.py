"""Do several pieces of work at the same time, on threads: Arrow decodes and encodes without Python's lock.

Clauses: CMT-12.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final, TypeVar

AT_ONCE: Final = min(4, os.cpu_count() or 1)
"""More threads would wait for Python's lock, which a compaction holds for about a seventh of its time."""

Work = TypeVar("Work")
Result = TypeVar("Result")


def together(
    do: Callable[[Work], Result], pieces: Sequence[Work], undo: Callable[[Result], None], *, threads: int
) -> list[Result]:
    """Return what ``do`` returns for each of ``pieces``, in order. One thread is the caller's own.

    On a failure no further piece is begun, and those that have succeeded are undone. Raises the error of the first
    piece, in order, that failed.
    """
    done: list[Result] = []
    try:
        if threads == 1:
            for piece in pieces:
                done.append(do(piece))
        else:
            _do_on_threads(do, pieces, threads, done)
    except BaseException:
        for result in done:
            undo(result)
        raise
    return done


def _do_on_threads(
    do: Callable[[Work], Result], pieces: Sequence[Work], threads: int, done: list[Result]
) -> None:
    """Put the results into ``done``, in order; on a failure those of all pieces that have succeeded."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(do, piece) for piece in pieces]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:  # also if the wait is interrupted: nothing may run any more that makes files
            pool.shutdown(cancel_futures=True)
            begun = [future for future in futures if not future.cancelled()]
            done += [future.result() for future in begun if future.exception() is None]
        for future in begun:
            future.result()  # raises the error of a piece that failed
