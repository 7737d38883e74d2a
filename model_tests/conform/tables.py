"""The tables of the archive that pktable writes, each for what no table of Paimon's there shows."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.format.avro import ContainerWriter
from pktable.format.metadata.schema import encode_schema
from pktable.ingest.changes import ChangeKind
from pktable_conform.archive import stated

from model_tests.damage.table_damage import Surgeon
from model_tests.interop.plain import rows_of

HOUR: Final = 3_600_000
VECTORS: Final = {"bucket": "1", "deletion-vectors.enabled": "true", "num-levels": "4"}
MERGED: Final = {"bucket": "1", "deletion-vectors.enabled": "false", "num-levels": "4"}


@dataclass(frozen=True)
class Made:
    """A table to be made in a folder that does not exist yet.

    ``asked``: reads beside those of every snapshot. ``refused``: reads that must not return rows. ``by_id``: whether
    snapshots are also read by their ids.
    """

    name: str
    what: str
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    make: Callable[[Path], object]
    asked: tuple[Mapping[str, Any], ...] = ()
    refused: tuple[Mapping[str, Any], ...] = ()
    by_id: bool = True


@contextmanager
def counted() -> Iterator[None]:
    """Let names and times be counted, and Avro have markers of the names of its files: all the same each time."""
    times = itertools.count(HOUR, HOUR)
    numbers = itertools.count(1)
    with (
        mock.patch("uuid.uuid4", side_effect=(uuid.UUID(int=number) for number in numbers)),
        mock.patch("pktable.table.now_millis", side_effect=times),
        mock.patch("pktable.table_upkeep.now_millis", side_effect=times),
        mock.patch("pktable.datafile.writers.ContainerWriter", side_effect=_named),
    ):
        yield


def _named(schema: Any, *, level: int | None, unique: bytes) -> ContainerWriter:
    return ContainerWriter(schema, level=level, unique=unique.rpartition(b"/")[2])


def read(table: Table, arguments: Mapping[str, Any]) -> list[list[str | None]]:
    """Return the rows of a read as the protocol asks for it."""
    if "branch" in arguments:
        rest = {name: value for name, value in arguments.items() if name != "branch"}
        return read(table.branch(arguments["branch"]), rest)
    if "changes" in arguments:
        return rows_of(table.changes(*arguments["changes"]).to_arrow())
    conditions = [_sql(table, *one) for one in arguments.get("where", ())]
    given = {name: value for name, value in arguments.items() if name != "where"}
    return rows_of(table.to_arrow(where=" AND ".join(conditions) or None, **given))


def _sql(table: Table, column: str, operator: str, literal: str) -> str:
    is_text = table.schema.arrow_schema.field(column).type == pa.string()
    return f"{column} {operator} " + ("'" + literal.replace("'", "''") + "'" if is_text else literal)


def answers(rows: list[list[str | None]], limit: int | None) -> list[dict[str, Any]]:
    """Return what may come back for ``rows``, or for as many of them as a limit allows."""
    found = stated(rows)
    return [found if limit is None else {**found, "limit": limit}]


def bulk(number: int) -> str:
    """Return text that does not compress, so that a file of it is larger than those of later writes."""
    return "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(4))


def created(root: Path, columns: str, options: Mapping[str, str], *, key: Any = "k", **more: Any) -> Table:
    return Table.create(root, columns, primary_key=key, options=options, **more)


def changes(table: Table, *given: tuple[Any, ...], write_only: bool = False) -> None:
    """Write rows, each given as its kind and its values."""
    kinds, *columns = zip(*given, strict=True)
    schema = table.schema.arrow_schema
    named = {f.name: pa.array(c, f.type) for f, c in zip(schema, columns, strict=True)}
    staged = table.stage_write(
        pa.table({"op": list(kinds), **named}), ChangeKind(column="op"), write_only=write_only
    )
    assert staged is not None
    staged.commit(CommitId.new())


def pairs(root: Path, options: Mapping[str, str] = VECTORS) -> None:
    table = created(root, "k INT, v STRING", options)
    changes(table, *(("+I", number, bulk(number)) for number in range(12)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 3, None))
    changes(table, ("+U", 5, "five"), ("+I", 20, "twenty"))


def pairs_64(root: Path) -> None:
    pairs(root, {**VECTORS, "deletion-vectors.bitmap64": "true"})


def kinds(root: Path) -> None:
    table = created(root, "k INT, v STRING", MERGED)
    changes(table, *(("+I", number, "first") for number in range(6)), write_only=True)
    changes(
        table,
        ("-U", 0, "first"),
        ("+U", 0, "second"),
        ("+U", 1, "second"),
        ("-D", 2, "first"),
        write_only=True,
    )
    changes(table, ("-U", 3, "first"), ("+U", 7, "new"), ("+I", 2, "again"), write_only=True)


def ties(root: Path) -> None:
    table = created(root, "k INT, v STRING", MERGED)
    staged = []
    for rows in (
        [("+I", 1, "of the newer run"), ("+I", 2, "of the add"), ("-D", 3, None)],
        [("+I", 1, "of the older run"), ("-D", 2, None), ("+I", 3, "of the add")],
    ):
        kinds_, keys, values = zip(*rows, strict=True)
        given = pa.table({"op": kinds_, "k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.string())})
        staged.append(table.stage_write(given, ChangeKind(column="op"), write_only=True))
    for write in staged:
        assert write is not None
        write.rules = ()  # as writers of Paimon, which do not compare their numbers with those of others
        write.commit(CommitId.new())


def switched_on(root: Path) -> None:
    table = created(root, "k INT, v STRING", MERGED)
    changes(table, ("+I", 1, "one"), ("+I", 2, "two"), write_only=True)
    changes(table, ("+U", 1, "uno"), ("-D", 2, None), ("+I", 3, "three"), write_only=True)
    table = with_options(root, {"deletion-vectors.enabled": "true"})
    changes(table, ("+I", 4, "four"), write_only=True)
    table.compact(full=True)
    changes(table, ("+I", 5, "five"), write_only=True)


def merged_on_read_later(root: Path) -> None:
    table = created(root, "k INT, v STRING", VECTORS)
    changes(table, *(("+I", number, bulk(number)) for number in range(3)), write_only=True)
    table.compact(full=True)
    changes(table, ("+U", 1, "uno"), ("-D", 2, None), write_only=True)
    with_options(root, {"deletion-vectors.merge-on-read": "true"})


def with_options(root: Path, options: Mapping[str, str]) -> Table:
    """Put a new schema with more options, as another program would, and open the table again."""
    schema = Table.open(root).schema
    new = replace(schema, id=schema.id + 1, options={**schema.options, **options})
    (root / f"schema/schema-{new.id}").write_bytes(encode_schema(new))
    return Table.open(root)


def same_names(root: Path) -> None:
    table = created(root, "p STRING, k INT, v STRING", VECTORS, key=["p", "k"], partition_by=["p"])
    changes(table, *(("+I", p, number, bulk(number)) for p in "ab" for number in range(4)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", "a", 1, None))
    surgeon = Surgeon(root)
    marked = surgeon.index(surgeon.snapshots()[-1])[0].ranges
    assert marked is not None
    (path,) = (
        root.glob("p=b/bucket-0/*.parquet")
        if len(list(root.glob("p=b/bucket-0/*"))) == 1
        else live_in_b(root)
    )
    surgeon.edit_file(path.name, file_name=marked[0].data_file)
    shutil.move(path, path.with_name(marked[0].data_file))


def same_names_in_buckets(root: Path) -> None:
    """Give the files of two buckets one name; only one of them has a vector."""
    table = created(root, "k INT, v STRING", {**VECTORS, "bucket": "2"})
    changes(table, *(("+I", number, bulk(number)) for number in range(8)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 1, None))
    surgeon = Surgeon(root)
    entries = list(surgeon.live(surgeon.snapshots()[-1]))
    (marked,) = (each for one in surgeon.index(surgeon.snapshots()[-1]) for each in one.ranges or ())
    bucket = next(one.bucket for one in entries if one.file.file_name == marked.data_file)
    (other,) = (one for one in entries if one.bucket != bucket and one.file.level)
    surgeon.edit_file(other.file.file_name, file_name=marked.data_file)
    path = root / f"bucket-{other.bucket}" / other.file.file_name
    shutil.move(path, path.with_name(marked.data_file))


def live_in_b(root: Path) -> Sequence[Path]:
    """Return the one file of level >= 1 in the partition b."""
    surgeon = Surgeon(root)
    names = {one.file.file_name for one in surgeon.live(surgeon.snapshots()[-1])}
    return [path for path in root.glob("p=b/bucket-0/*.parquet") if path.name in names]


def live_retractions(root: Path) -> None:
    """Make a retraction that no vector goes with, at a level that default reads look at, as other writers leave it."""
    table = created(root, "k INT, v STRING", VECTORS)
    changes(table, *(("+I", number, bulk(number)) for number in range(4)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 1, None), ("+U", 2, "two"), write_only=True)
    surgeon = Surgeon(root)
    surgeon.relevel(surgeon.at_level(3, 0).file.file_name, 0, 1)


def queries(root: Path) -> None:
    table = created(root, "k INT, v STRING, n INT", VECTORS)
    rows = [
        ("+I", number, f"{'abc'[number % 3]}{bulk(number)}", None if number % 4 == 0 else number)
        for number in range(12)
    ]
    changes(table, *rows, write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 2, None, None), ("+U", 5, "z", 50))
    changes(table, ("+U", 7, "é", 70), ("-D", 8, None, None), write_only=True)


QUERIES: Final = (
    {"fresh": True},
    {"columns": ["v"]},
    {"columns": ["n", "k"], "where": [["k", ">=", "6"]]},
    {"where": [["n", "<", "7"]]},
    {"where": [["n", "<>", "7"], ["k", "<=", "9"]]},
    {"where": [["v", ">", "c"]]},
    {"where": [["v", "=", "é"]], "fresh": True},
    {"limit": 3},
    {"limit": 0},
    {"limit": 2, "where": [["k", ">", "1"], ["k", "<", "6"]]},
    {"limit": 100, "fresh": True},
)

KEYS, MERGES = ("keys",), ("merge on read",)
TABLES: Final = (
    Made(
        "pairs",
        "a vector of two positions, written by pktable",
        ("DV-1", "DVF-2", "RD-1"),
        KEYS,
        pairs,
        ({"fresh": True},),
    ),
    Made(
        "pairs-of-64-bits",
        "the same with a vector of 64 bits",
        ("DVF-3", "RD-1"),
        (*KEYS, "vectors of 64 bits"),
        pairs_64,
    ),
    Made(
        "row-kinds",
        "records of all four row kinds, merged by a read",
        ("TBL-4", "MRG-1", "MRG-3", "RD-4"),
        MERGES,
        kinds,
    ),
    Made(
        "equal-numbers",
        "two writers that gave the same sequence numbers",
        ("LSM-4", "LSM-8", "MRG-2", "MRG-4", "MRG-6"),
        MERGES,
        ties,
    ),
    Made(
        "switched-on",
        "deletion vectors that a later schema switches on",
        ("RD-22", "RD-28", "CMT-15", "DV-15"),
        (*KEYS, "merge on read"),
        switched_on,
    ),
    Made(
        "merged-on-read-later",
        "an option of the latest schema decides how an older snapshot is read",
        ("RD-22", "RD-1"),
        KEYS,
        merged_on_read_later,
    ),
    Made(
        "same-names",
        "data files of one name in two partitions, a vector for one of them",
        ("DV-4", "DVF-9", "META-12"),
        KEYS,
        same_names,
    ),
    Made(
        "same-names-in-buckets",
        "data files of one name in two buckets, a vector for one of them",
        ("DV-4", "DVF-9"),
        KEYS,
        same_names_in_buckets,
    ),
    Made(
        "live-retractions",
        "a retraction and a newer row at level 1, without vectors on what they replace",
        ("RD-5", "DV-12"),
        KEYS,
        live_retractions,
    ),
    Made(
        "queries",
        "conditions, columns and limits over deleted rows",
        ("RD-6", "RD-7", "RD-9", "RD-3"),
        KEYS,
        queries,
        QUERIES,
    ),
)
