"""The machine and the stored histories, on the oracle and the local runner; `make verify` asks Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pktable_conform.judge.history import History
from pktable_spec.covers import covers
from pktable_spec.interface import OpenTable

from model_tests import corpus
from model_tests.backends.tables import local_backend, model_backend
from model_tests.histories.profiles import PROFILES, Profile
from model_tests.histories.run import run_histories
from model_tests.histories.session import replay

EVERY_STEP = Profile("corpus", histories=1, steps=1, reread_limit=2)


@pytest.fixture(scope="module")
def local_tables() -> Iterator[OpenTable]:
    with local_backend() as open_table:
        yield open_table


@covers("RD-1", "RD-15", "RD-2", "RD-3", "RD-4", "MRG-4", "MRG-8", "MRG-9", "MRG-12", "MRG-13", "MRG-15")
@pytest.mark.parametrize(("backend", "number"), [("model", 20), ("local", 3)])
def test_drawn_histories_agree_with_the_oracle(backend: str, number: int) -> None:
    """The first of those that `make verify` draws."""
    report = run_histories(backend, replace(PROFILES[backend, "quick"], histories=number))
    print(f"seed {report.profile.seed}: {report.stats}")
    assert report.message is None, f"{report.message}\n{report.falsifying_history}"
    assert report.stats.compactions > 0


@covers("CHG-35")
def test_drawn_histories_of_forced_lookups_agree_with_the_oracle() -> None:
    profile = Profile("lookups", 4, 8, reread_limit=1, twin=False, engines=True, orders=True, seed=2)
    forced = {"force-lookup": "true", "changelog-producer": "none", "deletion-vectors.enabled": "false"}
    report = run_histories("local", profile, options=forced)
    assert report.message is None, f"{report.message}\n{report.falsifying_history}"
    assert report.stats.compactions > 0


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_holds_on_the_mechanism(name: str) -> None:
    with model_backend() as open_table:
        assert replay(corpus.load(name), open_table, EVERY_STEP).histories == 1


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_holds_on_the_local_runner(name: str, local_tables: OpenTable) -> None:
    """Each snapshot is a step of the mechanism, and the tables are sound at the end."""
    assert replay(corpus.load(name), local_tables, EVERY_STEP).histories == 1


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_is_written_as_it_is_read(name: str) -> None:
    history = corpus.load(name)
    assert History.from_json(json.loads(history.to_json())) == history
