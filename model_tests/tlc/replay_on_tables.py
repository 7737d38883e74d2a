"""Replay the counterexamples of TLC on a real table, where the rule that each model breaks must hold.

1. The steps of a counterexample are done one by one, compactions on the very files it names, until the table differs:
   a commit is refused, a pick is never made, rows are renumbered, vectors or records are others.
2. After every step the files on disk must be a step of the oracle's mechanism and keep its invariants.
3. At the end the table must read as the mechanism reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.context import TableContext
from pktable.ingest.changes import ChangeKind
from pktable.lsm.bucket import BucketState
from pktable.lsm.universal import Pick
from pktable.run.runner import CompactionTask
from pktable.staged import StagedCompaction
from pktable.staged_write import StagedWrite
from pktable_spec.model import invariants, picks
from pktable_spec.model.mechanism import State
from pktable_spec.model.options import ModelOptions
from pktable_spec.options import parse_options

from model_tests.backends.as_planned import commit_as_planned
from model_tests.refinement.check import Refinement

SMALLEST, GREATEST = "1 b", "1 gb"
"""Target sizes under which every file is large, or none is."""


class DifferenceError(Exception):
    """The table does not do what the history does."""


class Replay:
    """One history on one table of its own. ``spark``: a session, or None for the local runner."""

    def __init__(self, history: Mapping[str, Any], path: Path, spark: Any = None) -> None:
        self.history, table = history, history["table"]
        self.options = {
            "bucket": str(table["buckets"]),
            "deletion-vectors.enabled": "true",
            "num-levels": str(table["levels"]),
            "num-sorted-run.compaction-trigger": str(table.get("trigger", 3)),
        }
        if "deleted_percent" in table:
            self.options["compaction.delete-ratio-threshold"] = str(table["deleted_percent"] / 100)
        if history["fault"].get("Newer") == "NewerByField":
            self.options["sequence.field"] = "v"
        self.table = Table.create(path, "k INT, v INT", primary_key=["k"], options=self.options, spark=spark)
        self.refinement = Refinement(path, ModelOptions.parse(self.options, ("k", "v")))
        self.names: dict[str, str] = {}
        self.work: dict[str, StagedWrite | StagedCompaction] = {}
        self.commits = 0

    def run(self) -> str:
        """Do the history and what checks follow; return where the table went its own way.

        Raises AssertionError if anything it did was wrong.
        """
        found = None
        for number, step in enumerate(self.history["steps"], 1):
            try:
                self._do(self._named(step))
            except DifferenceError as difference:
                found = f"step {number}: {difference}"
                break
        kept = [snapshot.id for snapshot in self.table.snapshots()]
        if found is None:
            # Then the fault is in what becomes of a commit, of a tag, or of a read.
            assert kept[-1] == self.commits, f"{self.commits} commits made {kept}"
            found = f"all steps; {self.commits} commits made {self.commits} snapshots"
        for tag in self.table.tags():
            self.table.to_arrow(tag=tag, fresh=True)
        for snapshot in kept:
            self.table.to_arrow(snapshot=snapshot)
        self.reads_agree()
        self.table.compact()
        self.check()
        self.reads_agree()
        return found

    # ---------------------------------------------------------------- steps

    def _named(self, step: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a step with its action, where TLC only tells that there was one."""
        if step["action"] not in ("Action", "BatchWrite", "RunCompaction"):
            return step
        if "runs" in step:  # of module Levels, which has no files
            level, records = step["runs"][0]
            write = {"action": "Write", "changes": [record[:3] for record in records]}
            return write if level == 0 else {"action": "PlanCompaction", "inputs": None}
        if "inputs" in step:
            return {**step, "action": "PlanCompaction"}
        if "changes" in step:
            return {**step, "action": "BeginWrite" if "first" in step else "Write"}
        is_write = isinstance(self.work.get(step.get("job", "")), StagedWrite)
        return {**step, "action": "CommitWrite" if is_write else "CommitCompaction"}

    def _do(self, step: Mapping[str, Any]) -> None:
        action, job = step["action"], step.get("job", "")
        if action == "Write":
            self._write(step["changes"]).commit(CommitId("test"))
            self.commits += 1
        elif action == "BeginWrite":
            self.work[job] = self._begun(step["changes"], step.get("plans", []))
        elif action == "PlanCompaction":
            self.work[job] = self._planned(step)
        elif action == "CommitWrite":
            write = self.work.pop(job)
            assert isinstance(write, StagedWrite)
            state = write.commit_append(CommitId("test"))
            assert state is not None, "there is a row"
            write.drop_stale(state)
            if write.changes:  # what `StagedWrite.commit` does at once: others may come between
                self.work[job] = StagedCompaction(write.stager, write.changes, full=False, base=state)
            self.commits += 1
        elif action == "CommitCompaction":
            prepared = self.work.pop(job)
            assert isinstance(prepared, StagedCompaction)
            conflicts = commit_as_planned(prepared, CommitId("test"))
            if conflicts:
                clauses = sorted({conflict.clause for conflict in conflicts.values()})
                raise DifferenceError(f"the commit is refused by {', '.join(clauses)}")
            self.commits += 1
        elif action == "Crash":
            self.work.pop(job)
        elif action == "Expire":
            self.table.expire_snapshots(retain_last=len(step["snapshots"]))
        elif action == "Tag":
            for tag in step["tags"]:
                self.table.create_tag(f"tag{tag}", snapshot=tag)
        else:
            assert action in ("PrepareCommit", "RetryCommit"), step  # all of it is in our commit
        self.check()
        self._expect(step)

    def _write(self, changes: list[list[Any]], *, write_only: bool = True) -> StagedWrite:
        rows = pa.table(
            {
                "k": pa.array([key for _, key, _ in changes], pa.int32()),
                "v": pa.array([row for _, _, row in changes], pa.int32()),
                "op": [kind for kind, _, _ in changes],
            }
        )
        prepared = self.table.stage_write(rows, ChangeKind(column="op"), write_only=write_only)
        assert prepared is not None
        return prepared

    def _begun(self, changes: list[list[Any]], plans: list[Mapping[str, Any]]) -> StagedWrite:
        """Prepare a write, and its compaction if there is one. Raises DifferenceError if it is another."""
        prepared = self._write(changes, write_only=not plans)
        expected = [
            (sorted(plan["inputs"].values()), [plan["level"]] * len(plan["upgrades"])) for plan in plans
        ]
        found = []
        for change in prepared.changes:
            removed = {file.file_name: file.level for file in change.removed}
            upgraded = [file.level for file in change.added if file.file_name in removed]
            found.append((sorted(removed.values()), upgraded))
        if found != expected:
            raise DifferenceError(f"the plans are not {plans}")
        return prepared

    def _planned(self, step: Mapping[str, Any]) -> StagedCompaction:
        """Do the work of the compaction that a step tells. Raises DifferenceError if it would never be picked."""
        if step["inputs"] is None:
            raise DifferenceError("what would be put on top goes below")
        states, latest = self.table.catalog.states, self.table.catalog.state()
        inputs = {self.names[name]: level for name, level in step["inputs"].items()}
        (identity,) = (i for i, live in latest.files.items() if inputs.keys() & {f.file_name for f in live})
        bucket = states.bucket(latest, identity)
        files = tuple(file for file in bucket.files if inputs.get(file.file_name) == file.level)
        if len(files) != len(inputs):
            raise DifferenceError(f"{step['inputs']} are not live")
        if not self._may_be_picked(bucket, inputs, step["level"]):
            raise DifferenceError(f"{step['inputs']} to level {step['level']} is no pick")
        upgrades = {self.names[name] for name in step["upgrades"]}
        for size in (SMALLEST, GREATEST):
            changes = self.table.runner.results(
                _with_target(self.table.catalog.context, size),
                [CompactionTask(bucket, Pick(step["level"], files), f"{len(self.names)}-{size[0]}", 0)],
            )
            prepared = StagedCompaction(self.table.stager, changes, full=False, base=latest)
            if {f.file_name for f in changes[0].removed} & {
                f.file_name for f in changes[0].added
            } == upgrades:
                return prepared
            prepared.discard()
        raise DifferenceError(f"{step['upgrades']} are not what is upgraded")

    def _may_be_picked(self, bucket: BucketState, inputs: Mapping[str, int], level: int) -> bool:
        """Whether the allowed picks, or a full compaction, take ``inputs`` (and maybe leave some as they are)."""
        mechanism, state, numbers = self.refinement.mechanism, *self._state(bucket)
        runs = mechanism.runs(state)
        full = picks.full_pick(runs, mechanism.options)
        wanted = {(numbers[name], at) for name, at in inputs.items()}
        return any(
            pick.output_level == level
            and wanted <= {(file.name, file.level) for file in pick.files}
            and {f for f in wanted if f[1] == 0} == {(f.name, 0) for f in pick.files if f.level == 0}
            for pick in [*picks.allowed_picks(runs, mechanism.options), *([full] if full else [])]
        )

    def _state(self, bucket: BucketState) -> tuple[State, dict[str, int]]:
        identity = bucket.place.id
        abstraction = self.refinement.abstraction
        return abstraction.states[identity][-1], abstraction.numbers[identity]

    def _expect(self, step: Mapping[str, Any]) -> None:
        """Learn the names of new files; raise DifferenceError where the table is not as the step tells."""
        if "live" not in step:
            return
        live: dict[str, int] = {}
        records: dict[str, list[list[Any]]] = {}
        vectors: dict[str, list[int]] = {}
        abstraction = self.refinement.abstraction
        for bucket, states in abstraction.states.items():
            state = states[-1]
            names = {number: name for name, number in abstraction.numbers[bucket].items()}
            for file, level in state.live:
                name, data = names[file], state.files[file].records
                live[name] = level
                records[name] = [[r.kind.symbol, r.key[0], r.row[1], r.sequence] for r in data]
                marks = sorted(position for marked, position in state.vectors if marked == file)
                if marks:
                    vectors[name] = marks
        new = sorted(name for name in live if name not in self.names.values())
        expected = [name for name in step["live"] if name not in self.names]
        if len(new) != len(expected):
            raise DifferenceError(f"{len(expected)} new files expected, {len(new)} made")
        self.names.update(zip(expected, new, strict=True))
        if live != self._by_real_name(step["live"]):
            raise DifferenceError(f"live is not {step['live']}")
        if any(records.get(self.names[n]) != expected for n, expected in step.get("creates", {}).items()):
            raise DifferenceError(f"records are not {step['creates']}")
        if vectors != self._by_real_name(step["vectors"]):
            raise DifferenceError(f"vectors are not {step['vectors']}")
        if "snapshots" in step and [s.id for s in self.table.snapshots()] != step["snapshots"]:
            raise DifferenceError(f"snapshots are not {step['snapshots']}")

    def _by_real_name(self, by_name: Mapping[str, Any]) -> dict[str, Any]:
        return {self.names.get(name, name): value for name, value in by_name.items()}

    # --------------------------------------------------------------- checks

    def check(self) -> None:
        """Check that the disk holds steps of the mechanism, and states that keep its invariants."""
        latest = self.table.catalog.snapshots.latest_id() or 0
        self.refinement.follow(latest)
        for states in self.refinement.abstraction.states.values():
            broken = invariants.broken(self.refinement.mechanism, states[-1])
            assert not broken, broken

    def reads_agree(self) -> None:
        """Compare reads of the latest snapshot with those of the mechanism."""
        mechanism = self.refinement.mechanism
        latest = [states[-1] for states in self.refinement.abstraction.states.values()]
        for fresh in (False, True):
            read = mechanism.fresh_read if fresh else mechanism.plain_read
            expected = sorted(record.row for state in latest for record in read(state))
            found = sorted(tuple(row.values()) for row in self.table.to_arrow(fresh=fresh).to_pylist())
            assert found == expected, (fresh, found, expected)


def _with_target(context: TableContext, size: str) -> TableContext:
    options = parse_options({**context.schema.options, "target-file-size": size})
    return TableContext(context.store, context.root, context.schema, options, context.schemas)
