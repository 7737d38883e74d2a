"""The reachable states of the oracle and of TLC, compared: every state and every labelled edge.

The two are written apart, one in Python and one in TLA+, so an error has to be made twice to go
unseen. TLA+ counts files and positions from 1, the oracle from 0; an edge of TLC names its action, and
its job is the one whose staged work changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from pktable_spec.errors import InvalidRequestError
from pktable_spec.model.graph import Scope, reachable
from pktable_spec.model.levels import DataFile, KeyedChange, Record
from pktable_spec.model.mechanism import Mechanism, Plan, StagedWrite, State, Work
from pktable_spec.model.merge import DEDUPLICATE, UserOrder
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

from model_tests.oracle import mechanism_faults as faults
from model_tests.oracle.max_engine import MaxOfColumn
from model_tests.tlc import record
from model_tests.tlc.checker import FLAGS, Printed, Source, outcome, run_tlc, workplace
from model_tests.tlc.models import PASSES, Expected, Model, batch
from model_tests.tlc.values import Value, variables

Edge: TypeAlias = tuple[State, str, str, State]
"""A state, the action, the job ("" for a write in one step), the state after."""

NODE: Final = re.compile(r'^(-?\d+) \[(?:style = filled,? ?)?label="(.*?)"(?:,style = filled)?\];?$', re.M)
EDGE: Final = re.compile(r'^(-?\d+) -> (-?\d+) \[label="(\w+)"', re.M)


MAXIMUM: Final = {"Engine": "MaxOfColumn"}
REMEMBERED: Final = {
    "Newer": "NewerByField",
    "HasVector": "HasReplacedRow",
    "InputRecords": "WithRetractions",
    "Merged": "MergedWithRetractions",
    "Marks": "MarksUnlessLate",
    "KeepsRetraction": "AlwaysKept",
    "Rewrite": "RewriteUnlessLate",
    "MustBeRewritten": "RewrittenToCompare",
    "Compacted": "CompactedAndHidden",
}
DELETED_ROWS: Final = {"Picks": "PicksDeletedRowsToo"}
VALUE_LOOKUP: Final = {"LookedUp": "RowsLookedUp", "MustBeRewritten": "RewrittenOutOfLevelZero"}


@dataclass(frozen=True)
class GraphScope:
    """One scope in the words of both: the options and bounds of the oracle, the constants of TLA+.

    ``maximum``: whether the merge engine is the maximum of a column, which here is the only one.
    ``ordered``: whether the row is the `sequence.field`.
    ``deleted_percent``: of the rows of a file; if more are deleted, it is rewritten. None if that does not matter.
    ``mechanism`` and ``replaces``: an engine of others, in the words of both.
    """

    batches: tuple[str, ...]
    vectors: bool = True
    levels: int = 3
    trigger: int = 3
    compactors: tuple[str, ...] = ("c1",)
    writers: tuple[str, ...] = ()
    write_limit: int = 2
    compaction_limit: int = 2
    crashes: bool = True
    maximum: bool = False
    ordered: bool = False
    deleted_percent: int | None = None
    mechanism: Callable[[ModelOptions], Mechanism] = Mechanism
    replaces: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> ModelOptions:
        return ModelOptions(
            deletion_vectors=self.vectors,
            num_levels=self.levels,
            trigger=self.trigger,
            merge_engine=MaxOfColumn(0) if self.maximum else DEDUPLICATE,
            order=UserOrder((0,)) if self.ordered else None,
            delete_ratio_threshold=None
            if self.deleted_percent is None
            else Fraction(self.deleted_percent, 100),
        )

    @property
    def scope(self) -> Scope:
        return Scope(
            batches=tuple(tuple(_changes(text, number)) for number, text in enumerate(self.batches, 1)),
            compactors=self.compactors,
            writers=self.writers,
            write_limit=self.write_limit,
            compaction_limit=self.compaction_limit,
            crashes=self.crashes,
        )

    def model(self, name: str) -> Model:
        constants = {
            "Batches": list(self.batches),
            "Writers": "{" + ", ".join(self.writers) + "}",
            "Compactors": "{" + ", ".join(self.compactors) + "}",
            "WriteLimit": self.write_limit,
            "CompactionLimit": self.compaction_limit,
            "Crashes": self.crashes,
            "Vectors": self.vectors,
            "MaxLevel": self.levels - 1,
            "Trigger": self.trigger,
        }
        if self.ordered:
            return Model(name, "", "Remembered", constants, Expected(PASSES, 0), replaces=REMEMBERED)
        if self.deleted_percent is not None:
            constants["DeletedPercent"] = self.deleted_percent
            return Model(name, "", "DeletedRows", constants, Expected(PASSES, 0), replaces=DELETED_ROWS)
        if not self.maximum:
            module = "Faults" if self.replaces else "DeletionVectors"
            return Model(name, "", module, constants, Expected(PASSES, 0), replaces=self.replaces)
        replaces = dict(MAXIMUM)
        if self.vectors:
            replaces |= VALUE_LOOKUP
        return Model(name, "", "ValueLookup, MaxEngine", constants, Expected(PASSES, 0), replaces=replaces)


SCOPES: Final[Mapping[str, GraphScope]] = {
    "one compactor": GraphScope(("+1", "-1", "+2", "+1 +2"), write_limit=3),
    "two compactors": GraphScope(
        ("+1", "-1", "+1 +2"), levels=4, compactors=("c1", "c2"), write_limit=2, compaction_limit=3
    ),
    "two compactors, deep": GraphScope(  # where each part of the commit rule decides
        ("+1", "+2"), True, 4, 9, ("c1", "c2"), write_limit=3, compaction_limit=4, crashes=False
    ),
    "many deleted rows": GraphScope(
        ("+1", "-1", "+1 +2"),
        levels=4,
        compactors=("c1", "c2"),
        compaction_limit=3,
        crashes=False,
        deleted_percent=40,
    ),
    "two writers": GraphScope(("+1", "-1"), writers=("w1", "w2"), write_limit=3),
    "own compactions": GraphScope(
        ("+1", "-1 -1"), compactors=("w1", "c1"), writers=("w1", "w2"), write_limit=3
    ),
    "no vectors": GraphScope(
        ("+1", "-1", "+1 +2"), vectors=False, trigger=2, compactors=("c1", "c2"), write_limit=2
    ),
    "equal numbers": GraphScope(
        ("+1", "-1", "+2 +1", "+1 +1"),
        writers=("w1", "w2"),
        mechanism=faults.NumbersWhenBegun,
        replaces={"FirstSequence": "KeepsItsNumber"},
        crashes=False,
    ),
    "retractions below level 0": GraphScope(
        ("+1", "-1"),
        levels=4,
        write_limit=3,
        compaction_limit=3,
        crashes=False,
        mechanism=faults.KeepsRetractions,
        replaces={"Marks": "LooksUpLater", "KeepsRetraction": "KeptAboveTheLastLevel"},
    ),
    "max of a column": GraphScope(
        ("+1", "-1", "+1 +2"), levels=4, compactors=("c1", "c2"), compaction_limit=3, maximum=True
    ),
    "max of a column, no vectors": GraphScope(
        ("+1", "-1", "+1"), vectors=False, trigger=2, write_limit=3, maximum=True
    ),
    "sequence.field": GraphScope(
        ("+1", "-1", "+1 +2"),
        levels=4,
        compactors=("c1", "c2"),
        compaction_limit=3,
        crashes=False,
        ordered=True,
    ),
    "sequence.field, no vectors": GraphScope(
        ("+1", "-1", "+1"), vectors=False, trigger=2, write_limit=3, ordered=True
    ),
}


@dataclass(frozen=True)
class Comparison:
    """How many states and edges were compared, and those that only one side has.

    ``source``: where TLC's side is from; a record of it tells no difference, so TLC has run where there is one.
    """

    states: int
    edges: int
    states_of_one: frozenset[State]
    edges_of_one: frozenset[Edge]
    source: Source = "run"

    @property
    def problem(self) -> str | None:
        """The difference, None if there is none; a comparison of nothing has not passed."""
        if self.states_of_one or self.edges_of_one:
            return f"{len(self.states_of_one)} states and {len(self.edges_of_one)} edges on one side only"
        return None if self.states > 1 and self.edges else "compared nothing"


Graph: TypeAlias = tuple[set[State], set[Edge]]


def graph_of(name: str, mechanism: Callable[[ModelOptions], Mechanism] | None = None) -> Graph:
    """Return what the oracle reaches in one of `SCOPES`. ``mechanism`` lets a test put a fault in."""
    scope = SCOPES[name]
    return reachable((mechanism or scope.mechanism)(scope.options), scope.scope)


def compare(name: str, mechanism: Callable[[ModelOptions], Mechanism] | None = None) -> Comparison:
    """Compare the graph of the oracle in one of `SCOPES` with TLC's, of which a digest may be on record."""
    states, edges = graph_of(name, mechanism)
    digests, key = digests_of((states, edges)), key_of(name)
    known: list[tuple[Source, Mapping[str, Any] | None]] = [("repository", record.entry("graphs", name, key))]
    if not known[0][1] and not record.is_due("graphs", name):
        known.append(("machine", record.recalled(key)))
    for source, found in known:
        if found and all(found[part] == digest for part, digest in digests.items()):
            return Comparison(len(states), len(edges), frozenset(), frozenset(), source)
    tlc_states, tlc_edges = tlc_graph(name)
    return Comparison(
        len(states | tlc_states),
        len(edges | tlc_edges),
        frozenset(states ^ tlc_states),
        frozenset(edges ^ tlc_edges),
    )


