"""A table directory of someone else cannot make a reader leave it, hang, run out of memory, or obey its text."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, InvalidRequestError, OutsideTableError, PkTableError, Table
from pktable.catalog.as_of import AsOf
from pktable.cli.output import json_text
from pktable.cli.process import run
from pktable.cli.progress import tell
from pktable.format import avro, bounds
from pktable.format.avro import decode_container
from pktable.format.bounds import MOST_JSON_BYTES
from pktable.format.metadata.columnar_records import decode_columnar
from pktable.format.metadata.json_text import decode_json
from pktable.format.metadata.manifest import MANIFEST, encode_manifest
from pktable.format.metadata.schema import decode_schema
from pktable.format.partition_path import partition_path
from pktable.format.types import Field, parse_type
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import encode_index
from pktable.store.file_io import LocalFileIO
from pktable.store.guard import GuardedStore, guarded
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.options import parse_options

from model_tests.damage.every_byte import make_table
from model_tests.damage.table_damage import Surgeon
from model_tests.real_data import VECTORS

Edit = Callable[[Surgeon], None]

LAST = 5
"""The latest snapshot of the template."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "table"
    make_table(path)
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "warehouse" / "table"))


def operations(path: Path, **arguments: Any) -> Iterator[Callable[[], Any]]:
    """Yield what users do with a table, those operations that change it last."""
    rows = pa.table({"p": ["a"], "k": pa.array([3], pa.int32()), "v": ["z"], "n": pa.array([1], pa.int32())})

    def table() -> Table:
        return Table.open(path, **arguments)

    yield lambda: table().to_arrow()
    yield lambda: table().to_arrow(fresh=True, where="n >= 3")
    yield lambda: table().to_arrow(where="p = 'a' AND k = 3")
    yield lambda: table().to_arrow(timestamp=10**13)
    yield lambda: table().to_arrow(tag="a")
    yield lambda: [table().count(fresh=fresh) for fresh in (False, True)]
    yield lambda: [table().files(), table().inspect.buckets(), table().inspect.vectors()]
    yield lambda: [table().snapshots(), table().tags()]
    yield lambda: table().plan_compaction()
    yield lambda: check(path, **arguments)
    yield lambda: table().upsert(rows)
    yield lambda: table().compact(full=True)
    yield lambda: table().expire_snapshots(retain_last=1)
    yield lambda: table().delete_tag("a")


def refusals(path: Path, **arguments: Any) -> list[PkTableError]:
    """Return the errors of all operations. Any error of another kind is a failure, and so is an endless one."""
    found = []
    for operation in operations(path, **arguments):
        began = time.monotonic()
        try:
            operation()
        except PkTableError as error:
            found.append(error)
        assert time.monotonic() - began < 20
    return found


def outside(path: Path) -> dict[str, bytes | None]:
    """Return the files around a table, which no operation may change."""
    return {
        str(file): file.read_bytes() if file.is_file() else None
        for file in path.parent.parent.rglob("*")
        if not file.is_relative_to(path)
    }


# ------------------------------------------------------------- metadata with extreme values

INTEGERS = (-1, -(1 << 63), (1 << 31) - 1, 1 << 31, (1 << 63) - 1)
TEXTS = ("", "..", "../../victim/kept", "/etc/passwd", "a\0b", "a\\b", "x" * 300, "\x1b[31m")
BYTES = (b"", b"\xff" * 20, b"\x7f\xff\xff\xff" + bytes(80))
EXTERNAL = "file:/etc/passwd"


def live(surgeon: Surgeon) -> str:
    return surgeon.at_level(LAST, 5).file.file_name


def file_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_file(live(surgeon), **changes)


def entry_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_entries(LAST, lambda entry: replace(entry, **changes))


def index_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_index(LAST, lambda entry: replace(entry, **changes))


