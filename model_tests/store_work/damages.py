"""Scripts of tables that are damaged, or of which writers that know more keep what is not known here.

Each step damages a sound table: what a request then reads before it tells of the damage, and in which words.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import CorruptFileError, Table
from pktable.catalog.summaries import history
from pktable.format.binary_row import encode_row
from pktable.format.metadata.manifest import DELETE
from pktable.format.types import parse_type

from model_tests.damage.table_damage import Surgeon
from model_tests.store_work.play import VECTORS, Play, rows

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


def _upsert_two(table: Table) -> object:
    return table.upsert(rows(table.schema, (1, "y"), (5, "z")))


def _summaries(table: Table) -> object:
    return [(one.id, one.files, one.vectors, one.damage is not None) for one in history(table.catalog)]


def _table(play: Play, options: Mapping[str, str]) -> tuple[Table, str]:
    """Return a table with rows at two levels, and the name of the file at the greatest one."""
    table = play.written({**options, "write-only": "true"}, [(1, "a"), (2, "b"), (3, "c")])
    play.silently(
        lambda: table.compact(full=True), lambda: table.upsert(rows(table.schema, (2, "d"), (4, "e")))
    )
    (file,) = (one["file_name"] for one in table.files().to_pylist() if one["level"])
    return table, file


def _number(value: int | None) -> bytes:
    return encode_row([value], [parse_type("INT")])


def _taken(surgeon: Surgeon, file: str, of: Sequence[int]) -> None:
    surgeon.edit_rows(file, lambda found: found.take([*of, *range(len(of), found.num_rows)]))


def damaged_files(play: Play) -> None:
    """Data files that are not as their metadata says."""
    table, file = _table(play, VECTORS)
    patient = Patient(play, table, file)
    patient.step("a file is missing", lambda s, f: s.data_file(f).unlink(), _read)
    patient.step("a file is missing, where it is merged", lambda s, f: s.data_file(f).unlink(), _compact)
    patient.step("keys do not ascend, in a merge", partial(_taken, of=[1, 0]), _read)
    patient.step("keys do not ascend, in a compaction", partial(_taken, of=[1, 0]), Table.compact)
    patient.step("a key comes twice", partial(_taken, of=[0, 0, 2]), Table.compact)
    patient.step("a column is missing", _without("v"), _read)
    patient.step("more rows are expected", lambda s, f: s.edit_file(f, row_count=4), _read)
    patient.step("a key is null", lambda s, f: s.edit_file(f, min_key=_number(None)), _compact)
    patient.step("a key is beyond", lambda s, f: s.edit_file(f, max_key=_number(0)), _compact)
    full: dict[str, Any] = {"max_sequence_number": (1 << 63) - 2}
    patient.step("all numbers are taken", lambda s, f: s.edit_file(f, **full), _upsert)
    patient.step("the format is another", _of_another_format, _read)


def damaged_lookups(play: Play) -> None:
    """A compaction looks keys up in a large file of a deeper level, whose keys do not ascend."""
    table = play.create("k INT, v STRING", {**VECTORS, "parquet.block.row.count.limit": "10"})
    many = [(key, f"{key}" * 90) for key in range(0, 80, 2)]
    play.silently(lambda: table.upsert(rows(table.schema, *many)))
    patient = Patient(play, table, table.files().column("file_name")[0].as_py())
    patient.step("a key that is there", lambda s, f: None, _upsert)
    few = partial(_write_and_read, values=((3, "x"), (22, "x"), (200, "x")))
    patient.step("keys here and there", lambda s, f: None, few)
    patient.step("keys do not ascend", partial(_taken, of=[1, 0]), _upsert)
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


def _of_another_format(surgeon: Surgeon, file: str) -> None:
    surgeon.data_file(file).rename(surgeon.data_file(file).with_suffix(".lance"))
    surgeon.edit_file(file, file_name=file.replace(".parquet", ".lance"))


def damaged_metadata(play: Play) -> None:
    """Manifests, lists and indexes that say what cannot be."""
    table, file = _table(play, VECTORS)
    play.silently(lambda: table.compact())
    patient = Patient(play, table, file)
    last = table.snapshots()[-1].id
    index = f"manifest/{table.snapshots()[-1].index_manifest}"
    far = "file:/elsewhere/1"
    patient.step("a file lies elsewhere", lambda s, f: s.edit_file(f, external_path=far), _read)
    elsewhere: Damage = lambda s, f: s.edit_index(last, lambda one: replace(one, external_path=far))  # noqa: E731
    patient.step("an index lies elsewhere", elsewhere, _read)
    patient.step("an expiry of an index elsewhere", elsewhere, _expire)
    lacking: Damage = lambda s, f: (s.root / "manifest" / s.delta(last)).unlink()  # noqa: E731
    patient.step("a manifest is missing", lacking, _expire)
    patient.step("all snapshots are lost", lambda s, f: shutil.rmtree(s.root / "snapshot"), Table.snapshots)
    patient.step("they are lost, and a list is damaged", _without_lists, Table.snapshots)
    other = f"snapshot/snapshot-{last - 1}"
    patient.step("one is lost", lambda s, f: (s.root / other).unlink(), _summaries)
    patient.step("one is damaged", lambda s, f: (s.root / other).write_text("{}"), _summaries)
    patient.step("its index is lost", lambda s, f: (s.root / index).unlink(), _summaries)
    patient.step("a DELETE is alone", _deleted_alone, _read)
    dangling: Damage = lambda s, f: s.put_vectors(last, {f: [1], "data-gone.parquet": [0]})  # noqa: E731
    patient.step("a vector of a file that is gone", dangling, _upsert_two)
    patient.step("the latest snapshot lacks a manifest", lacking, _upsert_two)
    patient.step("a branch", lambda s, f: (s.root / "branch/branch-b").mkdir(parents=True), _expire)


def _expire(table: Table) -> object:
    return table.expire_snapshots(retain_last=1)


def _without_lists(surgeon: Surgeon, file: str) -> None:
    shutil.rmtree(surgeon.root / "snapshot")
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
    play.silently(lambda: table.upsert(rows(table.schema, first)))
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
    play.silently(lambda: table.overwrite(rows(table.schema, (7, "o"))))
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
    play.silently(lambda: table.compact())
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
    table = play.written({"row-tracking.enabled": "true"}, [(1, "a"), (2, "b")], [(3, "c")], key=None)
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
