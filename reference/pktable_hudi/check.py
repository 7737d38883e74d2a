"""Check a Hudi table: report what its readers would refuse, or silently lose, or look up in vain.

1. The metadata of every completed write is decoded, and the files that it wrote are looked for.
2. Every block of every log file is decoded whole. A torn block is an error if it is of a completed write that has no
   whole block in the file group, and otherwise a note: a writer that dies leaves one.
3. Every base file is read. Its bloom filter and its key range must admit all of its keys.
4. Record positions are compared with the keys of their base file.
5. An index at the end of a log file must admit every key of the files that it covers.

Nothing is changed. Whatever is damaged, the rest is checked.

Clauses: LOG-1 to LOG-14, LOG-16, LOG-20, LOG-21, LOG-32, LOG-37, RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pktable.catalog.arguments import expect_callable, expect_flag
from pktable.check.findings import ERROR, NOTE, Findings
from pktable.check.walk import Report
from pktable.format.types import Field, one_array
from pktable.store.file_io import FileIO
from pktable.watching import Progress
from pktable_spec.errors import CorruptFileError, InvalidRequestError, OutsideTableError

from pktable_hudi.format.avro_content import BLOCK_VERSION, record_bounds
from pktable_hudi.format.avro_schema import fields_of
from pktable_hudi.format.key_summary import KeyBatch, KeyCollation, KeySummary, summary_of_footer
from pktable_hudi.format.log_block import (
    BlockKind,
    DamagedRange,
    HeaderKey,
    LogBlock,
    decode_log,
)
from pktable_hudi.format.log_index import FoundIndex, decode_keys
from pktable_hudi.format.names import base_file, log_file
from pktable_hudi.log_damage import DamagedBlock
from pktable_hudi.log_rows import KEY, SIGNS, BlockRows, Wanted, block_rows
from pktable_hudi.log_scan import WITH_RECORDS, PlacedBlock, instants_of
from pktable_hudi.lookup import index_of_file, opened
from pktable_hudi.scan import OWN_COLUMNS
from pktable_hudi.settings import HudiSettings
from pktable_hudi.slices import FileGroup, FileSlice, file_groups
from pktable_hudi.stored import parquet_tables
from pktable_hudi.timeline import Timeline, load_with_files

KEYS_SHOWN: Final = 3


def check_hudi(
    store: FileIO,
    root: str,
    settings: HudiSettings,
    *,
    reads_rows: bool = True,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Return the findings of a check of the table at ``root``. ``reads_rows``: False opens no base file or log file.

    Raises InvalidRequestError, CorruptFileError if the timeline cannot be listed, OutsideTableError. Clauses: RD-11.
    """
    expect_flag("reads_rows", reads_rows)
    expect_callable("progress", progress)
    timeline, groups = load_with_files(store, root, settings, lambda: file_groups(store, root))
    check = _Check(store, root, settings, timeline, Findings(root))
    check.writes(groups)
    total = sum(len(group.bases) + len(group.logs) for group in groups)
    for group in groups if reads_rows else ():
        check.group(group)
        progress("files", check.report.files, total)
    report = check.report
    report.snapshots, report.buckets = len(timeline.completed), len(groups)
    report.findings = check.findings.all()
    return report


