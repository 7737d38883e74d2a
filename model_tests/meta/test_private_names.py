"""No test or benchmark reaches a private name of another package, and the gate sees it where one does.

A name is private if it begins with one underscore. It is reached by an import, by an attribute, by a string that names
it (as ``monkeypatch.setattr`` and ``mock.patch`` take it), and by a class that overrides it. A package is a folder: the
files of one folder may use each other's private names.

Two things go through: an attribute that one of the folder's own files defines, too, whatever object it is taken of; and
a string that is put together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import pytest

Nodes: TypeAlias = Sequence[ast.AST]
ROOT = Path(__file__).parents[2]
TESTS = ("model_tests", "benchmarks")
TESTED = ("reference/pktable", "reference/pktable_hudi", "spec/pktable_spec")

OF_OTHERS: Final[Mapping[str, str]] = {
    "_replace": "a public method of every NamedTuple, underscored so that no field can be called like it",
}
"""Private names that are used as attributes, and why that is right."""

NO_NAMES: Final[Mapping[str, str]] = {
    "_FILE": "a field of Paimon's manifests",
    "_GLOBAL_INDEX": "a field of Paimon's manifests",
    "_key": "the end of a record's name in an Avro schema",
    "_metadata": "a column of Spark's scans",
}
"""Strings that are spelled like a private name of the tested packages, and what they name instead."""

EXEMPT: Final[Mapping[str, str]] = {
    "model_tests/meta/test_private_names.py": "spells them to test this gate",
    "model_tests/predicate/test_exhaustive.py": "compares them with the functions that mypy reports, and calls none",
}
"""Files whose strings may name private names, and why."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined(nodes: Nodes) -> set[str]:
    """Return the private names that a module defines: functions, classes, variables, attributes of ``self``."""
    names = set[str]()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in names if is_private(name)}


@cache
def parsed(root: Path, folders: tuple[str, ...]) -> dict[Path, Nodes]:
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return {path: list(ast.walk(ast.parse(path.read_text("utf-8")))) for path in paths}


def reached(root: Path) -> list[str]:
    """Return a line for each private name of another package that a test or a benchmark reaches."""
    theirs = {name for nodes in parsed(root, TESTED).values() for name in defined(nodes)}
    modules = parsed(root, TESTS)
    own: dict[Path, set[str]] = {}
    for path, nodes in modules.items():
        own.setdefault(path.parent, set()).update(defined(nodes))
    return [
        f"{path.relative_to(root)}:{line}: {what}"
        for path, nodes in modules.items()
        for line, what in _in_module(str(path.relative_to(root)), nodes, own[path.parent], theirs)
    ]


def _in_module(place: str, nodes: Nodes, own: set[str], theirs: set[str]) -> Iterator[tuple[int, str]]:
    package = ".".join(Path(place).parent.parts)
    tested = {
        alias
        for module, alias in _imports(nodes)
        if module.startswith(("pktable.", "pktable_hudi.", "pktable_spec."))
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not f"{node.module}.".startswith(f"{package}."):
            yield from ((node.lineno, f"imports {a.name}") for a in node.names if is_private(a.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in OF_OTHERS:
            is_inherited = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            if node.attr not in own or (is_inherited and node.attr in theirs):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if place not in EXEMPT and node.value not in NO_NAMES and _names(node.value) in theirs - own:
                yield node.lineno, repr(node.value)
        elif (
            isinstance(node, ast.ClassDef)
            and {ast.unparse(base).split(".")[0] for base in node.bases} & tested
        ):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and is_private(method.name) and method.name in theirs:
                    yield method.lineno, f"{node.name} overrides {method.name}"


def _imports(nodes: Nodes) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", alias.asname or alias.name) for alias in node.names)


def _names(text: str) -> str | None:
    """Return the private name that a string gives, alone or after the names of what it belongs to."""
    found = re.fullmatch(r"(?:[A-Za-z]\w*\.)*(_[A-Za-z]\w*)", text)
    return found[1] if found else None


def test_no_private_name_of_another_package_is_reached() -> None:
    assert reached(ROOT) == []


def test_every_exception_is_needed() -> None:
    modules = parsed(ROOT, TESTS)
    used = {node.attr for nodes in modules.values() for node in nodes if isinstance(node, ast.Attribute)}
    assert set(OF_OTHERS) <= used
    strings = {
        str(path.relative_to(ROOT)): {node.value for node in nodes if isinstance(node, ast.Constant)}
        for path, nodes in modules.items()
    }
    theirs = {name for nodes in parsed(ROOT, TESTED).values() for name in defined(nodes)}
    assert set(NO_NAMES) <= theirs & set().union(
        *(found for place, found in strings.items() if place not in EXEMPT)
    )
    assert set(EXEMPT) <= set(strings)


REFERENCE = """
_LENGTH = 4
def _header(): ...
class Table:
    def __init__(self):
        self._files = []
    def _next(self): ...
"""

FAULTS = (
    "from pktable.format.avro import _header",
    "from pktable.format import avro\navro._header()",
    "def test(table):\n    return table.rows._files",
    "def test(monkeypatch, avro):\n    monkeypatch.setattr(avro, '_LENGTH', 8)",
    "mock.patch('pktable.format.avro._header')",
    "NAMES = ('_header', 'header')",
    "class Test:\n    def test(self):\n        return self._anything",
    "from pktable.format.avro import Table\nclass Mine(Table):\n    def _next(self): ...",
    "class Mine(Table):\n    def _next(self):\n        return super()._next()",
    "import hypothesis\nhypothesis._settings = 1\nhypothesis._other",
    "from model_tests.other import _helper",
)

SOUND = (
    "class Test:\n    def __init__(self):\n        self._table = 1\n    def test(self):\n        return self._table",
    "from pktable.format.avro import Table\nclass Mine(Table):\n    def _mine(self):\n        return self._mine()",
    "from model_tests.some.other import _helper\n_helper()",
    "def test(snapshot):\n    return snapshot._replace(id=1), snapshot.__dict__",
    "def test(table):\n    return table['_SEQUENCE_NUMBER'], '_metadata.row_index', 'a _header of a file'",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "reference/pktable/format").mkdir(parents=True)
    (tmp_path / "reference/pktable/format/avro.py").write_text(REFERENCE)
    (tmp_path / "model_tests/some").mkdir(parents=True)
    (tmp_path / "model_tests/some/other.py").write_text("def _helper(): ...\n")
    return tmp_path


@pytest.mark.parametrize("source", FAULTS)
def test_a_private_name_that_is_reached_is_found(source: str, tree: Path) -> None:
    (tree / "model_tests/some/test_it.py").write_text(source)
    assert len(reached(tree)) == 1, reached(tree)


@pytest.mark.parametrize("source", SOUND)
def test_what_is_a_files_own_or_public_is_left_alone(source: str, tree: Path) -> None:
    (tree / "model_tests/some/test_it.py").write_text(source)
    assert reached(tree) == []
