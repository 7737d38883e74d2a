"""Decode the records of metadata files in ORC or Parquet, which Paimon writes if ``manifest.format`` says so.

The records are the same as in an Avro file, with times as milliseconds. Neither format has a checksum for every byte.
Damage is whatever the libraries refuse, and a number of records that differs from that in the footer.

Clauses: META-22, META-23, RD-11.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import CorruptFileError

from pktable.format.bounds import MOST_UNPACKED_BYTES, require_bounded_rows

ORC_MAGIC: Final = b"ORC"
PARQUET_MAGIC: Final = b"PAR1"
BATCH_ROWS: Final = 256
GREATEST_LONG: Final = (1 << 63) - 1
EPOCH: Final = datetime.datetime(1970, 1, 1)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def decode_columnar(data: bytes, at: str) -> list[dict[str, Any]] | None:
    """Return the records of an ORC or Parquet file, in order; None if ``data`` is neither.

    Raises CorruptFileError. Clauses: META-22, META-23.
    """
    orc = data.startswith(ORC_MAGIC)
    if not orc and not data.startswith(PARQUET_MAGIC):
        return None
    import pyarrow.orc as po  # rarely needed, and slow to import
    import pyarrow.parquet as pq

    try:
        source = pa.BufferReader(data)
        if orc:
            stored = po.ORCFile(source)
            count = stored.nrows
            require_bounded_rows(count, len(data))
            table = stored.read()
        else:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            count = file.metadata.num_rows
            require_bounded_rows(count, len(data))
            table = _bounded_table(file)
        records = [_plain(record) for record in table.to_pylist()]
    except Exception as error:  # whatever the libraries raise on damaged bytes
        found = str(error).strip().partition("\n")[0]
        raise CorruptFileError(
            "ORC data" if orc else "Parquet data", at=at, expected="a readable file", found=found
        ) from None
    if len(records) != count:
        raise CorruptFileError("records", at=at, expected=count, found=len(records))
    return records


def _bounded_table(file: Any) -> pa.Table:
    """Return the rows of a Parquet file, read a few at a time: a long text may stand in it once for many rows."""
    batches, read_bytes = [], 0
    for batch in file.iter_batches(BATCH_ROWS):
        batches.append(batch)
        read_bytes += batch.nbytes
        if read_bytes > MOST_UNPACKED_BYTES:
            raise ValueError(f"more than {MOST_UNPACKED_BYTES} bytes of records")
    return pa.Table.from_batches(batches, file.schema_arrow)


def _plain(value: Any) -> Any:
    """Return ``value`` with all times in it as milliseconds since the epoch."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // MILLISECOND
    if type(value) is int and not -GREATEST_LONG - 1 <= value <= GREATEST_LONG:
        raise ValueError(f"{value}, an integer of more than 64 bits with a sign")
    return value