@dataclass
class _Check:
    """A check under way."""

    store: FileIO
    root: str
    settings: HudiSettings
    timeline: Timeline
    findings: Findings
    report: Report = field(default_factory=Report)

    # The timeline

    def writes(self, groups: list[FileGroup]) -> None:
        """Check the metadata of all completed writes, and that the files which they wrote are there."""
        by_id = {(group.partition, group.id): group for group in groups}
        replaced: set[tuple[str, str]] = set()
        for instant in reversed(self.timeline.completed):
            with self._named("LOG-20", instant.path):
                metadata = self.timeline.metadata(instant)
                replaced |= metadata.replaced
                if metadata.schema:
                    with self._named("LOG-21", instant.path):
                        fields_of(metadata.schema, at=instant.path)
                for partition, path, _ in metadata.written:
                    self._expect_there(partition, path.rpartition("/")[2], by_id, replaced, instant.time)

    def _expect_there(
        self,
        partition: str,
        name: str,
        groups: dict[tuple[str, str], FileGroup],
        replaced: set[tuple[str, str]],
        instant: str,
    ) -> None:
        """Report a file that a completed write names, unless a newer base file has taken its place.

        Clauses: LOG-37.
        """
        found = base_file(name) or log_file(name)
        if found is None or (partition, found.group) in replaced:
            return
        group = groups.get((partition, found.group))
        there = group is not None and name in group.sizes
        newer = group is not None and any(
            one > instant and self.timeline.is_completed(one) for one in group.bases
        )
        if not there and not newer:
            path = FileSlice(partition, found.group, instant).path(self.root, name)
            self.findings.add("LOG-37", f"file of {instant}", path, expected="a file", found="none")

    # Files

    def group(self, group: FileGroup) -> None:
        """Check the files of a file group."""
        self.findings.partition = group.partition
        at = FileSlice(group.partition, group.id, "")
        keys = {
            instant: found
            for instant, base in group.bases.items()
            if (found := self._base(at.path(self.root, base.name))) is not None
        }
        logs: dict[str, list[str]] = {}
        whole: set[str] = set()
        damaged: list[DamagedBlock] = []
        for log in group.logs:
            logs[log.name] = self._log(at.path(self.root, log.name), keys, whole, damaged)
        for one in damaged:
            self._damaged(one, whole)
        for log in group.logs:
            with self._named("LOG-38", path := at.path(self.root, log.name)):
                if found := index_of_file(self.store, path):
                    self._index(path, found, logs[log.name], group.sizes, logs)

    def _base(self, path: str) -> pa.Array | None:
        """Check a base file; return its keys, None if it cannot be read."""
        self.report.files += 1
        with self._named("LOG-35", path):
            with self.store.open(path) as source:
                tables = [table for _, table in parquet_tables(source, path, SIGNS[:1])]
                source.seek(0)
                summary = summary_of_footer(pq.read_metadata(source).metadata, at=path)
            keys = one_array(
                pa.chunked_array([one.column(KEY).combine_chunks() for one in tables], pa.string())
            )
            self.report.rows += len(keys)
            if keys.null_count:
                self.findings.add("LOG-21", KEY, path, expected="a key in each row", found="null")
            elif summary is not None:
                self._summary(path, "base file", summary, KeyBatch(keys.to_pylist()))
            return keys
        return None

    def _summary(self, path: str, what: str, summary: KeySummary, batch: KeyBatch) -> None:
        """Report keys that a summary of them rules out: readers that prune by it do not find them."""
        between = batch.between(summary.low, summary.high, summary.order, batch.numbers)
        admitted = {"LOG-16": between}
        if summary.filter is not None:
            admitted["LOG-14"] = summary.filter.among(batch.hashed, batch.numbers)
        for clause, numbers in admitted.items():
            missed = np.setdiff1d(batch.numbers, numbers).tolist()
            if missed:
                shown = ", ".join(batch.keys[i] for i in missed[:KEYS_SHOWN])
                found = f"{len(missed)} ruled out, such as {shown}"
                name = f"{'key range' if clause == 'LOG-16' else 'bloom filter'} of the {what}"
                self.findings.add(clause, name, path, expected=f"all {len(batch.keys)} keys", found=found)

    def _index(
        self,
        path: str,
        found: FoundIndex,
        keys: list[str],
        sizes: dict[str, int],
        logs: dict[str, list[str]],
    ) -> None:
        """Report an index that does not admit every key of the files it covers, or has other keys than its own file.

        Clauses: LOG-15, LOG-47.
        """
        index = found.index
        if found.keys_at is not None:
            offset, size = found.keys_at

            def read(file: Any) -> list[str]:
                file.seek(offset)
                stored: list[str] = decode_keys(bytes(file.read(size)), found, at=path)[0].to_pylist()
                return stored

            stored = opened(self.store, path, read)
            if stored != sorted(keys, key=KeyCollation.BYTES.of):
                expected = f"the {len(keys)} keys of the file in order"
                self.findings.add(
                    "LOG-47", "keys of the index", path, expected=expected, found=f"{len(stored)} keys"
                )
        members = [one.name for one in index.members if sizes.get(one.name) == one.size]
        covered = [*keys, *(key for name in members for key in logs[name])]
        for what, summary, admitted in (("the file", index.own, keys), ("all files", index.all, covered)):
            batch = KeyBatch(list(dict.fromkeys(admitted)))
            numbers = np.empty(0, np.int64) if summary is None else summary.among(batch)
            missed = np.setdiff1d(np.arange(len(batch.keys)), numbers).tolist()
            if missed:
                shown = ", ".join(batch.keys[i] for i in missed[:KEYS_SHOWN])
                found_text = f"{len(missed)} ruled out, such as {shown}"
                expected = f"all {len(batch.keys)} keys"
                self.findings.add("LOG-47", f"index of {what}", path, expected=expected, found=found_text)

    def _log(
        self, path: str, bases: dict[str, pa.Array], whole: set[str], damaged: list[DamagedBlock]
    ) -> list[str]:
        """Check a log file; return the keys of its data blocks. Adds the instants of blocks, and damaged ranges."""
        keys: list[str] = []
        self.report.files += 1
        with self._named("LOG-1", path):
            data = self.store.read(path)
            for one in decode_log(data, at=path):
                if isinstance(one, DamagedRange):
                    damaged.append(DamagedBlock.of(one, data, path, self.settings))
                else:
                    placed = PlacedBlock(one, one.text(HeaderKey.INSTANT, path), path)
                    whole |= instants_of(one, path)
                    keys += self._block(placed, bases)
        return keys

    def _damaged(self, damaged: DamagedBlock, whole: set[str]) -> None:
        """Report a damaged range: a completed write has lost rows, or a writer has died. Clauses: LOG-2, LOG-3."""
        self.findings.add(
            "LOG-2",
            damaged.what,
            damaged.at,
            expected="a whole block",
            found=damaged.found,
            severity=ERROR if damaged.is_lost(whole, self.timeline) else NOTE,
        )

    def _block(self, placed: PlacedBlock, bases: dict[str, pa.Array]) -> list[str]:
        """Check a block; return the keys of its rows."""
        block, at = placed.block, placed.at
        where = f"block at {block.offset}"
        if block.footer:
            self.findings.add(
                "LOG-5",
                where,
                at,
                expected="no footer entry, which Hudi from 1.0.2 on fails at",
                found=len(block.footer),
            )
        if block.kind not in (*WITH_RECORDS, BlockKind.COMMAND):
            self.findings.add("LOG-35", where, at, expected="a kind that is supported", found=block.kind.name)
        keys: list[str] = []
        if block.kind not in WITH_RECORDS:
            return keys
        with self._named(_CLAUSES[block.kind], at):
            if block.kind is BlockKind.AVRO:
                version, *_ = record_bounds(block.content, at=at)
                if version != BLOCK_VERSION:
                    self.findings.add("LOG-9", where, at, expected=BLOCK_VERSION, found=f"version {version}")
            rows = block_rows(placed, Wanted(self._fields(block, at), None))
            keys = [] if rows.is_delete_block else rows.keys.to_pylist()
            self.report.rows += len(keys)
            self._positions(placed, rows, bases)
        return keys

    def _fields(self, block: LogBlock, at: str) -> tuple[Field, ...]:
        if block.kind is BlockKind.DELETE:
            return SIGNS[:1]
        fields = fields_of(block.text(HeaderKey.SCHEMA, at), at=at)
        missing = [name for name in OWN_COLUMNS if name not in {one.name for one in fields}]
        if missing:
            self.findings.add(
                "LOG-21", f"schema of the block at {block.offset}", at, expected=missing[0], found="none"
            )
        return fields

    def _positions(self, placed: PlacedBlock, rows: BlockRows, bases: dict[str, pa.Array]) -> None:
        """Compare the positions of a block with the keys of the base file that they are for. Clauses: LOG-32."""
        where = f"positions of the block at {placed.block.offset}"
        if rows.positions is None and placed.block.entry(HeaderKey.POSITIONS):
            expected = f"{len(rows.keys)} positions"
            self.findings.add("LOG-12", where, placed.at, expected=expected, found="more or fewer")
        keys = bases.get(rows.base_instant)
        if rows.positions is None or keys is None:
            return
        inside = rows.positions < len(keys)
        right = inside.copy()
        same = pc.equal(keys.take(pa.array(rows.positions[inside])), rows.keys.filter(pa.array(inside)))
        right[inside] = same.to_numpy(zero_copy_only=False)
        if not right.all():
            wrong = rows.positions[~right]
            self.findings.add(
                "LOG-32",
                where,
                placed.at,
                expected="the positions of its keys in the base file",
                found=f"{len(wrong)} of other keys, such as {int(wrong[0])}",
            )

    @contextmanager
    def _named(self, clause: str, at: str) -> Iterator[None]:
        """Report an error from inside as a finding. ``clause``: the violated one."""
        try:
            yield
        except FileNotFoundError:  # removed since the listing
            self.findings.add("LOG-37", "file", at, expected="a file", found="none", severity=NOTE)
        except CorruptFileError as error:
            self.findings.add(clause, error.what, error.at, expected=error.expected, found=error.found)
        except OutsideTableError as error:
            expected = "a place in the table or below an external root"
            self.findings.add("SAFE-2", "path", error.link or at, expected=expected, found=error.leads_to)
        except InvalidRequestError as error:
            expected = "supported forms only"
            self.findings.add("LOG-35", "not checked", at, expected=expected, found=error, severity=NOTE)


_CLAUSES: Final[dict[Any, str]] = {
    BlockKind.AVRO: "LOG-7",
    BlockKind.PARQUET: "LOG-35",
    BlockKind.DELETE: "LOG-10",
}
