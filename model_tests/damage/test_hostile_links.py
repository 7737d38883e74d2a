"""A link or an external path leads out of a table only where the caller allows it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import HudiTable, InvalidRequestError, OutsideTableError, Table
from pktable.cli.process import run
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.damage.attacks import live, outside, refusals
from model_tests.damage.table_damage import Surgeon


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
@pytest.mark.parametrize("name", ["p=a", "p=a/bucket-0", "snapshot"])
def test_a_directory_that_is_swapped_for_a_link_under_an_open_table_is_refused(path: Path, name: str) -> None:
    table = Table.open(path)
    rows = table.to_arrow()
    linked(path, name, path.parent / "away" / "x")
    before = outside(path)
    with pytest.raises(OutsideTableError):
        table.to_arrow()
    with pytest.raises(OutsideTableError):
        table.upsert(rows)
    assert outside(path) == before


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
@pytest.mark.parametrize("kind", [str, Path])
def test_one_external_root_needs_no_list_and_allows_nothing_above_it(
    path: Path, kind: Callable[[Path], Any]
) -> None:
    away = path.parent / "away"
    linked(path, "p=a", away / "p=a")
    assert Table.open(path, external_roots=kind(away)).to_arrow().num_rows
    assert not check(path, external_roots=kind(away)).errors
    (path.parent / "other").mkdir()
    with pytest.raises(OutsideTableError):
        Table.open(path, external_roots=kind(path.parent / "other")).to_arrow()


NO_ROOTS: list[Any] = ["", " ", [""], 5, [5], [None], b"/", [b"/"], {"/": "/"}]


@covers("SAFE-2")
@pytest.mark.parametrize("found", NO_ROOTS, ids=repr)
def test_what_names_no_external_root_is_refused(path: Path, found: Any) -> None:
    HudiTable.create(path.parent / "hudi", "id STRING", key="id")
    calls: tuple[Callable[[], object], ...] = (
        lambda: Table.open(path, external_roots=found),
        lambda: check(path, external_roots=found),
        lambda: HudiTable.open(path.parent / "hudi", external_roots=found),
    )
    for call in calls:
        with pytest.raises(InvalidRequestError, match=r"^external_roots: expected directories and URIs"):
            call()


@covers("SAFE-2")
def test_no_external_roots_are_none(path: Path) -> None:
    linked(path, "p=a", path.parent / "away/p=a")
    nothing: list[Any] = [None, (), [], iter(())]
    for none in nothing:
        with pytest.raises(OutsideTableError):
            Table.open(path, external_roots=none).to_arrow()


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
