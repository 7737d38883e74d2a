"""Every counterexample of TLC is replayed on real tables, where the rule that prevents it must hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.tlc.counterexamples import STORED
from model_tests.tlc.replay_on_tables import Replay, refuses_sequence_fields

NAMES = sorted(path.stem for path in STORED.glob("*.json"))

# How the table keeps a promise: the words that say where it goes its own way. Others are told by their vectors.
RULES = {
    "c1-": "2 commits made 2 snapshots",
    "c2-": "records are not",
    "c3-": "the commit is refused",
    "c4-": "the commit is refused",
    "c10-": "vectors are not",
    "c12-": "vectors are not",
    "c13-": "is no pick",
    "c14-commit": "the commit is refused",
    "c17-gap": "live is not",  # the write that came between is compacted with it
    "c17-level-0": "the commit is refused",
    "output-level-taken": "the commit is refused",
}


def rule_holds(name: str, path: Path, spark: Any = None) -> None:
    told = json.loads((STORED / f"{name}.json").read_text("utf-8"))
    if name.startswith(("b15-", "c15-", "c16-")):
        assert refuses_sequence_fields(path, spark)
        return
    found = Replay(told, path, spark).run()
    expected = [words for start, words in RULES.items() if name.startswith(start)]
    assert all(words in found for words in expected), found


@covers("CMT-1", "CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-11", "CMT-17", "CMT-18")
@covers("CMP-3", "DV-6", "DV-9", "DV-10")
@pytest.mark.parametrize("name", NAMES)
def test_the_rule_holds_here(name: str, tmp_path: Path) -> None:
    rule_holds(name, tmp_path / "t")


@pytest.mark.spark
@covers("CMT-1", "CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-11", "CMT-17", "CMT-18")
@covers("CMP-3", "DV-6", "DV-9", "DV-10")
@pytest.mark.parametrize("name", NAMES)
def test_the_rule_holds_on_spark(name: str, tmp_path: Path) -> None:
    rule_holds(name, tmp_path / "t", spark_session())
