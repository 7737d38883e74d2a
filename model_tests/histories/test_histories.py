"""The machine and the stored histories, on the oracle and the local runner; `make verify` asks Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pktable_spec.covers import covers
from pktable_spec.interface import OpenTable

from model_tests import corpus
from model_tests.backends.tables import local_backend, model_backend
from model_tests.histories.history import History
from model_tests.histories.profiles import PROFILES, Profile
from model_tests.histories.read_expectations import Stats
from model_tests.histories.run import run_histories
from model_tests.histories.session import replay

EVERY_STEP = Profile("corpus", histories=1, steps=1)


@pytest.fixture(scope="module")
def local_tables() -> Iterator[OpenTable]:
    with local_backend() as open_table:
        yield open_table


def ignored(stats: Stats) -> None:
    """Progress that a test has no use for."""


@covers("RD-1", "RD-15", "RD-3", "RD-4", "MRG-4")
def test_the_mechanism_means_what_the_fold_says() -> None:
    """On a part of the histories that `make verify` draws."""
    report = run_histories("model", replace(PROFILES["model", "quick"], histories=100), ignored)
    print(f"seed {report.profile.seed}: {report.stats}")
    assert report.message is None, f"{report.message}\n{report.falsifying_history}"
    assert report.stats.compactions > 0


def test_the_local_runner_agrees_with_the_oracle() -> None:
    """On a part of the histories that `make verify` draws."""
    report = run_histories("local", replace(PROFILES["local", "quick"], histories=10))
    print(f"seed {report.profile.seed}: {report.stats}")
    assert report.message is None, f"{report.message}\n{report.falsifying_history}"


@covers("MRG-8", "MRG-9", "MRG-12", "MRG-13", "MRG-15", "RD-1", "RD-2")
@pytest.mark.parametrize("backend", ["model", "local"])
def test_tables_of_every_merge_engine_agree_with_the_oracle(backend: str) -> None:
    report = run_histories(backend, "engines")
    print(f"seed {report.profile.seed}: {report.stats}")
    assert report.message is None, f"{report.message}\n{report.falsifying_history}"


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_holds_on_the_mechanism(name: str) -> None:
    with model_backend() as open_table:
        assert replay(corpus.load(name), open_table, EVERY_STEP).histories == 1


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_holds_on_the_local_runner(name: str, local_tables: OpenTable) -> None:
    assert replay(corpus.load(name), local_tables, EVERY_STEP).histories == 1


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_is_written_as_it_is_read(name: str) -> None:
    history = corpus.load(name)
    assert History.from_json(json.loads(history.to_json())) == history
