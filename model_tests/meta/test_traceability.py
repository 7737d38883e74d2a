"""The specification, the code and the tests agree on the clauses there are; and the checker sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pktable_spec.trace import as_text, cited_ids, covered, trace

ROOT = Path(__file__).parents[2]

CLAUSES = """# Things

XX-1 (must)
: A thing is.

XX-2 (may)
: A thing may be.

XX-3 (withdrawn, see XX-1)
: A thing was.
"""


def test_every_citation_names_a_clause_in_force() -> None:
    matrix = trace(ROOT)
    assert matrix.malformed == []
    assert matrix.unknown == []


def test_every_must_is_tested() -> None:
    assert trace(ROOT).untested == []


def test_what_clauses_name_as_their_tests_is_there() -> None:
    text = "".join(path.read_text() for path in (ROOT / "spec/clauses").glob("*.md"))
    named = set(re.findall(r"`(test_\w+)`", text))
    defined = (
        re.findall(r"def (test_\w+)", path.read_text()) for path in (ROOT / "model_tests").rglob("*.py")
    )
    assert named <= {name for names in defined for name in names}
    assert len(named) > 8


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository in which everything is right."""
    write(tmp_path, "spec/clauses/10-things.md", CLAUSES)
    write(tmp_path, "spec/pktable_spec/model/thing.py", '"""A thing.\n\nClauses: XX-1, XX-2.\n"""\n')
    write(tmp_path, "spec/tla/Thing.tla", "\\* Clauses: XX-1.\n")
    write(tmp_path, "reference/pktable/thing.py", "# Clauses: XX-1 to XX-2.\n")
    write(tmp_path, "model_tests/test_thing.py", '@covers("XX-1")\ndef test_it() -> None: ...\n')
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, "utf-8")


def test_a_tree_without_problems_has_none(tree: Path) -> None:
    matrix = trace(tree)
    assert matrix.problems == []
    assert matrix.cited["XX-1"] == {
        "tla": {"spec/tla/Thing.tla"},
        "model": {"spec/pktable_spec/model/thing.py"},
        "reference": {"reference/pktable/thing.py"},
        "tests": {"model_tests/test_thing.py:1"},
    }
    assert as_text(matrix).splitlines()[1].split() == ["XX-1", "must", "1", "1", "1", "1"]


def test_a_must_that_no_test_covers_is_a_problem(tree: Path) -> None:
    write(tree, "model_tests/test_thing.py", "def covers_nothing() -> None: ...\n")
    assert trace(tree).problems == ["XX-1: is a must, and no test covers it"]


def test_a_call_of_covers_that_decorates_nothing_covers_nothing(tree: Path) -> None:
    write(tree, "model_tests/test_thing.py", 'covers("XX-1")\n')
    assert trace(tree).untested == ["XX-1"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec/pktable_spec/model/thing.py", '"""Clauses: XX-4."""'),
        ("reference/pktable/thing.py", "# Clauses: XX-1 to XX-4."),
        ("reference/pktable/thing.py", "# so that XX-4 holds"),
        ("spec/tla/Thing.tla", "(* Clauses: XX-4. *)"),
        ("model_tests/test_other.py", '@covers("XX-4")\ndef test_it() -> None: ...\n'),
    ],
)
def test_a_citation_of_no_clause_is_a_problem(tree: Path, path: str, text: str) -> None:
    write(tree, path, text)
    assert any(problem.endswith("cites unknown clause XX-4") for problem in trace(tree).problems)


def test_a_citation_of_a_withdrawn_clause_is_a_problem(tree: Path) -> None:
    write(tree, "reference/pktable/thing.py", "# Clauses: XX-3.")
    assert trace(tree).problems == ["reference/pktable/thing.py: cites XX-3, which is withdrawn, see XX-1"]


def test_a_clause_defined_twice_or_without_force_is_a_problem(tree: Path) -> None:
    write(tree, "spec/clauses/20-more.md", "XX-1 (must)\n: Again.\n\nYY-1 (shall)\n: A thing shall.\n")
    assert trace(tree).malformed == [
        "20-more.md: defines XX-1 a second time",
        "20-more.md: YY-1: expected must, should or may, found shall",
    ]


def test_citations_are_lists_and_ranges() -> None:
    assert cited_ids("XX-1, YY-2\n    and ZZ-8 to ZZ-10") == ["XX-1", "YY-2", "ZZ-10", "ZZ-8", "ZZ-9"]
    assert list(covered('class A:\n    @covers("XX-1", "XX-2")\n    @rule()\n    def b(self): ...\n')) == [
        (2, "XX-1"),
        (2, "XX-2"),
    ]
