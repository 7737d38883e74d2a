"""Regular expressions and letter case that mean the same to Java, in which Spark is written, as to RE2 and Python.

A pattern is read piece by piece, and written for RE2, which Arrow and DuckDB use. A piece that is not known here is
refused: look-around, back references, flags, word boundaries, possessive quantifiers.

Python and Spark both map characters to upper and lower case as Unicode does, of which Python 3.10 knows version 13 and
Spark 4.3 version 17. Newer versions give new letters a case, and some old letters a partner. A text with one of them is
refused, because who did the work would decide what becomes of it. A capital sigma at the end of a word becomes a final
one, and which characters around it make a word differs by version, too.

Upper case of lower case, or the other way round, is no part of the dialect: Spark's optimizer drops the inner function,
if it does not compute a constant first.

Clauses: STM-14, TBL-21.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from pktable.predicate.tree import Call, Literal

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


LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
CLASSES: Final = {"d": "0-9", "w": "0-9A-Z_a-z", "s": r"\t\n\v\f\r "}
CONTROLS: Final = frozenset("tnrf")
PIECE: Final = re.compile(
    r"(?P<escape>\\(?s:.))|(?P<set>\[(?P<not>\^?)(?P<members>(?:\\(?s:.)|[^\]\[\\&])+)\])|(?P<open>\((?:\?:)?(?!\?))"
    r"|(?P<many>(?:[*+?]|\{(?P<least>\d{1,3})(?:,(?P<most>\d{0,3}))?\})\??(?![+*?{]))"
    r"|(?P<plain>[^\\\[\](){}*+?])",
    re.S,
)


def for_re2(pattern: str) -> str | None:
    """Return a pattern of Java's for RE2, None if it has a piece that may mean something else there.

    It is to be found anywhere in a text, as RLIKE does.
    """
    out, at, depth, begins, can_repeat = [], 0, 0, True, False
    while at < len(pattern):
        if pattern[at] == ")" and depth:
            depth, at, begins, can_repeat = depth - 1, at + 1, False, True
            out.append(")")
            continue
        found = PIECE.match(pattern, at)
        text = None if found is None else _piece(found, begins, depth, pattern, can_repeat)
        if found is None or text is None:
            return None
        out.append(text)
        depth += found["open"] is not None
        begins = found["open"] is not None or found["plain"] == "|"
        can_repeat = not begins and found["many"] is None and found["plain"] not in ("^", "$")
        at = found.end()
    return "".join(out) if not depth else None


def re2_pattern(call: Call) -> str:
    """Return the pattern of a call of ``rlike``, which was found to have one for RE2, for it."""
    pattern = call.arguments[1]
    assert isinstance(pattern, Literal)
    found = for_re2(str(pattern.value))
    assert found is not None
    return found


def _piece(found: re.Match[str], begins: bool, depth: int, pattern: str, can_repeat: bool) -> str | None:
    if found["open"] is not None:
        return "(?:"
    if found["many"] is not None:
        least, most = found["least"], found["most"]
        ordered = not most or int(least) <= int(most)
        return found["many"] if can_repeat and ordered else None
    if found["escape"] is not None:
        inside = _escaped(found["escape"])
        return None if inside is None else f"[{inside}]"
    if found["set"] is not None:
        inside = _members(found["members"])
        return None if inside is None else f"[{found['not']}{inside}]"
    match found["plain"]:
        case ".":
            return f"[^{LINE_ENDS}]"
        case "^":
            return r"\A" if begins else None
        case "$":
            # Java's end may have one end of a line after it.
            last = not depth and pattern[found.end() : found.end() + 1] in ("", "|")
            return rf"(?:\r\n|[{LINE_ENDS}])?\z" if last else None
        case "|":
            return "|"
        case plain:
            return re.escape(plain) if plain.isascii() else plain


def _escaped(text: str) -> str | None:
    """Return what ``\\d`` and so on stand for, as members of a class; None for what is not known here."""
    letter = text[1]
    if letter in CLASSES:
        return CLASSES[letter]
    if letter.upper() != letter or letter.lower() != letter:
        return "^" + CLASSES[letter.lower()] if letter in "DWS" else text if letter in CONTROLS else None
    return f"\\{letter}" if letter.isascii() and not letter.isalnum() else None


def _members(text: str) -> str | None:
    """Return the members of a class, None if they are not known here."""
    out: list[str] = []
    at, before = 0, ""
    while at < len(text):
        if text[at] == "\\":
            inside = _escaped(text[at : at + 2])
            if inside is None or inside.startswith("^") or (before == "-" and len(out) > 1):
                return None
            if text[at + 2 : at + 3] == "-" and len(inside) > 2 and at + 3 < len(text):
                return None
            before, at = text[at : at + 2], at + 2
            out.append(inside)
            continue
        one = text[at]
        if one == "-" and 0 < at < len(text) - 1:
            first, last = text[at - 1], text[at + 1]
            if before == "-" or last == "\\" or before.startswith("\\") or first > last:
                return None
            out.append("-")
        else:
            if one == "^" and not at:
                return None
            out.append(re.escape(one) if one.isascii() else one)
        before, at = one, at + 1
    return "".join(out)
