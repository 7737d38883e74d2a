"""Values and row kinds that cannot be, in tables that would otherwise merge or show them: whoever meets one says so.

Each kind of damage is done to each kind of set that a table can aggregate, and to a file of changes. A set that is
alone is given back as it is; when it is to be united with another one the work is refused, and makes no snapshot.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.format.metadata.manifest import DataFileMeta
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.vocabulary import VALUE_KIND
from pyroaring import BitMap

from model_tests.engines import theta
from model_tests.engines.cases import SKETCHES
from model_tests.format.long_sets import to_bytes
from model_tests.table.foreign_tables import at, read_parquet, rewritten

NUMBERS: Final = (1, 7, 9, 1 << 17)
HASHES: Final = (5, 1 << 40, 1 << 61)
FUNCTIONS: Final[Mapping[str, tuple[str, Sequence[bytes]]]] = {
    "rbm32": (
        "32-bit Roaring bitmap",
        [BitMap(NUMBERS).serialize(), BitMap(range(3, 9_000, 2)).serialize()],
    ),
    "rbm64": ("64-bit Roaring bitmap", [to_bytes(NUMBERS), to_bytes((*NUMBERS, 1 << 40, (1 << 63) + 5))]),
    **({"theta_sketch": ("theta sketch", [theta.encode(HASHES)])} if SKETCHES else {}),
}
"""Functions that unite sets: what they call them, and some sets."""

Damage = Callable[[bytes], bytes]
DAMAGES: Final[Mapping[str, Damage]] = {
    "a byte more": lambda data: data + b"\0",
    "eight bytes more": lambda data: data + bytes(8),
    "a byte less": lambda data: data[:-1],
    "eight bytes less": lambda data: data[:-8],
    "half of it": lambda data: data[: len(data) // 2],
    "another beginning": lambda data: bytes([data[0] ^ 0x40]) + data[1:],
}
OF_SKETCHES: Final[Mapping[str, Damage]] = {
    "hashes out of order": lambda data: data[:-16] + data[-8:] + data[-16:-8],
    "a hash twice": lambda data: data[:-8] + data[-16:-8],
    "a hash of zero": lambda data: data[:-24] + bytes(8) + data[-16:],
    "a negative hash": lambda data: data[:-8] + b"\xff" * 8,
    "a hash beyond theta": lambda data: theta.encode(HASHES, 1 << 41),
}
WRONG_KINDS: Final = (4, 9, -1)


def draw(seed: int) -> None:
    """Do all damages. Raises CheckFailed, or what a table raises."""
    drawn = random.Random(seed)
    for function, (what, sets) in FUNCTIONS.items():
        damages = {**DAMAGES, **(OF_SKETCHES if function == "theta_sketch" else {})}
        for name, damage in damages.items():
            unite(function, what, drawn.choice(sets), (name, damage), drawn)
    for kind in WRONG_KINDS:
        show_changes(kind, drawn)


def unite(function: str, what: str, good: bytes, named: tuple[str, Damage], drawn: random.Random) -> None:
    """Write a damaged set and a good one of a key, in any order and maybe another key, and merge them."""
    name, damage = named
    wrong = damage(good)
    options = {"merge-engine": "aggregation", "fields.s.aggregate-function": function, "write-only": "true"}
    options["deletion-vectors.enabled"] = drawn.choice(("true", "false"))
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(folder + "/t", "k INT, s BYTES", primary_key=["k"], options=options)
        _put(table, {0: wrong})
        _one_set_is_left_alone(table, wrong)
        rest: Sequence[Sequence[Mapping[int, bytes | None]]] = (
            [{0: good}],
            [{0: None}, {0: good, 1: good}],
            [{1: good}, {0: good}],
        )
        for one in drawn.choice(rest):
            _put(table, one)
        last = table.catalog.state().id
        wrong_set_is_refused(function, what, name, lambda: table.to_arrow(fresh=True))
        wrong_set_is_refused(function, what, name, lambda: table.compact(full=True))
        if table.catalog.state().id != last:
            fail(f"{function}, {name}: a snapshot was made")


def _put(table: Table, sets: Mapping[int, bytes | None]) -> None:
    rows = {"k": pa.array(sets, pa.int32()), "s": pa.array(sets.values(), pa.binary())}
    table.upsert(pa.table(rows))


def _one_set_is_left_alone(table: Table, wrong: bytes) -> None:
    found = table.to_arrow(fresh=True).to_pylist()
    if found != [{"k": 0, "s": wrong}]:
        fail(f"a set that is alone was changed: {found}")


def show_changes(kind: int, drawn: random.Random) -> None:
    """Let one record of a file that was written have a row kind that there is not, and read the changes."""
    options = {"write-only": "true", "deletion-vectors.enabled": drawn.choice(("true", "false"))}
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(folder + "/t", "k INT, v INT", primary_key=["k"], options=options)
        count = drawn.randint(1, 4)
        table.upsert(
            pa.table({"k": pa.array(range(count), pa.int32()), "v": pa.array([0] * count, pa.int32())})
        )
        last = table.catalog.state().id
        place = drawn.randrange(count)

        def change(file: DataFileMeta, path: Path) -> DataFileMeta:
            rows = read_parquet(path)
            at_column = rows.column_names.index(VALUE_KIND)
            kinds = rows.column(at_column).to_pylist()
            kinds[place] = kind
            target = path.with_name("kinds-" + path.name)
            column = pa.array(kinds, rows.schema.field(at_column).type)
            pq.write_table(rows.set_column(at_column, rows.schema.field(at_column), column), target)
            return replace(at(file, target), delete_row_count=0)

        rewritten(Path(table.path), change)
        wrong_kind_is_told_of(Table.open(table.path), last, kind)


@check
@covers("MRG-29", "MRG-30", "MRG-31")
def wrong_set_is_refused(function: str, what: str, damage: str, work: Callable[[], Any]) -> None:
    """To unite what is no set is refused, in words that name what was expected."""
    try:
        found = work()
    except InvalidRequestError as error:
        if f"column s: expected a serialized {what}, found other bytes" in str(error):
            return
        fail(f"{function}, {damage}: {error}")
    fail(f"{function}, {damage}: not noticed, found {found}")


@check
@covers("CHG-11", "RD-11")
def wrong_kind_is_told_of(table: Table, last: int, kind: int) -> None:
    """A read of changes whose row kind there is not says so."""
    try:
        found = table.changes(last, last + 1).to_pylist()
    except CorruptFileError as error:
        if "row kinds: expected 0 to 3" in str(error):
            return
        fail(f"row kind {kind}: {error}")
    fail(f"row kind {kind}: read as {found}")