def key_of(name: str) -> str:
    """Return the key under which a digest of TLC's graph is on record."""
    return record.key_of(SCOPES[name].model(name).files(), *FLAGS, "graph")


def entry(name: str) -> dict[str, str]:
    """Return what the repository keeps of a graph in which `compare` has found no difference."""
    return {"key": key_of(name), **digests_of(graph_of(name))}


def digests_of(graph: Graph) -> dict[str, str]:
    """Return a digest of the states of a graph, and one of its edges, the same in whatever order they come."""
    named = {state: hashlib.sha256(_canonical(state).encode()).hexdigest() for state in graph[0]}
    edges = (f"{named[before]} {action} {job} {named[after]}" for before, action, job, after in graph[1])
    return {
        part: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        for part, lines in (("states", named.values()), ("edges", edges))
    }


def _canonical(value: object) -> str:
    if isinstance(value, frozenset):
        return "{" + ",".join(sorted(map(_canonical, value))) + "}"
    if isinstance(value, tuple):
        return "(" + ",".join(map(_canonical, value)) + ")"
    return str(int(value)) if isinstance(value, int) else repr(value)


@cache
def tlc_graph(name: str) -> Graph:
    """Return what TLC reaches in one of `SCOPES`, and put it on record. Raises InvalidRequestError where TLC fails."""
    model = SCOPES[name].model(name)
    with workplace() as folder:
        model.write(folder)
        found = outcome(
            model, Printed(run_tlc(folder, "-dump", "dot,actionlabels", str(folder / "graph")), 0)
        )
        if found.violated != PASSES:
            raise InvalidRequestError(f"{model.name}: expected a graph, found {found.violated}")
        nodes, edges = read_dot(folder / "graph.dot")
    assert len(nodes) == found.states, f"{model.name}: {len(nodes)} nodes read of {found.states}"
    graph = set(nodes.values()), edges
    record.remember(key_of(name), digests_of(graph))
    return graph


