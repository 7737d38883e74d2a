"""The record of the last run of each implementation, `results.json`: what the scoreboard of the site is made of.

Each run has the name and version of the implementation, the version and digest of the fixtures that it was given, the
cases that it passed by mode, and the other outcomes in full. A run takes the place of an earlier one of the same name
and version.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pktable_conform.archive import SHIPPED
from pktable_conform.report import FAIL, PASS, UNSUPPORTED, Outcome, Report
from pktable_conform.run import READER, WRITER

RESULTS: Final = Path(__file__).with_name("results.json")
PLACES: Final = re.compile(r"/\S*?/pktable-conform-\w+/")
"""Folders of one run, which messages name."""
NAMES: Final = re.compile(r"\b(data|index|changelog|manifest|manifest-list|index-manifest)-[0-9a-f-]{36}-\d+")
"""Names of files, which differ from run to run."""
LONGEST: Final = 400


@dataclass(frozen=True)
class Run:
    """The outcomes of an implementation. ``outcomes``: by mode and case. A PASS has nothing else."""

    name: str
    version: str
    fixtures: str
    digest: str
    outcomes: Mapping[tuple[str, str], Outcome]

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def of_clause(self, clause: str, cases: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
        """Return of some reader cases those that passed, failed by this clause or ended, and were not supported.

        A failure counts for every clause that its check names. Cases that were not asked are in none of the lists.
        """
        passed, failed, unsupported = [], [], []
        for case in cases:
            found = self.outcomes.get((READER, case))
            if found is None:
                continue
            if found.status == PASS or (found.status == FAIL and clause not in found.clauses):
                passed.append(case)
            elif found.status == UNSUPPORTED:
                unsupported.append(case)
            else:
                failed.append(case)
        return passed, failed, unsupported


def digest_of_fixtures() -> str:
    """Return the digest of the archive of this version, by which an old run is known."""
    import pktable_conform

    return hashlib.sha256((Path(pktable_conform.__file__).parent / SHIPPED).read_bytes()).hexdigest()[:16]


def runs(path: Path = RESULTS) -> list[Run]:
    """Return the runs on record, in the order of their names."""
    return [_run(one) for one in json.loads(path.read_text("utf-8"))["runs"]]


def _run(found: Mapping[str, Any]) -> Run:
    outcomes = {
        (mode, case): Outcome(case, mode, PASS) for mode in (READER, WRITER) for case in found["passed"][mode]
    }
    for one in found["others"]:
        outcomes[one["mode"], one["case"]] = Outcome(**{**one, "clauses": tuple(one.get("clauses", ()))})
    return Run(found["name"], found["version"], found["fixtures"], found["digest"], outcomes)


def recorded(name: str, version: str, report: Report) -> dict[str, Any]:
    """Return a run as the record has it, without what differs from run to run."""
    passed = {
        mode: [one.case for one in report.outcomes if (one.mode, one.status) == (mode, PASS)]
        for mode in (READER, WRITER)
    }
    others = [_outcome(one) for one in report.outcomes if one.status != PASS]
    about = {"name": name, "version": version, "fixtures": report.fixtures, "digest": digest_of_fixtures()}
    return {**about, "passed": passed, "others": others}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as the record has it; of a writer with the smallest history that shows it, in one line."""
    message = NAMES.sub(r"\1-…", PLACES.sub("", outcome.message))
    smallest = Path(outcome.history).read_text("utf-8") if outcome.mode == WRITER and outcome.history else ""
    fields = {"case": outcome.case, "mode": outcome.mode, "status": outcome.status, "check": outcome.check}
    history = json.dumps(json.loads(smallest), ensure_ascii=False) if smallest else ""
    found = {
        **fields,
        "clauses": list(outcome.clauses),
        "message": message[:LONGEST],
        "history": history,
    }
    return {key: value for key, value in found.items() if value}


def write(new: Iterable[Mapping[str, Any]], path: Path = RESULTS) -> None:
    """Put runs into the record."""
    kept = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else []
    by_name = {(one["name"], one["version"]): one for one in (*kept, *new)}
    found = [by_name[key] for key in sorted(by_name)]
    path.write_text(json.dumps({"runs": found}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
