"""Check arguments of public methods that Python would take in silence, whatever they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import numpy as np
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import Effect, option_named, parse_options

GREATEST_LIMIT: Final = (1 << 31) - 1


def expect_flag(name: str, value: object) -> None:
    """Raise InvalidRequestError unless ``value`` is a boolean: to Python, the text "no" is true."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidRequestError(f"{name}: expected True or False, found {value!r}")


def ignored_options(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of options, or the one that a plain string is. Raises InvalidRequestError. Clauses: TBL-35."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name for name in names):
        raise InvalidRequestError(f"ignore_options: expected names of options, found {given!r}")
    for name in names:
        option = option_named(name)
        if option is not None and option.effect is Effect.IMPLEMENTED:
            raise InvalidRequestError(f"ignore_options: expected options that reads refuse, found {name}")
    return tuple(names)


def duration_of(name: str, value: object) -> timedelta:
    """Return a timedelta, or a text such as "7 d" as one. Raises InvalidRequestError unless it is more than 0."""
    found = value
    if isinstance(value, str):
        with suppress(InvalidRequestError, OverflowError):
            millis = parse_options({"snapshot.time-retained": value}).snapshot_retained_millis
            found = timedelta(milliseconds=millis or 0)
    if not isinstance(found, timedelta) or found <= timedelta(0):
        raise InvalidRequestError(
            f"{name}: expected a timedelta or a time such as '7 d', more than 0, found {value!r}"
        )
    return found


def expect_limit(limit: object) -> None:
    """Raise InvalidRequestError unless ``limit`` is None or a number of rows that Spark knows."""
    if limit is not None and (type(limit) is not int or not 0 <= limit <= GREATEST_LIMIT):
        raise InvalidRequestError(f"limit: expected an integer from 0 to {GREATEST_LIMIT}, found {limit!r}")


def expect_callable(name: str, value: object) -> None:
    """Raise InvalidRequestError unless ``value`` can be called."""
    if not callable(value):
        raise InvalidRequestError(f"{name}: expected a function, found {value!r}")


def expect_text(name: str, value: object) -> None:
    """Raise InvalidRequestError unless ``value`` is a text of whole characters, which can be stored."""
    try:
        if isinstance(value, str) and value.encode() is not None:
            return
    except UnicodeEncodeError:
        pass
    raise InvalidRequestError(f"{name}: expected text of whole characters, found {value!r}")


def expect_location(value: object, what: str) -> None:
    """Raise InvalidRequestError unless ``value`` is a path or URI: "" is not the current directory."""
    if isinstance(value, (str, os.PathLike)) and os.fspath(value).strip():
        try:
            os.fsencode(value)
            return
        except UnicodeEncodeError:
            pass
    raise InvalidRequestError(f"path: expected the directory or URI of a {what}, found {value!r}")
