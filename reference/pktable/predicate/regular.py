"""Regular expressions that mean the same to Java and to RE2. Spark uses the one, Arrow and DuckDB the other.

A pattern is read piece by piece, and written for RE2. A piece that is not known here is refused: look-around, back
references, flags, word boundaries, possessive quantifiers.

Clauses: STM-14.
"""

from __future__ import annotations

import re
from typing import Final

from pktable.predicate.tree import Call, Literal

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
