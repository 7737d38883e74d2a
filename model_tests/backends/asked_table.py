"""Questions to a table other than for its rows: plans and numbers, wrong requests, damaged files, a full disk."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pktable_spec.interface import Change, CompactionPlan, FileInfo, Summary, Wanted

from model_tests.backends.stored_table import StoredTable

if TYPE_CHECKING:
    import pyarrow as pa

ROW_KIND = "op"
LATER = 1 << 40  # milliseconds


class AskedTable(StoredTable):
    """A `StoredTable` that answers such questions. Some of them take a local directory."""

    def ask_wrongly(self) -> Sequence[str]:
        from model_tests.backends.wrong_requests import answered

        before = self._all_files()
        wrong = answered(self.table)
        made = self._all_files() ^ before
        return [*wrong, *([f"files came or went: {sorted(made)}"] if made else [])]

    def files_of_read(self, wanted: Wanted) -> frozenset[str]:
        where = " AND ".join(one.sql for one in wanted.query.where) or None
        scan = self.table.scan(snapshot=wanted.snapshot, fresh=wanted.fresh, where=where)
        text = scan.explain()
        opened, live = map(int, re.findall(r"^files: (\d+) of (\d+)", text, re.MULTILINE)[0])
        ruled_out = re.findall(r"(\d+) by ", re.findall("^ruled out: .*", text, re.MULTILINE)[0])
        assert opened + sum(map(int, ruled_out)) == live, text
        return frozenset(file.file_name for split in scan.splits() for file in split.part.state.files)

    def plan_compaction(self, *, full: bool) -> Mapping[tuple[str, int], CompactionPlan]:
        return {
            (one.partition, one.bucket): CompactionPlan(one.files, one.rows, one.size_bytes, one.output_level)
            for one in self.table.plan_compaction(full=full)
        }

    def summaries(self) -> Sequence[Summary]:
        from pktable.catalog.summaries import history

        found: Iterable[Any] = history(self.table.catalog)
        return [
            Summary(one.id, one.kind, one.records, one.files, one.vectors, one.deleted_rows) for one in found
        ]

    def uncompacted_rows(self) -> int:
        from pktable.catalog.read_plan import uncompacted_row_count

        return uncompacted_row_count(self.table.catalog.context, self.table.catalog.state())

    def work_on_a_full_disk(self, changes: Sequence[Change], at: int) -> tuple[bool, Sequence[str]]:
        from pktable import StorageError, Table

        from model_tests.backends.failing_store import CHANGING, FailingStore

        before = self._orphans()
        store = FailingStore(errno.ENOSPC, CHANGING, at)
        table = Table.open(self._path, store=store)
        try:
            if changes:
                table.write_changes(self._rows_with_kinds(changes), row_kind=ROW_KIND)
            else:
                table.compact(full=True)
        except StorageError:
            return True, sorted(self._orphans() - before)
        return False, sorted(self._orphans() - before)

    def damage_file(self, file: FileInfo, number: int) -> str | None:
        from model_tests.backends.wrong_files import DAMAGES, unnoticed

        return unnoticed(Path(self._path), str(file.name), DAMAGES[number % len(DAMAGES)])

    def roll_back(self, *, snapshot: int | None = None, tag: str | None = None) -> bool:
        from pktable import InvalidRequestError

        try:
            self.table.rollback(snapshot=snapshot, tag=tag)
        except InvalidRequestError as error:
            if "tags keep later snapshots" in str(error):
                return False
            raise
        return True

    def findings(self) -> Sequence[str]:
        from pktable.table import check

        return [str(one) for one in check(self._path).findings]

    def _orphans(self) -> set[str]:
        later = time.time_ns() // 1_000_000 + LATER
        return {one.path for one in self.table.remove_orphans(older_than=later, dry_run=True)}

    def _all_files(self) -> set[str]:
        """Return the files of the table, and those of the place where a refused table would be."""

        def files() -> Iterator[Path]:
            for root in (Path(self._path), Path(f"{self._path}-absent")):
                yield from root.rglob("*")

        return {str(one) for one in files()}

    def _rows(self, changes: Sequence[Change]) -> pa.Table:
        import pyarrow as pa

        from model_tests.interop.plain import array_of

        def column(at: int, name: str) -> pa.Array:
            texts = [None if row[at] is None else str(row[at]) for _, row in changes]
            return array_of(texts, self.table.schema.arrow_schema.field(name).type)

        names = list(self._shape.names)
        return pa.table([column(at, name) for at, name in enumerate(names)], names=names)

    def _rows_with_kinds(self, changes: Sequence[Change]) -> pa.Table:
        import pyarrow as pa

        return self._rows(changes).append_column(ROW_KIND, pa.array([kind.symbol for kind, _ in changes]))
