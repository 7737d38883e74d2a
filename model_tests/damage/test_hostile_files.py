"""Only regular files of a bounded size are read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, InvalidRequestError, OutsideTableError, Table
from pktable.store.file_io import LocalFileIO
from pktable.store.guard import guarded
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.damage.attacks import LAST, live, refusals
from model_tests.damage.table_damage import Surgeon


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def a_dangling_link(path: Path) -> None:
    path.symlink_to(path.name + "-nowhere")


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@covers("SAFE-3")
@pytest.mark.parametrize("make", [a_pipe, a_socket, Path.mkdir, a_device, a_dangling_link])
@pytest.mark.parametrize(
    "kind",
    [
        "schema/schema-0",
        "schema/schema-1",
        "snapshot/snapshot-5",
        "tag/tag-a",
        "fence/fence-9",
    ],
)
def test_only_regular_files_are_read(path: Path, make: Callable[[Path], None], kind: str) -> None:
    (path / kind).parent.mkdir(exist_ok=True)
    (path / kind).unlink(missing_ok=True)
    make(path / kind)
    roots = {"external_roots": ["/dev"]} if make is a_device else {}
    errors = refusals(path, **roots)
    assert errors
    assert all("expected a regular file" in str(error) for error in errors)


def a_file_of_many_bytes(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 34)


@covers("CMT-13", "SAFE-3")
@pytest.mark.parametrize("make", [a_pipe, a_socket, Path.mkdir, a_dangling_link, a_file_of_many_bytes])
def test_a_hint_that_is_no_file_is_no_hint(path: Path, make: Callable[[Path], None]) -> None:
    table = Table.open(path)
    expected = table.to_arrow().to_pylist()
    for name in ("LATEST", "EARLIEST"):
        (path / "snapshot" / name).unlink()
        make(path / "snapshot" / name)
    assert Table.open(path).to_arrow().to_pylist() == expected
    last = table.snapshots()[-1].id
    table.upsert(table.to_arrow().slice(0, 1))
    assert table.snapshots()[-1].id > last
    assert not refusals(path)


@covers("SAFE-3")
def test_a_data_file_or_index_or_manifest_that_is_a_pipe_is_refused(path: Path) -> None:
    surgeon = Surgeon(path)
    for file in (
        surgeon.data_file(live(surgeon)),
        surgeon.index_file(LAST),
        path / "manifest" / surgeon.delta(LAST),
    ):
        good = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(CorruptFileError, match="a named pipe"):
            Table.open(path).to_arrow(fresh=True)
        assert check(path).errors
        file.unlink()
        file.write_bytes(good)


@covers("SAFE-6")
@pytest.mark.parametrize("kind", ["schema/schema-0", "snapshot/snapshot-5", "tag/tag-a"])
def test_a_file_of_a_terabyte_is_not_read(path: Path, kind: str) -> None:
    with (path / kind).open("r+b") as file:
        try:
            file.truncate(1 << 40)
        except OSError:
            file.truncate(1 << 34)  # file systems without files of that size
    errors = refusals(path)
    assert errors
    assert all("size of a metadata file" in str(error) for error in errors)


@covers("SAFE-6")
@pytest.mark.parametrize("kind", ["manifest/manifest-*", "index/*"])
def test_a_manifest_or_dv_index_file_of_a_terabyte_is_not_read(path: Path, kind: str) -> None:
    for found in path.glob(kind):
        with found.open("r+b") as file:
            file.truncate(1 << 34)
    errors = refusals(path)
    assert errors
    assert all("size of a metadata file" in str(error) for error in errors)


def with_column(file: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Rewrite a column of a Parquet file in any Arrow type, which the file tells Arrow."""
    table = pq.read_table(file)
    at = table.column_names.index(name)
    pq.write_table(table.set_column(at, name, change(table.column(at))), file)


def rewritten(surgeon: Surgeon, name: str, change: Callable[[Any], Any]) -> None:
    file = surgeon.data_file(live(surgeon))
    with_column(file, name, change)
    surgeon.edit_file(file.name, file_size=file.stat().st_size)


@covers("RD-11", "META-17")
@pytest.mark.parametrize("column", ["k", "p", "v"])
def test_a_column_that_a_file_calls_a_dictionary_is_read_and_checked_as_any_other(
    path: Path, column: str
) -> None:
    table = Table.open(path)
    expected = [table.to_arrow(fresh=fresh).sort_by("k").to_pylist() for fresh in (False, True)]
    rewritten(Surgeon(path), column, lambda values: values.dictionary_encode())
    table = Table.open(path)
    assert [table.to_arrow(fresh=fresh).sort_by("k").to_pylist() for fresh in (False, True)] == expected
    assert not [str(one) for one in table.check().findings if one.severity == "error"]
    table.compact(full=True)
    assert Table.open(path).to_arrow().sort_by("k").to_pylist() == expected[1]
    assert not refusals(path)


@covers("RD-11")
@pytest.mark.parametrize("encoded", [True, False])
def test_text_that_is_no_utf_8_is_a_finding_and_no_crash(path: Path, encoded: bool) -> None:
    def broken(values: Any) -> Any:
        data = pa.array([b"\xff" if i == 0 else b"x" for i in range(len(values))])
        text = pa.StringArray.from_buffers(len(data), data.buffers()[1], data.buffers()[2])
        return text.dictionary_encode() if encoded else text

    surgeon = Surgeon(path)
    rewritten(surgeon, "v", broken)
    assert "UTF8" in str(Table.open(path).check())
    with pytest.raises(InvalidRequestError, match=r"^where .*upper.*UTF8"):
        Table.open(path).to_arrow(where="upper(v) = 'A'")
    errors = refusals(path)
    assert errors
    assert all(
        "UTF8" in str(error) and surgeon.data_file(live(surgeon)).name in str(error) for error in errors
    )


@covers("RD-11", "META-3")
def test_a_manifest_list_that_names_itself_is_damage_to_everyone(path: Path) -> None:
    surgeon = Surgeon(path)
    for name in surgeon.lists(LAST):
        size = (path / "manifest" / name).stat().st_size
        surgeon.put_metas(name, [replace(one, file_name=name, file_size=size) for one in surgeon.metas(name)])
    errors = refusals(path)
    assert errors
    assert all(isinstance(error, CorruptFileError) for error in errors)
    assert check(path).errors
    with pytest.raises(CorruptFileError):
        Table.open(path).remove_orphans(older_than="2100-01-01")


@covers("SAFE-2", "SAFE-3")
def test_a_file_that_another_process_will_open_is_looked_at_as_if_it_were_opened(path: Path) -> None:
    store = guarded(LocalFileIO(), str(path))
    file = Surgeon(path).data_file(live(Surgeon(path)))
    store.expect_readable(str(file))
    outside = path.parent / "outside.parquet"
    file.rename(outside)
    file.symlink_to(outside)
    with pytest.raises(OutsideTableError, match=r"outside\.parquet"):
        store.expect_readable(str(file))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CorruptFileError, match="a named pipe"):
        store.expect_readable(str(file))
    with pytest.raises(CorruptFileError, match="a directory below"):
        store.expect_readable(str(outside))
