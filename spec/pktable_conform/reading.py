"""The reader mode: each table of the archive, read by the runner, gives rows that the index states, or a refusal."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pktable_conform.archive import NEGATIVE, OPEN, POSITIVE, Archive, Case, Read, Rows, difference
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.runner import Refused, Runner, RunnerError, Unsupported, features

CHECKS: Final[Mapping[str, str]] = {
    POSITIVE: "the_rows_are_read",
    NEGATIVE: "damage_is_refused",
    OPEN: "the_rows_are_read_or_refused",
}
"""The check of each kind of case."""


class ReadFailed(CheckFailed):
    """A read that did not give what it must, and in ``request`` and ``found`` what was asked and came back."""

    def __init__(self, case: Case, read: Read, message: str, found: Any) -> None:
        super().__init__(CHECKS[case.kind], case.clauses, message)
        self.case, self.read, self.found = case, read, found

    def to_json(self) -> str:
        """Return the case as text: the table, the one read that failed, what is right and what was found."""
        case = self.case
        fields = {
            "case": case.name,
            "what": case.what,
            "clauses": case.clauses,
            "table": f"tables/{case.base}/ of the archive of fixtures",
            "changed": case.changed,
            "removed": case.removed,
            "read": self.read.arguments,
            "answers": self.read.answers,
            "found": self.found,
        }
        return json.dumps(fields, ensure_ascii=False, indent=1)


Right = Callable[[Path, "int | None"], Rows]
"""What gives the rows of a table, of the latest snapshot or of one that is named."""


def read_case(runner: Runner, archive: Archive, case: Case, right: Right | None = None) -> str:
    """Give a case to a runner; return the features that some of its reads would have needed, as text.

    ``right``: shows the difference to rows of which the archive has the hash alone.

    Raises ReadFailed, RunnerError, and Unsupported if the runner supports nothing of it.
    """
    supported = runner.supports()
    features(("open", "read"), supported.commands)
    features(case.features, supported.features)
    reads = [read for read in case.reads if set(read.features) <= supported.features]
    missing = sorted({name for read in case.reads for name in read.features} - supported.features)
    if not reads:
        raise Unsupported(", ".join(missing))
    with tempfile.TemporaryDirectory(prefix="pktable-conform-") as folder:
        table = Path(folder) / "fixtures.db" / case.base  # as a table lies in a warehouse of Paimon
        table.mkdir(parents=True)
        archive.unpack(case, table)
        try:
            runner.ask("open", table=str(table))
        except Refused as refusal:
            for read in reads:
                _refused(case, read, refusal)
            return ", ".join(missing)
        for read in reads:
            _read(runner, case, read, None if right is None else partial(right, table))
    return ", ".join(missing)


def _read(runner: Runner, case: Case, read: Read, right: Callable[[int | None], Rows] | None) -> None:
    try:
        rows = rows_of(runner.ask("read", **read.arguments))
    except Refused as refusal:
        _refused(case, read, refusal)
        return
    if read.takes(rows):
        return
    answers = [answer for answer in read.answers if "refused" not in answer]
    if answers and right is not None and "sha256" in answers[0] and {*read.arguments} <= {"snapshot"}:
        those = right(read.arguments.get("snapshot"))
        if read.takes(those):  # by their hash
            answers = [{"rows": those}]
    if answers:
        raise ReadFailed(case, read, f"{_asked(read)}: {difference(rows, answers[0])}", {"rows": rows})
    why = read.answers[0]["refused"]
    raise ReadFailed(
        case, read, f"{_asked(read)}: {len(rows)} rows, expected a refusal: {why}", {"rows": rows}
    )


def _refused(case: Case, read: Read, refusal: Refused) -> None:
    if not read.may_be_refused:
        raise ReadFailed(case, read, f"{_asked(read)} was refused: {refusal}", {"refused": str(refusal)})


def _asked(read: Read) -> str:
    given = ", ".join(f"{name} {value}" for name, value in read.arguments.items())
    return f"a read of {given}" if given else "a read of the latest snapshot"


def rows_of(answer: Any) -> Rows:
    """Return the rows of an answer. Raises RunnerError if they are none."""
    rows = answer.get("rows") if isinstance(answer, dict) else None
    if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        wrong = [value for row in rows for value in row if not (value is None or isinstance(value, str))]
        if not wrong:
            return rows
        raise RunnerError(f"read: expected values that are strings or null, found {wrong[0]!r:.80}")
    raise RunnerError(f"read: expected rows, a list of lists of values, found {answer!r:.80}")
