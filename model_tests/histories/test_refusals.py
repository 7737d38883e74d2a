"""A staged compaction is refused exactly if a clause forbids it: refusing more, less or otherwise is found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.refusals import Refusals, refusals
from pktable_spec.covers import covers
from pktable_spec.interface import Shape
from pktable_spec.model.mechanism import Mechanism
from pktable_spec.model.table import ModelTable

from model_tests import corpus
from model_tests.backends.tables import local_backend
from model_tests.histories.profiles import Profile
from model_tests.histories.run import run_histories
from model_tests.histories.session import Session, replay
from model_tests.oracle.mechanism_faults import CommitsBlindly

ONE = Profile("refusals", histories=1, steps=1)
DRAWN = Profile("refusals", histories=400, steps=14, seed=1, shrinks=False)

BROKEN = {
    "a_write_between_plan_and_commit": set[str](),
    "two_deletes_of_one_file": {"CMT-7", "CMT-8"},
    "marks_lost_to_a_rewrite": {"CMT-8"},
    "marks_based_on_a_purged_vector": {"CMT-8", "CMT-9"},
    "marks_for_a_file_that_is_gone": {"CMT-9"},
}
"""Stored histories, and the clauses that their last commit of a compaction breaks."""


class RefusesIfNotLatest(ModelTable):
    """Compares nothing but the latest snapshot."""

    def __init__(self, shape: Shape, options: Mapping[str, str]) -> None:
        super().__init__(shape, options)
        self.bases: dict[int, int] = {}

    def begin_compaction(self, *, full: bool = False) -> int | None:
        ticket = super().begin_compaction(full=full)
        if ticket is not None:
            self.bases[ticket] = len(self.snapshots())
        return ticket

    def commit(self, ticket: int) -> str | None:
        if self.bases.get(ticket) in (None, len(self.snapshots())):
            return super().commit(ticket)
        self.abandon(ticket)
        return "CMT-7"


class RefusesBy(ModelTable):
    """Refuses when it must, and always by the same clause."""

    def __init__(self, shape: Shape, options: Mapping[str, str], clause: str) -> None:
        super().__init__(shape, options)
        self.clause = clause

    def commit(self, ticket: int) -> str | None:
        return self.clause if super().commit(ticket) else None


def before_the_last_compaction(name: str) -> Refusals:
    """Return the oracle's answer for the last staged compaction that a stored history commits."""
    history = corpus.load(name)
    session = Session(ModelTable, history, ONE)
    answer = None
    for operation in history.operations:
        job = session.jobs.get(operation.job)
        if operation.do == "commit" and job is not None and not job.changes:
            main = session.main
            expected = main.expected_compactions(job.base, full=job.full)
            answer = refusals(Mechanism(main.options), main.states, job.base, main.latest, expected)
        session.do(operation)
    session.close()
    assert answer is not None
    return answer


@covers("CMT-7", "CMT-8", "CMT-9")
@pytest.mark.parametrize("name", BROKEN)
def test_the_oracle_finds_the_clauses_that_a_stored_history_breaks(name: str) -> None:
    """On its own table; the histories say what it must find on others."""
    assert before_the_last_compaction(name).must == BROKEN[name]


@covers("CMT-7", "CMT-14")
def test_a_refusal_that_no_clause_asks_for_is_found() -> None:
    report = run_histories("model", DRAWN, open_table=RefusesIfNotLatest)
    assert report.message is not None, report.stats
    assert report.message.startswith("refusal_agrees: refused by CMT-7, though it breaks no clause")
    assert report.falsifying_history is not None


@covers("CMT-7", "CMT-8", "CMT-9")
@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if broken])
def test_a_commit_that_a_clause_forbids_is_found(name: str) -> None:
    with pytest.raises(CheckFailed) as found:
        replay(corpus.load(name), partial(ModelTable, mechanism=CommitsBlindly), ONE)
    broken = ", ".join(sorted(BROKEN[name]))
    assert found.value.check == "refusal_agrees"
    assert found.value.message == f"committed, though it breaks {broken}"


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if broken])
@pytest.mark.parametrize("clause", ["CMT-7", "CMT-8", "CMT-9", "CMT-11"])
def test_any_clause_that_is_broken_may_be_named_and_no_other(name: str, clause: str) -> None:
    table = partial(RefusesBy, clause=clause)
    if clause in BROKEN[name]:
        replay(corpus.load(name), table, ONE)
        return
    with pytest.raises(CheckFailed, match=f"refused by {clause}, though it breaks only CMT-"):
        replay(corpus.load(name), table, ONE)


@covers("CMT-8")
def test_a_new_index_file_of_the_same_vectors_may_be_refused_and_need_not_be() -> None:
    name = "a_write_between_plan_and_commit"
    history = corpus.load(name)
    with local_backend() as open_table:
        session = Session(open_table, history, ONE)
        for operation in history.operations:
            if operation.do == "commit":
                break
            session.do(operation)
        main, (job,) = session.main, session.jobs.values()
        expected = main.expected_compactions(job.base, full=job.full)
        main.latest.index_files = dict.fromkeys(expected, "another")
        answer = refusals(Mechanism(main.options), main.states, job.base, main.latest, expected)
        session.close()
    assert answer == Refusals(frozenset(), frozenset({"CMT-8"}))
    assert [answer.problem_of(clause) is None for clause in (None, "CMT-8", "CMT-9")] == [True, True, False]
