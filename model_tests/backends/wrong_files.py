"""Damages to the files of a table in use, each with the words in which a request must tell of it."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pktable import PkTableError, Table
from pktable.catalog.summaries import history
from pktable.format.metadata.manifest import DELETE
from pktable.format.metadata.schema import encode_schema

from model_tests.damage.table_damage import Surgeon


@dataclass(frozen=True)
class Damage:
    """``do`` damages the file of a name, or the latest snapshot, by its id. ``ask``: the request that tells of it.

    ``found``: a pattern of the error, with ``BEFORE`` for the id before that.
    """

    do: Callable[[Surgeon, str, int], object]
    found: str
    ask: Callable[[Table], object] = lambda table: table.to_arrow(fresh=True)


def _longer(surgeon: Surgeon, file: str, snapshot: int) -> None:
    with surgeon.data_file(file).open("ab") as data:
        data.write(b"\0")


def _of_zeros(surgeon: Surgeon, file: str, snapshot: int) -> None:
    path = surgeon.data_file(file)
    path.write_bytes(bytes(path.stat().st_size))


def _before(surgeon: Surgeon, snapshot: int) -> Path:
    return surgeon.root / f"snapshot/snapshot-{snapshot - 1}"


def _with_the_id_of_another(surgeon: Surgeon, file: str, snapshot: int) -> None:
    shutil.copy(_before(surgeon, snapshot), _before(surgeon, snapshot + 1))


def _without_snapshots(surgeon: Surgeon, file: str, snapshot: int) -> None:
    """Remove all snapshots. A hint or a fence shows it; a full disk may have kept the first hint from being written."""
    hint = surgeon.root / "snapshot/LATEST"
    if not (hint.exists() and hint.read_bytes()) and not list(surgeon.root.glob("fence/*")):
        raise FileNotFoundError
    for path in surgeon.root.glob("snapshot/snapshot-*"):
        path.unlink()


def _entries(change: Callable[[list[Any]], list[Any]]) -> Callable[[Surgeon, str, int], None]:
    """Return what changes the manifest of the latest snapshot's delta."""

    def do(surgeon: Surgeon, file: str, snapshot: int) -> None:
        name = surgeon.delta(snapshot)
        surgeon.put_entries(name, change(surgeon.entries(name)))

    return do


def _never_added(entries: list[Any]) -> list[Any]:
    one = entries[0]
    return [*entries, replace(one, kind=DELETE, file=replace(one.file, file_name="data-never.parquet"))]


def _rescaled(surgeon: Surgeon, file: str, snapshot: int) -> None:
    """Give the table another number of buckets than its files were written under. Without rows nothing asks for it."""
    table = Table.open(surgeon.root)
    assert table.count(fresh=True)
    schema = table.schema
    new = replace(schema, id=schema.id + 1, options={**schema.options, "bucket": "7"})
    (surgeon.root / f"schema/schema-{new.id}").write_bytes(encode_schema(new))


RESCALED: Final = (
    "option bucket is 7, but live files of the partition were written under -?[0-9]+ buckets; rescale"
    "|keys move between partitions, which is not supported with bucket=7"
)


def _first_damage(table: Table) -> None:
    """Raise the first damage that the numbers of the snapshots show."""
    for one in history(table.catalog):
        if one.damage is not None:
            raise one.damage


GAP: Final = "snapshots: expected snapshot-BEFORE, found none"
DAMAGES: Final = (
    Damage(lambda s, file, _: s.data_file(file).unlink(), "data file: expected a file, found none"),
    Damage(_longer, "file size: expected"),
    Damage(_of_zeros, "(footer|parquet data): expected"),
    Damage(lambda s, file, _: s.edit_file(file, row_count=99), "row count: expected 99"),
    Damage(
        lambda s, file, _: s.edit_rows(file, lambda rows: rows.drop_columns(["v"])), "columns: expected v"
    ),
    Damage(
        lambda s, _, last: (s.root / "manifest" / s.lists(last)[1]).unlink(),
        "manifest: expected a file, found",
    ),
    Damage(_entries(lambda entries: entries * 2), "expected each file added and deleted once"),
    Damage(_entries(_never_added), "expected an ADD before each DELETE, found DELETE of data-never.parquet"),
    Damage(
        lambda s, _, last: s.put_index(last, s.index(last) * 2),
        "expected one (DV|hash) index file per bucket",
    ),
    Damage(_with_the_id_of_another, "snapshot id: expected"),
    Damage(_rescaled, RESCALED, lambda table: table.upsert(table.to_arrow(fresh=True))),
    Damage(lambda s, _, last: _before(s, last).unlink(), GAP, lambda table: table.snapshots()),
    Damage(lambda s, _, last: _before(s, last).unlink(), GAP, _first_damage),
    Damage(
        _without_snapshots, r"snapshots: expected snapshot-\d+, found none", lambda table: table.snapshots()
    ),
    Damage(
        lambda s, _, last: (s.root / "manifest" / s.lists(last)[0]).unlink(), "manifest: exp", _first_damage
    ),
)


def unnoticed(path: Path, file: str, damage: Damage) -> str | None:
    """Damage a copy of the table at ``path``; return what was wrong with the error, None if it was right.

    Where the table has nothing that could be damaged so, nothing is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="damaged-") as folder:
        copy = Path(folder) / "t"
        shutil.copytree(path, copy)
        ids = Surgeon(copy).snapshots()
        if len(ids) < 3 and damage.found == GAP:  # it takes three to have one
            return None
        try:
            damage.do(Surgeon(copy), file, ids[-1])
        except (AssertionError, FileNotFoundError, ValueError):
            return None
        try:
            damage.ask(Table.open(copy))
        except PkTableError as error:
            found = str(error)
        else:
            found = "nothing"
    expected = damage.found.replace("BEFORE", str(ids[-1] - 1))
    return None if re.search(expected, found) else f"expected {expected!r}, found {found}"
