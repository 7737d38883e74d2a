"""Files at which Arrow would end the process are refused before it looks at what is wrong with them.

Without the refusal these tests do not fail: they end.
"""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from pktable.datafile.readers import OrcRows, ParquetRows
from pktable.format.types import parse_type
from pktable_spec.covers import covers

LEAST = struct.pack("<q", 0x1122334455667788)
VALUES = pa.table({"a": pa.array([0x1122334455667788, 0x1122334455667799, None]), "b": ["x", "y", "z"]})


def changed(old: bytes, new: bytes) -> bytes:
    """Return a file whose footer has ``new`` in place of ``old``."""
    sink = io.BytesIO()
    pq.write_table(VALUES, sink)
    data = sink.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    assert old in footer
    footer = footer.replace(old, new)
    return data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


class Keys(pe.KmsClient):  # type: ignore[misc]
    """Hands keys out as they are."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def with_an_encrypted_column() -> bytes:
    settings = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=True)
    factory = pe.CryptoFactory(lambda connection: Keys())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), settings)
    sink = io.BytesIO()
    pq.write_table(VALUES, sink, encryption_properties=properties)
    return sink.getvalue()


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "a column that has no nulls by its schema": (
        lambda: changed(b"\x25\x02\x18\x01a", b"\x25\x00\x18\x01a"),
        "a histogram of 2 levels of column a, which has 1",
    ),
    "an encrypted column": (with_an_encrypted_column, "column a, which cannot be decrypted"),
}


@covers("RD-11", "SAFE-8")
@pytest.mark.parametrize("name", FILES)
def test_a_chunk_at_which_arrow_would_end_the_process_is_refused(name: str) -> None:
    make, message = FILES[name]
    rows = ParquetRows(pa.BufferReader(make()), "file")
    with pytest.raises(ValueError, match=message):
        rows.chunk(0, 0)
    with pytest.raises(ValueError, match=message):
        next(rows.tables({"a": parse_type("BIGINT")}, ranges=None, batch_rows=10))
    assert rows.chunk(0, 1).path_in_schema == "b"


@covers("RD-11", "SAFE-8")
@pytest.mark.parametrize("bound", [b"\x00", b"\x03abc"])
def test_bounds_that_are_shorter_than_a_value_are_none(bound: bytes) -> None:
    rows = ParquetRows(pa.BufferReader(changed(b"\x08" + LEAST, bound)), "file")
    assert rows.statistics(0, 0) is None
    assert rows.statistics(0, 1).min == "x"
    with pytest.raises(OSError, match="Unexpected end of stream"):  # which Python can catch
        next(rows.tables({"a": parse_type("BIGINT")}, ranges=None, batch_rows=10))


@covers("RD-11", "SAFE-8")
def test_a_decimal_of_more_digits_than_arrow_has_is_refused_in_orc() -> None:
    sink = io.BytesIO()
    po.write_table(pa.table({"m": pa.array([None], pa.decimal128(10, 2))}), sink)
    assert OrcRows(pa.BufferReader(sink.getvalue()), "file").names == ("m",)
    digits = b"\x28\x0a\x30\x02"  # and the scale
    assert sink.getvalue().count(digits) == 1
    data = sink.getvalue().replace(digits, b"\x28\x7f\x30\x02")
    with pytest.raises(ValueError, match="a decimal of 127 digits"):
        OrcRows(pa.BufferReader(data), "file")