def range_edit(**changes: Any) -> Edit:
    def edit(surgeon: Surgeon) -> None:
        def changed(entry: Any) -> Any:
            first, *others = entry.ranges
            return replace(entry, ranges=(replace(first, **changes), *others))

        surgeon.edit_index(LAST, changed)

    return edit


def meta_edit(**changes: Any) -> Edit:
    def edit(surgeon: Surgeon) -> None:
        name = surgeon.lists(LAST)[1]
        surgeon.put_metas(name, [replace(meta, **changes) for meta in surgeon.metas(name)])

    return edit


def snapshot_edit(**changes: Any) -> Edit:
    return lambda surgeon: surgeon.edit_snapshot(LAST, **changes)


def schema_edit(change: Callable[[dict[str, Any]], None]) -> Edit:
    def edit(surgeon: Surgeon) -> None:
        path = surgeon.root / "schema/schema-0"
        fields = json.loads(path.read_bytes())
        del fields["pktable.crc32"]
        change(fields)
        path.write_text(json.dumps(fields), "utf-8")

    return edit


def field_edit(number: int, name: str, value: Any) -> Edit:
    return schema_edit(lambda schema: schema["fields"][number].update({name: value}))


def option_edit(name: str, value: str) -> Edit:
    return schema_edit(lambda schema: schema["options"].update({name: value}))


FIELDS: tuple[tuple[Callable[..., Edit], str, tuple[Any, ...]], ...] = (
    (file_edit, "file_name", TEXTS),
    (file_edit, "extra_files", (("../../victim/kept",), ("/etc/passwd",), ("a", "a"))),
    (file_edit, "external_path", (EXTERNAL, "file:///etc/../etc/passwd", "nosuch://a/b", "relative/../..")),
    (file_edit, "file_size", INTEGERS),
    (file_edit, "row_count", INTEGERS),
    (file_edit, "level", (-1, (1 << 31) - 1)),
    (file_edit, "schema_id", INTEGERS),
    (file_edit, "min_key", BYTES),
    (file_edit, "max_sequence_number", INTEGERS),
    (file_edit, "value_stats_cols", (("nosuch",), ("k", "k"))),
    (entry_edit, "partition", BYTES),
    (entry_edit, "bucket", (-1, -2, (1 << 31) - 1, 1 << 31, 1 << 40)),
    (entry_edit, "total_buckets", (0, -1, (1 << 31) - 1)),
    (meta_edit, "file_name", TEXTS),
    (meta_edit, "file_size", INTEGERS),
    (index_edit, "file_name", TEXTS),
    (index_edit, "external_path", (EXTERNAL,)),
    (index_edit, "file_size", INTEGERS),
    (index_edit, "partition", BYTES),
    (index_edit, "bucket", (-1, (1 << 31) - 1)),
    (range_edit, "data_file", TEXTS),
    (range_edit, "offset_bytes", (-1, (1 << 31) - 1)),
    (range_edit, "length_bytes", (-1, (1 << 31) - 1)),
    (range_edit, "cardinality", INTEGERS),
    (snapshot_edit, "base_manifest_list", TEXTS),
    (snapshot_edit, "index_manifest", TEXTS),
    (snapshot_edit, "schema_id", INTEGERS),
    (snapshot_edit, "time_millis", INTEGERS),
    (snapshot_edit, "total_record_count", INTEGERS),
)
ATTACKS: dict[str, Edit] = {
    **{
        f"{edit.__name__.removesuffix('_edit')} {name} {value!r:.30}": edit(**{name: value})
        for edit, name, values in FIELDS
        for value in values
    },
    **{
        f"option {name} {value[:30]!r}": option_edit(name, value)
        for name in (
            "bucket",
            "num-levels",
            "target-file-size",
            "metadata.stats-mode",
            "data-file.path-directory",
        )
        for value in ("-1", "2147483647", "9" * 5000, "truncate(" + "9" * 5000 + ")", "..", "a/../..", "a\0b")
    },
    **{
        f"type {str(value)[:30]!r}": field_edit(2, "type", value)
        for value in ("ARRAY<" * 2000, f"DECIMAL({'9' * 5000})", "ROW<a INT>", {"type": "ROW", "fields": []})
    },
    **{
        f"schema {name} {value!r:.30}": schema_edit(lambda schema, n=name, v=value: schema.update({n: v}))  # type: ignore[misc]
        for name, value in (
            ("primaryKeys", []),
            ("primaryKeys", ["p"]),
            ("highestFieldId", 10**400),
            ("id", 1 << 70),
            ("options", {"bucket": None}),
        )
    },
}


