"""Options: which there are, what they ask for, and how wrong ones are refused."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from pathlib import Path

import pyspark_pktable
import pytest
from pktable import InvalidRequestError, NotATableError, Table, UnsupportedOptionError
from pktable.format.metadata.schema import encode_schema
from pktable.spark_source.options import INCREMENTAL, READ, READ_STREAM, WRITE, Options
from pktable_spec.covers import covers

from model_tests.source.driven import read, source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Table.create(tmp_path / "t", "id BIGINT, v INT", primary_key="id")
    return tmp_path / "t"


def test_an_unknown_option_is_refused_with_those_that_there_are(path: Path) -> None:
    known = "there are scan.mode, scan.snapshot-id, scan.tag-name, scan.timestamp-millis, incremental-between"
    with pytest.raises(InvalidRequestError, match=rf"option scan.snapshotid: not an option of read; {known}"):
        read(path, scan__snapshotid=1)


@pytest.mark.parametrize("use", ["reader", "streamReader", "writer", "streamWriter"])
def test_an_option_of_another_use_is_refused(path: Path, use: str) -> None:
    wrong = {"reader": "failOnDataLoss", "streamReader": "fresh"}.get(use, "filter")
    found = source(path, **{wrong: "true"})
    schema = source(path).schema()
    with pytest.raises(InvalidRequestError, match=rf"option {wrong.lower()}: not an option of"):
        getattr(found, use)(schema, *([False] if "riter" in use else []))


def test_sparks_own_options_are_no_options(path: Path) -> None:
    assert read(path, owner="me", provider="pktable", location=path, checkpointLocation="/x").num_rows == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan__snapshot_id": "x"}, "option scan.snapshot-id: expected an integer from 1 on, found 'x'"),
        ({"scan__snapshot_id": "0"}, "option scan.snapshot-id: expected an integer from 1 on, found '0'"),
        ({"fresh": "yes"}, "option fresh: expected true or false, found 'yes'"),
        (
            {"scan__snapshot_id": "1", "scan__tag_name": "a"},
            "options scan.snapshot-id and scan.tag-name: expected one of them",
        ),
        (
            {"scan__mode": "full"},
            "option scan.mode: expected one of default, latest-full, latest, from-snapshot, from-snapshot-full, "
            "from-timestamp, incremental, found 'full'",
        ),
        (
            {"scan__mode": "from-snapshot", "scan__timestamp_millis": "1"},
            "option scan.mode=from-snapshot: needs scan.snapshot-id or scan.tag-name, found scan.timestamp-millis",
        ),
        (
            {"scan__mode": "latest", "scan__snapshot_id": "1"},
            "option scan.mode=latest: needs no other option, found scan.snapshot-id",
        ),
        (
            {"incremental_between": "3"},
            "option incremental-between: expected two ids or tags, such as 3,7, found '3'",
        ),
    ],
)
def test_a_wrong_value_is_refused(path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequestError) as found:
        read(path, source(path).schema(), **options)
    assert str(found.value) == message


def test_a_path_is_needed_and_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="path: expected the directory or URI of a table"):
        Options.given({}, READ).open_table()
    with pytest.raises(NotATableError):
        read(tmp_path)


def test_the_mode_follows_from_the_other_options() -> None:
    assert Options.given({}, READ).mode == "latest-full"
    assert Options.given({"scan.mode": "default", "scan.tag-name": "a"}, READ).mode == "from-snapshot"
    options = Options.given({"Incremental-Between": "1, first"}, READ)
    assert (options.mode, options.between) == (INCREMENTAL, (1, "first"))


@covers("TBL-35")
def test_the_source_ignores_the_options_that_its_user_names(path: Path) -> None:
    schema = Table.open(path).schema
    later = replace(
        schema, id=schema.id + 1, options={**schema.options, "scan.of-tomorrow": "1", "type": "x"}
    )
    (path / "schema" / f"schema-{later.id}").write_bytes(encode_schema(later))
    with pytest.raises(UnsupportedOptionError, match=r"scan.of-tomorrow"):
        Options.given({"path": str(path), "ignoreOptions": "type"}, READ).open_table().count()
    both = {"path": str(path), "ignoreoptions": "type, scan.of-tomorrow"}
    assert (
        Options.given(both, READ).open_table().count()
        == Options.given(both, READ_STREAM).open_table().count()
    )
    with pytest.raises(InvalidRequestError, match="option ignoreoptions: not an option of write"):
        Options.given(both, WRITE)


def test_the_source_is_found_by_its_name_where_the_package_is_installed() -> None:
    """As Spark looks for it: among the packages in the directories of ``sys.path``."""
    folder = Path(pyspark_pktable.__file__).parents[1]
    found = [one.name for one in pkgutil.iter_modules([str(folder)]) if one.name.startswith("pyspark_")]
    assert [importlib.import_module(name).DefaultSource.name() for name in found] == ["pktable"]
