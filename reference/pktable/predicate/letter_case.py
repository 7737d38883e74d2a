"""Upper and lower case of text, the same in this process and on Spark, whatever version of Unicode each knows.

Python and Spark both map characters as Unicode does, of which Python 3.10 knows version 13 and Spark 4.3 version 17.
Newer versions give new letters a case, and some old letters a partner. A text with one of them is refused, because who
did the work would decide what becomes of it. A capital sigma at the end of a word becomes a final one, and which
characters around it make a word differs by version, too.

Upper case of lower case, or the other way round, is no part of the dialect: Spark's optimizer drops the inner function,
if it does not compute a constant first.

Clauses: TBL-21.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

NEW_LETTERS: Final = (
    "\u019b\u0264\u1c89\u1c8a\u2c2f\u2c5f\ua7c0\ua7c1\ua7cb-\ua7dc"
    "\U00010570-\U000105bc\U00010d50-\U00010d85\U00016ea0-\U00016ed3"
)
"""Characters, and what lies between, whose upper or lower case is not the same in the versions 13 to 17 of Unicode."""
_UNSURE_NEAR_SIGMA: Final = (
    "\u0295\u0870-\u1aff\u1c80-\u1cff\u1dc0-\u1dff\u2c00-\u2dff\ua700-\uabff\ufbc2"
    "\U00010500-\U0001cfff\U0001df00-\U0001efff"
)
"""Blocks with characters that are part of a word in some of the versions 13 to 17 of Unicode, and not in others."""

REFUSED: Final = {
    "upper": f"[{NEW_LETTERS}]",
    "lower": f"[{NEW_LETTERS}]|^(?=(?s:.*)\u03a3)(?s:.*)[{_UNSURE_NEAR_SIGMA}]",
}
"""Patterns that are in a text whose upper or lower case depends on the version of Unicode.

Python and Java read them alike, and as text in SQL they mean the same in every session.
"""
_REFUSED: Final = {name: re.compile(pattern) for name, pattern in REFUSED.items()}
PROBLEM: Final = (
    "expected text whose case is the same in all versions of Unicode since 13, found newer letters"
)
CASES: Final = {"upper": str.upper, "lower": str.lower}


def changed(text: str, function: str) -> str:
    """Return ``text`` in upper or lower case. Raises ArrowInvalid if versions of Unicode differ about it."""
    if not text.isascii() and _REFUSED[function].search(text):
        raise pa.ArrowInvalid(f"{function}: {PROBLEM}")
    return CASES[function](text)


def spark_function(function: str, text: str) -> str:
    """Return SQL for the upper or lower case of the SQL ``text``, which fails where `changed` does."""
    refusal = f"CAST(raise_error('pktable: {function}: {PROBLEM}') AS STRING)"
    return f"(CASE WHEN {text} RLIKE '{REFUSED[function]}' THEN {refusal} ELSE {function}({text}) END)"