@covers("SAFE-1", "SAFE-2", "RD-11")
@pytest.mark.parametrize("name", ATTACKS)
def test_no_value_of_metadata_breaks_a_reader_or_leads_it_away(path: Path, name: str) -> None:
    victim = path.parent / "victim"
    victim.mkdir()
    (victim / "kept").write_bytes(b"kept")
    with contextlib.suppress(PkTableError, OverflowError):  # what cannot be encoded is no attack
        ATTACKS[name](Surgeon(path))
    before = outside(path)
    refusals(path)
    assert outside(path) == before


FENCE = {"version": 1, "expired": 0, "rollbacks": [], "ended": {}}


@covers("SAFE-6", "META-52")
@pytest.mark.parametrize("number", ["1", "9" * 200])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"expired": -5},
        {"expired": None},
        {"rollbacks": [1]},
        {"rollbacks": [{"fence": 1, "target": 9}] * 5000},
        {"ended": {"x": "y"}},
        {"ended": {"9" * 5000: "y"}},
        {"ended": {"5": "../../x"}},
    ],
    ids=str,
)
def test_no_fence_breaks_a_reader_or_leads_it_away(path: Path, number: str, changes: dict[str, Any]) -> None:
    (path / "fence").mkdir()
    (path / f"fence/fence-{number}").write_text(json.dumps(FENCE | changes))
    before = outside(path)
    refusals(path)
    assert outside(path) == before


@covers("SAFE-1")
def test_an_expiry_deletes_no_extra_file_outside_of_the_bucket(path: Path) -> None:
    victim = path.parent / "kept"
    victim.write_bytes(b"kept")
    Surgeon(path).edit_file(live(Surgeon(path)), extra_files=("../../../kept",))
    table = Table.open(path)
    for delete in (lambda: table.expire_snapshots(retain_last=1), lambda: table.delete_tag("a")):
        with pytest.raises(CorruptFileError, match="_EXTRA_FILES"):
            delete()
    assert victim.exists()


@covers("SAFE-1")
@pytest.mark.parametrize("directory", ["..", "a/../../b", "./a", "a\\..\\b"])
def test_a_directory_of_data_files_outside_of_the_table_is_refused(directory: str) -> None:
    with pytest.raises(InvalidRequestError, match="below the table"):
        parse_options({"data-file.path-directory": directory})


@covers("SAFE-1", "META-31")
@pytest.mark.parametrize("value", ["..", ".", "../../x", "/etc", "a\0b", "\\..\\"])
def test_a_partition_value_stays_one_directory(value: str) -> None:
    for default in (value, "__DEFAULT_PARTITION__"):
        path = partition_path(
            [value, None], [Field(0, "p", parse_type("STRING")), Field(1, value, parse_type("STRING"))],
            default_name=default,
        )  # fmt: skip
        parts = path.split("/")
        assert len(parts) == 2
        assert all("=" in part and "\0" not in part and "\\" not in part for part in parts)


@covers("SAFE-1")
def test_a_path_that_leads_up_is_refused_whoever_spells_it(path: Path) -> None:
    store = guarded(LocalFileIO(), str(path))
    for wrong in (f"{path}/schema/../../x", f"{path}/../x", f"{path}x/schema-0", "/etc/passwd"):
        for access in (store.read, store.open, store.create, store.exists, store.delete, store.list_names):
            if access == store.list_names or not wrong.startswith("/etc"):
                with pytest.raises(CorruptFileError, match="expected a directory below"):
                    access(wrong if access != store.list_names else wrong + "/y")
    with pytest.raises(InvalidRequestError):
        AsOf.given(tag="../../secret")


