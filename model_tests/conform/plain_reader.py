"""A reader written from the clauses alone, as a runner of the conformance kit: Avro, Parquet, Roaring and JSON.

It knows tables with a key and the merge engine deduplicate, with and without deletion vectors, and append tables, in
Parquet and ORC. What it does not know it refuses by name. It shares no code with pktable.
``python model_tests/conform/plain_reader.py`` reads commands from standard input, as `docs/conform.md` says.
"""

import datetime
import decimal
import heapq
import io
import itertools
import json
import math
import operator
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from pyroaring import BitMap

MAGIC_32, MAGIC_64 = 1581511376, 1681511377
ADDS = (0, 2)  # +I and +U
SPECIAL = "\x7f\"#%'*/:=?\\{}[]^`"
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
FEATURES = [
    "keys",
    "merge on read",
    "append",
    "vectors of 64 bits",
    "evolution",
    "orc",
    "manifest formats",
    "snapshots",
    "tags",
    "times",
    "branches",
    "fresh",
]
# How the options begin that change rows (TBL-34), and the options among them that are known here or change no read.
OF_ROWS = (
    *("fields.", "field.", "sequence.", "merge-", "deletion-vectors.", "partial-update.", "aggregation."),
    *("deduplicate.", "first-row.", "ignore-", "force-", "rowkind.", "record-level.", "changelog-", "bucket"),
    *(
        "primary-key",
        "pk-",
        "scan.",
        "log.scan",
        "incremental-",
        "branch",
        "chain-table.",
        "postpone.",
        "batch-",
    ),
    *(
        "query-auth",
        "partition.",
        "data-evolution.",
        "row-tracking.",
        "data-file.",
        "index-file-",
        "manifest.",
    ),
    "type",
)
IGNORING = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
KNOWN = {
    *("merge-engine", "sequence.field", "bucket", "bucket-key", "changelog-producer"),
    *("deletion-vectors.enabled", "deletion-vectors.bitmap64", "deletion-vectors.merge-on-read"),
    *("data-file.thin-mode", "data-file.path-directory", "index-file-in-data-file-dir"),
    *("manifest.merge-min-count", "manifest.format", "partition.legacy-name", *IGNORING),
}
# Fields of the records of manifests, manifest lists and index manifests that no read depends on here.
NO_MATTER = {"_TOTAL_BUCKETS", "_EXTRA_FILES", "_WRITE_COLS_SEQUENCES"}
FIELDS = {
    *(
        "_VERSION",
        "_KIND",
        "_FILE_NAME",
        "_FILE_SIZE",
        "_NUM_ADDED_FILES",
        "_NUM_DELETED_FILES",
        "_SCHEMA_ID",
    ),
    *("_PARTITION_STATS", "_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL", "_PARTITION", "_BUCKET"),
    *(
        "_FILE",
        "_INDEX_TYPE",
        "_ROW_COUNT",
        "_DELETIONS_VECTORS_RANGES",
        "_MIN_KEY",
        "_MAX_KEY",
        "_KEY_STATS",
    ),
    *("_VALUE_STATS", "_VALUE_STATS_COLS", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_LEVEL"),
    *("_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_WRITE_COLS"),
}


class Damaged(Exception):  # noqa: N818 -- becomes an answer
    """What is stored is not as the clauses say, or not known here."""


def expect(right: bool, what: str) -> None:
    if not right:
        raise Damaged(what)


# ------------------------------------------------------------- metadata


def stored(path: Path, size: Any = None) -> bytes:
    """Return the bytes of a file; ``size``: what metadata says, if it says it."""
    expect(path.is_file(), f"{path.name}: expected a file, found none")
    data = path.read_bytes()
    expect(size in (None, len(data)), f"{path.name}: expected {size} bytes, found {len(data)}")
    return data


def as_json(path: Path) -> Any:
    found = json.loads(stored(path))
    expect(isinstance(found, dict), f"{path.name}: expected a JSON object")
    return found


def parquet(data: bytes) -> Any:
    return pq.read_table(io.BytesIO(data), page_checksum_verification=True)


def manifest(path: Path, size: Any = None) -> list[Any]:
    """Return the records of a manifest, a manifest list or an index manifest, in whatever format."""
    data = stored(path, size)
    found: list[Any]
    if data.startswith(b"PAR1"):
        found = parquet(data).to_pylist()
    elif data.startswith(b"ORC"):
        found = po.ORCFile(io.BytesIO(data)).read().to_pylist()
    else:
        found = list(fastavro.reader(io.BytesIO(data)))
    for record in found:
        unknown = (record.keys() | record.get("_FILE", {}).keys()) - FIELDS - NO_MATTER
        for name in unknown:
            value = record.get(name, record.get("_FILE", {}).get(name))
            expect(value in (None, []), f"{path.name}: the field {name} is not known")
    return found


def numbers(folder: Path, start: str) -> list[int]:
    """Return the numbers of the files of a name. The greatest of 64 bits is none, because no other follows it."""
    found = [path.name[len(start) :] for path in folder.glob(f"{start}*")]
    return [int(text) for text in found if text.isdigit() and int(text) < 2**63 - 1]


def live_files(root: Path, snapshot: Any) -> dict[Any, Any]:
    """Return the live data files by partition, bucket, level and name."""
    live: dict[Any, Any] = {}
    for which in ("base", "delta"):
        path, size = root / "manifest" / snapshot[f"{which}ManifestList"], f"{which}ManifestListSize"
        for meta in manifest(path, snapshot.get(size)):
            expect(meta["_VERSION"] == 2, f"{path.name}: version {meta['_VERSION']}")
            entries = manifest(root / "manifest" / meta["_FILE_NAME"], meta["_FILE_SIZE"])
            added = sum(entry["_KIND"] == 0 for entry in entries)
            expect(
                (added, len(entries) - added) == (meta["_NUM_ADDED_FILES"], meta["_NUM_DELETED_FILES"]),
                f"{meta['_FILE_NAME']}: {added} of {len(entries)} entries are added files",
            )
            for entry in entries:
                take_in(live, entry)
    return live


def take_in(live: dict[Any, Any], entry: Any) -> None:
    file = entry["_FILE"]
    key = (entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])
    expect(entry["_VERSION"] == 2, f"manifest entry: version {entry['_VERSION']}")
    if entry["_KIND"] == 0:
        expect(key not in live, f"{key[3]} is added twice")
        live[key] = file
    else:
        expect(live.pop(key, None) is not None, f"{key[3]} is deleted and was not added")


