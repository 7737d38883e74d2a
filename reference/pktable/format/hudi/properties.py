"""Java's properties files, the form of a Hudi table's settings: lines ``name=value`` with escapes.

Clauses: LOG-18.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pktable_spec.errors import CorruptFileError

ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
NAME: Final = re.compile(r"(?:\\.|[^\\=:\s])*", re.S)
SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\$")


def decode_properties(data: bytes, *, at: str) -> Mapping[str, str]:
    """Return the values of a properties file by name; of equal names the last. Raises CorruptFileError.

    Clauses: LOG-18.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError("properties", at=at, expected="UTF-8", found=error) from None
    found: dict[str, str] = {}
    pending = ""
    for line in re.split(r"\r\n|\n|\r", text):
        line = pending + line.lstrip(" \t\f")
        pending = ""
        if not line or line[0] in "#!":
            continue
        if CONTINUED.search(line):
            pending = line[:-1]
            continue
        name = NAME.match(line)
        assert name is not None, "the pattern matches nothing, too"
        separator = SEPARATOR.match(line, name.end())
        assert separator is not None, "the pattern matches nothing, too"
        found[_unescaped(name[0])] = _unescaped(line[separator.end() :])
    return found


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else CONTROLS.get(escaped, escaped)

    return ESCAPE.sub(character, text)
