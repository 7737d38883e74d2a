"""Which parts of the TLA+ modules the models reach, and which conditions never come out both ways.

An action that is never taken, a branch that is never evaluated and a condition that is never false check nothing. TLC's
own ``-coverage`` leaves out expressions that were never evaluated, so probes are put into a copy of the modules:

1. SANY, TLC's parser, exports the syntax trees with the place and the level of each expression.
2. Each branch, operand of a junction or implication, condition and body of a quantifier is wrapped in an operator of
   a module Probe. Its value stays the same; the first evaluation, or the first of each truth value, prints a number.
3. Models run on the copy. A point that no model reached is a problem, unless ``unreached.json`` gives the reason.

The subtle case is the layout: the columns of bullets have a meaning in TLA+. A probe is put on lines of its own, so
that every token of the module stays in its column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias
from xml.etree import ElementTree

from pktable_spec.errors import InvalidRequestError

from model_tests.tlc import record
from model_tests.tlc.checker import workplace
from model_tests.tlc.jvm import Run, run_java
from model_tests.tlc.models import FOLDER, Model, code_of, modules_of, used_by

Verdict: TypeAlias = Literal["never evaluated", "never true", "never false"]
UNPROBED: Final = frozenset({"StoreOperations", "StoreFaults"})
"""TLC cannot evaluate these with probes: their steps take steps of Commit as arguments."""
ALLOWED: Final = FOLDER / "unreached.json"
REACHED: Final = re.compile(r'^<<"probe", (\d+)>>$', re.M)

REPLACEMENTS: Final = {
    "Faults",
    "CommitFaults",
    "RollbackFaults",
    "LevelsFaults",
    "DeletedRowsFaults",
    "UserSequence",
    "Remembered",
    "ValueLookup",
    "LookupMerge",
    "MaxEngine",
    "Ties",
}
"""Modules of operators that replace others in some models: their conditions need not come out both ways."""

TYPES: Final = re.compile(
    "TypeOK|SeenTypeOK|ChangelogTypeOK|RollbackTypeOK|AreBatches|AreSnapshots|Partial|IsData|IsPrepared|IsWork|IsTable|IsWrite"
)
"""Definitions that say the types of values: one model violates each of them, in one place."""

BOOLEAN: Final = {"=", "/=", "\\in", "\\notin", "\\lnot", "\\land", "\\lor", "=>", "\\subseteq"} | {
    "$ConjList",
    "$DisjList",
    "$BoundedExists",
    "$BoundedForall",
}
"""Built-in operators whose value is a truth value: a branch that is one of them is a condition."""

STATE_LEVEL: Final = 1
ACTION_LEVEL: Final = 2


class Span(NamedTuple):
    """Where an expression is: lines and columns from 1, the last ones included."""

    module: str
    line: int
    column: int
    last_line: int
    last_column: int


class Point(NamedTuple):
    """An expression with a probe. ``condition``: whether it is to come out true and false."""

    span: Span
    condition: bool
    text: str


class Unreached(NamedTuple):
    """A probe that no model reached."""

    module: str
    line: int
    text: str
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.module}.tla:{self.line}: {self.verdict}: {self.text}"


@dataclass(frozen=True)
class Probes:
    """The modules with probes, by file name, and the points. The numbers of point n are 2n + 1 and 2n + 2.

    ``first``: what to add to the numbers that a model prints, by the module that it extends.
    """

    modules: Mapping[str, str]
    points: Sequence[Point]
    first: Mapping[str, int] = field(default_factory=dict)

    def first_of(self, model: Model) -> int:
        return self.first[model.extends.split(",")[0].strip()]

    def unreached(self, numbers: Iterable[int]) -> list[Unreached]:
        """Return the points that are not among the ``numbers`` that TLC printed, by module and line."""
        seen = set(numbers)
        found = []
        for at, point in enumerate(self.points):
            first, second = 2 * at + 1 in seen, 2 * at + 2 in seen
            verdict: Verdict | None = None
            if not first and not second:
                verdict = "never evaluated"
            elif point.condition and not (first and second):
                verdict = "never false" if first else "never true"
            if verdict:
                found.append(Unreached(point.span.module, point.span.line, point.text, verdict))
        return sorted(found)


def problems(found: Sequence[Unreached], allowed: Path = ALLOWED) -> list[str]:
    """Return what is unreached without a reason, and the reasons of what is reached."""
    reasons: dict[str, dict[str, str]] = json.loads(allowed.read_text("utf-8"))
    known = {(module, key) for module, entries in reasons.items() for key in entries}
    missed = {(one.module, f"{one.verdict}: {one.text}") for one in found}
    wrong = [str(one) for one in found if (one.module, f"{one.verdict}: {one.text}") not in known]
    stale = sorted(known - missed)
    return wrong + [
        f"{allowed.name}: {module}: {key}: is reached, or no longer there" for module, key in stale
    ]


def numbers_in(output: str) -> set[int]:
    """Return the numbers of the probes that TLC printed."""
    return {int(number) for number in REACHED.findall(output)}


@cache
def probes(roots: frozenset[str], folder: Path = FOLDER) -> Probes:
    """Return the modules that ``roots`` extend and instantiate, and themselves, with probes.

    Raises InvalidRequestError where SANY cannot read them.
    """
    texts = modules_of(roots, folder=folder)
    points: list[Point] = []
    modules: dict[str, str] = {}
    first: dict[str, int] = {}
    most = 0
    for group in groups_of(texts):
        wanted = _wanted({name: texts[name] for name in group}, folder)
        found = [Point(span, wanted[span], _text(texts[span.module], span)) for span in sorted(wanted)]
        for name in group:
            own = [(at, one) for at, one in enumerate(found) if one.span.module == name]
            modules[f"{name}.tla"] = _with_probes(texts[name], own)
            first[name] = 2 * len(points)
        points += found
        most = max(most, 2 * len(found) + 2)
    return Probes({**modules, "Probe.tla": _PROBE % (most + 1_000 - most % 1_000)}, points, first)


def groups_of(texts: Mapping[str, str]) -> list[list[str]]:
    """Divide modules into groups that do not use each other, in the order of their names.

    Each has numbers of its own, so that the probes of one group stay as they are if another changes.
    """
    groups: list[set[str]] = []
    for name, text in texts.items():
        group = {name, *(used_by(text) & texts.keys())}
        for other in [one for one in groups if one & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    return sorted(map(sorted, groups))


def key_of(roots: Iterable[str], folder: Path = FOLDER) -> str:
    """Return the key of all that the probes of a group of modules depend on."""
    texts = modules_of(roots, folder=folder)
    made_by = Path(__file__).read_text("utf-8")
    return record.key_of(
        {"Model.tla": ""}, "probes", made_by, *(f"{name}\n{code_of(texts[name])}" for name in sorted(texts))
    )


def _wanted(texts: Mapping[str, str], folder: Path) -> dict[Span, bool]:
    """Return where to put probes, and whether each is on a condition; SANY is asked if there is no record of it."""
    key = key_of(texts, folder)
    if known := record.recalled(key):
        return {Span(*span): condition for *span, condition in known["spans"]}
    tops = sorted(set(texts) - {used for text in texts.values() for used in used_by(text)})
    with ThreadPoolExecutor(2) as pool:
        trees = list(pool.map(lambda name: _exported(folder / f"{name}.tla"), tops))
    wanted: dict[Span, bool] = {}
    for tree in trees:
        for span, condition in _spans(tree):
            if span.module in texts:
                wanted[span] = wanted.get(span, False) or condition
    record.remember(key, {"spans": [[*span, condition] for span, condition in wanted.items()]})
    return wanted


_PROBE: Final = """---- MODULE Probe ----
EXTENDS TLC, Naturals
ASSUME \\A n \\in 1..%d : TLCSet(n, 0)
ProbeReached(n) == TLCGet(n) = 1 \\/ (TLCSet(n, 1) /\\ PrintT(<<"probe", n>>))
ProbeSeen(n, e) == IF ProbeReached(n) THEN e ELSE e
ProbeBoth(n, e) == IF e THEN ProbeReached(n) ELSE ~ProbeReached(n + 1)
====
"""


def roots_of(models: Iterable[Model]) -> frozenset[str]:
    """Return the modules that models extend, without those of `UNPROBED`."""
    return frozenset(name.strip() for model in models for name in model.extends.split(",")) - UNPROBED


def _exported(path: Path) -> ElementTree.Element:
    words = ["-o", "-I", str(path.parent), path.name]
    name = "tla2sany.xml.XMLExporter"

    def work(run: Run) -> None:
        run.call("util.ToolIO", "setUserDir", None, f"{path.parent}/")
        run.call(name, "main", None, run.words(words))

    with workplace() as place:  # SANY unpacks the standard modules there
        said = run_java(work, place, 600)
    found = re.search(r"<\?xml.*</modules>", said, re.S)
    if found is None:
        raise InvalidRequestError(
            f"{path}: expected a module that SANY reads, found {' '.join(said.split())[-500:]}"
        )
    return ElementTree.fromstring(found[0].encode())


# ------------------------------------------------------------------- which expressions


def _spans(tree: ElementTree.Element) -> Iterator[tuple[Span, bool]]:
    """Yield the place of each expression to probe, and whether it is a condition."""
    builtin = {
        entry.findtext("UID"): entry.findtext("BuiltInKind/uniquename")
        for entry in tree.iter("entry")
        if entry.find("BuiltInKind") is not None
    }
    for definition in tree.iter("UserDefinedOpKind"):
        defined = definition.findtext("uniquename", "").rpartition("!")[2]
        if defined.endswith(("Init", "Spec")):
            continue  # conjuncts that give the variables their first values, so there is none to compare
        one_sided = TYPES.fullmatch(defined) or definition.findtext("location/filename") in REPLACEMENTS
        for node in definition.iter("OpApplNode"):
            name = builtin.get(node.findtext("operator/BuiltInKindRef/UID"))
            operands = node.find("operands")
            temporal = int(node.findtext("level", "0")) > ACTION_LEVEL
            if name is not None and operands is not None and not temporal:
                for operand, condition in _probed(name, list(operands), builtin):
                    if 0 <= (level := int(operand.findtext("level", "-1"))) <= ACTION_LEVEL:
                        yield _span(operand), condition and level <= STATE_LEVEL and not one_sided


def _probed(
    name: str, operands: list[ElementTree.Element], builtin: Mapping[str | None, str | None]
) -> Iterator[tuple[ElementTree.Element, bool]]:
    """Yield the operands of a built-in operator to probe, and whether each is a condition."""
    if name == "$IfThenElse":
        yield from ((one, at == 0 or _is_boolean(one, builtin)) for at, one in enumerate(operands))
    elif name == "$Case":
        for arm in operands:
            guard, value = arm.findall("operands/*")
            if guard.findtext("StringValue") != "$Other":
                yield guard, True
            yield value, _is_boolean(value, builtin)
    elif name in ("$ConjList", "\\land"):
        states = [one for one in operands if int(one.findtext("level", "9")) <= STATE_LEVEL]
        yield from ((one, True) for one in states)
        yield from ((one, False) for one in operands[1:] if one not in states)
    elif name in ("$DisjList", "\\lor", "=>") or name in ("$BoundedExists", "$BoundedForall", "$SubsetOf"):
        yield from ((one, True) for one in operands if int(one.findtext("level", "9")) <= STATE_LEVEL)


def _is_boolean(node: ElementTree.Element, builtin: Mapping[str | None, str | None]) -> bool:
    return builtin.get(node.findtext("operator/BuiltInKindRef/UID")) in BOOLEAN


def _span(node: ElementTree.Element) -> Span:
    def number(path: str) -> int:
        return int(node.findtext(f"location/{path}", "0"))

    return Span(
        node.findtext("location/filename", ""),
        number("line/begin"),
        number("column/begin"),
        number("line/end"),
        number("column/end"),
    )


# -------------------------------------------------------------------- putting them in


def _text(module: str, span: Span) -> str:
    lines = [line.partition("\\*")[0] for line in module.split("\n")[span.line - 1 : span.last_line]]
    lines[-1] = lines[-1][: span.last_column]
    lines[0] = lines[0][span.column - 1 :]
    return " ".join(" ".join(lines).split())


def _with_probes(text: str, points: Sequence[tuple[int, Point]]) -> str:
    """Return a module in which each point is the argument of its probe, and every token is in its old column."""
    opened: dict[tuple[int, int], list[tuple[int, Point]]] = {}
    closed: dict[tuple[int, int], list[tuple[int, Point]]] = {}
    for at, point in sorted(points, key=lambda one: (-one[1].span.last_line, -one[1].span.last_column)):
        opened.setdefault((point.span.line, point.span.column), []).append((at, point))
    for at, point in sorted(points, key=lambda one: (one[1].span.line, one[1].span.column), reverse=True):
        closed.setdefault((point.span.last_line, point.span.last_column), []).append((at, point))
    done: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        written = ""
        for column, character in enumerate(line, 1):
            for at, point in opened.get((number, column), ()):
                probe = "ProbeBoth" if point.condition else "ProbeSeen"
                written += f"{probe}({2 * at + 1},\n" + " " * (column - 1)
            written += character
            for _, point in closed.get((number, column), ()):
                written += "\n" + " " * (point.span.column - 1) + ")\n" + " " * column
        done.append(written)
    module = "\n".join(done)
    if re.search(r"^EXTENDS ", module, re.M):
        return re.sub(r"^EXTENDS ", "EXTENDS Probe, ", module, count=1, flags=re.M)
    return re.sub(r"^(-+ MODULE \w+ -+)$", r"\1\nEXTENDS Probe", module, count=1, flags=re.M)
