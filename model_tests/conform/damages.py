"""Damages of tables of the archive, each of one field that a reader must look at, and the clause that says so."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pktable.format.metadata.manifest import DELETE
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import encode_index

from model_tests.damage.table_damage import Surgeon


@dataclass(frozen=True)
class Damage:
    """What ``do`` does to the table ``base``.

    ``may_be_read``: whether the rows of before are right as well. ``harmless``: whether only they are.
    """

    name: str
    what: str
    clauses: tuple[str, ...]
    do: Callable[[Path], object]
    base: str = "pairs"
    features: tuple[str, ...] = ("keys",)
    may_be_read: bool = False
    harmless: bool = False


def last(root: Path) -> int:
    return Surgeon(root).snapshots()[-1]


def index_file(root: Path) -> Path:
    return Surgeon(root).index_file(last(root))


def bytes_of(where: Callable[[Path], Path], change: Callable[[bytearray], object]) -> Callable[[Path], None]:
    """Return what changes the bytes of a file, but not their number."""

    def do(root: Path) -> None:
        data = bytearray(where(root).read_bytes())
        change(data)
        where(root).write_bytes(data)

    return do


def vector(change: Callable[[bytearray], object]) -> Callable[[Path], None]:
    """Return what changes the payload of the only vector of a table, and makes its CRC-32 true again."""

    def changed(data: bytearray) -> None:
        size = struct.unpack_from(">i", data, 1)[0]
        payload = bytearray(data[5 : 5 + size])
        change(payload)
        data[5 : 5 + size] = payload
        data[5 + size : 9 + size] = struct.pack(">I", zlib.crc32(payload))

    return bytes_of(index_file, changed)


def flipped(data: bytearray, at: int) -> None:
    data[at] ^= 1


def put(at: int, value: bytes) -> Callable[[bytearray], None]:
    def put(data: bytearray) -> None:
        data[at : at + len(value)] = value

    return put


def index(**changes: Any) -> Callable[[Path], None]:
    """Return what changes fields of the only entry of the index manifest."""

    def do(root: Path) -> None:
        Surgeon(root).edit_index(last(root), lambda entry: replace(entry, **changes))

    return do


def ranges(**changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Return what changes fields of the range of the only vector."""

    def changed(entry: Any) -> Any:
        (one,) = entry.ranges
        fields = {name: change(getattr(one, name)) for name, change in changes.items()}
        return replace(entry, ranges=(replace(one, **fields),))

    return lambda root: Surgeon(root).edit_index(last(root), changed)


def positions(*given: int) -> Callable[[Path], None]:
    """Return what puts a vector of these positions in the place of the one that is there."""

    def do(root: Path) -> None:
        surgeon = Surgeon(root)
        (entry,) = surgeon.index(last(root))
        surgeon.put_vectors(last(root), {one.data_file: given for one in entry.ranges or ()})

    return do


def beyond_32_bits(root: Path) -> None:
    surgeon = Surgeon(root)
    (entry,) = surgeon.index(last(root))
    (one,) = entry.ranges or ()
    vector = DeletionVector.from_positions([3, 5, (1 << 32) + 4], bits=64)
    data, ranges = encode_index({one.data_file: vector})
    index_file(root).write_bytes(data)
    index(file_size=len(data), ranges=ranges)(root)


def snapshot(**changes: Any) -> Callable[[Path], None]:
    """Return what changes fields of the latest snapshot; None leaves a field out."""
    return lambda root: _json(root / f"snapshot/snapshot-{last(root)}", changes)


def _json(path: Path, changes: Mapping[str, Any], to: Path | None = None) -> None:
    """Change fields of a JSON file, or put it to another one. Its checksum goes, so that the fields themselves tell."""
    found = {**json.loads(path.read_text()), "pktable.crc32": None, **changes}
    (to or path).write_text(
        json.dumps({n: value for n, value in found.items() if value is not None}, indent=2)
    )


