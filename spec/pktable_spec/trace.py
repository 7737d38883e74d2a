"""Trace clauses to the places that cite them, and report problems. ``python -m pktable_spec.trace [ROOT]``.

1. Clauses are collected from ``spec/clauses/*.md``. A clause is defined once, by a line ``DV-2 (must)`` and a line
   ``: sentence``.
2. Citations are collected from the sources. A docstring or a comment cites clauses by the word Clauses, a colon, ids
   or ranges (``CMP-1 to CMP-8``) and a full stop; a test cites them by the decorator ``@covers("DV-2")``. Any other
   mention of an id must name an existing clause, too.
3. The matrix is printed, with a problem for each malformed or repeated definition, for each citation of an unknown or
   withdrawn clause, and for each *must* that no test covers.

A *must* that only tests cite is no problem: many clauses hold by the structure of the whole.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DEFINITION: Final = re.compile(r"^(?P<id>[A-Z]+-\d+) \((?P<force>[^)]*)\)$", re.M)
FORCES: Final = ("must", "should", "may")
CITATION: Final = re.compile(r"Clauses:\s(?P<ids>[^.]*)\.")
RANGE: Final = re.compile(r"\b([A-Z]+)-(\d+) to \1-(\d+)\b")
COLUMNS: Final = {
    "tla": "spec/tla/**/*.tla",
    "model": "spec/pktable_spec/**/*.py",
    "reference": "reference/**/*.py",
}
TESTS: Final = ("spec/pktable_conform/**/*.py", "model_tests/**/*.py", "benchmarks/**/*.py")


@dataclass
class Matrix:
    """The force of each clause, the places that cite it by column, and the problems."""

    force: dict[str, str] = field(default_factory=dict)
    cited: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    unknown: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)

    @property
    def untested(self) -> list[str]:
        """The *must* clauses that no test covers, in order."""
        return [
            clause
            for clause, force in self.force.items()
            if force == "must" and not self.cited[clause]["tests"]
        ]

    @property
    def problems(self) -> list[str]:
        """All problems, one line each."""
        untested = [f"{clause}: is a must, and no test covers it" for clause in self.untested]
        return self.malformed + self.unknown + untested

    def cite(self, clause: str, column: str, place: str) -> None:
        """Add a citation, or the problem that it names no clause in force."""
        force = self.force.get(clause)
        if force is None:
            self.unknown.append(f"{place}: cites unknown clause {clause}")
        elif force.startswith("withdrawn"):
            self.unknown.append(f"{place}: cites {clause}, which is {force}")
        else:
            self.cited[clause][column].add(place)


def trace(root: Path) -> Matrix:
    """Read the repository at ``root``. Raises SyntaxError if a test cannot be parsed."""
    matrix = defined(root)
    prefixes = sorted({clause.partition("-")[0] for clause in matrix.force})
    mention = re.compile(rf"\b(?:{'|'.join(prefixes)})-\d+\b") if prefixes else re.compile(r"(?!)")
    for column, pattern in COLUMNS.items():
        for path in sorted(root.glob(pattern)):
            place, text = str(path.relative_to(root)), path.read_text("utf-8")
            for found in CITATION.finditer(text):
                for clause in cited_ids(found["ids"]):
                    matrix.cite(clause, column, place)
            _mentions(matrix, mention, text, place)
    for path in sorted(one for pattern in TESTS for one in root.glob(pattern)):
        place, text = str(path.relative_to(root)), path.read_text("utf-8")
        for line, clause in covered(text):
            matrix.cite(clause, "tests", f"{place}:{line}")
        _mentions(matrix, mention, text, place)
    matrix.unknown = sorted(set(matrix.unknown))
    return matrix


def defined(root: Path) -> Matrix:
    """Read the clauses of the repository at ``root``, and none of their citations."""
    matrix = Matrix()
    for path in sorted((root / "spec/clauses").glob("*.md")):
        _define(matrix, path)
    return matrix


def _define(matrix: Matrix, path: Path) -> None:
    """Add the clauses of a file."""
    for found in DEFINITION.finditer(path.read_text("utf-8")):
        clause, force = found["id"], found["force"]
        if clause in matrix.force:
            matrix.malformed.append(f"{path.name}: defines {clause} a second time")
        if force not in FORCES and not force.startswith("withdrawn"):
            matrix.malformed.append(f"{path.name}: {clause}: expected must, should or may, found {force}")
        matrix.force[clause] = force


def _mentions(matrix: Matrix, mention: re.Pattern[str], text: str, place: str) -> None:
    """Add a problem for each id in a text that no clause has."""
    for clause in set(mention.findall(text)):
        if clause not in matrix.force:
            matrix.unknown.append(f"{place}: cites unknown clause {clause}")


def cited_ids(text: str) -> list[str]:
    """Return the ids in the text of a citation, sorted; a range stands for all of its ids."""
    ids = re.findall(r"\b[A-Z]+-\d+\b", text)
    for prefix, first, last in RANGE.findall(text):
        ids += [f"{prefix}-{number}" for number in range(int(first), int(last) + 1)]
    return sorted(set(ids))


def covered(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the clause id of every argument of a ``covers`` decorator in ``source``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _name(decorator.func) == "covers":
                for argument in decorator.args:
                    assert isinstance(argument, ast.Constant), (
                        f"line {argument.lineno}: covers takes literals"
                    )
                    yield decorator.lineno, str(argument.value)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def as_text(matrix: Matrix) -> str:
    """Return the matrix as text: a line per clause with the number of citations in each column, then the problems."""
    columns = (*COLUMNS, "tests")
    lines = [f"{'clause':<10}{'force':<11}" + "".join(f"{column:>11}" for column in columns)]
    for clause, force in matrix.force.items():
        counts = [len(matrix.cited[clause][column]) for column in columns]
        lines.append(f"{clause:<10}{force[:9]:<11}" + "".join(f"{count or '.':>11}" for count in counts))
    lines.append(f"{len(matrix.force)} clauses, {len(matrix.problems)} problems")
    return "\n".join(lines + matrix.problems)


def main() -> int:
    """Print the matrix of this repository, or of the one given as argument.

    Returns 1 if it has problems, 2 if there are no clauses, as in a wheel, else 0.
    """
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    matrix = trace(root)
    if not matrix.force:
        print(
            f"expected clauses in {root / 'spec/clauses'}, found none; give the root of the repository",
            file=sys.stderr,
        )
        return 2
    print(as_text(matrix))
    return 1 if matrix.problems else 0


if __name__ == "__main__":
    sys.exit(main())
