"""Tables with options that other histories leave alone, drawn."""

from __future__ import annotations

from typing import Any

import pytest
from pktable import context
from pktable.bucket import run_writer
from pktable.catalog import retention
from pktable.format.metadata.stats import collect_stats
from pktable.format.paths import partition_path
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.options import TableOptions

from model_tests.histories import every_option

SCHEDULES = 8


def test_options_do_what_they_say() -> None:
    every_option.draw(SCHEDULES, 3)


def cut_to_three(table: Any, fields: Any, truncate: int | None) -> Any:
    return collect_stats(table, fields, truncate=3)


def always(value: object) -> Any:
    return property(lambda options: value)


@pytest.mark.parametrize(
    ("changed", "name", "to", "message"),
    [
        (context, "partition_path", lambda *which, **_: partition_path(*which), "lies in"),
        (run_writer, "collect_stats", cut_to_three, "are reported as"),
        (run_writer, "stats_fields", lambda context, stats: context.schema.fields, "has statistics of"),
        (TableOptions, "leaves_compaction", always(False), "more files at level 0"),
        (retention, "expired_changelogs", lambda *_: set(), "are kept, expected"),
    ],
)
def test_what_does_not_is_noticed(
    changed: Any, name: str, to: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, name, to)
    with pytest.raises(CheckFailed, match=message):
        every_option.draw(SCHEDULES, 3)
