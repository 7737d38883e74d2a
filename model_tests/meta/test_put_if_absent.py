"""Each place that puts a file only if it is absent is in the table that says why a late put does no harm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from model_tests.meta.wording import ROOT, clauses
from model_tests.tlc.models import load

HOUSES = [ROOT / "reference" / name for name in ("pktable", "pktable_hudi")]
HEADING = "| file | put by |"


def rows() -> list[list[str]]:
    """Return the rows of the table, as lists of their columns."""
    lines = (ROOT / "spec/tla/README.md").read_text("utf-8").partition(HEADING)[2].splitlines()[2:]
    return [[one.strip() for one in line.strip("|").split("|")] for line in lines[: lines.index("")]]


def places(node: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of the functions that put a file only if it is absent."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from places(child, (*inside, child.name))
        else:
            puts = isinstance(child, ast.Attribute) and child.attr == "put_if_absent"
            if puts or (isinstance(child, ast.Name) and child.id == "put_once"):
                yield ".".join(inside)
            yield from places(child, inside)


def test_the_table_has_each_place_that_puts_a_file_only_if_it_is_absent() -> None:
    found = {
        (str(path.relative_to(house if house is HOUSES[0] else house.parent)), place)
        for house in HOUSES
        for path in house.rglob("*.py")
        if path.parent.name != "store"  # the stores themselves
        for place in places(ast.parse(path.read_text("utf-8")))
    }
    listed = set()
    for row in rows():
        file, *names = re.findall(r"`([^`]+)`", row[1])
        listed |= {(file, name) for name in names}
    assert listed == found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_what_the_table_cites_is_there(row: list[str]) -> None:
    known = {
        clause.id
        for path in (ROOT / "spec/clauses").glob("*.md")
        for clause in clauses(path.read_text("utf-8"))
    }
    cited = set(re.findall(r"[A-Z]+-\d+", row[4]))
    assert cited
    assert cited <= known
    assert row[5] or row[2] == "nobody"
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "model_tests").rglob("test_*.py"))
    models = [model.name for model in load()]
    for name in re.findall(r"`(\w+)`", row[5]):
        assert f"def {name}(" in tests or (ROOT / "spec/tla" / f"{name}.tla").is_file(), name
    for label in re.findall(r"\b[A-Z]\d+\b", row[5]):
        assert any(model.startswith(f"{label} ") for model in models), label


def test_a_place_that_is_not_in_the_table_is_found() -> None:
    code = "class Log:\n    def put(self):\n        done = [self.store.put_if_absent('a', b'')]\n"
    assert list(places(ast.parse(code))) == ["Log.put"]
    assert list(places(ast.parse("def put(store):\n    return put_once(store, 'a', b'')\n"))) == ["put"]
