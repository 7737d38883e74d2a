"""A run of `make verify` written down: ``report.html`` for people, ``report.json`` and ``junit.xml`` for programs.

It has the versions, the seeds, the time of each stage, how often each clause was checked, each mutant with the step
that killed it, what TLC checked, and what was skipped. Each history that failed is drawn on the oracle.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from pktable import __version__
from pktable_conform.judge.history import History, Operation, numbered
from pktable_conform.report import NOT_XML
from pktable_spec.clauses import requirements
from pktable_spec.interface import Change
from pktable_spec.model.table import ModelTable

from model_tests.examples.drawn import as_html
from model_tests.examples.histories import File, Frame, differences, reads, seen
from model_tests.histories.failures import Failure
from model_tests.histories.profiles import PROFILES
from model_tests.mutants import MUTANTS
from model_tests.tlc.suite import HEADINGS
from model_tests.tlc.suite import Result as Checked
from model_tests.verify.suite import CHECKOUT, COUNTS, SEEDS, Outcome

STYLE: Final = CHECKOUT / "docs/site/static/site.css"
COLORS: Final = """
:root { --pst-color-border: #c9ced6; --pst-color-primary: #0a7d91; --pst-color-danger: #d72d47;
  --pst-color-surface: #f3f4f5; --pst-color-text-base: #222832; --pst-color-text-muted: #48566b;
  --pst-font-family-monospace: monospace; }
