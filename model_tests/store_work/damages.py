"""Scripts of tables that are damaged, or of which writers that know more keep what is not known here.

Each step damages a sound table: what a request then reads before it tells of the damage, and in which words.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import CorruptFileError, Table
from pktable.catalog.summaries import history
from pktable.format.binary_row import encode_row
from pktable.format.metadata.manifest import DELETE
from pktable.format.types import parse_type

from model_tests.damage.table_damage import Surgeon
from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true", "num-levels": "4"}
Damage = Callable[[Surgeon, str], object]


class Patient:
    """A table of a play, which each step finds sound before it damages it. ``file``: one of its data files."""

    def __init__(self, play: Play, table: Table, file: str) -> None:
        self._play, self._path, self.file = play, Path(table.path), file
        self._sound = self._path.with_name("sound")
        shutil.copytree(self._path, self._sound)

    def step(self, title: str, damage: Damage, work: Callable[[Table], object]) -> None:
        shutil.rmtree(self._path)
        shutil.copytree(self._sound, self._path)
        damage(Surgeon(self._path), self.file)
        self._play.step(title, lambda: work(self._play.open()))


def _read(table: Table) -> object:
    return table.to_arrow(fresh=True)


def _compact(table: Table) -> object:
    return table.compact(full=True)


def _upsert(table: Table) -> object:
    return table.upsert(rows(table.schema, (2, "z")))


def _two(table: Table) -> pa.Table:
    return rows(table.schema, (1, "y"), (5, "z"))


def _silently(play: Play, work: Callable[[], object]) -> None:
    """Do some work without a record."""
    lines = len(play.store.lines)
    play.step("", work)
    del play.store.lines[lines:]


def _table(play: Play, options: dict[str, str]) -> tuple[Table, str]:
    """Return a table with rows at two levels, and the name of the file at the greatest one."""
    table = play.create("k INT, v STRING", {**options, "write-only": "true"})
    _silently(play, lambda: table.upsert(rows(table.schema, (1, "a"), (2, "b"), (3, "c"))))
    _silently(play, lambda: table.compact(full=True))
    _silently(play, lambda: table.upsert(rows(table.schema, (2, "d"), (4, "e"))))
    (file,) = (one["file_name"] for one in table.files().to_pylist() if one["level"])
    return table, file


def _number(value: int) -> bytes:
    return encode_row([value], [parse_type("INT")])


def _swapped(found: pa.Table) -> pa.Table:
    return found.take([1, 0, *range(2, found.num_rows)])


def damaged_files(play: Play) -> None:
    """Data files that are not as their metadata says."""
    table, file = _table(play, VECTORS)
    patient = Patient(play, table, file)
    patient.step("a file is missing", lambda s, f: s.data_file(f).unlink(), _read)
    patient.step("a file is missing, where it is merged", lambda s, f: s.data_file(f).unlink(), _compact)
    swap: Damage = lambda s, f: s.edit_rows(f, _swapped)  # noqa: E731
    patient.step("keys do not ascend, in a merge", swap, _read)
    patient.step("keys do not ascend, in a compaction", swap, lambda table: table.compact())
    twice: Damage = lambda s, f: s.edit_rows(f, lambda found: found.take([0, 0, 2]))  # noqa: E731
    patient.step("a key comes twice", twice, lambda table: table.compact())
    patient.step(
        "a column is missing", lambda s, f: s.edit_rows(f, lambda found: found.drop_columns(["v"])), _read
    )
    patient.step("more rows are expected", lambda s, f: s.edit_file(f, row_count=4), _read)
    patient.step("a key is null", lambda s, f: s.edit_file(f, min_key=_null()), _compact)
    patient.step("a key is beyond", lambda s, f: s.edit_file(f, max_key=_number(0)), _compact)
    full: dict[str, Any] = {"max_sequence_number": (1 << 63) - 2}
    patient.step("all numbers are taken", lambda s, f: s.edit_file(f, **full), _upsert)
    patient.step("the format is another", _of_another_format, _read)


def damaged_lookups(play: Play) -> None:
    """A compaction looks keys up in a large file of a deeper level, whose keys do not ascend."""
    table = play.create("k INT, v STRING", {**VECTORS, "parquet.block.row.count.limit": "10"})
    many = [(key, f"{key}" * 90) for key in range(0, 80, 2)]
    _silently(play, lambda: table.upsert(rows(table.schema, *many)))
    patient = Patient(play, table, table.files().column("file_name")[0].as_py())
    swap: Damage = lambda s, f: s.edit_rows(f, _swapped)  # noqa: E731
    patient.step("a key that is there", lambda s, f: None, _upsert)
    few = partial(_write_and_read, values=((3, "x"), (22, "x"), (200, "x")))
    patient.step("keys here and there", lambda s, f: None, few)
    patient.step("keys do not ascend", swap, _upsert)
    patient.step("bytes are others", _flipped, _named)


def _write_and_read(table: Table, values: Sequence[tuple[int, str]]) -> object:
    table.upsert(rows(table.schema, *values))
    return table.files().select(["level", "row_count", "deleted_row_count"])


def _flipped(surgeon: Surgeon, file: str) -> None:
    path = surgeon.data_file(file)
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(data)


def _named(table: Table) -> object:
    """Return the text of an error about damage, without the words of a library."""
    try:
        return table.to_arrow()
    except CorruptFileError as error:
        return str(error).partition(", found ")[0]


def _null() -> bytes:
    return encode_row([None], [parse_type("INT")])


def _of_another_format(surgeon: Surgeon, file: str) -> None:
    surgeon.data_file(file).rename(surgeon.data_file(file).with_suffix(".lance"))
    surgeon.edit_file(file, file_name=file.replace(".parquet", ".lance"))


def damaged_metadata(play: Play) -> None:
    """Manifests, lists and indexes that say what cannot be."""
    table, file = _table(play, VECTORS)
    _silently(play, lambda: table.compact())
    patient = Patient(play, table, file)
    last = table.snapshots()[-1].id
    far = "file:/elsewhere/data-1.parquet"
    patient.step("a file lies elsewhere", lambda s, f: s.edit_file(f, external_path=far), _read)
    elsewhere: Damage = lambda s, f: s.edit_index(  # noqa: E731
        last, lambda one: replace(one, external_path="file:/elsewhere/index-1")
    )
    patient.step("an index lies elsewhere", elsewhere, _read)
    patient.step("an expiry of an index elsewhere", elsewhere, _expire)
    patient.step(
        "a manifest is missing",
        lambda s, f: (s.root / "manifest" / s.delta(last)).unlink(),
        lambda table: table.expire_snapshots(retain_last=1),
    )
    patient.step("all snapshots are lost", _without_snapshots, lambda table: table.snapshots())
    patient.step("they are lost, and a list is damaged", _without_lists, lambda table: table.snapshots())
    patient.step(
        "one is lost",
        lambda s, f: (s.root / f"snapshot/snapshot-{last - 1}").unlink(),
        lambda table: [(one.id, one.files, one.damage is not None) for one in history(table.catalog)],
    )
    patient.step(
        "one is damaged",
        lambda s, f: (s.root / f"snapshot/snapshot-{last - 1}").write_text("{}"),
        lambda table: [(one.id, one.files, one.damage is not None) for one in history(table.catalog)],
    )
    patient.step(
        "its index is lost",
        lambda s, f: (s.root / "manifest" / str(s.snapshot(last).index_manifest)).unlink(),
        lambda table: [(one.id, one.files, one.vectors) for one in history(table.catalog)],
    )
    patient.step("a DELETE is alone", _deleted_alone, _read)
    dangling: Damage = lambda s, f: s.put_vectors(last, {f: [1], "data-gone.parquet": [0]})  # noqa: E731
    patient.step("a vector of a file that is gone", dangling, lambda table: table.upsert(_two(table)))
    patient.step(
        "the latest snapshot lacks a manifest",
        lambda s, f: (s.root / "manifest" / s.delta(last)).unlink(),
        lambda table: table.upsert(_two(table)),
    )
    patient.step("a branch", lambda s, f: (s.root / "branch/branch-b").mkdir(parents=True), _expire)


def _expire(table: Table) -> object:
    return table.expire_snapshots(retain_last=1)


def _without_snapshots(surgeon: Surgeon, file: str) -> None:
    shutil.rmtree(surgeon.root / "snapshot")


def _without_lists(surgeon: Surgeon, file: str) -> None:
    _without_snapshots(surgeon, file)
    for path in sorted((surgeon.root / "manifest").glob("manifest-list-*"))[1:]:
        path.write_bytes(b"")


def _deleted_alone(surgeon: Surgeon, file: str) -> None:
    last = surgeon.snapshots()[-1]
    name = surgeon.delta(last)
    one = surgeon.entries(name)[0]
    never = replace(one, kind=DELETE, file=replace(one.file, file_name="data-never.parquet"))
    surgeon.put_entries(name, [*surgeon.entries(name), never])


def damaged_partitions(play: Play) -> None:
    """A partition whose value names no directory."""
    table = play.create(
        "d DATE, k INT, v STRING",
        {**VECTORS, "partition.legacy-name": "false"},
        primary_key=["d", "k"],
        partition_by="d",
    )
    first = (dt.date(2024, 2, 29), 1, "a")
    _silently(play, lambda: table.upsert(rows(table.schema, first)))
    patient = Patient(play, table, table.files().column("file_name")[0].as_py())
    beyond = encode_row([4_000_000], [parse_type("DATE")])

    def change(surgeon: Surgeon, file: str) -> None:
        for number in (1, 2):
            surgeon.edit_entries(number, lambda one: replace(one, partition=beyond))

    patient.step("a day after 9999", change, _read)
    patient.step("a day after 9999, compacted", change, _compact)
    patient.step("by a condition", change, lambda table: table.to_arrow(where="d = DATE '2024-02-29'"))


def damaged_changes(play: Play) -> None:
    """Changes that are not known: of a file that goes, of an overwrite, of what was rolled back."""
    table, file = _table(play, {})
    _silently(play, lambda: table.overwrite(rows(table.schema, (7, "o"))))
    patient = Patient(play, table, file)
    patient.step("changes of an overwrite", lambda s, f: None, lambda table: table.changes(0).to_arrow())
    patient.step("changes before it", lambda s, f: None, lambda table: table.changes(0, 3).to_arrow())
    patient.step(
        "a DELETE among changes",
        lambda s, f: s.put_entries(s.delta(3), [replace(one, kind=DELETE) for one in s.entries(s.delta(3))]),
        lambda table: table.changes(2, 3).to_arrow(),
    )

    def rolled_back(table: Table) -> object:
        table.create_tag("gone", snapshot=3)
        shutil.copy(f"{table.path}/tag/tag-gone", f"{table.path}/kept")
        table.delete_tag("gone")
        table.rollback(snapshot=2)
        shutil.copy(f"{table.path}/kept", f"{table.path}/tag/tag-gone")
        return table.changes("gone").to_arrow()

    patient.step("changes after a tag of what was rolled back", lambda s, f: None, rolled_back)


def other_indexes(play: Play) -> None:
    """Index files of other types are kept by a commit, and not read."""
    table, file = _table(play, VECTORS)
    _silently(play, lambda: table.compact())
    last = table.snapshots()[-1].id

    def add(surgeon: Surgeon, file: str) -> None:
        (one,) = surgeon.index(last)
        surgeon.put_index(last, [replace(one, index_type="HASH", file_name="index-hash", ranges=None), one])

    patient = Patient(play, table, file)
    bare: Damage = lambda s, f: s.edit_index(last, lambda one: replace(one, ranges=None))  # noqa: E731
    patient.step("read an index that does not say where its vectors are", bare, _read)
    patient.step("compact it", bare, _compact)
    patient.step("write and compact", add, lambda table: (_upsert(table), table.compact())[1])
    patient.step("delete and read", add, lambda table: (table.delete(where="k = 1"), _read(table))[1])


def damaged_rows_with_ids(play: Play) -> None:
    """Files of append tables without ids, and columns of equal rows that are not as many."""
    table = play.create("k INT, v STRING", {"row-tracking.enabled": "true"}, primary_key=None)
    _silently(play, lambda: table.append(rows(table.schema, (1, "a"), (2, "b"))))
    _silently(play, lambda: table.append(rows(table.schema, (3, "c"))))
    patient = Patient(play, table, table.files().column("file_name")[0].as_py())
    patient.step("ids are missing", lambda s, f: s.edit_file(f, first_row_id=None), _compact)
    patient.step("a column is missing", _without("k"), lambda table: table.to_arrow(columns=["k"]))
    patient.step("all columns are missing", _without("k", "v"), lambda table: table.to_arrow())
    patient.step("count", _without("k"), lambda table: table.to_arrow(columns=["v"], where="v = 'a'"))


def _without(*names: str) -> Damage:
    def do(surgeon: Surgeon, file: str) -> None:
        def edited(found: pa.Table) -> pa.Table:
            left = found.drop_columns(list(names))
            return left if left.num_columns else pa.table({"other": [0] * found.num_rows})

        surgeon.edit_rows(file, edited)

    return do
