"""The findings of a check: one per violated clause and place, with all snapshots that show it.

A `Findings` collects them. Two findings that differ only in their snapshots become one.

Clauses: RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from pktable_spec.errors import CorruptFileError, InvalidRequestError, OutsideTableError, brief

ERROR: Final = "error"
NOTE: Final = "note"
SEVERITIES: Final = (ERROR, NOTE)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Finding:
    """A clause that does not hold, and where.

    ``clause``: its id. ``what``: the thing that was checked, ``expected`` and ``found`` its two values as text.
    ``file``: relative to the table if it lies in there. ``severity``: "error" if the table is damaged, "note" if it
    is not, or if that is not known. ``snapshots``: the ids of those that show it, ascending; empty if it does not
    depend on a snapshot. ``partition``: its directory, empty without partitions. ``bucket``: None if it does not
    concern a single bucket.
    """

    clause: str
    what: str
    file: str
    expected: str
    found: str
    severity: str = ERROR
    snapshots: tuple[int, ...] = ()
    partition: str = ""
    bucket: int | None = None

    def __str__(self) -> str:
        """Return the finding as one line."""
        when = f" ({_ranges(self.snapshots)})" if self.snapshots else ""
        return (
            f"{self.severity} {self.clause}: {self.file}: {self.what}: "
            f"expected {self.expected}, found {self.found}{when}"
        )


@dataclass(slots=True)
class Findings:
    """Collects findings and joins those that differ only in their snapshots.

    ``root``: of the table. ``partition``, ``bucket``: those of every finding that is added.
    """

    root: str
    partition: str = ""
    bucket: int | None = None
    _snapshots: dict[Finding, set[int]] = field(default_factory=dict)

    def add(
        self,
        clause: str,
        what: str,
        file: str,
        *,
        expected: object,
        found: object,
        snapshots: Iterable[int] = (),
        severity: str = ERROR,
    ) -> None:
        """Add a finding. ``file``: a path of the store."""
        self.include(
            Finding(
                clause,
                what,
                self._relative(file),
                brief(expected),
                brief(found),
                severity,
                tuple(snapshots),
                self.partition,
                self.bucket,
            )
        )

    def include(self, finding: Finding) -> None:
        """Add a finding of another collector."""
        self._snapshots.setdefault(replace(finding, snapshots=()), set()).update(finding.snapshots)

    def damage(
        self, error: CorruptFileError, clause: str, *, snapshots: Iterable[int] = (), file: str | None = None
    ) -> None:
        """Add the damage that a reader raised. ``clause``: the violated one, unless the error names it exactly."""
        violated = next((at for start, at in CLAUSE_OF.items() if error.what.startswith(start)), clause)
        if error.expected == "a file":
            violated = "CMT-15"  # a snapshot that was readable once must stay readable
        self.add(
            violated,
            error.what,
            file or error.at,
            expected=error.expected,
            found=error.found,
            snapshots=snapshots,
        )

    @contextmanager
    def guard(self, clause: str, *, snapshots: Iterable[int] = (), file: str | None = None) -> Iterator[None]:
        """Turn damage that is raised inside into a finding, and an unsupported feature into a note."""
        try:
            yield
        except CorruptFileError as error:
            self.damage(error, clause, snapshots=snapshots, file=file)
        except OutsideTableError as error:
            self.add(
                "SAFE-2",
                "path",
                error.link or file or self.root,
                expected="a place in the table or below an external root",
                found=error.leads_to,
                snapshots=snapshots,
            )
        except InvalidRequestError as error:
            self.add(
                "TBL-9",
                "not checked",
                file or self.root,
                expected="supported features only",
                found=error,
                snapshots=snapshots,
                severity=NOTE,
            )

    def attempt(
        self,
        clause: str,
        work: Callable[[], Value],
        *,
        snapshots: Iterable[int] = (),
        file: str | None = None,
    ) -> Value | None:
        """Return the result of ``work``; None, and a finding, if it raises. See `guard`."""
        with self.guard(clause, snapshots=snapshots, file=file):
            return work()
        return None

    def all(self) -> list[Finding]:
        """Return all findings: errors first, then by place and clause."""
        found = [replace(finding, snapshots=tuple(sorted(ids))) for finding, ids in self._snapshots.items()]
        return sorted(found, key=_rank)

    def _relative(self, file: str) -> str:
        return file.removeprefix(self.root + "/")


CLAUSE_OF: Final = {
    "checksum": "META-14",
    "footer checksum": "META-14",
    "file size": "LSM-7",
    "row count": "LSM-7",
    "size of the DV index file": "DVF-8",
    "size of the hash index file": "BKT-2",
    "length of the hash index file": "BKT-2",
    "bucket of a hash index": "BKT-2",
    "index version": "DVF-1",
    "index length": "DVF-1",
    "offset of the vector": "DVF-9",
    "vector of ": "DVF-9",
    "vector length": "DVF-9",
    "vectors": "DV-5",
}
"""The clause that is violated, by how the ``what`` of a reader's error begins."""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as "1 key" or "2 keys". ``many``: the plural, by default with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def key_text(key: Sequence[Any]) -> str:
    """Return a key as text, such as "[7, a]"."""
    return f"[{', '.join(map(str, key))}]"


def _rank(finding: Finding) -> tuple[Any, ...]:
    bucket = -1 if finding.bucket is None else finding.bucket
    return (
        SEVERITIES.index(finding.severity),
        finding.partition,
        bucket,
        finding.file,
        finding.clause,
        finding.what,
        finding.expected,
        finding.found,
    )


def _ranges(snapshots: tuple[int, ...]) -> str:
    """Return ascending ids as text, consecutive ones as a range."""
    runs: list[list[int]] = []
    for number in snapshots:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return ("snapshot " if len(snapshots) == 1 else "snapshots ") + ", ".join(parts)
