"""The scoreboard: the clauses that each implementation keeps, by version, and the findings with their minimal cases."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pktable_conform.report import ERROR, FAIL, PASS, UNSUPPORTED, Outcome
from pktable_conform.run import READER, WRITER

from docs.site.clause_pages import FOLDER
from docs.site.evidence import Evidence
from model_tests.conform.findings import FINDINGS, failures, finding_of, shown_by
from model_tests.conform.record import Run, digest_of_fixtures
from model_tests.examples.shown import table

PATH: Final = "scoreboard.md"
MOST_CLAUSES: Final = 6
"""Of a finding, that are named."""
KEPT, BROKEN, NOT_ASKED = "✓", "✗", "·"
INTRO: Final = """# Who keeps which clause

`make conform` gives the [fixtures](docs/conform.md) to every implementation that is set up on a machine. This page
shows the last run of each that is on record.
"""
LEGEND: Final = f"""
## By clause

{KEPT}: passes all fixtures of the clause that it supports. {BROKEN}: fails some of them by this clause.
{NOT_ASKED}: supports none of them.
"""


def page(evidence: Mapping[str, Evidence], runs: Sequence[Run]) -> str:
    """Return the page."""
    parts = [INTRO, _totals(runs), LEGEND, _matrix(evidence, runs), "## What was found", *_findings(runs)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _totals(runs: Sequence[Run]) -> str:
    heads = ("implementation", "version of the fixtures", "mode", PASS, FAIL, UNSUPPORTED, ERROR)
    rows, current = [], digest_of_fixtures()
    for run in runs:
        for mode in (READER, WRITER):
            counts = Counter(one.status for one in run.outcomes.values() if one.mode == mode)
            fixtures = run.fixtures + ("" if run.digest == current else ", an older archive")
            if counts:
                rows.append((run.title, fixtures, mode, *(str(counts[status]) for status in heads[3:])))
    return table(heads, rows)


def _matrix(evidence: Mapping[str, Evidence], runs: Sequence[Run]) -> str:
    rows = []
    for id, one in evidence.items():
        if not one.cases:
            continue
        cells = [cell(run, one) for run in runs]
        rows.append((f"[{id}](/{FOLDER}/{id}.md)", str(len(one.cases)), *cells))
    return table(("clause", "cases", *(run.title for run in runs)), rows)


def cell(run: Run, one: Evidence) -> str:
    """Return what an implementation makes of the fixtures of a clause."""
    passed, failed, _ = run.of_clause(one.clause.id, (case.name for case in one.cases))
    return f"{BROKEN} {len(failed)}" if failed else KEPT if passed else NOT_ASKED


def _findings(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a part for each finding, and one for the failures without a finding."""
    for finding in FINDINGS:
        if shown := shown_by(finding, runs):
            said = f"{finding.what} {_minimal(shown[0][1])}"
            yield f"### {finding.title}\n\n{said}\n\n{_failures(shown)}{_smallest(shown)}"
    others = [(run, one) for run in runs for one in failures(run) if finding_of(run, one) is None]
    if others:
        yield f"### Not looked into yet\n\n{_failures(others)}"


def _minimal(outcome: Outcome) -> str:
    """Return the sentence that names the minimal case of a finding, and its clauses."""
    shown = [f"[{id}](/{FOLDER}/{id}.md)" for id in outcome.clauses[:MOST_CLAUSES]]
    more = ["…"] * (len(outcome.clauses) > MOST_CLAUSES)
    return f"Minimal case: `{outcome.case}`. Clauses: {', '.join([*shown, *more])}."


def _failures(shown: Sequence[tuple[Run, Outcome]]) -> str:
    """Return the table of some failures: of each case who says the same."""
    said = defaultdict[tuple[str, str], list[str]](list)
    for run, one in shown:
        said[one.case, _what(one)].append(run.title)
    rows = [(case, ", ".join(who), what) for (case, what), who in said.items()]
    return table(("case", "implementations", "found"), rows)


def _smallest(shown: Sequence[tuple[Run, Outcome]]) -> str:
    """Return the shortest history on record that shows a finding, an operation a line; empty if there is none."""
    histories = [(run, one) for run, one in shown if one.history]
    if not histories:
        return ""
    run, one = min(histories, key=lambda each: len(each[1].history))
    history = json.loads(one.history)
    operations = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in history.pop("operations"))
    head = json.dumps(history, ensure_ascii=False)[:-1]
    return (
        f"\n\nThe smallest history, of {run.title} in the case `{one.case}`:\n\n"
        f'```json\n{head},\n "operations": [\n  {operations}\n]}}\n```'
    )


def _what(outcome: Outcome) -> str:
    return _code(f"{outcome.check}: {outcome.message}" if outcome.check else outcome.message)


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', ' ').split())}`" if text else ""