def named(field: str) -> Callable[[Path], Path]:
    """Return what finds the metadata file that the latest snapshot names in a field."""

    def find(root: Path) -> Path:
        path = root / f"snapshot/snapshot-{last(root)}"
        return root / "manifest" / str(json.loads(path.read_text())[field])

    return find


def manifest_file(root: Path) -> Path:
    surgeon = Surgeon(root)
    return root / "manifest" / surgeon.delta(last(root))


def _bottom(root: Path) -> Any:
    """Return the data file of the greatest level."""
    return max((one.file for one in Surgeon(root).live(last(root))), key=lambda file: file.level)


def data_file(root: Path) -> Path:
    return Surgeon(root).data_file(_bottom(root).file_name)


def gone(where: Callable[[Path], Path]) -> Callable[[Path], None]:
    return lambda root: where(root).unlink()


def cut(where: Callable[[Path], Path]) -> Callable[[Path], object]:
    """Return what takes the second half of a file away."""
    return lambda root: where(root).write_bytes(where(root).read_bytes()[: where(root).stat().st_size // 2])


def longer(where: Callable[[Path], Path]) -> Callable[[Path], object]:
    return lambda root: where(root).write_bytes(where(root).read_bytes() + b"\0")


def file(**changes: Any) -> Callable[[Path], None]:
    """Return what changes what the manifests say of the data file of the greatest level."""
    return lambda root: Surgeon(root).edit_file(_bottom(root).file_name, **changes)


def entries(change: Callable[[Sequence[Any]], list[Any]]) -> Callable[[Path], None]:
    """Return what changes the entries of the latest delta."""

    def do(root: Path) -> None:
        surgeon, name = Surgeon(root), manifest_file(root).name
        surgeon.put_entries(name, change(surgeon.entries(name)))

    return do


def never_added(found: Sequence[Any]) -> list[Any]:
    one = found[0]
    return [*found, replace(one, kind=DELETE, file=replace(one.file, file_name="data-never.parquet"))]


def without_column(root: Path) -> None:
    Surgeon(root).edit_rows(_bottom(root).file_name, lambda rows: rows.drop_columns(["v"]))


def in_parts(root: Path) -> None:
    """Let the VARIANTs of a column be stored in parts, by a third field of their group."""

    def edited(rows: pa.Table) -> pa.Table:
        at = rows.column_names.index("v")
        column = rows.column(at).combine_chunks()
        parts = [*column.flatten(), pa.nulls(len(column), pa.int64())]
        names = ["value", "metadata", "typed_value"]
        found = pa.StructArray.from_arrays(parts, names, mask=column.is_null())
        return rows.set_column(at, "v", found)

    Surgeon(root).edit_rows(_bottom(root).file_name, edited)


def twice(root: Path) -> None:
    surgeon, number = Surgeon(root), last(root)
    surgeon.put_index(number, surgeon.index(number) * 2)


def schema_file(root: Path) -> Path:
    return root / "schema/schema-0"


def avro(
    where: Callable[[Path], Path],
    change: Callable[[Any, list[Any]], object],
    codec: str = "zstandard",
) -> Callable[[Path], None]:
    """Return what changes the schema and the records of an Avro file, and mends the size that a list gives of it."""

    def do(root: Path) -> None:
        path, manifest, delta = where(root), manifest_file(root), named("deltaManifestList")(root)
        with path.open("rb") as file:
            found = fastavro.reader(file)
            schema, records = json.loads(found.metadata["avro.schema"]), list(found)
        change(schema, records)
        with path.open("wb") as file:
            fastavro.writer(file, schema, records, codec=codec, sync_marker=bytes(range(16)))
        size = path.stat().st_size
        if path == manifest:
            Surgeon(root).edit_meta(path.name, file_size=size)
        elif path == delta:
            snapshot(deltaManifestListSize=size)(root)

    return do


def with_field(value: Any) -> Callable[[Any, list[Any]], None]:
    """Return what adds a field that no release has, and gives it a value."""

    def change(schema: Any, records: list[Any]) -> None:
        schema["fields"].append({"name": "_NO_SUCH_FIELD", "type": ["null", "long"], "default": None})
        for one in records:
            one["_NO_SUCH_FIELD"] = value

    return change


def of_version(number: int) -> Callable[[Any, list[Any]], None]:
    def change(schema: Any, records: list[Any]) -> None:
        for one in records:
            one["_VERSION"] = number

    return change


def as_older_releases(schema: Any, records: list[Any]) -> None:
    """Leave out the fields of a manifest that Paimon 0.9 does not know."""
    (kind,) = [field["type"] for field in schema["fields"] if field["name"] == "_FILE"]
    newer = {"_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS"}
    kind["fields"] = [field for field in kind["fields"] if field["name"] not in newer]


def page(root: Path) -> None:
    """Change the last byte of the first column with text, in a data file."""
    path = data_file(root)
    group = pq.ParquetFile(path).metadata.row_group(0)
    (chunk,) = [one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == "v"]
    data = bytearray(path.read_bytes())
    flipped(data, (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1)
    path.write_bytes(data)


def wrong_checksum(root: Path) -> None:
    path = root / f"snapshot/snapshot-{last(root)}"
    number = json.loads(path.read_text())["pktable.crc32"]
    path.write_text(path.read_text().replace(str(number), str(number ^ 1)))


def wrong_sync_marker(root: Path) -> None:
    path = manifest_file(root)
    data = path.read_bytes()
    marker = data[-16:]
    path.write_bytes(data.replace(marker, bytes([marker[0] ^ 1]) + marker[1:]))


def wrong_footer(root: Path) -> None:
    """Change a letter of the name of the program that wrote a data file, which no reader of rows looks at."""
    path = data_file(root)
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-Cpp-arrow"))


def column_type(name: str, type: Any) -> Callable[[Path], None]:
    """Return what gives a column another type, by a schema after the latest."""

    def do(root: Path) -> None:
        fields = json.loads(schema_file(root).read_text())["fields"]
        changed = [{**one, "type": type} if one["name"] == name else one for one in fields]
        _json(schema_file(root), {"id": 1, "fields": changed}, root / "schema/schema-1")

    return do


def hints(latest: int, earliest: int) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        (root / "snapshot/LATEST").write_text(str(latest))
        (root / "snapshot/EARLIEST").write_text(str(earliest))

    return do


def no_snapshots(root: Path) -> None:
    for path in root.glob("snapshot/snapshot-*"):
        path.unlink()


def number_too_great(root: Path) -> None:
    shutil.copy(root / "snapshot/snapshot-1", root / f"snapshot/snapshot-{2**63 - 1}")


def two_vectors_of_a_file(root: Path) -> None:
    surgeon = Surgeon(root)
    (entry,) = surgeon.index(last(root))
    (one,) = entry.ranges or ()
    two = {name: DeletionVector.from_positions([at]) for at, name in enumerate((one.data_file, "other"), 3)}
    data, ranges = encode_index(two)
    index_file(root).write_bytes(data)
    both = tuple(replace(each, data_file=one.data_file) for each in ranges)
    index(file_size=len(data), row_count=2, ranges=both)(root)


def counts(root: Path) -> None:
    Surgeon(root).edit_meta(manifest_file(root).name, num_added_files=7)


def options(**given: str) -> Callable[[Path], None]:
    """Return what adds options to the schema; ``__`` stands for a hyphen, and ``___`` for a dot."""

    def do(root: Path) -> None:
        named = {n.replace("___", ".").replace("__", "-"): value for n, value in given.items()}
        found = json.loads(schema_file(root).read_text())
        _json(schema_file(root), {"options": {**found["options"], **named}})

    return do
