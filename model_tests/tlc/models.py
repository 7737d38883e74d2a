"""The models that TLC checks: the entries of spec/tla/models.json, and the files that TLC reads for each.

An entry names modules to extend, constants, what is to hold, operators replaced (a fault), and what must
come of it. A model that says nothing of that is refused: it could not fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError

from model_tests.tlc.values import spelled

FOLDER: Final = Path(__file__).parents[2] / "spec" / "tla"
PASSES: Final = "passes"
PLURALS: Final = {"expiry": "expiries", "branch": "branches", "crash": "crashes"}


@dataclass(frozen=True)
class Expected:
    """The result that TLC must find: ``violated`` names a property, or is `PASSES`; in how many distinct states."""

    violated: str
    states: int


@dataclass(frozen=True)
class Model:
    """One run of TLC. ``constants`` and ``replaces`` go from a name to TLA+ text; see `_constant`.

    ``probed``: whether it runs on modules with probes, when all models run; see `coverage`.
    """

    name: str
    says: str
    extends: str
    constants: Mapping[str, Any]
    expected: Expected
    specification: str = "Spec"
    invariants: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    replaces: Mapping[str, str] = field(default_factory=dict)
    symmetry: str = ""
    probed: bool = False

    def write(self, folder: Path) -> None:
        """Write Model.tla and Model.cfg."""
        for name, text in self.files().items():
            (folder / name).write_text(text, "utf-8")

    def files(self) -> dict[str, str]:
        """Return the texts of Model.tla and Model.cfg."""
        definitions, config = [], [f"SPECIFICATION {self.specification}"]
        for name, value in self.constants.items():
            text, simple = _constant(name, value)
            if simple:
                config.append(f"CONSTANT {name} = {text}")
                config += [f"CONSTANT {one} = {one}" for one in _model_values(value)]
            else:
                definitions.append(f"Model_{name} == {text}")
                config.append(f"CONSTANT {name} <- Model_{name}")
        if self.symmetry:
            definitions.append(f"Model_Symmetry == Permutations({self.symmetry})")
            config.append("SYMMETRY Model_Symmetry")
        config += [f"CONSTANT {operator} <- {fault}" for operator, fault in self.replaces.items()]
        config += [f"INVARIANT {one}" for one in self.invariants]
        config += [f"PROPERTY {one}" for one in self.properties]
        body = "\n".join([f"EXTENDS {self.extends}, TLC", *definitions])
        return {
            "Model.tla": f"---- MODULE Model ----\n{body}\n====\n",
            "Model.cfg": "\n".join(config) + "\n",
        }


def modules_of(
    roots: Iterable[str], own: Mapping[str, str] = MappingProxyType({}), folder: Path = FOLDER
) -> dict[str, str]:
    """Return the texts of modules and of all that they extend and instantiate, by name.

    ``own``: texts by file name, which take the place of those in ``folder``. A module in neither is a standard one.
    """
    texts: dict[str, str] = {}
    missing = sorted(roots)
    while missing:
        name = missing.pop()
        path = folder / f"{name}.tla"
        if name not in texts and (path.name in own or path.is_file()):
            texts[name] = own[path.name] if path.name in own else path.read_text("utf-8")
            missing += sorted(used_by(texts[name]))
    return texts


OUTSIDE: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\\\*[^\n]*|\(\*')
"""A string, a comment up to the end of the line, and where one in parentheses begins."""
INSIDE: Final = re.compile(r"\(\*|\*\)")


def code_of(text: str) -> str:
    """Return a module with spaces in the place of its comments: all else keeps its line and column."""
    parts, depth, at = [], 0, 0
    while found := (INSIDE if depth else OUTSIDE).search(text, at):
        between = text[at : found.start()]
        parts.append(_blank(between) if depth else between)
        parts.append(found[0] if found[0].startswith('"') else _blank(found[0]))
        depth += {"(*": 1, "*)": -1}.get(found[0], 0)
        at = found.end()
    parts.append(_blank(text[at:]) if depth else text[at:])
    return re.sub(r" +$", "", "".join(parts), flags=re.M)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def used_by(text: str) -> set[str]:
    """Return the modules that a module extends or instantiates."""
    lists = re.findall(r"(?:EXTENDS|INSTANCE)((?:\s*\w+\s*,)*\s*\w+)", text)
    return {name for names in lists for name in re.findall(r"\w+", names)}


def _constant(name: str, value: Any) -> tuple[str, bool]:
    """Return the TLA+ of a constant, and whether a configuration file can hold it.

    A list of texts such as ``"+1 -2"`` is a sequence of writes (put key 1, delete key 2), whose rows are
    their numbers, from 1; a text is TLA+ as it stands.
    """
    if isinstance(value, list):
        return spelled([batch(text, number) for number, text in enumerate(value, 1)]), False
    if isinstance(value, bool | int):
        return spelled(value), True
    return str(value), re.fullmatch(r"\{[\w, ]*\}", str(value)) is not None


def batch(text: str, row: int) -> list[dict[str, object]]:
    """Return the changes that ``"+1 -2"`` means, for `spelled`."""
    return [
        {"key": int(one[1:]), "kind": f"{one[0]}{'I' if one[0] == '+' else 'D'}", "row": row}
        for one in text.split()
    ]


def _model_values(value: Any) -> list[str]:
    return re.findall(r"[a-z]\w*", value) if isinstance(value, str) else []


def load(path: Path = FOLDER / "models.json") -> list[Model]:
    """Return the models of a file. Raises InvalidRequestError for one that is not as it should be."""
    stored = json.loads(path.read_text("utf-8"))
    return [_model(name, one, path) for name, one in stored["models"].items()]


def _model(name: str, entry: Mapping[str, Any], path: Path) -> Model:
    known = {one.name for one in fields(Model)} - {"name"}
    unknown = sorted(entry.keys() - known)
    missing = sorted({"says", "extends", "constants", "expected"} - entry.keys())
    if unknown or missing:
        problem = f"unknown {', '.join(unknown)}" if unknown else f"no {', '.join(missing)}"
        raise InvalidRequestError(f"{path}: model {name}: expected the fields of a model, found {problem}")
    expected = entry["expected"]
    if not isinstance(expected, Mapping) or set(expected) != {"violated", "states"}:
        raise InvalidRequestError(f"{path}: model {name}: expected 'violated' and 'states', found {expected}")
    checks = (*entry.get("invariants", ()), *entry.get("properties", ()))
    if not checks or (expected["violated"] != PASSES and expected["violated"] not in checks):
        raise InvalidRequestError(
            f"{path}: model {name}: expected {expected['violated']} among what it checks, found {', '.join(checks)}"
        )
    return Model(
        name=name,
        **{
            **entry,
            "expected": Expected(**expected),
            "invariants": tuple(entry.get("invariants", ())),
            "properties": tuple(entry.get("properties", ())),
        },
    )


def as_markdown(models: Sequence[Model], *, hold: bool) -> str:
    """Return the table of models that hold, or of those that must fail, as README.md has it."""
    if hold:
        lines = ["| model | says | scope | states |", "| --- | --- | --- | ---: |"]
        lines += [
            f"| {one.name} | {one.says} | {_scope(one)} | {one.expected.states:,} |"
            for one in models
            if one.expected.violated == PASSES
        ]
    else:
        lines = ["| model | what is done wrong | violated | states |", "| --- | --- | --- | ---: |"]
        lines += [
            f"| {one.name} | {one.says} | {one.expected.violated} | {one.expected.states:,} |"
            for one in models
            if one.expected.violated != PASSES
        ]
    return "\n".join(lines)


def _counted(counts: Mapping[str, int]) -> list[str]:
    """Return numbers with their nouns, such as ``2 writers``, but for those that are 0."""
    return [
        f"{count} {name if count == 1 else PLURALS.get(name, name + 's')}"
        for name, count in counts.items()
        if count
    ]


def _append_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of append tables."""
    jobs = {
        name: len(_model_values(constants[f"{name.title()}s"]))
        for name in ("deleter", "updater", "compactor")
    }
    rows = f"{2 * constants['FileCount']} rows"
    return ", ".join([rows, *_counted(jobs), f"{constants['CommitLimit']} commits"])


