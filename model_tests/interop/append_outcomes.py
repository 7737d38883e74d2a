"""Play a history of an append table: its meaning is the multiset of rows that the oracle keeps.

Statements are computed from that multiset here, and by everyone from the table itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pktable_spec.interface import Row
from pktable_spec.model.append import Meaning
from pktable_spec.vocabulary import COMPACT, ROW_ID, SEQUENCE_NUMBER

from model_tests.interop.environments import NEWER_JVM
from model_tests.interop.histories import History, PlainChange, Step, numbered
from model_tests.interop.outcomes import OURS, Played, keeps, sql_of
from model_tests.interop.peers import Peer
from model_tests.interop.plain import table_of

Rows = Counter[Row]


class AppendPlayed(Played):
    """A history of an append table being played."""

    def __init__(self, history: History, path: Path, peers: Mapping[str, Peer]) -> None:
        super().__init__(history, path, peers)
        self._rows = Meaning()
        names = [name for name, _ in history.definition.columns]
        self._nulled = names.index("v0")

    def play(self) -> None:
        """Do every step. Raises PeerError, or whatever pktable raises."""
        for step, changes in zip(self.history.steps, numbered(self.history.steps), strict=True):
            before = self._snapshot_ids()
            rows = [row for _, row in self._once_each(step, changes)]
            gone, come = self._effect(step, rows)
            self._do(step, [("+I", row) for row in rows])
            new = [one for one in self.table.snapshots() if one.id not in before]
            if gone or come:
                assert new, f"{step.by} had rows to {step.do} and made no snapshot"
                self._rows.commit(new.pop(0).id, gone=gone, come=come)
            for one in new:
                assert one.commit_kind == COMPACT, f"{step.by} had nothing to {step.do} and made {one}"
                self._rows.commit(one.id)
        if self.table.schema.options.get("row-tracking.enabled") == "true" and NEWER_JVM in self._peers:
            read = self._peers[NEWER_JVM].ask("row ids", table=str(self.path))
            assert sorted(map(tuple, read)) == self._row_ids(), f"row ids: {NEWER_JVM} reads {read}"

    def _row_ids(self) -> list[tuple[int, int]]:
        """Return the ids and sequence numbers of the rows that are there. Clauses: APP-24, APP-25, APP-32."""
        table = self.table
        names = table.inspect.files().column("file_name").to_pylist()
        records = [row for name in names for row in table.inspect.records(name).to_pylist()]
        return sorted((row[ROW_ID], row[SEQUENCE_NUMBER]) for row in records if not row["deleted"])

    def expected(self) -> dict[int, list[Row]]:
        """Return the rows that a read of each snapshot must give. Clauses: APP-1."""
        return {one.id: self.all_rows(one.id) for one in self.table.snapshots()}

    def all_rows(self, snapshot: int) -> list[Row]:
        return list(self._rows.at[snapshot].elements())

    def _once_each(self, step: Step, changes: Sequence[PlainChange]) -> Sequence[PlainChange]:
        """Return ``changes``; of a MERGE, which may match a row once only, the last of each key."""
        return (
            list({row[0]: (kind, row) for kind, row in changes}.values()) if step.do == "merge" else changes
        )

    def _effect(self, step: Step, rows: Sequence[Row]) -> tuple[Rows, Rows]:
        """Return the rows that go and that come by a step."""
        there, new = self._rows.latest, Counter(rows)
        if step.do == "write":
            return Counter(), new
        if step.do == "overwrite":
            return there, new
        if step.do == "merge":
            keys, present = {row[0] for row in rows}, {row[0] for row in there}
            gone = Counter({row: n for row, n in there.items() if row[0] in keys})
            return gone, self._with_null(gone) + Counter(row for row in rows if row[0] not in present)
        if step.where is None:
            return Counter(), Counter()
        holds = keeps(self.history.definition, step.where)
        gone = Counter({row: n for row, n in there.items() if holds(row)})
        return gone, self._with_null(gone) if step.do == "update" else Counter()

    def _with_null(self, rows: Rows) -> Rows:
        found: Rows = Counter()
        for row, n in rows.items():
            nulled = (*row[: self._nulled], None, *row[self._nulled + 1 :])
            found[nulled] += n
        return found

    def _do(self, step: Step, changes: Sequence[PlainChange]) -> None:
        if step.by != OURS and step.where is not None:
            column = self._nulled if step.do == "update" else None
            request = {"table": str(self.path), "where": [step.where], "to_null": column}
            self._peers[step.by].ask("change rows", **request)
        elif step.by != OURS or step.do == "compact":
            super()._do(step, changes)
        else:
            self._execute(step, [row for _, row in changes])

    def _execute(self, step: Step, rows: Sequence[Row]) -> None:
        table = self.table
        where = None if step.where is None else sql_of(table, step.where)
        source = table_of(rows, table.schema.arrow_schema)
        if step.do == "write":
            table.append(source)
        elif step.do == "delete":
            assert where is not None
            table.delete(where=where)
        elif step.do == "update":
            table.update({"v0": None}, where=where)
        elif step.do == "overwrite":
            table.overwrite(source)
        else:
            assert step.do == "merge", step
            merge = table.merge(source, on=self.history.definition.columns[0][0])
            merge.when_matched_update({"v0": None}).when_not_matched_insert_all().execute()