def read_dot(path: Path) -> tuple[dict[str, State], set[Edge]]:
    """Return the states of a dump by TLC's number, and its edges."""
    text = path.read_text("utf-8")
    nodes = {number: state_of(variables(_unescaped(label))) for number, label in NODE.findall(text)}
    edges = {
        (nodes[before], action, _job(nodes[before], nodes[after]), nodes[after])
        for before, after, action in EDGE.findall(text)
    }
    return nodes, edges


def _unescaped(label: str) -> str:
    return label.replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")


def _job(before: State, after: State) -> str:
    """Return whose staged work a step began or ended, "" where it is nobody's."""
    jobs = {job for job, _ in set(before.pending) ^ set(after.pending)}
    assert len(jobs) <= 1, f"one step, one job: {jobs}"
    return jobs.pop() if jobs else ""


def state_of(values: Mapping[str, Value]) -> State:
    """Return the oracle's state that a state of module DeletionVectors is."""
    return State(
        files=tuple(DataFile(_records(file["records"]), file["born"]) for file in values["files"]),
        live=_entries(values["live"]),
        vectors=_entries(values["vectors"], 1),
        snapshot=values["snapshot"],
        pending=tuple(
            (job, _work(work)) for job, work in sorted(values["pending"].items()) if work["kind"] != "idle"
        )
        if values["pending"]
        else (),
    )


def _entries(pairs: frozenset[tuple[int, int]], first: int = 0) -> frozenset[tuple[int, int]]:
    """Return pairs of a file and something counted from ``first`` as the oracle has them."""
    return frozenset((file - 1, other - first) for file, other in pairs)


def _work(work: Mapping[str, Value]) -> Work:
    if work["kind"] == "write":
        changes = (KeyedChange((one["key"],), _kind(one["kind"]), (one["row"],)) for one in work["changes"])
        plan = _work(work["plan"]) if work["plan"]["kind"] != "idle" else None
        assert not isinstance(plan, StagedWrite)
        return StagedWrite(tuple(changes), work["first"], plan, _entries(work["on"]))
    return Plan(
        inputs=_entries(work["inputs"]),
        output_level=work["level"],
        upgraded=frozenset(file - 1 for file in work["upgraded"]),
        outputs=tuple(map(_records, work["outputs"])),
        vectors=_entries(work["vectors"], 1),
        base_vectors=_entries(work["base"], 1),
    )


def _records(records: tuple[Mapping[str, Value], ...]) -> tuple[Record, ...]:
    return tuple(Record((one["key"],), one["seq"], _kind(one["kind"]), (one["row"],)) for one in records)


def _kind(symbol: str) -> RowKind:
    return RowKind(ROW_KIND_SYMBOLS.index(symbol))


def _changes(text: str, number: int) -> Iterator[KeyedChange]:
    for change in batch(text, number):
        assert isinstance(change["key"], int)
        yield KeyedChange((change["key"],), _kind(str(change["kind"])), (number,))