def _log_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of writers of a Hudi table."""
    counts = {name: len(_model_values(constants[f"{name.title()}s"])) for name in ("writer", "planner")}
    counts["crash"] = constants["CrashLimit"]
    return ", ".join([*_counted(counts), f"{constants['TimeLimit']} times"])


def _clean_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of cleans."""
    return f"{constants['InstantLimit']} instants, {constants['CleanLimit']} cleans, 1 reader"


def _archive_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of a write that is archived."""
    return f"1 writer, {len(_model_values(constants['Enders']))} others that end its write"


def _fence_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of fences whose numbers become free again."""
    counts = [len(_model_values(constants[name])) for name in ("Putters", "Askers")]
    readers = f", {counts[1]} reader" if counts[1] else ""
    return (
        f"{counts[0]} processes{readers}, {constants['AttemptLimit']} fences each, {constants['Kept']} count"
    )


def _assignment_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of writers who give keys to buckets."""
    counts = {name: len(_model_values(constants[f"{name.title()}s"])) for name in ("writer", "key")}
    commits = _counted({"commit": constants["CommitLimit"]})
    return ", ".join([*_counted(counts), f"{constants['Target']} a bucket", *commits])


def _moving_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of keys that move between partitions."""
    counts = {
        name: len(_model_values(constants[f"{name.title()}s"])) for name in ("writer", "compactor", "key")
    }
    partitions = len(_model_values(constants["Partitions"]))
    return ", ".join([*_counted(counts), f"{partitions} partitions", f"{constants['CommitLimit']} writes"])


