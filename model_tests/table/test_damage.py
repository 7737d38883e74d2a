"""Damaged bytes raise, and never change rows; missing files likewise."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import CorruptFileError, PkTableError, Table
from pktable_spec.covers import covers

from model_tests.damage.table_damage import Surgeon

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged")
    options = {"deletion-vectors.enabled": "true", "bucket": "2", "parquet.block.row.count.limit": "4"}
    table = Table.create(
        path, "p STRING, k INT, v STRING", primary_key=["p", "k"], partition_by=["p"], options=options
    )
    for step in range(3):
        keys = [i % 7 for i in range(step, step + 9)]
        table.upsert(
            pa.table({"p": [f"p{k % 2}" for k in keys], "k": keys, "v": [f"{step} {k}" for k in keys]})
        )
    table.delete(pa.table({"p": ["p1"], "k": [3]}))
    return path


def reads(path: Path) -> dict[tuple[int, bool], Rows]:
    table = Table.open(path)
    found = {}
    snapshots = table.snapshots()
    for snapshot in snapshots:
        for fresh in (False, True) if snapshot is snapshots[-1] else (True,):
            rows = table.to_arrow(snapshot=snapshot.id, fresh=fresh).to_pylist()
            found[snapshot.id, fresh] = sorted(rows, key=lambda r: (r["p"], r["k"]))
    return found


@lru_cache
def undamaged(path: Path) -> dict[tuple[int, bool], Rows]:
    return reads(path)


KINDS = (
    "snapshot/snapshot-*",
    "manifest/manifest-list-*",
    "manifest/manifest-*-*-*-*-*-*",
    "manifest/index-*",
    "index/*",
    "p=*/*/data-*",
    "schema/*",
)


@covers("RD-11", "META-10", "META-33", "META-14", "META-38")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_wrong_byte_raises_or_changes_nothing(place: Path, kind: str, data: st.DataObject) -> None:
    expected = undamaged(place)
    files = sorted(place.glob(kind))
    assert files
    path = data.draw(st.sampled_from(files))
    good = path.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
    try:
        try:
            found = reads(place)
        except PkTableError:
            return
        assert found == expected
    finally:
        path.write_bytes(good)


@covers("RD-11")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_truncated_file_raises(place: Path, kind: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(place.glob(kind))))
    good = path.read_bytes()
    path.write_bytes(good[: data.draw(st.integers(0, len(good) - 1))])
    try:
        with pytest.raises(CorruptFileError):
            reads(place)
    finally:
        path.write_bytes(good)


@covers("RD-19")
@pytest.mark.parametrize("kind", [k for k in KINDS if not k.startswith(("schema", "snapshot"))])
def test_a_missing_file_raises_and_is_named(place: Path, kind: str) -> None:
    for path in sorted(place.glob(kind)):
        good = path.read_bytes()
        path.unlink()
        try:
            with pytest.raises(CorruptFileError, match=path.name):
                reads(place)
        finally:
            path.write_bytes(good)


@covers("RD-11", "CMT-12", "CMT-25")
def test_a_write_over_a_damaged_file_raises_and_commits_nothing(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path, "k INT, v STRING", primary_key=["k"], options={"deletion-vectors.enabled": "true"}
    )
    table.upsert(pa.table({"k": range(50), "v": ["x" * i for i in range(50)]}))
    (path,) = tmp_path.glob("bucket-0/data-*")
    table.upsert(pa.table({"k": [7], "v": ["y"]}))
    good = bytearray(path.read_bytes())
    good[len(good) // 3] ^= 0x55
    path.write_bytes(good)
    before = {str(p) for p in tmp_path.rglob("*")}
    with pytest.raises(CorruptFileError, match=path.name):
        Table.open(tmp_path).compact(full=True)
    assert {str(p) for p in tmp_path.rglob("*")} == before


@covers("RD-11")
def test_a_data_file_without_a_column_that_its_schema_has_is_damage_and_names_it(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options={"bucket": "1"})
    table.upsert(pa.table({"k": [1], "v": ["a"]}))
    (file,) = table.files().column("file_name").to_pylist()
    Surgeon(tmp_path / "t").edit_rows(file, lambda rows: rows.drop_columns(["v"]))
    with pytest.raises(CorruptFileError, match="columns: expected v, found") as found:
        Table.open(tmp_path / "t").to_arrow()
    assert file in str(found.value)


@covers("RD-11")
def test_a_data_file_without_any_column_of_its_schema_is_damage_though_none_is_read(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=None)
    table.append(pa.table({"k": [1], "v": ["a"]}))
    (file,) = table.files().column("file_name").to_pylist()
    table.alter(add="n INT")
    assert table.to_arrow(columns=["n"]).to_pylist() == [{"n": None}]
    Surgeon(tmp_path / "t").edit_rows(file, lambda rows: rows.rename_columns(["x", "y"]))
    with pytest.raises(
        CorruptFileError, match=f"{file}: columns: expected one of the table's, found .'x', 'y'"
    ):
        Table.open(tmp_path / "t").to_arrow(columns=["n"])


@covers("LSM-1", "RD-11")
def test_a_merge_refuses_a_run_whose_keys_do_not_ascend(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true"}
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options=options)
    for value in ("a", "b"):
        table.upsert(pa.table({"k": [1, 2, 3], "v": [value] * 3}))
    file = table.files().column("file_name").to_pylist()[0]
    Surgeon(tmp_path / "t").edit_rows(file, lambda rows: rows.take([0, 2, 1]))
    with pytest.raises(CorruptFileError, match="key order: expected strictly ascending keys") as found:
        Table.open(tmp_path / "t").to_arrow()
    assert file in str(found.value)
    assert "found (3,) before (2,)" in str(found.value)