# ------------------------------------------------------------- links and external paths


def linked(path: Path, name: str, target: Path) -> None:
    """Move what ``name`` is to ``target``, and leave a link."""
    target.parent.mkdir(exist_ok=True)
    os.replace(path / name, target)
    (path / name).symlink_to(target)


PARTS = (
    "schema",
    "snapshot",
    "manifest",
    "index",
    "tag",
    "p=a",
    "p=a/bucket-0",
    "schema/schema-0",
    "tag/tag-a",
)


@covers("SAFE-2")
@pytest.mark.parametrize("name", [*PARTS, "snapshot/snapshot-5"])
def test_a_link_out_of_the_table_is_followed_only_if_the_caller_allows_it(path: Path, name: str) -> None:
    expected = Table.open(path).to_arrow().to_pylist()
    tagged = Table.open(path).to_arrow(tag="a").to_pylist()
    away = path.parent / "away"
    linked(path, name, away / "x")
    twin = Path(shutil.copytree(path, path.parent / "twin" / "table", symlinks=True))
    before = outside(twin)
    errors = refusals(twin)
    assert any(isinstance(error, OutsideTableError) and error.link for error in errors)
    assert all(isinstance(error, OutsideTableError) for error in errors)
    assert outside(twin) == before
    with contextlib.suppress(OutsideTableError):
        report = check(path)
        assert [one.clause for one in report.findings if one.severity == "error"].count("SAFE-2") > 0
    allowed = Table.open(path, external_roots=[away])
    assert allowed.to_arrow().to_pylist() == expected
    assert allowed.to_arrow(tag="a").to_pylist() == tagged


@covers("SAFE-2")
def test_a_data_file_that_is_a_link_is_refused(path: Path) -> None:
    file = Surgeon(path).data_file(live(Surgeon(path)))
    linked(file.parent, file.name, path.parent / "away" / file.name)
    with pytest.raises(OutsideTableError, match=re.escape(file.name)):
        Table.open(path).to_arrow()
    assert "SAFE-2" in {finding.clause for finding in check(path).findings}
    assert Table.open(path, external_roots=[path.parent / "away"]).to_arrow().num_rows


@covers("SAFE-2")
def test_links_inside_the_table_and_above_it_are_followed(path: Path) -> None:
    expected = Table.open(path).to_arrow().to_pylist()
    (path / "moved").mkdir()
    linked(path, "p=a/bucket-0", path / "moved/bucket-0")
    outer = path.parent.parent / "outer"
    outer.symlink_to(path.parent)
    direct = path.parent / "direct"
    direct.symlink_to(path)
    for same in (path, outer / "table", direct):
        assert Table.open(same).to_arrow().to_pylist() == expected


@covers("SAFE-2")
def test_a_hint_that_is_a_link_makes_a_writer_change_nothing_else(path: Path) -> None:
    victim = path.parent / "victim"
    victim.write_text("precious")
    for hint in ("EARLIEST", "LATEST"):
        (path / "snapshot" / hint).unlink()
        (path / "snapshot" / hint).symlink_to(victim)
        refusals(path)
        assert victim.read_text() == "precious"


