"""Records of metadata that was written as ORC or Parquet, which Paimon does where ``manifest.format`` says so.

The records are those of the Avro files, times as milliseconds. Neither format checks every byte; what the
libraries object to, and a number of records other than the footer's, is damage.

Clauses: META-3, RD-11.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable_spec.errors import CorruptFileError

ORC_MAGIC: Final = b"ORC"
PARQUET_MAGIC: Final = b"PAR1"
EPOCH: Final = datetime.datetime(1970, 1, 1)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def decode_columnar(data: bytes, at: str) -> list[dict[str, Any]] | None:
    """Return the records of an ORC or Parquet file, in order; None if ``data`` is neither.

    Raises CorruptFileError. Clauses: META-3.
    """
    orc = data.startswith(ORC_MAGIC)
    if not orc and not data.startswith(PARQUET_MAGIC):
        return None
    try:
        source = pa.BufferReader(data)
        if orc:
            stored = po.ORCFile(source)
            count, table = stored.nrows, stored.read()
        else:
            table = pq.read_table(source, page_checksum_verification=True)
            count = pq.read_metadata(pa.BufferReader(data)).num_rows
        records = [_plain(record) for record in table.to_pylist()]
    except Exception as error:  # whatever the libraries raise on damaged bytes
        found = str(error).strip().partition("\n")[0]
        raise CorruptFileError(
            "ORC data" if orc else "Parquet data", at=at, expected="a readable file", found=found
        ) from None
    if len(records) != count:
        raise CorruptFileError("records", at=at, expected=count, found=len(records))
    return records


def _plain(value: Any) -> Any:
    """Return ``value`` with times as milliseconds since the epoch, in whatever it holds."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // MILLISECOND
    return value