# ------------------------------------------------------ deletion vectors


def vectors(root: Path, snapshot: Any, has_buckets: bool, beside: Any) -> dict[Any, Any]:
    """Return the deleted positions by partition, bucket and name of the data file. ``beside``: gives other folders."""
    found: dict[Any, Any] = {}
    buckets = set()
    for entry in (
        manifest(root / "manifest" / snapshot["indexManifest"]) if snapshot.get("indexManifest") else []
    ):
        expect(entry["_KIND"] == 0, f"index manifest: an entry of kind {entry['_KIND']}")
        if entry["_INDEX_TYPE"] != "DELETION_VECTORS":
            continue
        bucket = entry["_PARTITION"], entry["_BUCKET"]
        expect(entry["_VERSION"] == 1, f"index manifest: version {entry['_VERSION']}")
        expect(bucket not in buckets or not has_buckets, f"bucket {bucket[1]} has two DV index files")
        buckets.add(bucket)
        data = stored(beside(*bucket) / entry["_FILE_NAME"], entry["_FILE_SIZE"])
        ranges = entry["_DELETIONS_VECTORS_RANGES"] or []
        expect(entry["_ROW_COUNT"] == len(ranges), f"{entry['_FILE_NAME']}: {entry['_ROW_COUNT']} vectors")
        expect(data[0] == 1, f"{entry['_FILE_NAME']}: version byte {data[0]}")
        at = 1
        for one in sorted(ranges, key=lambda one: one["f1"]):
            expect(one["f1"] == at, f"{entry['_FILE_NAME']}: a gap at {at}")
            positions, at = vector(data, one["f1"], one["f2"])
            expect(one.get("_CARDINALITY") in (None, len(positions)), f"cardinality of {one['f0']}")
            key = (*bucket, one["f0"])
            expect(key not in found, f"{one['f0']} has two vectors")
            found[key] = positions
        expect(at == len(data), f"{entry['_FILE_NAME']}: bytes are left over at {at}")
    return found


