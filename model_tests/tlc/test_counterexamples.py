"""Every counterexample of TLC is replayed on real tables, where the rule that prevents it must hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.tlc.counterexamples import STORED
from model_tests.tlc.replay_on_tables import Replay

NAMES = sorted(path.stem for path in STORED.glob("*.json"))

# Most rules are kept by the commit, in the driver. Where Spark writes the records, numbers and vectors that decide:
ON_SPARK = (
    "c2-two-writers-numbers-of-their-own",
    "c3-two-compactors-paimon-s-rule",
    "c9-retraction-dropped-row-kept",
    "c10-vector-for-a-row-of-the-same-compaction",
    "c10-vector-of-a-rewritten-file-kept",
    "c12-an-upsert-deletes-nothing",
    "c16-looked-up-row-not-merged",
    "c17-gap-in-the-numbers",
    "many-deleted-rows-renumbered",
)

# The words by which a replay says where the table differs from the counterexample, by the start of its name.
RULES = {
    "c1-": "2 commits made 2 snapshots",
    "c2-": "records are not",
    "c3-": "the commit is refused by CMT-8",
    "c4-": "the commit is refused by CMT-9",
    "c10-": "vectors are not",
    "c12-": "vectors are not",
    "c13-": "is no pick",
    "c14-commit": "the commit is refused by CMT-7",
    "c17-gap": "live is not",  # the write that came between is compacted with it
    "c17-level-0": "the commit is refused by CMT-7",
    "output-level-taken": "the commit is refused by CMT-11",
}


def rule_holds(name: str, path: Path, spark: Any = None) -> None:
    history = json.loads((STORED / f"{name}.json").read_text("utf-8"))
    found = Replay(history, path, spark).run()
    expected = [words for start, words in RULES.items() if name.startswith(start)]
    assert all(words in found for words in expected), found


@covers("CMT-19", "CMT-18", "CMT-33", "CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-11", "CMT-17", "CMP-3")
@covers("DV-6", "DV-9", "DV-10")
@pytest.mark.parametrize("name", NAMES)
def test_the_rule_holds_here(name: str, tmp_path: Path) -> None:
    rule_holds(name, tmp_path / "t")


@pytest.mark.spark
@covers("CMT-19", "CMT-18", "CMT-33", "CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-11", "CMT-17", "CMP-3")
@covers("DV-6", "DV-9", "DV-10")
@pytest.mark.parametrize("name", ON_SPARK)
def test_the_rule_holds_on_spark(name: str, tmp_path: Path) -> None:
    rule_holds(name, tmp_path / "t", spark_session())
