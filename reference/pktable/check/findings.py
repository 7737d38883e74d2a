"""What a check found: one finding per violated clause and place, with all snapshots it shows in.

Clauses: RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from pktable_spec.errors import CorruptFileError, InvalidRequestError

ERROR: Final = "error"
NOTE: Final = "note"
SEVERITIES: Final = (ERROR, NOTE)

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and of how much."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Finding:
    """A clause that does not hold, and where.

    ``severity``: "error" where the table is damaged, "note" where it is not, or could not be told.
    ``snapshots``: ids it shows in, ascending; none where it is about no snapshot. ``partition``: as the
    directory spells it, empty without one. ``file``: relative to the table where it lies in there.
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
        when = f" ({_spelled(self.snapshots)})" if self.snapshots else ""
        return (
            f"{self.severity} {self.clause}: {self.file}: {self.what}: "
            f"expected {self.expected}, found {self.found}{when}"
        )


@dataclass(slots=True)
class Findings:
    """Collects findings; what is found again in another snapshot is the same finding.

    ``partition``, ``bucket``: of all that is added.
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
                str(expected),
                str(found),
                severity,
                tuple(snapshots),
                self.partition,
                self.bucket,
            )
        )

    def include(self, finding: Finding) -> None:
        """Add a finding that another collector made."""
        self._snapshots.setdefault(replace(finding, snapshots=()), set()).update(finding.snapshots)

    def damage(
        self, error: CorruptFileError, clause: str, *, snapshots: Iterable[int] = (), file: str | None = None
    ) -> None:
        """Add what a reader raised. ``clause``: what it violates, unless the error itself tells more exactly."""
        told = next((at for start, at in CLAUSE_OF.items() if error.what.startswith(start)), clause)
        if error.expected == "a file":
            told = "CMT-15"  # what was readable once is so no longer
        self.add(
            told,
            error.what,
            file or error.at,
            expected=error.expected,
            found=error.found,
            snapshots=snapshots,
        )

    @contextmanager
    def guard(self, clause: str, *, snapshots: Iterable[int] = (), file: str | None = None) -> Iterator[None]:
        """Turn damage met inside into a finding, and what is not implemented into a note."""
        try:
            yield
        except CorruptFileError as error:
            self.damage(error, clause, snapshots=snapshots, file=file)
        except InvalidRequestError as error:
            self.add(
                "TBL-9",
                "not checked",
                file or self.root,
                expected="what is implemented",
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
        """Return what ``work`` returns, or None and a finding."""
        with self.guard(clause, snapshots=snapshots, file=file):
            return work()
        return None

    def all(self) -> list[Finding]:
        """Return everything found: errors first, then by place and clause."""
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
    "index version": "DVF-1",
    "index length": "DVF-1",
    "offset of the vector": "DVF-1",
    "vector of ": "DVF-1",
    "vector length": "DVF-1",
    "vectors": "DV-5",
}
"""How that begins which readers name so exactly that it tells the clause."""


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


def _spelled(snapshots: tuple[int, ...]) -> str:
    """Return ids as text, runs of them by their ends."""
    runs: list[list[int]] = []
    for number in snapshots:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return ("snapshot " if len(snapshots) == 1 else "snapshots ") + ", ".join(parts)
