"""The table of options: what each option does, and what an error says of one that is not honoured."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections import Counter

import pytest
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.option_table import CHANGING_ROWS
from pktable_spec.option_values import StatsMode
from pktable_spec.options import (
    MERGE_ENGINES,
    OPTIONS,
    UNKNOWN,
    Effect,
    Option,
    TableOptions,
    option_named,
    parse_options,
)

FIXED = {"bucket": "1"}
SIDES = {
    Effect.READING: ("unreadable",),
    Effect.WRITING: ("unwritable",),
    Effect.MERGING: ("unmergeable", "unwritable"),
    Effect.EVERYTHING: ("unusable", "unwritable"),
}
"""Where an option that is not honoured is remembered."""

ERRORS = ("unusable", "unreadable", "unmergeable", "unwritable")
MATTERS = {
    "batch-scan-mode": {"deletion-vectors.enabled": "true"},
    "postpone.merge-on-read": {"bucket": "-2"},
    "data-file.external-paths": {"data-file.external-paths.strategy": "round-robin"},
    "chain-table.chain-partition-keys": {"chain-table.enabled": "true"},
    "scan.fallback-delta-branch": {"chain-table.enabled": "true"},
    "scan.fallback-snapshot-branch": {"chain-table.enabled": "true"},
}
"""For options with a condition, the other options under which they have an effect."""


def refusals(options: dict[str, str], *ignored: str) -> dict[str, list[str]]:
    """The refused options by who refuses them, of a table that has nothing else to refuse."""
    parsed = parse_options({**FIXED, **options}, ignored)
    found = {side: [error.option for error in getattr(parsed, side)] for side in ERRORS}
    return {side: names for side, names in found.items() if names}


def as_text(options: dict[str, str]) -> dict[str, str]:
    """Everything that the options are parsed to, comparable."""
    parsed = parse_options(options)
    return {field.name: str(getattr(parsed, field.name)) for field in dataclasses.fields(parsed)}


def by_name(option: Option) -> str:
    return option.name


def test_every_option_is_listed_once() -> None:
    assert [name for name, count in Counter(option.name for option in OPTIONS).items() if count > 1] == []


def test_every_field_is_filled_by_one_option() -> None:
    fields = {field.name for field in dataclasses.fields(TableOptions)} - {*ERRORS, "unknown"}
    assert sorted(option.field for option in OPTIONS if option.field and not option.newer) == sorted(fields)


@covers("TBL-36")
@pytest.mark.parametrize("option", [one for one in OPTIONS if one.newer], ids=by_name)
def test_an_older_name_counts_where_the_newer_is_absent(option: Option) -> None:
    assert option.newer is not None
    newer = option_named(option.newer)
    assert newer is not None
    assert (newer.field, newer.effect) == (option.field, option.effect)
    if option.field is not None:
        for value in ("true", "false"):
            assert as_text({option.name: value}) == as_text({option.newer: value})
            assert as_text({option.name: "true", option.newer: value}) == as_text({option.newer: value})
    else:
        assert refusals({option.name: "something"}) == {"unreadable": [option.name]}
        assert refusals({option.name: "something", option.newer: "something"}) == {
            "unreadable": [option.newer]
        }


def test_the_defaults_are_those_of_paimon() -> None:
    found = parse_options({})
    mebibyte = 1 << 20
    assert (found.bucket, found.bucket_key, found.write_only) == (-1, (), False)
    assert (found.compaction_trigger, found.levels, found.max_level) == (5, 6, 5)
    assert (found.max_size_amplification_percent, found.size_ratio_percent) == (200, 1)
    assert (found.target_file_bytes, found.write_buffer_bytes) == (128 * mebibyte, 256 * mebibyte)
    assert (found.row_group_bytes, found.row_group_rows, found.zstd_level) == (128 * mebibyte, None, 1)
    assert (found.manifest_target_bytes, found.manifest_merge_min_count) == (8 * mebibyte, 30)
    assert found.manifest_full_compaction_bytes == 16 * mebibyte
    assert (found.stats, found.changelog_stats) == (StatsMode("truncate", 16), None)
    assert (found.deletion_vectors_enabled, found.one_record_per_key) == (False, False)
    assert (found.partition_default_name, found.partition_legacy_names) == ("__DEFAULT_PARTITION__", True)


@covers("LSM-9")
def test_the_number_of_levels_follows_the_trigger() -> None:
    assert parse_options({"num-sorted-run.compaction-trigger": "2"}).levels == 3
    assert parse_options({"num-sorted-run.compaction-trigger": "2", "num-levels": "9"}).levels == 9


@pytest.mark.parametrize("option", [one for one in OPTIONS if one.default], ids=by_name)
def test_a_default_written_out_is_honoured_and_changes_nothing(option: Option) -> None:
    assert option.default is not None
    assert as_text({option.name: option.default}) == as_text({})


@covers("TBL-9", "TBL-30", "TBL-31", "TBL-32")
@pytest.mark.parametrize("option", [one for one in OPTIONS if one.values is not None], ids=by_name)
def test_a_value_that_is_not_honoured_is_refused_by_whom_it_concerns(option: Option) -> None:
    name = option.name.replace("*", "any")
    matters = MATTERS.get(name, {})
    found = refusals({name: "something else", **matters})
    assert {
        side: [one for one in names if one == name] for side, names in found.items() if name in names
    } == {side: [name] for side in SIDES[option.effect]}
    for value in option.values or ():
        assert refusals({name: value.upper()}) == {}


@covers("TBL-32")
@pytest.mark.parametrize(
    "option", [one for one in OPTIONS if one.unless and one.name in MATTERS], ids=by_name
)
def test_an_option_is_ignored_where_it_has_no_effect(option: Option) -> None:
    assert refusals({option.name: "something else"}) == {}


@covers("TBL-32")
@pytest.mark.parametrize("name", ["write-only", "write.compaction-skip"])
def test_who_leaves_compaction_to_others_leaves_tags_to_them(name: str) -> None:
    daily = {"tag.automatic-creation": "process-time"}
    assert refusals(daily) == {"unwritable": ["tag.automatic-creation"]}
    assert refusals({**daily, name: "true"}) == {}
    assert refusals({**daily, "write-only": "false", "write.compaction-skip": "true"}) != {}


@covers("TBL-32")
@pytest.mark.parametrize("option", [one for one in OPTIONS if one.effect is Effect.HARMLESS], ids=by_name)
def test_a_harmless_option_is_ignored(option: Option) -> None:
    assert as_text({option.name.replace("*", "any"): "anything"}) == as_text({})


@covers("TBL-33", "TBL-34")
@pytest.mark.parametrize("name", ["no.such.option", "sink.of-tomorrow", "typed"])
def test_a_name_that_nobody_knows_is_refused_by_writers_and_remembered(name: str) -> None:
    assert refusals({name: "1"}) == {"unwritable": [name]}
    assert parse_options({**FIXED, name: "1"}).unknown == (name,)


@covers("TBL-34")
@pytest.mark.parametrize("beginning", CHANGING_ROWS)
def test_a_name_that_begins_as_options_do_that_change_rows_is_refused_by_readers(beginning: str) -> None:
    name = f"{beginning}of-tomorrow"
    assert refusals({name: "1"}) == {"unusable": [name], "unwritable": [name]}
    parsed = parse_options({**FIXED, name: "1"})
    assert parsed.unknown == ()
    for refuse in (parsed.require_readable, parsed.require_changes_readable):
        with pytest.raises(
            UnsupportedOptionError, match=r"may change rows; a read ignores it if it is among"
        ):
            refuse()


@covers("TBL-34")
def test_what_changes_rows_begins_as_such_options_do() -> None:
    """So a name of tomorrow of the same kind would, too. `log.scan` and those of columns have others of their kind."""
    changing = {Effect.READING, Effect.MERGING, Effect.EVERYTHING}
    others = {option.name for option in OPTIONS if option.effect in changing} - {
        option.name for option in OPTIONS if option.name.startswith(CHANGING_ROWS)
    }
    assert others == {
        *("type", "blob-descriptor-field", "blob-field", "blob-view-field", "blob.stored-descriptor-fields"),
        "vector.file.format",
        "video-frame-field",
    }


@covers("TBL-35")
@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("scan.mode", "unreadable"), ("type", "unusable"), ("sequence.snapshot-ordering", "unmergeable"),
        ("fields.a.of-tomorrow", "unusable"),
    ],
)  # fmt: skip
def test_a_caller_who_ignores_an_option_reads_and_does_not_write(name: str, side: str) -> None:
    assert name in refusals({name: "x"})[side]
    assert refusals({name: "x"}, "another", name).keys() <= {"unwritable"}
    assert refusals({name: "x"}, name).get("unwritable") == refusals({name: "x"}).get("unwritable")
    assert parse_options({"no.such": "1"}, ["no.such"]).unknown == ()


@covers("TBL-9")
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("delition-vectors.enabled", "deletion-vectors.enabled"),
        ("buckets", "bucket"),
        ("merge.engine", "merge-engine"),
        ("compaction-trigger", "num-sorted-run.compaction-trigger"),
    ],
)
def test_the_error_for_a_misspelled_option_names_the_closest_one(name: str, meant: str) -> None:
    parsed = parse_options({**FIXED, name: "true"})
    with pytest.raises(UnsupportedOptionError) as caught:
        parsed.require_writable()
    assert str(caught.value) == f"option {name}='true' is not supported: did you mean {meant}?"
    assert caught.value.closest == meant
    copy = pickle.loads(pickle.dumps(parsed))  # as Spark sends it to its workers
    assert [str(error) for error in copy.unwritable] == [str(caught.value)]


@covers("TBL-9")
@pytest.mark.parametrize("name", ["no.such.option", "rowkind-field", "field"])
def test_the_error_names_no_option_that_is_unlike_or_that_nobody_may_set(name: str) -> None:
    (error,) = parse_options({**FIXED, name: "v"}).unwritable
    assert str(error) == f"option {name}='v' is not supported: expected {UNKNOWN}"


@covers("TBL-9")
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("num-levels", "1", "num-levels=1: expected at least 2"),
        *(
            (name, value, f"{name}='{value}': expected a positive integer")
            for name in ["dynamic-bucket.target-row-num"]
            for value in ("0", "-1", "x", str(1 << 63))
        ),
        *(
            (name, value, f"{name}='{value}': expected a number from 0 to 1")
            for name in ["compaction.delete-ratio-threshold"]
            for value in ("1.5", "-0.1", "nan", "x")
        ),
    ],
)
def test_a_number_outside_of_what_an_option_takes_is_refused(name: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^option {re.escape(problem)}$"):
        parse_options({**FIXED, name: value})


@covers("TBL-9")
def test_a_column_named_false_is_no_absent_sequence_field() -> None:
    assert parse_options({**FIXED, "sequence.field": "false"}).sequence_fields == ("false",)


def test_a_merge_engine_that_is_added_is_honoured() -> None:
    options = {"merge-engine": "greatest"}
    assert refusals(options) == {"unmergeable": ["merge-engine"], "unwritable": ["merge-engine"]}
    MERGE_ENGINES.add("greatest")
    try:
        assert refusals(options) == {}
        assert parse_options(options).merge_engine == "greatest"
    finally:
        MERGE_ENGINES.remove("greatest")