@covers("SAFE-2", "META-18")
def test_an_external_path_is_used_only_below_an_external_root(path: Path) -> None:
    expected = Table.open(path).to_arrow().to_pylist()
    surgeon = Surgeon(path)
    file = surgeon.data_file(live(surgeon))
    away = path.parent / "away"
    away.mkdir()
    os.replace(file, away / file.name)
    surgeon.edit_file(file.name, external_path=f"file://{away / file.name}")
    shutil.copy(path / "snapshot/snapshot-2", path / "tag/tag-a")
    roots: list[Any] = [[], [path.parent / "awa"], [f"{away}/deeper"], ["s3://bucket"]]
    for refused in roots:
        twin = Path(shutil.copytree(path, path.parent / f"twin{len(list(path.parent.iterdir()))}"))
        errors = refusals(twin, external_roots=refused)
        assert len(errors) >= 10
        assert [error for error in errors if not isinstance(error, OutsideTableError)] == []
    assert "SAFE-2" in {finding.clause for finding in check(path).findings}
    assert (away / file.name).exists()
    for allowed in (away, f"file:{away}", f"file://{away}/", str(path.parent)):
        table = Table.open(path, external_roots=[allowed])
        assert table.to_arrow().to_pylist() == expected
        assert not check(path, external_roots=[allowed]).errors
    surgeon.edit_file(file.name, external_path=f"file:{away}/../away/{file.name}")
    with pytest.raises(OutsideTableError):
        Table.open(path, external_roots=[away]).to_arrow()


@covers("SAFE-2")
def test_the_command_line_takes_external_roots_from_the_environment(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    linked(path, "p=a", path.parent / "away/p=a")
    assert run(["read", str(path)]) == 2
    assert "external_roots" in capsys.readouterr().err
    assert run(["check", str(path)]) == 1
    monkeypatch.setenv("PKTABLE_EXTERNAL_ROOTS", f"/nowhere,{path.parent / 'away'}")
    assert run(["read", str(path)]) == 0
    assert run(["check", str(path)]) == 0


# ------------------------------------------------------------- no file at all, or a huge one


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
        "snapshot/LATEST",
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
@pytest.mark.parametrize("kind", ["schema/schema-0", "snapshot/snapshot-5", "snapshot/LATEST", "tag/tag-a"])
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


# ------------------------------------------------------------- few bytes that stand for many


@covers("SAFE-6")
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"id":' + b"9" * 100_000 + b"}",
        b'{"fields":' + b"[" * 900 + b"]" * 900 + b"}",
        b"{}" + b" " * MOST_JSON_BYTES,
    ],
)
def test_deep_or_long_json_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_schema(data, at="schema-0")
    assert len(str(caught.value)) < 2000
    with pytest.raises(CorruptFileError):
        decode_json(data, at="x").long("id")


@covers("SAFE-6")
def test_json_of_more_bytes_than_any_writer_makes_is_not_parsed() -> None:
    long = b'{"id": 1' + b" " * MOST_JSON_BYTES + b"}"
    with pytest.raises(CorruptFileError, match=f"at most {MOST_JSON_BYTES} bytes"):
        decode_json(long, at="x")


@covers("SAFE-6")
def test_the_message_about_a_schema_of_many_columns_is_short(path: Path) -> None:
    fields = [{"id": 0, "name": f"c{i}", "type": "INT"} for i in range(20_000)]
    schema_edit(lambda schema: schema.update({"fields": fields, "primaryKeys": [], "partitionKeys": []}))(
        Surgeon(path)
    )
    with pytest.raises(CorruptFileError) as caught:
        Table.open(path)
    assert len(str(caught.value)) < 2000