body { font-family: sans-serif; color: #222832; max-width: 75em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
td, th { border: 1px solid #c9ced6; padding: 0.2em 0.6em; text-align: left; vertical-align: top; }
.good { background: #d9f2dd; } .bad { background: #f9d6d9; } .skipped { background: #fff3bf; }
"""
LIBRARIES: Final = ("pyarrow", "pyspark", "numpy", "pyroaring", "hypothesis", "fastavro")
SKIPPED: Final = ": skipped, "


def written(outcome: Outcome, folder: Path) -> Path:
    """Write a run into a folder, which is made; return the page for people."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = facts_of(outcome)
    (folder / "report.json").write_text(json.dumps(facts, ensure_ascii=False, indent=1), encoding="utf-8")
    (folder / "junit.xml").write_text(as_junit(outcome), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(as_page(outcome, facts), encoding="utf-8")
    return page


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """Return a run as values that JSON has."""
    return {
        "passed": not outcome.problems,
        "profile": outcome.profile,
        "versions": versions(),
        "seeds": seeds(outcome.profile),
        "seconds": {"all": round(outcome.total, 1), **{what: round(one, 1) for what, one in outcome.seconds.items()}},
        "tlc": [asdict(one) for one in outcome.checked],
        "compared": [{"what": one.what, **{name: getattr(one, name) for name in COUNTS}} for one in outcome.results],
        "clauses": {id: outcome.clauses.get(id, 0) for id in requirements()},
        "mutants": {id: None if kill is None else asdict(kill) for id, kill in outcome.mutants.items()},
        "skipped": skipped(outcome),
        "failures": [asdict(failure) for failure in failures(outcome)],
        "problems": outcome.problems,
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of what ran."""
    found = subprocess.run(
        ["git", "-C", str(CHECKOUT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    commit = found.stdout.strip() or "not known"
    own = {"pktable": __version__, "commit": commit, "Python": platform.python_version()}
    return {**own, **{name: version(name) for name in LIBRARIES}, "system": platform.platform()}


def seeds(profile: str) -> dict[str, str]:
    """Return what was drawn by which seeds."""
    found = {
        backend: f"{one.histories} histories, " + ("a fresh seed" if one.seed is None else f"seed {one.seed}")
        for (backend, name), one in PROFILES.items()
        if name == profile
    }
    return {**found, "simulation": f"seeds 0 to {SEEDS[profile] - 1}"}


def skipped(outcome: Outcome) -> list[str]:
    """Return what was not done in this run: input that is not there, and models that were on record."""
    absent = [line for line in outcome.said if SKIPPED in line]
    recorded = sum(one.machine + one.repository for one in outcome.checked)
    return [
        *absent,
        *([f"{recorded} models and graphs were not run again: they are on record"] if recorded else []),
    ]


def failures(outcome: Outcome) -> list[Failure]:
    return [failure for result in outcome.results for failure in result.failures]


# ----------------------------------------------------------------- JUnit


def as_junit(outcome: Outcome) -> str:
    """Return a run as JUnit's XML: a case for each stage, each check of TLC, each mutant, and what was skipped."""
    cases = [
        *(_case("TLC", one.what, "; ".join(one.problems)) for one in outcome.checked),
        *(
            _case("compared", one.what, one.problem or "", _seconds(outcome, one.what))
            for one in outcome.results
        ),
        *(
            _case("mutants", id, "" if id in outcome.killed else "survived" if kill is None else kill.message)
            for id, kill in outcome.mutants.items()
        ),
        *(_case("decoders", "fuzzed", problem) for problem in outcome.decoders),
    ]
    cases += [
        f'<testcase classname="skipped" name={_quoted(one)}><skipped/></testcase>' for one in skipped(outcome)
    ]
    counts = f'tests="{len(cases)}" failures="{len(outcome.problems)}" time="{outcome.total:.1f}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="make verify" {counts}>', *cases]
    return "\n".join([*lines, "</testsuite>", ""])


def _seconds(outcome: Outcome, what: str) -> float:
    words = set(what.split())
    return sum(spent for name, spent in outcome.seconds.items() if words <= set(name.split()))


def _case(kind: str, name: str, problem: str, seconds: float = 0.0) -> str:
    content = f"<failure message={_quoted(problem)}/>" if problem else ""
    return f'<testcase classname="{kind}" name={_quoted(name)} time="{seconds:.1f}">{content}</testcase>'


def _quoted(text: str) -> str:
    return quoteattr(NOT_XML.sub("?", text))


# ----------------------------------------------------------------- the page


def as_page(outcome: Outcome, facts: Mapping[str, Any]) -> str:
    """Return a run as a page of HTML that needs no other file."""
    verdict = "all checks passed" if facts["passed"] else f"{len(facts['problems'])} problems"
    head = (
        f'<meta charset="utf-8"><title>make verify: {verdict}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE.read_text('utf-8')}{COLORS}</style>"
    )
    title = f'<h1>make verify: <span class="{_color(facts["passed"])}">{verdict}</span></h1>'
    sections = "".join(_sections(outcome, facts))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{title}{sections}</body></html>\n'


def _sections(outcome: Outcome, facts: Mapping[str, Any]) -> Iterator[str]:
    yield _list("Problems", facts["problems"], "bad")
    yield _list("Skipped", facts["skipped"], "skipped")
    for number, failure in enumerate(failures(outcome), 1):
        yield f"<h2>Failing history {number}, on {escape(failure.backend)}</h2>"
        yield f'<p class="bad">{escape(failure.message)}</p>{drawn(failure)}'
    about = {"profile": facts["profile"], **facts["versions"], **facts["seeds"]}
    yield _table("What ran", ("what", "value"), [[name, str(value)] for name, value in about.items()])
    spent = sorted(facts["seconds"].items(), key=lambda one: -one[1])
    yield _table("Time", ("stage", "seconds"), [[what, f"{seconds:,.1f}"] for what, seconds in spent])
    heads = ("check", *HEADINGS, "on record", "problems")
    yield _table("What TLC checked", heads, [_checked(one) for one in outcome.checked])
    yield _table(
        "What was compared",
        ("check", *COUNTS),
        [[one.what, *(f"{getattr(one, name):,}" for name in COUNTS)] for one in outcome.results],
    )
    yield _mutants(outcome)
    yield _clauses(facts["clauses"])


def _checked(one: Checked) -> list[str]:
    counts = [f"{getattr(one, name):,}" for name in HEADINGS]
    return [one.what, *counts, str(one.machine + one.repository), str(len(one.problems))]


def _mutants(outcome: Outcome) -> str:
    rows, colors = [], []
    for id, kill in outcome.mutants.items():
        mutant = MUTANTS.get(id)
        found = ("", "survived") if kill is None else (str(kill.step), str(kill.check))
        rows.append([id, mutant.title if mutant else "", ", ".join(mutant.clauses) if mutant else "", *found])
        colors.append(_color(id in outcome.killed))
    heads = ("mutant", "bug", "clauses", "killed at step", "by the check")
    return _table(f"Mutants: {len(outcome.killed)} of {len(rows)} killed", heads, rows, colors)


def _clauses(counts: Mapping[str, int]) -> str:
    checked = {id: count for id, count in counts.items() if count}
    rows = [
        [id, requirements()[id], f"{count:,}"]
        for id, count in sorted(checked.items(), key=lambda one: -one[1])
    ]
    title = f"How often each clause was checked: {len(checked)} of {len(counts)} by histories"
    others = ", ".join(id for id in counts if id not in checked)
    return (
        _table(title, ("clause", "requirement", "times"), rows)
        + f"<p>By the tests of `make test` only: {others}.</p>"
    )


def _color(good: bool) -> str:
    return "good" if good else "bad"


def _list(title: str, lines: Sequence[str], color: str) -> str:
    items = "".join(f'<li class="{color}">{escape(line)}</li>' for line in lines)
    return f"<h2>{title}</h2><ul>{items}</ul>" if lines else ""


def _table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], colors: Sequence[str] | None = None
) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        f'<tr class="{colors[at] if colors else ""}">'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for at, row in enumerate(rows)
    )
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


# ----------------------------------------------------------------- a failing history


def drawn(failure: Failure) -> str:
    """Return the history of a failure: its text, and the table of the oracle after each operation."""
    text = f"<details><summary>as a file</summary><pre>{escape(failure.to_json())}</pre></details>"
    try:
        found = list(_frames(History.from_json(json.loads(failure.history))))
    except (KeyError, TypeError, ValueError) as error:
        return f"<p>It cannot be drawn: {escape(str(error))}</p>{text}"
    return as_html(found) + text


def _frames(history: History) -> Iterator[Frame]:
    """Do a history on the oracle, and yield a frame for each operation; those that only a store has change nothing."""
    table, tickets = ModelTable(history.shape, history.options), dict[str, int | None]()
    written, files = 0, dict[str, File]()
    for operation in history.operations:
        changes = numbered(operation.changes, written)
        written += len(operation.changes)
        refused = _do(table, operation, changes, tickets)
        after = seen(table) if table.snapshots() else {}
        answer = [f"the commit is refused by {refused}"] if refused else []
        changed = (*answer, *differences(files, after))
        yield Frame(_title(operation.to_json()), (), changed, after, *reads(table))
        files = after


def _do(
    table: ModelTable, operation: Operation, changes: Sequence[Change], tickets: dict[str, int | None]
) -> str | None:
    """Do an operation of a history on the oracle, and return the clause that refuses it."""
    if operation.do == "write":
        table.write(changes, write_only=operation.write_only)
    elif operation.do == "compact":
        table.compact(full=operation.full)
    elif operation.do == "begin write":
        tickets[operation.job] = table.begin_write(changes, write_only=operation.write_only)
    elif operation.do == "begin compaction":
        tickets[operation.job] = table.begin_compaction(full=operation.full)
    elif operation.do in ("commit", "abandon") and (ticket := tickets.pop(operation.job, None)) is not None:
        if operation.do == "commit":
            return table.commit(ticket)
        table.abandon(ticket)
    return None


def _title(operation: Mapping[str, Any]) -> str:
    changes = ", ".join(f"{kind} {' '.join(map(_short, row))}" for kind, row in operation.get("changes", ()))
    more = [f"{name} {value}" for name, value in operation.items() if name not in ("do", "changes")]
    return " ".join([str(operation["do"]), changes, *more])[:300]


def _short(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 12 else f"{text[:11]}…"
