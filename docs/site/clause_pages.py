"""A page for each clause, in Markdown: what it requires, why, what breaks without it, and who keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pktable_spec.clauses import Clause

from docs.site.evidence import Evidence
from model_tests.conform.record import Run
from model_tests.examples.shown import table

FOLDER: Final = "clauses"
PLACES: Final = {"tla": "TLA+", "model": "oracle", "reference": "implementation"}


def pages(evidence: Mapping[str, Evidence], runs: Sequence[Run], texts: Path) -> dict[str, str]:
    """Return the page of each clause by its path. ``texts``: the folder with the files of the clauses."""
    files = {path.read_text("utf-8").splitlines()[0].removeprefix("# "): path for path in texts.glob("*.md")}
    ids = list(evidence)
    found = {}
    for at, id in enumerate(ids):
        one = evidence[id]
        text = files[one.clause.topic.partition(": ")[0]]
        around = ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None
        parts = [_head(one.clause, text.name, around), *_parts(one, runs)]
        found[f"{FOLDER}/{id}.md"] = "\n\n".join(parts) + "\n"
    return found


def _head(clause: Clause, file: str, around: tuple[str | None, str | None]) -> str:
    before, after = (f"[{id}](/{FOLDER}/{id}.md)" if id else "" for id in around)
    way = " · ".join(
        part for part in (f"← {before}" if before else "", f"{after} →" if after else "") if part
    )
    topic = f"[{clause.topic}](/spec/clauses/{file})"
    return (
        f"---\norphan: true\n---\n\n# {clause.id}\n\n{topic} · *{clause.force}* · {way}\n\n"
        f"> {clause.sentence}\n\n{clause.why}"
    ).rstrip()


def _parts(one: Evidence, runs: Sequence[Run]) -> Iterator[str]:
    if one.examples:
        shown = (f"### {example.title}\n\n{example.text}" for example in one.examples)
        yield "## Examples\n\n" + "\n\n".join(shown)
    if one.models:
        rows = [(found.name, found.says, f"`{found.violated}`") for found in one.models]
        yield (
            "## What breaks without it\n\nTLC finds a counterexample of each of these models.\n\n"
            + table(("model", "what is done wrong", "then violated"), rows)
        )
    if one.mutants:
        mutants = [
            (mutant.id, mutant.title, ", ".join(map(_link, mutant.bugs, mutant.links)))
            for mutant in one.mutants
        ]
        yield (
            "## Bugs that it catches\n\nEach is put into the implementation, and the tests find it.\n\n"
            + table(("bug", "what goes wrong", "seen in"), mutants)
        )
    if one.cases:
        yield "## Who passes\n\n" + _outcomes(one, runs)
        yield "## Fixtures\n\n" + table(
            ("case", "kind", "what it shows"), [(case.name, case.kind, case.what) for case in one.cases]
        )
    yield "## Tests\n\n" + (_tests(one) or "No test covers it by name.")
    places = [
        (title, ", ".join(f"`{path}`" for path in one.clause.places.get(kind, ())))
        for kind, title in PLACES.items()
    ]
    if any(paths for _, paths in places):
        rows_of_places = [row for row in places if row[1]]
        yield "## Who cites it\n\n" + table(("where", "files"), rows_of_places)


def _link(bug: str, address: str) -> str:
    return f"[{bug}]({address})"


def _outcomes(one: Evidence, runs: Sequence[Run]) -> str:
    """Return a table of the implementations and what became of the fixtures of a clause."""
    rows = []
    for run in runs:
        passed, failed, unsupported = run.of_clause(one.clause.id, (case.name for case in one.cases))
        what = [
            f"passes {len(passed)}" if passed else "",
            f"**fails** {', '.join(failed)}" if failed else "",
            f"does not support {', '.join(unsupported)}" if unsupported else "",
        ]
        rows.append((run.title, "; ".join(part for part in what if part) or "not asked"))
    return table(("implementation", f"of {len(one.cases)} cases"), rows)


def _tests(one: Evidence) -> str:
    by_file: dict[str, list[str]] = {}
    for test in one.tests:
        by_file.setdefault(test.path, []).append(test.name)
    return table(
        ("file", "tests"),
        [
            (f"`{path}`", ", ".join(f"`{name}`" for name in dict.fromkeys(names)))
            for path, names in by_file.items()
        ],
    )
