"""Violations that TLC finds, kept as histories a reader can follow and a test can replay.

A history is made from TLC's output by `history`, stored under spec/tla/counterexamples (its README.md
tells the format), and compared with a fresh one whenever the models run. Files are named f1, f2, ... as
they are committed, with ``bucket/`` before it in a table of several; positions count from 0.
``python -m model_tests.tlc.counterexamples`` writes all of them again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from pktable_spec.model.graph import plans
from pktable_spec.model.levels import KeyedChange
from pktable_spec.model.mechanism import EMPTY, Mechanism, Plan, State
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

from model_tests.tlc import values
from model_tests.tlc.checker import Outcome, TraceStep, run_models
from model_tests.tlc.models import FOLDER, PASSES, Model, load
from model_tests.tlc.values import Value

STORED: Final = FOLDER / "counterexamples"
OWN: Final = "own"
"""The file of a write that is not committed, in the compaction that is planned with it."""
Step: TypeAlias = dict[str, Any]


def is_kept(model: Model) -> bool:
    """Whether a model yields a history: one that ends, which the violation of a liveness property does not.

    Steps below a commit are no operations of a table; the simulation and tests of fences take them. Histories of
    append tables are no histories of keys; `model_tests.append` has tests that take the same steps, and
    `model_tests.hudi` lets writers of Hudi tables work between any two operations of each other. A history does not
    say what a changelog records.
    """
    of_hudi = ("LogSpec", "ChainSpec", "CleanSpec", "ArchiveSpec", "FairArchive")
    others = (
        "FairSpec",
        "RollbackSpec",
        "StoreSpec",
        "FairStore",
        "AssignmentSpec",
        "FenceSpec",
        "MovingSpec",
        "RetentionSpec",
        "FairRetention",
        "ForwardSpec",
        "FairForward",
        "AppendSpec",
        "FairAppend",
        *of_hudi,
        "ChangelogSpec",
    )
    return model.expected.violated != PASSES and model.specification not in others


def path_of(model: Model, folder: Path = STORED) -> Path:
    return folder / f"{re.sub('[^a-z0-9]+', '-', model.name.lower()).strip('-')}.json"


def history(outcome: Outcome) -> dict[str, Any]:
    """Return the history of a violation, of plain JSON values."""
    model, trace = outcome.model, outcome.trace
    constants = model.constants
    table = {
        "levels": constants["MaxLevel"] + 1,
        "trigger": constants.get("Trigger"),
        "vectors": constants.get("Vectors"),
        "deleted_percent": constants.get("DeletedPercent"),
        "buckets": constants.get("BucketCount", 1),
    }
    return {
        "model": model.name,
        "says": model.says,
        "violated": outcome.violated,
        "fault": dict(model.replaces),
        "table": {name: value for name, value in table.items() if value is not None},
        "steps": [_step(before, after) for before, after in pairwise(trace)],
    }


def as_text(history: Mapping[str, Any]) -> str:
    """Return the text of a stored history: one step a line."""
    head = ",\n ".join(
        f"{json.dumps(name)}: {json.dumps(value)}" for name, value in history.items() if name != "steps"
    )
    steps = ",\n  ".join(json.dumps(step) for step in history["steps"])
    return f'{{{head},\n "steps": [\n  {steps}\n ]}}\n'


def problems(outcomes: Sequence[Outcome], folder: Path = STORED, *, all_of_them: bool = True) -> list[str]:
    """Compare the stored histories with what TLC found just now; no others may be there if these are all."""
    found = []
    expected = {path_of(one.model, folder): one for one in outcomes if is_kept(one.model)}
    for path, outcome in expected.items():
        if not path.is_file():
            found.append(f"{outcome.model.name}: expected a history {path.name}, found none")
        elif not outcome.entry and path.read_text("utf-8") != as_text(history(outcome)):
            found.append(f"{outcome.model.name}: expected the trace of TLC in {path.name}, found another")
    others = set(folder.glob("*.json")) - set(expected) if all_of_them else ()
    found += [f"{path.name}: no model has this history" for path in others]
    return sorted(found)


def digest(path: Path) -> str:
    """Return what identifies a stored history, and the code that makes it of what TLC prints."""
    made_by = (Path(__file__), Path(str(values.__file__)))
    return hashlib.sha256(b"".join(one.read_bytes() for one in (path, *made_by))).hexdigest()


# ------------------------------------------------------------------ from TLC's states


def _step(before: TraceStep, after: TraceStep) -> Step:
    old, new = before.state, after.state
    step: Step = {"action": after.action}
    if "runs" in new and "files" not in new:
        return {**step, "runs": [[run["level"], _records(_by_key(run["records"]))] for run in new["runs"]]}
    changed = [job for job in sorted(new["pending"] or ()) if old["pending"][job] != new["pending"][job]]
    if changed:
        (step["job"],) = changed
        step |= _work(old["pending"][changed[0]], new["pending"][changed[0]])
    several = "snapshots" in new
    buckets = new["files"] if several else {None: new["files"]}
    for bucket, files in buckets.items():
        earlier = old["files"][bucket] if several else old["files"]
        if files != earlier:
            created = {
                _name(n, bucket): files[n - 1]
                for n in range(1, len(files) + 1)
                if files[n - 1 : n] != earlier[n - 1 : n]
            }
            step.setdefault("creates", {}).update(
                {name: _records(file["records"]) for name, file in created.items()}
            )
            if "job" not in step:
                step["changes"] = [
                    record[:3] for file in created.values() for record in _records(file["records"])
                ]
    if several:
        return step | _of_table(old, new)
    if new["snapshot"] != old["snapshot"] or (old["live"], old["vectors"]) != (new["live"], new["vectors"]):
        step |= {"snapshot": new["snapshot"], "live": _live(new["live"]), "vectors": _vectors(new["vectors"])}
    return step


def _work(old: Mapping[str, Value], new: Mapping[str, Value]) -> Step:
    """Return what was staged, if that is what the step did."""
    if old["kind"] != "idle":
        return {"base": new["base"]} if new.get("phase") == "metadata" else {}
    parts = _numbered(new["parts"]) if "parts" in new else {None: new}
    if new["kind"] == "write":
        step: Step = {"changes": [_change(one) for one in new["changes"]]}
        if "first" in new:
            step["first"] = new["first"]
        plans = [_plan(part["plan"], at) for at, part in parts.items() if part["plan"]["kind"] != "idle"]
        return step | {"plans": plans} if plans else step
    ((bucket, plan),) = parts.items()
    return _plan(plan, bucket)


def _plan(plan: Mapping[str, Value], bucket: object) -> Step:
    return {
        "inputs": _live(plan["inputs"], bucket),
        "level": plan["level"],
        "upgrades": sorted(_name(file, bucket) for file in plan["upgraded"]),
        "index": _vectors(plan["vectors"], bucket),
    }


def _of_table(old: Mapping[str, Value], new: Mapping[str, Value]) -> Step:
    shown: Step = {}
    if old["tags"] != new["tags"]:
        shown["tags"] = sorted(new["tags"])
    if old["snapshots"] != new["snapshots"] and new["snapshots"]:
        shown["snapshots"] = sorted(_numbered(new["snapshots"]))
        parts = _numbered(new["snapshots"])[shown["snapshots"][-1]]["parts"]
        shown["live"], shown["vectors"] = {}, {}
        for bucket, part in parts.items():
            shown["live"] |= _live(part["live"], bucket)
            shown["vectors"] |= _vectors(part["vectors"], bucket)
    return shown


def _numbered(function: Value) -> Mapping[Any, Value]:
    """Return a function of numbers; TLC prints one whose domain is 1..n as a sequence."""
    return dict(enumerate(function, 1)) if isinstance(function, tuple) else function


def _name(file: int, bucket: object) -> str:
    name = f"f{file}" if file else OWN
    return name if bucket is None else f"{bucket}/{name}"


def _live(entries: Value, bucket: object = None) -> dict[str, int]:
    return {_name(file, bucket): level for file, level in sorted(entries)}


def _vectors(marks: Value, bucket: object = None) -> dict[str, list[int]]:
    files = sorted({file for file, _ in marks})
    return {_name(f, bucket): sorted(position - 1 for file, position in marks if file == f) for f in files}


def _change(change: Mapping[str, Value]) -> list[Value]:
    return [change["kind"], change["key"], change["row"]]


def _records(records: Sequence[Mapping[str, Value]]) -> list[list[Value]]:
    return [[*_change(record), record["seq"]] for record in records]


def _by_key(records: Value) -> list[Mapping[str, Value]]:
    return sorted(records, key=lambda record: int(record["key"]))


# ------------------------------------------------------------------ on the oracle


def replay(history: Mapping[str, Any], mechanism: type[Mechanism]) -> Iterator[State]:
    """Do a history on the oracle and yield the state after each step.

    Raises LookupError where the oracle cannot plan a compaction of the history.
    """
    table = history["table"]
    percent = table.get("deleted_percent")
    options = ModelOptions(
        table["vectors"],
        num_levels=table["levels"],
        trigger=table["trigger"],
        delete_ratio_threshold=None if percent is None else Fraction(percent, 100),
    )
    acting, state = mechanism(options), EMPTY
    for step in history["steps"]:
        state = _done(acting, state, step)
        yield state


def _done(mechanism: Mechanism, state: State, step: Mapping[str, Any]) -> State:
    job = step.get("job", "")
    changes = [
        KeyedChange((key,), RowKind(ROW_KIND_SYMBOLS.index(kind)), (row,))
        for kind, key, row in step.get("changes", ())
    ]
    if step["action"] == "Write":
        return mechanism.write(state, changes)
    if step["action"] == "BeginWrite":
        if "plans" not in step:
            return mechanism.begin_write(state, job, changes)
        (planned,) = step["plans"]
        plan = _planned(mechanism, mechanism.write(state, changes), job, planned).work(job)
        assert isinstance(plan, Plan)
        return mechanism.begin_write(state, job, changes, plan)
    if step["action"] == "CommitWrite":
        return mechanism.commit_write(state, job)
    if step["action"] == "Crash":
        return mechanism.crash(state, job)
    if step["action"] == "PlanCompaction":
        return _planned(mechanism, state, job, step)
    assert step["action"] in ("CommitCompaction", "RefuseCompaction"), step
    if job not in dict(state.pending):  # of a write that was renumbered, which drops its plan
        return state
    return mechanism.commit_compaction(state, job)


def _planned(mechanism: Mechanism, state: State, job: str, compaction: Mapping[str, Any]) -> State:
    """Plan the compaction of a step; `OWN` is the file written last. Raises LookupError."""

    def named(file: int) -> str:
        return OWN if OWN in compaction["inputs"] and file == len(state.files) - 1 else f"f{file + 1}"

    for step in plans(mechanism, state, job):
        plan = step.after.work(job)
        assert isinstance(plan, Plan)
        inputs = {named(file): level for file, level in plan.inputs}
        upgrades = sorted(map(named, plan.upgraded))
        if (inputs, plan.output_level, upgrades) == (
            compaction["inputs"],
            compaction["level"],
            compaction["upgrades"],
        ):
            return step.after
    raise LookupError(
        f"no compaction of {compaction['inputs']} to level {compaction['level']} may be planned"
    )


def shown(state: State) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the live files and the vectors of a state, in the words of a history."""
    marks = frozenset((file + 1, position + 1) for file, position in state.vectors)
    return _live((file + 1, level) for file, level in state.live), _vectors(marks)


def main() -> int:
    """Run the models that must fail and write their histories."""
    outcomes = run_models(
        [model for model in load() if is_kept(model)], lambda outcome: print(outcome.model.name)
    )
    for outcome in outcomes:
        if outcome.violated != outcome.model.expected.violated:
            print(f"{outcome.problem}; nothing written", file=sys.stderr)
            return 1
    for path in STORED.glob("*.json"):
        path.unlink()
    STORED.mkdir(exist_ok=True)
    for outcome in outcomes:
        path_of(outcome.model).write_text(as_text(history(outcome)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
