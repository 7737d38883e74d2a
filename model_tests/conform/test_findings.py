"""Each failure on record is a finding that is written up, and each finding is still there."""

from __future__ import annotations

from model_tests.conform.findings import FINDINGS, failures, finding_of, shown_by
from model_tests.conform.record import runs

RUNS = runs()


def test_each_failure_is_a_finding_that_is_known() -> None:
    unknown = [
        (run.title, one.case, one.check, one.message)
        for run in RUNS
        for one in failures(run)
        if finding_of(run, one) is None
    ]
    assert unknown == []


def test_each_finding_is_shown_by_its_minimal_case() -> None:
    for finding in FINDINGS:
        shown = shown_by(finding, RUNS)
        assert shown, f"{finding.title}: nobody fails by it any more"
        assert not finding.cases or shown[0][1].case == finding.cases[0], finding.title
