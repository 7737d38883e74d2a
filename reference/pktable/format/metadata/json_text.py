"""Read and write the JSON files of a table: every field is checked, and a checksum makes damage visible.

The last field of a file that we write is the CRC-32 of the bytes before its comma. Other readers ignore that field;
ours refuses a file whose CRC differs. In a file of another writer, which has no CRC, the syntax and the presence and
type of each field are checked.

Clauses: META-1, META-2, META-13, META-34, META-35, META-38, RD-11.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pktable_spec.errors import CorruptFileError

from pktable.format.bounds import MOST_JSON_BYTES, is_file_name

CHECKSUM: Final = re.compile(rb',\s*"pktable\.crc32"\s*:\s*(\d{1,10})\s*\}\s*\Z')
CRC: Final = "pktable.crc32"
GREATEST_LONG: Final = (1 << 63) - 1

Read = TypeVar("Read")


def encode_json(fields: Mapping[str, object]) -> bytes:
    """Return ``fields`` (at least one) as a JSON file, the checksum last. Clauses: META-13, META-35."""
    entries = (f"\n  {_compact(name)} : {_indented(value)}" for name, value in fields.items())
    body = ("{" + ",".join(entries)).encode()
    return b'%s,\n  "pktable.crc32" : %d\n}' % (body, zlib.crc32(body))


def _indented(value: object) -> str:
    if not isinstance(value, dict | list):
        return _compact(value)
    # The library indents in Python, slowly; most files have few values to indent.
    text = json.dumps(value, indent=2, ensure_ascii=False, separators=(",", " : "), allow_nan=False)
    return text.replace("\n", "\n  ")


_compact: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def decode_json(data: bytes, *, at: str) -> JsonObject:
    """Return the object of a JSON file. Raises CorruptFileError. Clauses: META-34, META-38, RD-11."""
    if len(data) > MOST_JSON_BYTES:
        raise CorruptFileError("JSON", at=at, expected=f"at most {MOST_JSON_BYTES} bytes", found=len(data))
    checksum = CHECKSUM.search(data)
    if checksum:
        expected, found = int(checksum[1]), zlib.crc32(data[: checksum.start()])
        if expected != found:
            raise CorruptFileError("checksum", at=at, expected=expected, found=found)
    try:
        value = json.loads(data.decode())
        if b"\\u" in data:  # an escape may stand for half a character, which UTF-8 cannot encode
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise CorruptFileError("JSON", at=at, expected="a JSON file", found=str(error)) from None
    if not isinstance(value, dict):
        raise CorruptFileError("JSON", at=at, expected="an object", found=type(value).__name__)
    return JsonObject(value, at)


def _text(scalar: bool | float) -> str:
    return str(scalar).lower() if isinstance(scalar, bool) else repr(scalar)


class JsonObject:
    """A decoded object that gives its fields by name and type. A null counts as absent."""

    def __init__(self, fields: Mapping[str, Any], at: str) -> None:
        self.at = at
        self._fields = fields

    def long(self, name: str) -> int:
        """Return a required integer of 64 bits."""
        number: int = self._required(name, "an integer", self.optional_long(name))
        return number

    def optional_long(self, name: str) -> int | None:
        value = self._fields.get(name)
        if value is None:
            return None
        if type(value) is not int or not -GREATEST_LONG - 1 <= value <= GREATEST_LONG:
            raise self._wrong(name, "an integer", value)
        return value

    def optional(self, name: str, what: str, read: Callable[[Any], Read]) -> Read | None:
        """Return what ``read`` makes of a field, None without one. ``what``: what ``read`` takes."""
        value = self._fields.get(name)
        try:
            return None if value is None else read(value)
        except (ArithmeticError, TypeError, ValueError):
            raise self._wrong(name, what, value) from None

    def text(self, name: str) -> str:
        """Return a required text, not empty."""
        text: str = self._required(name, "text", self.optional_text(name) or None)
        return text

    def optional_text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "text", value)
        return value

    def file_name(self, name: str) -> str:
        """Return a required text that is the name of a file."""
        return str(self._required(name, "the name of a file", self.optional_file_name(name)))

    def optional_file_name(self, name: str) -> str | None:
        value = self.optional_text(name)
        if value is not None and not is_file_name(value):
            raise self._wrong(name, "the name of a file", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a required list of texts."""
        values = self.list(name)
        for value in values:
            if not isinstance(value, str):
                raise self._wrong(name, "a list of texts", value)
        return tuple(values)

    def list(self, name: str) -> list[Any]:
        """Return a required list."""
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return value

    def objects(self, name: str) -> tuple[JsonObject, ...]:
        """Return a required list of objects."""
        values = self.list(name)
        for value in values:
            if not isinstance(value, dict):
                raise self._wrong(name, "a list of objects", value)
        return tuple(JsonObject(value, self.at) for value in values)

    def text_map(self, name: str) -> dict[str, str]:
        """Return a required object of texts. Numbers and truth values count as their texts. Clauses: TBL-48."""
        given: Any = self._required(name, "an object", self._fields.get(name))
        texts = given
        if isinstance(given, dict):
            texts = {
                key: _text(one) if isinstance(one, (bool, int, float)) else one for key, one in given.items()
            }
        found = JsonObject({name: texts}, self.at).optional_text_map(name)
        assert found is not None, "it is required"
        return found

    def optional_text_map(self, name: str) -> dict[str, str] | None:
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        for key, entry in value.items():
            if not isinstance(entry, str):
                raise self._wrong(f"{name}.{key}", "text", entry)
        return value

    def _required(self, name: str, expected: str, value: Any) -> Any:
        if value is None:
            raise self._wrong(name, expected, self._fields.get(name, "nothing"))
        return value

    def _wrong(self, name: str, expected: str, found: object) -> CorruptFileError:
        return CorruptFileError(name, at=self.at, expected=expected, found=repr(found)[:80])
