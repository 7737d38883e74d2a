"""The evidence of each clause: its citations, tests, fixtures, the models that break without it, and who passes."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pktable_conform.archive import Archive, Case
from pktable_spec.clauses import Clause, clauses
from pktable_spec.trace import TESTS, cited_ids, covered

from model_tests.conform import record
from model_tests.conform.record import Run
from model_tests.examples.pages import of_clauses
from model_tests.examples.shown import Example
from model_tests.mutants import MUTANTS
from model_tests.mutants.append_tables import APPEND_MUTANTS
from model_tests.mutants.registry import Mutant

ROOT: Final = Path(__file__).parents[2]
CITATION: Final = re.compile(r"Clauses:\s(?P<ids>[^.]*)\.")
DEFINITION: Final = re.compile(r"^(?P<name>\w+)(?:\([^=]*\))? ==")
COMMENT: Final = re.compile(r"^(?:\\\*|\(\*| {3})")


@dataclass(frozen=True)
class Test:
    """A test that covers a clause: its file, the line of its decorator, and its name."""

    path: str
    line: int
    name: str


@dataclass(frozen=True)
class Model:
    """A model of TLA+ that must fail: its name, what is done wrong in it, and the property that is then violated."""

    name: str
    says: str
    violated: str


@dataclass
class Evidence:
    """The evidence of one clause."""

    clause: Clause
    tests: list[Test] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    mutants: list[Mutant] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)


def gathered() -> tuple[dict[str, Evidence], list[Run]]:
    """Return the evidence of each clause in force by its id, and the runs on record."""
    found = {id: Evidence(one) for id, one in clauses().items() if not one.force.startswith("withdrawn")}
    for test, id in tests():
        found[id].tests.append(test)
    for case in Archive().cases:
        for id in case.clauses:
            found[id].cases.append(case)
    for model, ids in models():
        for id in ids:
            found[id].models.append(model)
    for mutant in (*MUTANTS.values(), *(one.mutant for one in APPEND_MUTANTS.values())):
        for id in mutant.clauses:
            found[id].mutants.append(mutant)
    for id, examples in of_clauses().items():
        found[id].examples += examples
    return found, record.runs()


def tests() -> Iterator[tuple[Test, str]]:
    """Yield each test that covers a clause, with the clause."""
    for path in sorted(one for pattern in TESTS for one in ROOT.glob(pattern)):
        text = path.read_text("utf-8")
        if "covers(" not in text:
            continue
        names = {
            decorator.lineno: node.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            for decorator in node.decorator_list
        }
        for line, clause in covered(text):
            yield Test(path.relative_to(ROOT).as_posix(), line, names[line]), clause


def models() -> Iterator[tuple[Model, Sequence[str]]]:
    """Yield each model that must fail, with the clauses of the operators that it replaces and of what it violates."""
    modules = {path.stem: Module.read(path) for path in sorted((ROOT / "spec/tla").glob("*.tla"))}
    for name, one in json.loads((ROOT / "spec/tla/models.json").read_text("utf-8"))["models"].items():
        violated = one["expected"]["violated"]
        if violated == "passes":
            continue
        cited = set[str]()
        for module in reached(one["extends"].split(", "), modules):
            for operator in (*one.get("replaces", {}), violated):
                cited |= modules[module].cited.get(operator, set())
        yield Model(name, one["says"], violated), sorted(cited)


@dataclass(frozen=True)
class Module:
    """A module of TLA+: the modules that it uses, and the clauses of each operator."""

    uses: tuple[str, ...]
    cited: Mapping[str, set[str]]

    @staticmethod
    def read(path: Path) -> Module:
        cited: dict[str, set[str]] = defaultdict(set)
        comment: list[str] = []
        text = path.read_text("utf-8")
        for line in text.splitlines():
            if definition := DEFINITION.match(line):
                for citation in CITATION.finditer(" ".join(comment)):
                    cited[definition["name"]].update(cited_ids(citation["ids"]))
            if COMMENT.match(line):
                comment.append(line.strip("\\*() "))
            else:
                comment = []
        extended = [name for found in re.findall(r"^EXTENDS (.*)$", text, re.M) for name in found.split(", ")]
        return Module((*extended, *re.findall(r"INSTANCE (\w+)", text)), cited)


def reached(names: Sequence[str], modules: Mapping[str, Module]) -> set[str]:
    """Return modules and all that they use, directly or through others."""
    found, waiting = set[str](), [name.strip() for name in names]
    while waiting:
        name = waiting.pop()
        if name in modules and name not in found:
            found.add(name)
            waiting += modules[name].uses
    return found
