"""Damage every byte of a small table, one at a time: each read must raise CorruptFileError or be right.

``python -m model_tests.damage.every_byte [STEP [KIND…]]``: of each kind of file one is taken, and each STEP-th of
its bytes is changed, in all bits and in one, and each STEP-th of its truncations is tried. A byte is *free* if no
change of it that was tried makes any read raise: it means nothing to our reader, or its meaning is stored elsewhere
too. The table at the end says how many there are; DAMAGE.md says which, and why.

With the checker along, whatever makes a read raise must also be a finding.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import CorruptFileError, Table
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable.table import check
from pktable.watching import Progress
from pktable_spec.vocabulary import RowKind

Rows = list[str]
Read = Callable[[Table], Rows]

KINDS = {
    "snapshot": "snapshot/snapshot-5",
    "tag": "tag/tag-a",
    "hint LATEST": "snapshot/LATEST",
    "hint EARLIEST": "snapshot/EARLIEST",
    "schema": "schema/schema-0",
    "manifest list": "manifest/manifest-list-*",
    "manifest": "manifest/manifest-[0-9a-f]*",
    "index manifest": "manifest/index-manifest-*",
    "DV index file": "index/*",
    "data file, merged": "p=*/bucket-0/data-*",
    "data file, unmerged": "p=*/bucket-0/data-*",
}
"""Where the files of each kind lie. Of several the greatest, or for a merged data file the smallest, is taken."""


@dataclass
class Outcome:
    """The counts of one kind of file. ``wrong``: changes after which a read was neither right nor refused."""

    kind: str
    size: int = 0
    bytes_tried: int = 0
    refused: int = 0
    free: list[int] = field(default_factory=list)
    truncations: int = 0
    wrong: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kind:<20} {self.size:>5} bytes, {self.bytes_tried:>5} tried: {self.refused:>5} refused, "
            f"{len(self.free):>5} free; {self.truncations:>5} truncations; "
            f"{len(self.wrong)} wrong, {len(self.unseen)} unseen by the checker"
        )


def make_table(path: Path) -> None:
    """Make a table that has every kind of file: row groups, vectors of two files, a level 0, a tag."""
    table = Table.create(
        path,
        "p STRING, k INT, v STRING, n INT",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={
            "deletion-vectors.enabled": "true",
            "bucket": "1",
            "parquet.block.row.count.limit": "4",
            "compaction.size-ratio": "0",
        },
    )

    def rows(keys: Sequence[int], text: str) -> pa.Table:
        return pa.table(
            {
                "p": ["a"] * len(keys),
                "k": pa.array(keys, pa.int32()),
                "v": [None if key % 5 == 4 else f"{text} {key}" for key in keys],
                "n": pa.array([3 * key for key in keys], pa.int32()),
            }
        )

    table.upsert(rows(range(14), "long enough to be kept apart"))
    table.upsert(rows([3, 9], "newer"))
    prepared = table.stage_write(rows([1], "fresh"), ChangeKind(RowKind.INSERT), write_only=True)
    assert prepared is not None
    prepared.commit(CommitId("test"))
    (path / "tag").mkdir()
    (path / "tag/tag-a").write_bytes((path / "snapshot/snapshot-2").read_bytes())
    assert [snapshot.commit_kind for snapshot in table.snapshots()][-1] == "APPEND"
    assert table.files().column("level").to_pylist() == [0, 4, 5]


def _read(**arguments: Any) -> Read:
    def read(table: Table) -> Rows:
        return sorted(map(repr, table.to_arrow(**arguments).to_pylist()))

    return read


READS: dict[str, Read] = {
    "latest": _read(),
    "latest, fresh": _read(fresh=True),
    "fresh, where on a value": _read(fresh=True, where="n >= 27"),
    "where on a key": _read(where="k = 9"),
    "where on a value": _read(where="n > 5 AND n < 20"),
    "where on text": _read(where="v IS NULL"),
    "some columns": _read(columns=["n"]),
    "snapshot 2": _read(snapshot=2),
    "snapshot 4, fresh": _read(snapshot=4, fresh=True),
    "tag": _read(tag="a"),
    "count": lambda table: [str(table.count()), str(table.count(fresh=True))],
    "snapshots": lambda table: [repr(snapshot) for snapshot in table.snapshots()],
}


def answers(path: Path) -> dict[str, Rows | None]:
    """Return what every read returns, None where it raises CorruptFileError; other errors pass."""
    try:
        table = Table.open(path)
    except CorruptFileError:
        return dict.fromkeys(READS)
    found: dict[str, Rows | None] = {}
    for name, read in READS.items():
        try:
            found[name] = read(table)
        except CorruptFileError:
            found[name] = None
    return found


class Damager:
    """Damages one file of a table after the other, and puts it right again."""

    def __init__(self, path: Path, *, checks_every: int) -> None:
        self.path, self._every, self._tried = path, checks_every, 0
        self.right = answers(path)
        assert None not in self.right.values()
        assert not check(path).findings

    def run(self, kind: str, step: int) -> Outcome:
        """Try each ``step``-th change and truncation of a file of ``kind``."""
        file = chosen(self.path, kind)
        good = file.read_bytes()
        outcome = Outcome(kind, len(good))
        try:
            for at in range(step // 2 if step < len(good) else 0, len(good), step):
                refused = [
                    self._try(
                        outcome, file, good[:at] + bytes([good[at] ^ mask]) + good[at + 1 :], f"byte {at}"
                    )
                    for mask in (0xFF, 1 << at % 8)
                ]
                outcome.bytes_tried += 1
                outcome.refused += all(refused)
                if not any(refused):
                    outcome.free.append(at)
            for cut in range(0, len(good), step):
                self._try(outcome, file, good[:cut], f"cut at {cut}")
                outcome.truncations += 1
        finally:
            file.write_bytes(good)
        return outcome

    def _try(self, outcome: Outcome, file: Path, damaged: bytes, what: str) -> bool:
        """Read with a damaged file; return whether a read raised."""
        file.write_bytes(damaged)
        try:
            found = answers(self.path)
        except Exception as error:  # anything but CorruptFileError is a finding about us
            outcome.wrong.append(f"{what}: {type(error).__name__}: {error}")
            return False
        wrong = [name for name, rows in found.items() if rows not in (None, self.right[name])]
        if wrong:
            outcome.wrong.append(f"{what}: {', '.join(wrong)}")
        refused = None in found.values()
        self._tried += 1
        if refused and self._tried % self._every == 0 and not check(self.path).errors:
            outcome.unseen.append(what)
        return refused


def chosen(path: Path, kind: str) -> Path:
    """Return the file of a kind that is damaged."""
    files = sorted(path.glob(KINDS[kind]), key=lambda file: (file.stat().st_size, file.name))
    assert files, kind
    return files[0] if kind == "data file, merged" else files[-1]


def outcomes(
    step: int, progress: Progress, *, kinds: Sequence[str] = tuple(KINDS), checks_every: int = 10
) -> Iterator[Outcome]:
    """Yield the outcome of each of ``kinds``; ``step`` 1 tries every byte."""
    with tempfile.TemporaryDirectory(prefix="pktable-") as folder:
        make_table(Path(folder) / "table")
        damager = Damager(Path(folder) / "table", checks_every=checks_every)
        for done, kind in enumerate(kinds, 1):
            yield damager.run(kind, step)
            progress("kinds of files damaged", done, len(kinds))


def main(arguments: Sequence[str]) -> int:
    """Run and print; return 1 if a read was wrong."""
    step, kinds = int(arguments[0]) if arguments else 1, arguments[1:] or tuple(KINDS)
    failed = False
    for outcome in outcomes(step, lambda what, done, total: None, kinds=kinds):
        print(outcome, flush=True)
        for line in [*outcome.wrong, *(f"unseen: {one}" for one in outcome.unseen)][:20]:
            print("   ", line)
        print("    free:", _runs(outcome.free))
        failed = failed or bool(outcome.wrong or outcome.unseen)
    return 1 if failed else 0


def _runs(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number - runs[-1][1] == 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