def _retention_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of what an expiry keeps."""
    kinds = {"expiry": "Expirers", "tag": "Tags", "branch": "Branches", "consumer": "Consumers"}
    counts = {name: len(_model_values(constants[one])) for name, one in kinds.items()}
    counts["crash"] = constants["CrashLimit"]
    copies = [f"changelogs of {constants['CopiesKept']}"] if constants["CopiesKept"] else []
    return ", ".join([f"{constants['CommitLimit']} snapshots", *copies, *_counted(counts)])


def _forward_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of fast-forwards."""
    kinds = {"fast-forward": "Forwards", "removal": "Removers", "expiry": "Expirers", "clean-up": "Cleaners"}
    counts = {name: len(_model_values(constants[one])) for name, one in kinds.items()}
    counts["crash"] = constants["CrashLimit"]
    made = [f"made {constants['GenerationLimit']} times"] if constants["GenerationLimit"] > 1 else []
    return ", ".join([f"{constants['CommitLimit']} snapshots", *made, *_counted(counts)])


def _chain_scope(constants: Mapping[str, Any]) -> str:
    """Return the scope of a model of the indexes of log files."""
    lost = f", {constants['LossLimit']} lost" if constants["LossLimit"] else ""
    return f"{constants['LogLimit']} log files in cliques of {constants['CliqueFiles']}{lost}"


def _scope(model: Model) -> str:
    constants = model.constants
    scopes = {
        "LogLimit": _chain_scope,
        "FileCount": _append_scope,
        "TimeLimit": _log_scope,
        "CleanLimit": _clean_scope,
        "Enders": _archive_scope,
        "Putters": _fence_scope,
        "Target": _assignment_scope,
        "Partitions": _moving_scope,
        "CopiesKept": _retention_scope,
        "Forwards": _forward_scope,
    }
    for name, scope in scopes.items():
        if name in constants:
            return scope(constants)
    keys = {int(change[1:]) for text in constants["Batches"] for change in text.split()}
    words = [f"{len(keys)} keys" if len(keys) > 1 else "1 key", f"{constants['MaxLevel'] + 1} levels"]
    if "CommitLimit" in constants:
        return ", ".join([*words, f"{constants['CommitLimit']} commits"])
    jobs = {name: len(_model_values(constants[f"{name.title()}s"])) for name in ("writer", "compactor")}
    return ", ".join([*words, *_counted(jobs), f"w{constants['WriteLimit']} c{constants['CompactionLimit']}"])
