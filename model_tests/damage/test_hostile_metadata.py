"""No value of metadata leads a reader out of the table, or breaks it."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable import CorruptFileError, InvalidRequestError, PkTableError, Table
from pktable.catalog.as_of import AsOf
from pktable.catalog.fences import FenceLog
from pktable.format.metadata.manifest import MANIFEST, encode_manifest
from pktable.format.metadata.snapshot import Fence
from pktable.format.paths import GREATEST, partition_path
from pktable.format.types import Field, parse_type
from pktable.store.file_io import LocalFileIO
from pktable.store.guard import guarded
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.options import parse_options

from model_tests.damage.attacks import ATTACKS, LAST, live, outside, refusals
from model_tests.damage.table_damage import Surgeon
from model_tests.real_data import VECTORS


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
        {"changelogs": -5},
        {"changelogs": [1]},
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


@pytest.mark.parametrize(
    ("option", "values", "match"),
    [
        ("num-levels", ("1",), "expected at least 2"),
        ("dynamic-bucket.target-row-num", ("0", "-1", "x", str(1 << 63)), "expected a positive integer"),
        ("compaction.delete-ratio-threshold", ("-0.1", "1.1", "nan", "x"), "expected a number from 0 to 1"),
    ],
)
def test_a_number_that_no_option_of_its_name_has_is_refused(
    option: str, values: tuple[str, ...], match: str
) -> None:
    for value in values:
        with pytest.raises(InvalidRequestError, match=f"option {option}=.*{match}"):
            parse_options({option: value})


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


@covers("CMT-13", "SAFE-6")
@pytest.mark.parametrize("hint", [b"1" + b"0" * 18, b"9" * 5000, b"-1", b" 5 ", b"\xd9\xa5"])
def test_a_hint_far_away_costs_a_listing(path: Path, hint: bytes) -> None:
    expected = Table.open(path).to_arrow().to_pylist()
    for name in ("LATEST", "EARLIEST"):
        (path / "snapshot" / name).write_bytes(hint)
    assert Table.open(path).to_arrow().to_pylist() == expected
    assert not refusals(path)


@covers("META-57")
@pytest.mark.parametrize("kind", ["snapshot", "fence", "schema", "changelog"])
@pytest.mark.parametrize("number", [(1 << 63) - 1, 10**30])
def test_a_file_whose_number_has_no_next_one_is_none(path: Path, kind: str, number: int) -> None:
    table = Table.open(path)
    table.expire_snapshots(retain_last=1)
    rows = table.to_arrow()
    (path / kind).mkdir(exist_ok=True)
    newest = next((path / "snapshot").glob("snapshot-*"))
    some = next((path / kind).glob(f"{kind}-*"), newest)
    shutil.copy(some, path / kind / f"{kind}-{number}")
    opened = Table.open(path)
    opened.upsert(rows.slice(0, 1))
    opened.expire_snapshots(retain_last=1)
    assert Table.open(path).to_arrow().num_rows == rows.num_rows
    assert not refusals(path)


@covers("META-57")
def test_nothing_is_put_after_the_greatest_number(path: Path) -> None:
    table = Table.open(path)
    rows = table.to_arrow()
    fences = FenceLog(table.catalog.context.store, table.catalog.context.paths)
    with pytest.raises(CorruptFileError, match="fence number"):
        fences.put(Fence(), Fence(number=GREATEST))
    fences.put(Fence(expired=GREATEST - 1), Fence())
    text = (path / "snapshot/snapshot-5").read_text().replace('"id": 5', f'"id": {GREATEST}')
    fields = {**json.loads(text), "id": GREATEST, "pktable.fence": 1}
    fields.pop("pktable.crc32", None)
    (path / f"snapshot/snapshot-{GREATEST}").write_text(json.dumps(fields))
    files = set(path.rglob("*"))
    with pytest.raises(CorruptFileError, match="snapshot id: expected less than"):
        Table.open(path).upsert(rows)
    assert set(path.rglob("*")) <= files


@covers("CMT-1")
@pytest.mark.parametrize("number", [1 << 62, (1 << 63) - 2])
def test_a_snapshot_far_away_is_a_gap_and_no_loop(path: Path, number: int) -> None:
    shutil.copy(path / "snapshot/snapshot-5", path / f"snapshot/snapshot-{number}")
    (path / "snapshot/LATEST").unlink()
    errors = refusals(path)
    assert errors
    assert all(isinstance(error, CorruptFileError) for error in errors)
