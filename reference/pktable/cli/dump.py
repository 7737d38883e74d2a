"""The command ``dump``: one metadata file, DV index file or log file, field by field.

The first bytes say what the file is. A damaged file is shown up to the damage, which is the last row. The bytes of keys
and partitions become values where the schema of the table is found, as it is for a file that lies in its table.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
import typer
from pktable_spec.errors import CorruptFileError, InvalidRequestError, PkTableError

from pktable.catalog.schemas import load_schemas
from pktable.cli.app import HUDI_DUMP, Output, StorageOptions, app, storage_options
from pktable.cli.output import Format, print_rows
from pktable.format.avro import MAGIC as AVRO
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest_fields import ORC_MAGIC, PARQUET_MAGIC, stored_records
from pktable.format.metadata.schema import TableSchema
from pktable.format.paths import TablePaths
from pktable.format.vectors.deletion_vector import MAGIC_32, MAGIC_64, decode_vector
from pktable.store.file_io import open_store

HUDI: Final = b"#HUDI#"
MANIFESTS: Final = ("manifest-", "index-manifest-")
"""How the names of files begin that may be in ORC or Parquet."""
FRAME: Final = 8  # bytes of the length before a vector and of the CRC behind it
MOST_POSITIONS: Final = 100  # that are printed
SHOWN: Final = 80  # digits of a bitmap


class Part(NamedTuple):
    """A field. ``part``: of the file. ``offset``: its first byte, None if not known. ``value``: as text."""

    part: str
    offset: int | None
    field: str
    value: str


@app.command("dump")
def dump_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Path or URI of the file.")],
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
) -> None:
    """Show a file field by field: a snapshot, schema, manifest, manifest list, index manifest, DV index or log file.

    Result: for each field part, offset, field and value.
    """
    store, path = open_store(file, storage_options(storage))
    data = store.read(path)
    shown = list(_until_damage(data, path, _schema_of(store, path)))
    columns = [pa.string(), pa.int64(), pa.string(), pa.string()]
    rows = [pa.array(values, kind) for values, kind in zip(zip(*shown, strict=True), columns, strict=True)]
    print_rows(pa.table(rows, names=list(Part._fields)), output)
    if shown[-1].field == "damage":
        raise typer.Exit(1)


def _until_damage(data: bytes, at: str, schema: TableSchema | None) -> Iterator[Part]:
    """Yield the fields of a file; damage ends them."""
    try:
        yield from parts(data, at, schema)
    except CorruptFileError as error:
        yield Part("", None, "damage", str(error))


def parts(data: bytes, at: str, schema: TableSchema | None = None) -> Iterator[Part]:
    """Yield the fields of a file. ``schema``: of its table, if it is known.

    Raises InvalidRequestError for a file of another kind, CorruptFileError.
    """
    is_columnar = data.startswith((ORC_MAGIC, PARQUET_MAGIC))
    if data.startswith(AVRO) or (is_columnar and at.rpartition("/")[2].startswith(MANIFESTS)):
        yield from _of_records(data, at, schema)
    elif data.startswith(HUDI):
        yield from import_module(HUDI_DUMP).parts(data, at)
    elif data[:1] == b"{":
        yield from _of_json(data, at)
    elif data[:1] == b"\1":
        yield from _of_index(data, at)
    else:
        hint = "; `pktable read` and `pktable files` show data files" if is_columnar else ""
        raise InvalidRequestError(
            f"{at}: expected a file of JSON or Avro, a manifest, a DV index file (whose first byte is 1) or a log file "
            f"of Hudi, found bytes {data[:4].hex() or 'none'}{hint}"
        )


def _of_json(data: bytes, at: str) -> Iterator[Part]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise CorruptFileError("JSON", at=at, expected="an object", found=error) from None
    for name, value in _flat(found):
        yield Part("", None, name, _text(value))


def _of_records(data: bytes, at: str, schema: TableSchema | None) -> Iterator[Part]:
    """Yield the fields of a manifest, a manifest list or an index manifest, record by record. Clauses: META-23."""
    records = stored_records(data, at)
    yield Part("", None, "records", str(len(records)))
    for number, record in enumerate(records, 1):
        kind = {0: "ADD", 1: "DELETE"}.get(record.get("_KIND", -1), "record")
        for name, value in _flat(record):
            yield Part(f"{kind} {number}", None, name, _row_text(name, value, schema, at))


def _of_index(data: bytes, at: str) -> Iterator[Part]:
    """Yield the fields of a DV index file, vector by vector. Clauses: DVF-1 to DVF-4."""
    yield Part("", 0, "version", str(data[0]))
    offset, number = 1, 0
    while offset < len(data):
        number += 1
        if len(data) - offset < FRAME + len(MAGIC_32):
            raise CorruptFileError("vector", at=at, expected="12 bytes or more", found=len(data) - offset)
        (length,) = struct.unpack_from(">i", data, offset)
        if not len(MAGIC_32) <= length <= len(data) - offset - FRAME:
            most = len(data) - offset - FRAME
            raise CorruptFileError("vector length", at=at, expected=f"4 to {most}", found=length)
        yield from _of_vector(data[offset : offset + length + FRAME], f"vector {number}", offset, at)
        offset += length + FRAME


def _of_vector(blob: bytes, part: str, offset: int, at: str) -> Iterator[Part]:
    length, magic = len(blob) - FRAME, blob[4:8]
    bits = {MAGIC_32: 32, MAGIC_64: 64}.get(magic)
    of_range = length + FRAME if bits == 64 else length
    number = struct.unpack("<i" if bits == 64 else ">i", magic)[0]
    stored, computed = struct.unpack_from(">I", blob, 4 + length)[0], zlib.crc32(blob[4 : 4 + length])
    yield Part(part, offset, "length", f"{length}; its range is ({offset}, {of_range})")
    yield Part(part, offset + 4, "magic", f"{number}, of {bits or 'unknown'} bits")
    bitmaps = f"{length - 4} bytes: {blob[8 : 4 + length].hex()[:SHOWN]}"
    yield Part(part, offset + 8, "bitmap" if bits == 32 else "bitmaps", bitmaps)
    right = "as computed" if stored == computed else f"computed {computed:08x}"
    yield Part(part, offset + 4 + length, "CRC-32", f"{stored:08x}, {right}")
    vector = decode_vector(blob, at=at)
    positions = vector.positions().tolist()
    yield Part(part, None, "cardinality", str(len(positions)))
    more = ", …" if len(positions) > MOST_POSITIONS else ""
    yield Part(part, None, "positions", ", ".join(map(str, positions[:MOST_POSITIONS])) + more)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside of records with the path to each."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for number, one in enumerate(value):
            yield from _flat(one, f"{name}[{number}]")
    else:
        yield name, value


def _row_text(name: str, value: Any, schema: TableSchema | None, at: str) -> str:
    """Return a value as text; bytes that are a BinaryRow of the table's keys also as values."""
    if not isinstance(value, bytes) or schema is None:
        return _text(value)
    field = name.rpartition(".")[2]
    fields = {
        "_PARTITION": schema.partition_fields,
        "_MIN_KEY": schema.key_fields,
        "_MAX_KEY": schema.key_fields,
    }.get(field)
    if fields is None:
        return _text(value)
    try:
        values = decode_row(value, [one.type for one in fields], at=at)
    except CorruptFileError:
        return _text(value)
    return f"{', '.join(map(str, values)) or 'no values'} ({_text(value)})"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() or "no bytes"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _schema_of(store: Any, path: str) -> TableSchema | None:
    """Return the latest schema of the table that a file lies in, None if it lies in none."""
    folder, _, _ = path.rpartition("/")
    root, _, _ = folder.rpartition("/")
    try:
        schemas = load_schemas(store, TablePaths(root)) if root else {}
    except (PkTableError, OSError):
        return None
    return schemas[max(schemas)] if schemas else None
