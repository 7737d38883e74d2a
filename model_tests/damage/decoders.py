"""What every decoder must survive: each truncation, and each byte replaced by another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pktable_spec.errors import CorruptFileError

Decode = Callable[[bytes], Any]


def flips(data: bytes, masks: tuple[int, ...] = (0x01, 0x80, 0xFF)) -> Iterator[bytes]:
    """Yield ``data`` with one byte changed, for every byte and mask."""
    for i, byte in enumerate(data):
        for mask in masks:
            yield data[:i] + bytes([byte ^ mask]) + data[i + 1 :]


def assert_no_prefix_decodes(decode: Decode, data: bytes) -> None:
    for cut in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode(data[:cut])


def assert_no_flip_misleads(decode: Decode, data: bytes) -> None:
    """A changed byte is found, or changes nothing."""
    expected = decode(data)
    for damaged in flips(data):
        try:
            found = decode(damaged)
        except CorruptFileError:
            continue
        assert found == expected


def assert_no_flip_crashes(decode: Decode, data: bytes) -> None:
    """A changed byte is found, or decodes to something: where nothing could tell it from the truth."""
    for damaged in flips(data):
        try:
            decode(damaged)
        except CorruptFileError:
            continue
