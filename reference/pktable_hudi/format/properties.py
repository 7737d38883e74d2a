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
NAME_ESCAPED, VALUE_ESCAPED = "\\=:#! ", "\\#!=:"
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

    plain = ESCAPE.sub(character, text)  # a character beyond U+FFFF is escaped as two
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def encode_properties(values: Mapping[str, str]) -> bytes:
    """Return a properties file of ``values``, which `decode_properties` and Java read. Clauses: LOG-18."""
    lines = [
        f"{_escaped(name, NAME_ESCAPED)}={_escaped(text, VALUE_ESCAPED)}" for name, text in values.items()
    ]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _escaped(text: str, escaped: str) -> str:
    """Return ``text`` with backslashes; Java reads a properties file as Latin-1, so all beyond ASCII is escaped."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    parts = [
        f"\\{chr(code)}" if chr(code) in escaped else chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}"
        for code in codes
    ]
    return f"\\{text[0]}{''.join(parts[1:])}" if text.startswith(" ") else "".join(parts)
