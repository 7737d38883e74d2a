"""The clauses on bytes and reads that no case of the archive names, and why. A test holds the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FAMILIES: Final = ("DVF", "META", "RD")
"""The families of the clauses on bytes and on reads."""

UNNAMED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("META-10", "META-11", "META-20", "META-32", "META-46", "META-62"),
            *("META-74", "META-75", "META-76"),
        ),
        "asks something of writers",
    ),
    **dict.fromkeys(
        ("META-54", "META-55", "META-58"),
        "asks something of writers, and no read depends on it",
    ),
    "META-13": "compares what is written with what is read, which no runner shows",
    "META-18": "needs the URI of a place outside of the archive",
    "META-28": "is about statistics that Paimon 0.9 alone makes",
    "META-40": "leaves to a reader which conversions it has",
    "META-79": "is about a conversion, which a reader may refuse (META-40)",
    "META-61": "is about what one library for ORC mistakes",
    **dict.fromkeys(
        ("RD-18", "RD-23", "RD-24", "RD-27"), "is about reads while files change, and those of a case stay"
    ),
    **dict.fromkeys(("RD-25", "RD-30"), "is about DataFrames of Spark"),
    "RD-26": "is about expressions, and the conditions of the protocol compute nothing",
}
