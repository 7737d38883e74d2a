"""Errors of executors, raised in the driver as what they were, and errors of SQL as the local runner raises them.

Clauses: RD-11, RD-26.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pktable_spec import errors
from pktable_spec.errors import CorruptFileError, InvalidRequestError, PkTableError

from pktable.run.spark.workers import unusable_interpreter

OURS = re.compile(r"^pktable_spec\.errors\.(\w+): (.*)$", re.M)
UNREADABLE = re.compile(r"\[FAILED_READ_FILE[\w.]*\].*?(\w+:/\S+)", re.S)
ABSENT = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.*?)\. SQLSTATE")
TWICE = re.compile(r"pktable: (several source rows change the row with [^\n]*?)(?: SQLSTATE.*)?$", re.M)
OUTSIDE = re.compile(r"pktable: (overwrite: a row .*?)(?: SQLSTATE|$)", re.S)
CASE_DIFFERS = re.compile(r"pktable: ((?:upper|lower): [^\n]*?)(?: SQLSTATE.*)?$", re.M)
FINER_TIME = re.compile(r"pktable: (column [^\n]*?)(?: SQLSTATE.*)?$", re.M)
NO_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError: ([^\n]*)|(Not enough memory to build and broadcast)")
TOO_MANY_RESULTS = re.compile(r"is bigger than spark\.driver\.maxResultSize \(?([\d.]+ \w+)")
CAUSE = re.compile(r"Caused by: [\w.$]+: (.*)")
UNCOMPUTED = re.compile(r"\[[A-Z][A-Z_.]+\] ((?:(?!SQLSTATE|\[[A-Z][A-Z_.]+\] ).)*) SQLSTATE: 22", re.S)
"""A value that cannot be computed. SQL's standard gives such errors states that begin with 22."""
ADVICE = re.compile(r" (?:Use [`']try_|If necessary set \"?spark\.|Correct the value as per).*", re.S)
"""Advice of Spark's about its own functions and settings, which do not help with a condition of ours."""
MARKED = re.compile(r"== SQL[^\n]*==\n([^\n]*)\n( *)(\^+)")


@contextmanager
def raised_here(what: str | None = None) -> Iterator[None]:
    """Turn a Spark failure that carries one of our errors, or that we have words for, into our error.

    ``what``: what messages call the condition, if Spark computes nothing else here.
    """
    try:
        yield
    except Exception as failure:  # PySparkException, or what py4j wraps a failed job in
        message = str(failure)
        ours = translated(message, what)
        if ours is None:
            unusable = unusable_interpreter(message) or too_little_memory(message)
            if unusable is not None:
                raise unusable from None  # a page of Java adds nothing to it
            raise
        raise ours from failure


def translated(message: str, what: str | None = None) -> PkTableError | None:
    """Return the error of ours that a Spark ``message`` tells of, or None. ``what``: as in `raised_here`."""
    found = OURS.search(message)
    if found:
        kind = getattr(errors, found[1], PkTableError)
        error: PkTableError = kind.__new__(kind)
        error.args = (found[2],)
        return error
    twice = TWICE.search(message)
    if twice:
        return InvalidRequestError(f"merge: {twice[1]}")
    outside = OUTSIDE.search(message)
    if outside:
        return InvalidRequestError(outside[1])
    case = CASE_DIFFERS.search(message)
    if case:
        return InvalidRequestError(f"{what or 'Spark'}: {case[1]}")
    finer = FINER_TIME.search(message)
    if finer:
        return InvalidRequestError(finer[1])
    absent = ABSENT.search(message)
    if absent:
        return CorruptFileError("data file", at=absent[1], expected="a file", found="none")
    unreadable = UNREADABLE.search(message)
    if unreadable:
        causes = CAUSE.findall(message)
        found_text = causes[0] if causes else "one it cannot read"
        return CorruptFileError(
            "Parquet data", at=unreadable[1].rstrip("."), expected="a readable file", found=found_text
        )
    return _uncomputed(message, what)


def _uncomputed(message: str, what: str | None) -> InvalidRequestError | None:
    """Return the error to raise for a value that Spark could not compute, None for another failure.

    It names the condition ``what``, without one the part that failed, where Spark tells it. Clauses: RD-26.
    """
    found = UNCOMPUTED.search(message)
    if found is None:
        return None
    problem = " ".join(ADVICE.sub("", found[1]).split()).rstrip(".")
    if what is not None:
        return InvalidRequestError(f"{what}: {problem}")
    marked = MARKED.search(message, found.end())
    if marked is None:
        return InvalidRequestError(f"Spark: {problem}")
    line, before, marks = marked.groups()
    return InvalidRequestError(f"Spark: {problem} in {line[len(before) : len(before) + len(marks)]}")


def too_little_memory(message: str) -> InvalidRequestError | None:
    """Return the error to raise for a Spark failure for want of memory, None for another one."""
    if found := TOO_MANY_RESULTS.search(message):
        return InvalidRequestError(
            f"Spark: results for the driver are larger than spark.driver.maxResultSize ({found[1]}); raise that before "
            "Spark starts, or read less at a time"
        )
    if found := NO_MEMORY.search(message):
        return InvalidRequestError(
            f"Spark: out of memory ({(found[1] or found[2]).strip()}); before Spark starts, raise spark.driver.memory, "
            "and spark.executor.memory on a cluster; or read less at a time, by where=… and columns=…"
        )
    return None
