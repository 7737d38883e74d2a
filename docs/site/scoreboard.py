"""The scoreboard: the clauses that each implementation keeps, by version, and the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pktable_conform.report import ERROR, FAIL, PASS, UNSUPPORTED, Outcome
from pktable_conform.run import READER, WRITER

from docs.site.clause_pages import FOLDER
from docs.site.evidence import Evidence
from model_tests.conform.record import Run, digest_of_fixtures
from model_tests.examples.shown import table

PATH: Final = "scoreboard.md"
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
    heads = ("implementation", "fixtures", "mode", PASS, FAIL, UNSUPPORTED, ERROR)
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
    for run in runs:
        failed = [one for one in run.outcomes.values() if one.status in (FAIL, ERROR)]
        rows = [
            (one.case, one.mode, _what(one), ", ".join(one.clauses), _code(one.history)) for one in failed
        ]
        heads = ("case", "mode", "found", "clauses", "smallest history")
        yield f"### {run.title}\n\n" + (table(heads, rows) or "Nothing.")


def _what(outcome: Outcome) -> str:
    return _code(f"{outcome.check}: {outcome.message}" if outcome.check else outcome.message)


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', ' ').split())}`" if text else ""
