"""The command ``options`` prints the table of options, and other commands point to it."""

from __future__ import annotations

import json

import pytest
from pktable.cli import run
from pktable_spec.options import OPTIONS


def test_every_option_that_is_more_than_a_name_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["options", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["option"] for row in rows] == [option.name for option in OPTIONS if not option.is_one_of_many]
    assert run(["options", "sink.parallel", "--format", "jsonl"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["option"], row["effect"]) == ("sink.parallelism", "ignored")
    (vectors,) = [row for row in rows if row["option"] == "deletion-vectors.enabled"]
    assert (vectors["default"], vectors["values"], vectors["effect"]) == (
        "false",
        "true, false",
        "implemented",
    )
    assert vectors["description"].startswith("Whether compaction records")


def test_a_part_of_a_name_chooses_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["options", "Sequence.field", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "option",
        "sequence.field",
        "sequence.field.sort-order",
        "sequence.field.retractions",
    ]
    assert run(["options", "delition"]) == 2
    assert "no option has 'delition' in its name" in capsys.readouterr().err


def test_an_option_is_found_by_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["options", "expire", "--format", "jsonl"]) == 0
    found = {json.loads(line)["option"] for line in capsys.readouterr().out.splitlines()}
    assert {"snapshot.num-retained.max", "snapshot.time-retained", "snapshot.expire.limit"} <= found


def test_the_help_of_create_points_to_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", "--help"]) == 0
    assert "pktable options" in " ".join(capsys.readouterr().out.replace("│", " ").split())
