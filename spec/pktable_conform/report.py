"""The outcomes of a run, and their text: lines for people, JSON, and JUnit's XML."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Final
from xml.sax.saxutils import quoteattr

PASS, FAIL, UNSUPPORTED, ERROR = "PASS", "FAIL", "UNSUPPORTED", "ERROR"
NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """What became of a case. ``mode``: reader or writer.

    ``check``, ``clauses``: what did not hold, of a FAIL. ``message``: what was found, or why nothing was.
    ``history``: the file with the smallest case that shows it, empty if there is none. ``seconds``: it took.
    """

    case: str
    mode: str
    status: str
    check: str = ""
    clauses: tuple[str, ...] = ()
    message: str = ""
    history: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """The outcomes of a run, what the runner calls itself, the version of the fixtures, and what was left out."""

    runner: str
    fixtures: str
    without: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.status for one in self.outcomes)

    @property
    def failed(self) -> bool:
        """Whether a case failed or could not be asked, or none was passed."""
        return bool(self.counts[FAIL] or self.counts[ERROR] or not self.counts[PASS])


def summary(report: Report) -> str:
    """Return a run in a line."""
    counts = ", ".join(f"{report.counts[status]} {status}" for status in (PASS, FAIL, UNSUPPORTED, ERROR))
    without = f"; without {', '.join(report.without)}" if report.without else ""
    nothing = "" if report.counts[PASS] else "; nothing was passed, so nothing is shown"
    return f"{report.runner}, fixtures {report.fixtures}: {counts}{without}{nothing}"


def lines_of(outcome: Outcome) -> list[str]:
    """Return an outcome as lines for people."""
    text = f"{outcome.status:<12}{outcome.mode:<8}{outcome.case}"
    if outcome.status == PASS:
        return [text]
    if outcome.status == FAIL:
        text += f": {outcome.check} [{', '.join(outcome.clauses)}]"
    lines = [text, f"    {outcome.message}"]
    return [*lines, f"    smallest case: {outcome.history}"] if outcome.history else lines


def as_json(report: Report) -> str:
    """Return a run as one JSON object."""
    outcomes = [asdict(one) for one in report.outcomes]
    fields = {"runner": report.runner, "fixtures": report.fixtures, "without": report.without}
    return json.dumps({**fields, "counts": report.counts, "outcomes": outcomes}, indent=1)


def as_junit(report: Report) -> str:
    """Return a run as JUnit's XML: what is unsupported is skipped."""
    counts = report.counts
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuite name={_attribute(f'pktable conform: {report.runner}')} tests={_attribute(len(report.outcomes))} "
        f"failures={_attribute(counts[FAIL])} errors={_attribute(counts[ERROR])} "
        f"skipped={_attribute(counts[UNSUPPORTED])}>",
        *(_testcase(one) for one in report.outcomes),
        "</testsuite>",
    ]
    return "\n".join(lines)


def _testcase(outcome: Outcome) -> str:
    inner = {FAIL: "failure", ERROR: "error", UNSUPPORTED: "skipped"}.get(outcome.status)
    what = ": ".join(part for part in (outcome.check, outcome.message) if part)
    content = f"<{inner} message={_attribute(what)}/>" if inner else ""
    name, mode, time = map(_attribute, (outcome.case, outcome.mode, f"{outcome.seconds:.3f}"))
    return f"<testcase classname={mode} name={name} time={time}>{content}</testcase>"


def _attribute(value: object) -> str:
    return quoteattr(NOT_XML.sub("�", str(value)))
