"""One Java runs many models, and one that dies or hangs fails one run and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model_tests.tlc import jvm
from model_tests.tlc.checker import check
from model_tests.tlc.jvm import Run, run_java
from model_tests.tlc.models import load

MODELS = {model.name: model for model in load()}


def test_models_in_one_java_know_nothing_of_each_other() -> None:
    jvm.end_all()
    model = MODELS["C12 an upsert deletes nothing"]
    unreadable = replace(model, replaces={"Nobody": "Knows"})
    found = [check(one, again=True) for one in (model, unreadable, model)]
    assert [one.problem is None for one in found] == [True, False, True]
    assert found[0].trace == found[2].trace
    assert found[1].violated.startswith("TLC failed: ")
    assert len(jvm.idle) == 1


def dies(run: Run) -> None:
    run.call("java.lang.System", "exit", None, 7)


def hangs(run: Run) -> None:
    run.call("java.util.concurrent.locks.LockSupport", "parkNanos", None, 60_000_000_000)


def throws(run: Run) -> None:
    run.new("tlc2.NoSuchClass")


@pytest.mark.parametrize("fails", [dies, hangs, throws])
def test_a_java_that_fails_is_replaced(fails: Callable[[Run], None], tmp_path: Path) -> None:
    jvm.end_all()
    assert run_java(fails, tmp_path, 2).startswith("Java failed")
    assert jvm.idle == []
    assert run_java(lambda run: None, tmp_path, 60) == ""
    assert len(jvm.idle) == 1
