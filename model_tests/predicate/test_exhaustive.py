"""A node, function or operator that a translator of conditions forgets is a type error.

mypy runs on a copy of the package in which the tree has one more of each, and must report every translator.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = {
    "reference/pktable/predicate": "pktable/predicate",
    "reference/pktable/format": "pktable/format",
    "spec/pktable_spec": "pktable_spec",
}
ADDITIONS = {
    "Expression: TypeAlias = Column": (
        "@dataclass(frozen=True, slots=True)\nclass Year:\n    operand: Expression\n    type: DataType = INT\n\n\n"
        "Expression: TypeAlias = Year | Column"
    ),
    '"negate", "abs",': '"negate", "sign", "abs",',
    '"remainder"]': '"remainder", "power"]',
    '">="]': '">=", "!<"]',
}
"""Text of the tree, and the same text with a member more."""

TRANSLATORS = {
    "Year": {
        "tree.children",
        "tree.rewritten",
        "arrow_eval.expression_of",
        "arrow_eval._may_raise",
        "duckdb_sql.duckdb_text",
        "spark_sql.spark_text",
        "pruning.may_be",
        "pruning._bounds",
        "pruning._pinned",
    },
    "sign": {"arrow_eval._call", "duckdb_sql._call", "spark_sql._call"},
    "power": {"arrow_eval._call", "duckdb_sql._call", "spark_sql._call", "coercion.arithmetic_type"},
    "!<": {"arrow_eval._ordered", "pruning._compared"},
}
"""The functions that mypy must report for each addition."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("types")
    for source, target in COPIED.items():
        shutil.copytree(ROOT / source, root / target, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "pktable/__init__.py").touch()
    (root / "pktable/py.typed").touch()
    return root


def errors(root: Path) -> list[str]:
    """Return what mypy, with the settings of this repository, says of the package for conditions below ``root``."""
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(root / "cache")]
    output = ["--no-pretty", "--no-error-summary", "--no-color-output"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *output, "pktable/predicate"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def function_at(path: Path, line: int) -> str:
    """Return ``module.function`` for the outermost function around a line of a file."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return f"{path.stem}.{node.name}"
    return path.stem


@pytest.fixture(scope="module")
def unhandled(copy: Path) -> dict[str, set[str]]:
    """The functions that mypy reports for each addition to the tree."""
    tree = copy / "pktable/predicate/tree.py"
    text = tree.read_text("utf-8")
    for before, after in ADDITIONS.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    tree.write_text(text, "utf-8")
    found = defaultdict(set)
    for line in errors(copy):
        match = re.match(
            r'(\S+):(\d+): error: .* "assert_never" has incompatible type "(.+?)"; expected', line
        )
        assert match, line
        for name in re.findall("'(.+?)'", match[3]) or [match[3]]:
            found[name].add(function_at(copy / match[1], int(match[2])))
    return found


@pytest.mark.parametrize("addition", TRANSLATORS)
def test_a_forgotten_case_is_a_type_error_in_every_translator(
    addition: str, unhandled: dict[str, set[str]]
) -> None:
    assert unhandled[addition] == TRANSLATORS[addition]
