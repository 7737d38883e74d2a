"""``pktable dump`` shows each kind of file field by field, and damage where it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pktable.cli import run
from pktable_hudi.format.log_block import BlockKind, HeaderKey, LogBlock, encode_block
from pktable_spec.covers import covers

from model_tests.real_data import VECTORS


def dumped(path: Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> list[dict[str, Any]]:
    assert run(["dump", str(path), "--format", "jsonl"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def values(rows: list[dict[str, Any]], part: str) -> dict[str, str]:
    return {row["field"]: row["value"] for row in rows if row["part"] == part}


@covers("DVF-1", "DVF-2", "DVF-9", "DVF-10")
def test_a_dv_index_file_is_shown_vector_by_vector(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = dumped(named("several-vectors", 4, "indexManifest"), capsys)
    stored = values(manifest, "ADD 1")
    rows = dumped(VECTORS / "several-vectors/table/index" / stored["_FILE_NAME"], capsys)
    assert rows[0] == {"part": "", "offset": 0, "field": "version", "value": "1"}
    for number in range(3):
        found = values(rows, f"vector {number + 1}")
        at, length = (stored[f"_DELETIONS_VECTORS_RANGES[{number}].{field}"] for field in ("f1", "f2"))
        assert found["length"] == f"{length}; its range is ({at}, {length})"
        assert found["magic"] == "1581511376, of 32 bits"
        assert found["CRC-32"].endswith(", as computed")


@covers("DVF-3", "DVF-11")
def test_vectors_of_64_bits_are_told_by_their_magic(capsys: pytest.CaptureFixture[str]) -> None:
    (path, *_) = (VECTORS / "vectors-of-64-bits/table/index").iterdir()
    found = values(dumped(path, capsys), "vector 1")
    assert found["magic"] == "1681511377, of 64 bits"


def named(table: str, snapshot: int, field: str) -> Path:
    root = VECTORS / table / "table"
    stored = json.loads((root / f"snapshot/snapshot-{snapshot}").read_text())
    return root / "manifest" / str(stored[field])


def test_a_manifest_list_and_a_manifest_are_shown_with_values_of_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = dumped(named("partitions", 4, "baseManifestList"), capsys)
    first = values(rows, "ADD 1") or values(rows, "record 1")
    assert first["_VERSION"] == "2"
    manifest = dumped(VECTORS / "partitions/table/manifest" / first["_FILE_NAME"], capsys)
    assert manifest[0]["field"] == "records"
    partitions = [row["value"] for row in manifest if row["field"] == "_PARTITION"]
    assert any(value.startswith("plain (") for value in partitions)


@covers("META-23")
@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_a_manifest_of_another_format_is_shown_as_one_in_avro(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = dumped(named(f"manifests-in-{kind}", 4, "deltaManifestList"), capsys)
    source = VECTORS / f"manifests-in-{kind}/table/manifest" / values(rows, "record 1")["_FILE_NAME"]
    found = [(row["field"], row["value"].partition(" ")[0]) for row in dumped(source, capsys)]
    assert {("_VERSION", "2"), ("_PARTITION", "x"), ("_FILE._MAX_KEY", "2")} <= {*found}
    damaged = tmp_path / source.name
    damaged.write_bytes(source.read_bytes()[:-5])
    assert "data: expected a readable file" in dumped(damaged, capsys, code=1)[-1]["value"]


def test_a_snapshot_and_a_schema_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    root = VECTORS / "several-vectors/table"
    assert values(dumped(root / "snapshot/snapshot-2", capsys), "")["commitKind"] == "COMPACT"
    assert values(dumped(root / "schema/schema-0", capsys), "")["fields[0].name"] == "k"


def test_a_log_file_of_hudi_is_shown_block_by_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = LogBlock(BlockKind.DELETE, ((HeaderKey.INSTANT, b"20240101000000000"),), b"abc")
    path = tmp_path / ".log"
    path.write_bytes(encode_block(block) + b"#HUDI#torn")
    rows = dumped(path, capsys)
    found = values(rows, "block 1")
    assert (found["kind"], found["header.INSTANT"]) == ("1, DELETE", "20240101000000000")
    assert values(rows, "range 2")["damaged"].startswith("10 bytes: ")


@covers("RD-11", "DVF-5")
def test_a_damaged_file_is_shown_up_to_the_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source, *_) = (VECTORS / "containers/table/index").iterdir()
    path = tmp_path / source.name
    shutil.copy(source, path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    rows = dumped(path, capsys, code=1)
    assert ", computed " in values(rows, "vector 1")["CRC-32"]
    assert "vector checksum: expected" in rows[-1]["value"]
    path.write_bytes(data[:6])
    assert "expected 12 bytes or more, found 5" in dumped(path, capsys, code=1)[-1]["value"]
    path.write_bytes(b"\1" + bytes(20))
    assert "vector length: expected 4 to 12, found 0" in dumped(path, capsys, code=1)[-1]["value"]
    path.write_bytes(b"{")
    assert "JSON: expected an object" in dumped(path, capsys, code=1)[-1]["value"]


def test_a_file_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = list((VECTORS / "statistics-of-keys/table/bucket-0").iterdir())
    assert run(["dump", str(path)]) == 2
    assert "`pktable read` and `pktable files` show data files" in capsys.readouterr().err
    (tmp_path / "empty").write_bytes(b"")
    assert run(["dump", str(tmp_path / "empty")]) == 2
    assert "found bytes none" in capsys.readouterr().err
    assert run(["dump", str(tmp_path / "none")]) == 2