@covers("SAFE-6")
def test_all_blocks_of_a_manifest_together_unpack_to_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    stored = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "string"}]}
    fastavro.writer(stored, schema, [{"f": "x" * 1000}] * 5000, codec="zstandard", sync_interval=10_000)
    assert len(decode_container(stored.getvalue(), "x")) == 5000
    monkeypatch.setattr(avro, "MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(CorruptFileError, match="at most 1048576 bytes unpacked"):
        decode_container(stored.getvalue(), "x")


@covers("SAFE-6")
def test_a_block_unpacks_to_a_bounded_size_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    monkeypatch.setattr(bounds, "MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        bounds.unpacked(zlib.compress(bytes(1 << 22)), zlib.decompressobj())


@covers("SAFE-6")
def test_a_columnar_manifest_with_one_long_text_for_all_rows_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["x" * 10_000])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"f": column}), sink, store_schema=False)
    data = sink.getvalue().to_pybytes()
    assert len(decode_columnar(data, "x") or ()) == 2000
    monkeypatch.setattr("pktable.format.metadata.columnar_records.MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(CorruptFileError, match="bytes of records"):
        decode_columnar(data, "x")


@covers("SAFE-6")
def test_a_columnar_file_that_states_more_rows_than_its_bytes_can_hold_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_TIMES", 64)
    count = 5_000_000
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"f": pa.nulls(count, pa.int32())}), sink, row_group_size=count)
    data = sink.getvalue().to_pybytes()
    assert 64 * len(data) < count
    with pytest.raises(CorruptFileError, match=f"{count} rows in"):
        decode_columnar(data, "x")
    surgeon = Surgeon(path)
    file = surgeon.data_file(live(surgeon))
    file.write_bytes(data)
    surgeon.edit_file(file.name, file_size=len(data), row_count=count)
    with pytest.raises(CorruptFileError, match=f"{count} rows in"):
        Table.open(path).to_arrow()


@covers("SAFE-6", "RD-11")
def test_integers_of_manifests_have_their_width(path: Path) -> None:
    surgeon = Surgeon(path)
    (entry, *_) = surgeon.entries(surgeon.delta(LAST))
    for wide in (replace(entry, bucket=1 << 40), replace(entry, total_buckets=-(1 << 40))):
        data = encode_manifest([wide])
        with pytest.raises(CorruptFileError, match="an integer of 32 bits"):
            MANIFEST.decode(data, "x", None)


