"""The table of options agrees with what Paimon's source says of each option, or says why it does not."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pktable_spec.covers import covers
from pktable_spec.options import Effect, option_named, parse_options

from model_tests.table.test_options import MATTERS

FACTS: Final = Path(__file__).parents[3] / "shared" / "facts" / "paimon-options.csv"
SAMPLES: Final = ("something else", "true", "false", "3", "")

OTHER_FORMATS: Final = "META-74: formats of Paimon that are not written are refused"
BY_COMPACTION: Final = "a compaction reads such files, so what a read cannot do a write cannot either"
READ_AS_IS: Final = (
    "files are read by what each of them, or its manifest entry, says; the option says nothing more"
)
IN_UTC: Final = "TBL-37: instants are those of a reader in UTC, under either value"
DIFFERENCES: Final = {
    ("file.format", "write"): OTHER_FORMATS,
    ("file.format.per.level", "write"): OTHER_FORMATS,
    ("file.format.per.level.<level>", "write"): "the formats of levels are taken from one option",
    ("changelog-file.format", "write"): OTHER_FORMATS,
    ("fields.<column>.map.storage-layout", "write"): BY_COMPACTION,
    ("file.format", "read"): READ_AS_IS,
    ("file.format.per.level", "read"): READ_AS_IS,
    ("file.format.per.level.<level>", "read"): READ_AS_IS,
    ("manifest.format", "read"): READ_AS_IS,
    ("data-file.external-paths", "read"): READ_AS_IS,
    ("data-file.thin-mode", "read"): READ_AS_IS,
    (
        "data-evolution.enabled",
        "read",
    ): "columns of one row are put together whenever several files have them",
    ("orc.timestamp-ltz.legacy.type", "read"): IN_UTC,
    ("orc.timestamp-ltz.legacy.type", "write"): IN_UTC,
    ("data-file.external-paths.specific-fs", "write"): "the strategy that it belongs to is refused",
    ("dynamic-partition-overwrite", "write"): "an overwrite says by its condition what it replaces",
    (
        "global-index.column-update-action",
        "write",
    ): "tables with such an index have data evolution, and are not written",
}
"""Where the table differs from the facts, and why."""

HONOURED: Final = {"bucket", "merge-engine", "changelog-producer"}


def rows() -> Iterator[dict[str, str]]:
    with FACTS.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def refusals(name: str, value: str) -> set[str]:
    """Whether reads, writes, or both refuse an option, where it has an effect."""
    options = {"bucket": "1", name: value, **MATTERS.get(name, {})}
    parsed = parse_options(options)
    sides = {"read": (*parsed.unusable, *parsed.unreadable, *parsed.unmergeable), "write": parsed.unwritable}
    return {side for side, errors in sides.items() if name in [error.option for error in errors]}


def refused(name: str) -> set[str]:
    """Who refuses any value of an option. A malformed value is refused by everybody, which says nothing."""
    option = option_named(name)
    assert option is not None, "an option of Paimon is in the table"
    samples = SAMPLES if option.field is None or option.values is not None else ()
    return {side for value in samples for side in refusals(name, value)}


def wrong(row: dict[str, str], side: str) -> str | None:
    """Return how the table differs from a row about reads or writes; None if it says the same."""
    name = re.sub("<[^>]*>|[*#]", "any", row["option"])
    option, verdict = option_named(name), row[f"verdict_{side}"]
    if option is None:
        return "unknown"
    refuses = side in refused(name)
    if verdict in ("safe", ""):  # nothing in Paimon asks for an option without a verdict
        return "refused" if refuses else None
    if verdict == "refuse":
        # An option that is made to do what it says need not be refused.
        return None if refuses or option.effect is Effect.IMPLEMENTED else "not refused"
    honoured = refuses or option.effect not in (Effect.HARMLESS, Effect.WRITING) or name in HONOURED
    return None if honoured else "not honoured"


@pytest.mark.skipif(
    not FACTS.exists(), reason="the classification of Paimon's options lies next to the repository"
)
@covers("TBL-30", "TBL-31", "TBL-32")
def test_the_table_says_of_each_option_of_paimon_what_its_source_says() -> None:
    found = {
        (row["option"], side): what
        for row in rows()
        for side in ("read", "write")
        if (what := wrong(row, side))
    }
    assert {place: what for place, what in found.items() if place not in DIFFERENCES} == {}
    assert DIFFERENCES.keys() - found.keys() == set(), "a difference that is none any more"
    assert len(list(rows())) > 500