def vector(data: bytes, offset: int, length: int) -> tuple[set[int], int]:
    """Return the positions of the vector at an offset, and the offset after it."""
    size, magic = struct.unpack_from(">ii", data, offset)
    body = data[offset + 4 : offset + 4 + size]
    expect(zlib.crc32(body) == struct.unpack_from(">I", data, offset + 4 + size)[0], "CRC-32 of a vector")
    end = offset + 8 + size
    if magic == MAGIC_32:
        expect(size == length, f"a vector of {size} bytes in a range of {length}")
        return set(BitMap.deserialize(body[4:])), end
    magic = struct.unpack_from("<i", body)[0]
    expect(magic == MAGIC_64, f"magic {magic} of a vector")
    expect(size == length - 8, f"a vector of {size} bytes in a range of {length}")
    return positions_of_64_bits(body), end


def positions_of_64_bits(body: bytes) -> set[int]:
    (count,), at, found = struct.unpack_from("<q", body, 4), 12, set()
    for _ in range(count):
        (key,) = struct.unpack_from("<i", body, at)
        bitmap = BitMap.deserialize(body[at + 4 :])
        at += 4 + len(bitmap.serialize())
        found |= {key << 32 | position for position in bitmap}
    return found


# ------------------------------------------------------------ data files


def directory(partition: bytes, fields: list[Any], legacy: bool) -> str:
    """Return the directory of a partition, which is stored as a BinaryRow behind its number of fields.

    ``legacy``: whether dates are spelt as days, and times with a T.
    """
    row, found = partition[4:], []
    nulls = ((len(fields) + 71) // 64) * 8
    for number, field in enumerate(fields):
        slot = row[nulls + 8 * number : nulls + 8 * number + 8]
        is_null = row[(number + 8) // 8] >> ((number + 8) % 8) & 1
        text = None if is_null else partition_text(row, slot, field["type"], legacy)
        found.append(f"{field['name']}={in_path(text)}")
    return "/".join(found)


def partition_text(row: bytes, slot: bytes, type: str, legacy: bool) -> str:
    kind, _, given = type.split(" NOT")[0].partition("(")
    digits = [int(one) for one in given.partition(")")[0].split(",") if one]
    first, start = struct.unpack("<ii", slot)
    if kind in ("STRING", "VARCHAR", "CHAR"):
        if slot[7] & 0x80:  # at most seven bytes lie in the slot
            return slot[: slot[7] & 0x7F].decode()
        return row[start : start + first].decode()
    if kind == "BOOLEAN":
        return "true" if slot[0] else "false"
    if kind == "DECIMAL":
        big = int.from_bytes(row[start : start + first], "big", signed=True)
        unscaled = big if digits[0] > 18 else struct.unpack("<q", slot)[0]
        return format(decimal.Decimal(unscaled).scaleb(-digits[1], decimal.Context(prec=40)), "f")
    if kind == "TIMESTAMP":
        compact = digits[0] <= 3
        millis = struct.unpack_from("<q", slot if compact else row, 0 if compact else start)[0]
        return time_text(millis // 1000, millis % 1000 * 10**6 + (0 if compact else first), digits[0], legacy)
    formats = {
        "BIGINT": "<q",
        "INT": "<i4x",
        "DATE": "<i4x",
        "TIME": "<i4x",
        "SMALLINT": "<h6x",
        "TINYINT": "<b7x",
    }
    expect(kind in formats, f"a partition key of type {kind} is not known")
    (number,) = struct.unpack(formats[kind], slot)
    if kind == "DATE" and not legacy:
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=number)).isoformat()
    return str(number)


def time_text(seconds: int, nanos: int, precision: int, legacy: bool) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    digits = f"{nanos:09d}"
    if legacy:
        fraction = digits
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        minutes = not fraction and not moment.second
        return moment.isoformat(timespec="minutes" if minutes else "seconds") + (fraction and f".{fraction}")
    fraction = digits[:precision] + digits[precision:].rstrip("0")
    return moment.isoformat(sep=" ") + (fraction and f".{fraction}")


def in_path(text: Any) -> str:
    if text is None or not text.strip():
        return "__DEFAULT_PARTITION__"
    return "".join(f"%{ord(c):02X}" if ord(c) < 32 or c in SPECIAL else c for c in text)


def records(folder: Path, schemas: Any, schema: Any, file: Any) -> list[Any]:
    """Return the rows of a data file in the columns of a schema, each behind its sequence number and kind."""
    name = file["_FILE_NAME"]
    data = stored(folder / name, file["_FILE_SIZE"])
    expect(name.endswith((".parquet", ".orc")), f"{name}: the format is not known")
    table = po.ORCFile(io.BytesIO(data)).read() if name.endswith(".orc") else parquet(data)
    expect(table.num_rows == file["_ROW_COUNT"], f"{name}: {table.num_rows} rows, not {file['_ROW_COUNT']}")
    names = {field["id"]: field["name"] for field in schemas(file["_SCHEMA_ID"])["fields"]}
    columns = []
    for field in schema["fields"]:
        old = names.get(field["id"])
        expect(old is None or old in table.column_names, f"{name}: expected the column {old}")
        columns.append(plain(table[old]) if old else [None] * table.num_rows)
    rows = list(zip(*columns, strict=True))
    if "_SEQUENCE_NUMBER" not in table.column_names:
        return [(0, 0, row) for row in rows]
    return list(
        zip(table["_SEQUENCE_NUMBER"].to_pylist(), table["_VALUE_KIND"].to_pylist(), rows, strict=True)
    )


def plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        unit = NANOS[column.type.unit]
        return [x if x is None else x * unit for x in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(column.type) or pa.types.is_time(column.type):
        column = column.cast(pa.int32())  # days, or milliseconds of the day
    return list(column.to_pylist())


def text(value: Any, type: str) -> Any:
    """Return a value as the protocol spells it."""
    kind = type.replace(" NOT NULL", "")
    if value is None:
        return None
    if kind == "BOOLEAN":
        return "true" if value else "false"
    if kind in ("FLOAT", "DOUBLE"):
        return "nan" if value != value else struct.pack(">f" if kind == "FLOAT" else ">d", value).hex()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return value.hex() if isinstance(value, bytes) else str(value)


# ----------------------------------------------------------------- reads


class Reader:
    """The table in a directory."""

    def __init__(self, root: str, branch: Any = None) -> None:
        self.root = Path(root)
        self.own = self.root / f"branch/branch-{branch}" if branch else self.root
        found = numbers(self.own / "schema", "schema-")
        expect(bool(found), "expected a schema, found none")
        self.latest = self.schema(max(found))
        for name in self.latest["options"]:
            expect(not name.startswith(OF_ROWS) or name in KNOWN, f"the option {name} is not known")
        types = [{f["id"]: f["type"] for f in one["fields"]} for one in map(self.schema, found)]
        for field in self.latest["fields"]:
            same = {one.get(field["id"], field["type"]) for one in types} == {field["type"]}
            expect(
                same or field["name"] not in self.latest["primaryKeys"], f"another type of {field['name']}"
            )

    def schema(self, number: int) -> Any:
        found = as_json(self.own / f"schema/schema-{number}")
        expect(found["id"] == number, f"schema-{number}: found id {found['id']}")
        return found

    def snapshot(self, request: Any) -> Any:
        if "tag" in request:
            return as_json(self.own / f"tag/tag-{request['tag']}")
        known = [n for n in sorted(numbers(self.own / "snapshot", "snapshot-")) if not self.has_ended(n)]
        if "timestamp" in request:
            times = {n: as_json(self.own / f"snapshot/snapshot-{n}")["timeMillis"] for n in known}
            known = [number for number in known if times[number] <= request["timestamp"]]
            expect(bool(known), "no snapshot is that old")
        number = request.get("snapshot", max(known, default=0))
        if not number:
            expect(not (self.own / "snapshot/LATEST").exists(), "a hint and no snapshot")
            return None
        expect(not self.has_ended(number), f"snapshot {number} has expired or was rolled back")
        found = as_json(self.own / f"snapshot/snapshot-{number}")
        expect(found["version"] == 3, f"snapshot-{number}: version {found['version']}")
        expect(found["id"] == number, f"snapshot-{number}: found id {found['id']}")
        return found

    def has_ended(self, number: int) -> bool:
        """Whether the file of an id is no snapshot by the newest fence."""
        fences = numbers(self.own / "fence", "fence-")
        newest = max(fences, default=0)
        if not newest:
            return False
        fence = as_json(self.own / f"fence/fence-{newest}")
        if number <= fence["expired"]:
            return True
        above = [one["fence"] for one in fence["rollbacks"] if number > one["target"]]
        path = self.own / f"snapshot/snapshot-{number}"
        if not above or not path.exists():
            return False
        found = as_json(path)
        if "pktable.fence" in found:
            return any(found["pktable.fence"] < one for one in above)
        counted = [as_json(self.own / f"fence/fence-{n}") for n in above if n in fences and n > newest - 100]
        return any(one["ended"].get(str(number)) == found["deltaManifestList"] for one in counted)

    def read(self, request: Any) -> list[Any]:
        snapshot = self.snapshot(request)
        if snapshot is None:
            return []
        of_snapshot = self.schema(snapshot["schemaId"])
        schema = of_snapshot if request.keys() & {"snapshot", "tag", "timestamp"} else self.latest
        rows = self.rows(snapshot, of_snapshot, schema, fresh=bool(request.get("fresh")))
        types = [field["type"] for field in schema["fields"]]
        return [[text(value, type) for value, type in zip(row, types, strict=True)] for row in rows]

    def rows(self, snapshot: Any, of_snapshot: Any, schema: Any, fresh: bool) -> list[Any]:
        options, key = self.latest["options"], schema["primaryKeys"]
        has_vectors = self.has_vectors(of_snapshot)
        fresh = fresh or options.get("deletion-vectors.merge-on-read") == "true"
        has_buckets = bool(key) or int(options.get("bucket", -1)) > 0
        is_beside = options.get("index-file-in-data-file-dir") == "true"
        beside = (
            (lambda *bucket: self.folder(schema, *bucket)) if is_beside else lambda *_: self.root / "index"
        )
        deleted = vectors(self.root, snapshot, has_buckets, beside)
        found: list[Any] = []
        buckets: dict[Any, Any] = {}
        for where, file in live_files(self.root, snapshot).items():
            partition, bucket, level, name = where
            if bucket == -2:
                continue
            gone = deleted.get((partition, bucket, name), ())
            expect(all(position < file["_ROW_COUNT"] for position in gone), f"a vector beyond {name}")
            older = has_vectors and not self.has_vectors(self.schema(file["_SCHEMA_ID"]))
            if key and has_vectors and not fresh and level == 0 and not older:
                continue
            rows = records(self.folder(schema, partition, bucket), self.schema, schema, file)
            kept = [row for position, row in enumerate(rows) if position not in gone]
            if key:
                buckets.setdefault((partition, bucket), []).append((rank(level, file), kept, older))
            else:
                found += [row for _, _, row in kept]
        for runs in buckets.values():
            merges = any(older or kind not in ADDS for _, rows, older in runs for _, kind, _ in rows)
            if has_vectors and not fresh and not merges:
                found += [row for _, rows, _ in runs for _, _, row in rows]
            else:
                found += self.merged(runs, schema)
        return found

    def folder(self, schema: Any, partition: bytes, bucket: int) -> Path:
        """Return the directory of the data files of a bucket."""
        fields = {field["name"]: field for field in schema["fields"]}
        legacy = self.latest["options"].get("partition.legacy-name") != "false"
        below = directory(partition, [fields[one] for one in schema["partitionKeys"]], legacy)
        data = self.root / str(self.latest["options"].get("data-file.path-directory", ""))
        return data / below / f"bucket-{bucket}"

    @staticmethod
    def has_vectors(schema: Any) -> bool:
        return bool(schema["options"].get("deletion-vectors.enabled") == "true")

    def merged(self, runs: list[Any], schema: Any) -> list[Any]:
        """Return the newest row of each key, unless it is a retraction. ``runs``: rank and records of each file."""
        options = self.latest["options"]
        engine = options.get("merge-engine", "deduplicate")
        expect(engine == "deduplicate" and "sequence.field" not in options, f"merge engine {engine}")
        names = [field["name"] for field in schema["fields"]]
        key = [names.index(name) for name in schema["primaryKeys"]]
        ignores = next((options[one] for one in IGNORING if one in options), "false") == "true"
        taken = [
            [
                (tuple(ordinal(row[at]) for at in key), (sequence, kind in ADDS, -number), row)
                for sequence, kind, row in rows
                if kind in ADDS or not ignores
            ]
            for number, (_, rows, _) in enumerate(sorted(runs, key=lambda run: run[0]))
        ]
        merged = heapq.merge(*taken, key=operator.itemgetter(0))
        newest = [
            max(records, key=lambda one: one[1])
            for _, records in itertools.groupby(merged, operator.itemgetter(0))
        ]
        return [row for _, (_, is_add, _), row in newest if is_add]


def ordinal(value: Any) -> Any:
    """Return what is ordered as values of a key are: floats in the total order, the rest as Python has it."""
    if not isinstance(value, float):
        return value
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    return math.inf if value != value else bits if bits >= 0 else -(bits + 2**63) - 1


def rank(level: int, file: Any) -> Any:
    """Return what orders the sorted runs of a bucket, the newest first."""
    if level:
        return (level,)
    created = file["_CREATION_TIME"]
    numbers = -file["_MAX_SEQUENCE_NUMBER"], -file["_MIN_SEQUENCE_NUMBER"]
    return (0, *numbers, getattr(created, "timestamp", lambda: created)(), file["_FILE_NAME"])


# -------------------------------------------------------------- protocol


class Program:
    """What the runner remembers between commands: the table that is open."""

    def __init__(self) -> None:
        self.reader: Any = None

    def answer(self, request: Any) -> Any:
        """Return the answer to a request."""
        do = request["do"]
        try:
            if do == "supports":
                about = {"protocol": 1, "name": "plain reader"}
                return {"ok": {**about, "commands": ["open", "read"], "features": FEATURES}}
            if do == "open":
                self.reader = Reader(request["table"])
                return {"ok": None}
            if do == "read":
                branch = request.get("branch")
                reader = Reader(self.reader.root, branch) if branch else self.reader
                return {"ok": {"rows": reader.read(request)}}
        except (
            Damaged,
            OSError,
            EOFError,
            LookupError,
            ValueError,
            TypeError,
            struct.error,
            pa.ArrowException,
        ) as why:
            return {"refused": f"{type(why).__name__}: {why}"}
        return {"unsupported": do}


def main() -> None:
    program = Program()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], **program.answer(request)}), flush=True)


if __name__ == "__main__":
    main()