@covers("DV-4", "DV-19", "CMT-9")
def test_a_vector_of_no_live_file_is_a_note_and_goes_with_the_next_compaction(tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(VECTORS / "dangling-vector/table", path)
    assert [(one.clause, one.severity) for one in check(path).findings] == [("DV-4", "note")]
    table = Table.open(path)
    before = sorted(table.to_arrow().to_pylist(), key=repr)
    table.upsert(table.to_arrow().slice(0, 1))
    assert sorted(table.to_arrow().to_pylist(), key=repr) == before
    assert not check(path, snapshot=table.snapshots()[-1].id).findings


@covers("SAFE-6")
@pytest.mark.spark
def test_spark_makes_no_bitset_for_rows_that_a_manifest_only_states(path: Path) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    surgeon = Surgeon(path)
    name = live(surgeon)
    vector = DeletionVector.from_positions([1 << 40], 64)
    data, ranges = encode_index({name: vector})
    surgeon.index_file(LAST).write_bytes(data)
    index_edit(file_size=len(data), row_count=1, ranges=ranges)(surgeon)
    surgeon.edit_file(name, row_count=1 << 41)
    table = Table.open(path, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    with pytest.raises(CorruptFileError, match="row count"):
        table.read()


# ------------------------------------------------------------- hints and ids


@covers("CMT-13", "SAFE-6")
@pytest.mark.parametrize("hint", [b"1" + b"0" * 18, b"9" * 5000, b"-1", b" 5 ", b"\xd9\xa5"])
def test_a_hint_far_away_costs_a_listing(path: Path, hint: bytes) -> None:
    expected = Table.open(path).to_arrow().to_pylist()
    for name in ("LATEST", "EARLIEST"):
        (path / "snapshot" / name).write_bytes(hint)
    assert Table.open(path).to_arrow().to_pylist() == expected
    assert not refusals(path)


@covers("CMT-1")
@pytest.mark.parametrize("number", [1 << 62, (1 << 63) - 1, 10**100])
def test_a_snapshot_far_away_is_a_gap_and_no_loop(path: Path, number: int) -> None:
    shutil.copy(path / "snapshot/snapshot-5", path / f"snapshot/snapshot-{number}")
    (path / "snapshot/LATEST").unlink()
    errors = refusals(path)
    assert errors
    assert all(isinstance(error, CorruptFileError) for error in errors)


# ------------------------------------------------------------- text that someone obeys

CONTROL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
HOSTILE_NAMES = ("a`; DROP TABLE x; --", "a'b", 'a"b', "a\\", "a.b", "${a}", "{0}", "a\nb", "%s", CONTROL)


@pytest.fixture(scope="module")
def odd_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "table"
    columns = {"k": "INT", **dict.fromkeys(HOSTILE_NAMES, "STRING")}
    table = Table.create(path, columns, primary_key=["k"], options={"deletion-vectors.enabled": "true"})
    for value in HOSTILE_NAMES[:2]:
        rows = {"k": pa.array(range(3), pa.int32()), **{name: [value] * 3 for name in HOSTILE_NAMES}}
        table.upsert(pa.table(rows))
    return path


@covers("SAFE-4")
@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_the_command_line_spells_control_characters_out(
    odd_names: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table.open(odd_names)
    rows = {"k": pa.array([9], pa.int32()), **{name: [CONTROL] for name in HOSTILE_NAMES}}
    table.upsert(pa.table(rows))
    for command in (["read"], ["files"], ["history"], ["count"]):
        assert run([*command, str(odd_names), "--format", output]) == 0
    run(["read", str(odd_names), "--where", f"`{CONTROL}` = 1 = nosuch"])
    run(["read", str(odd_names), "--tag", CONTROL])
    run(["check", str(odd_names)])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "owned" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    if output == "jsonl":
        line = next(one for one in captured.out.splitlines() if '"k": 9' in one)
        assert json.loads(line)[CONTROL] == CONTROL


@covers("SAFE-4")
def test_a_finding_with_control_characters_is_spelled_out(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path / "p=a/bucket-0" / CONTROL).write_bytes(b"")
    assert run(["check", str(path)]) == 0
    text = capsys.readouterr().out
    assert "owned" in text
    assert "\x1b" not in text
    assert "\x9b" not in text


@covers("SAFE-4")
def test_a_note_with_control_characters_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"{CONTROL}: é\ttab\nline")
    assert capsys.readouterr().err == ("\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e: é\ttab\nline\n")


def test_json_with_controls_spelled_out_is_the_same_json() -> None:
    assert json.loads(json_text({CONTROL: "é 🦀"})) == {CONTROL: "é 🦀"}
    assert "é 🦀" in json_text("é 🦀")


@covers("SAFE-4", "RD-6")
@pytest.mark.spark
def test_spark_takes_no_name_or_value_of_a_table_for_sql(odd_names: Path) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    table = Table.open(odd_names, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    expected = Table.open(odd_names).to_arrow().sort_by("k").to_pylist()
    assert table.to_arrow().sort_by("k").to_pylist() == expected
    for name in HOSTILE_NAMES:
        quoted = "`" + name.replace("`", "``") + "`"
        where = f"{quoted} = 'a\\'b' AND k < 3"
        if "${" in name:
            with pytest.raises(InvalidRequestError, match="variable"):
                table.to_arrow(where=where)
            continue
        assert table.to_arrow(where=where).num_rows == Table.open(odd_names).to_arrow(where=where).num_rows


@covers("SAFE-4")
def test_nothing_in_a_table_is_unpickled(path: Path) -> None:
    """Reading imports no unpickler of stored bytes: a program that replaces it by a failure reads all the same."""
    program = (
        "import pickle, sys\n"
        "from pktable import Table\n"
        "def no(*a, **k): raise SystemExit('unpickled')\n"
        "pickle.loads = pickle.load = pickle.Unpickler = no\n"
        "t = Table.open(sys.argv[1]); t.to_arrow(); t.to_arrow(fresh=True); t.check(); print('read')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert done.stdout.strip() == "read", done.stderr


def test_a_guarded_store_is_guarded_once(path: Path) -> None:
    store = guarded(LocalFileIO(), str(path))
    assert guarded(store, str(path)) is store
    assert isinstance(Table.open(path).catalog.context.store, GuardedStore)
