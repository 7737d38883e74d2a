"""The table of options: what each option does, and what an error says of one that is not honoured."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter

import pytest
from pktable_spec.covers import covers
from pktable_spec.errors import UnsupportedOptionError
from pktable_spec.option_table import StatsMode
from pktable_spec.options import MERGE_ENGINES, OPTIONS, UNKNOWN, Effect, Option, TableOptions, parse_options

FIXED = {"bucket": "1"}
ERRORS = ("unreadable", "unwritable", "unmergeable")
SIDE = {
    Effect.READING: "unreadable",
    Effect.WRITING: "unwritable",
    Effect.REFUSED: "unwritable",
    Effect.MERGING: "unmergeable",
}
"""Where an option that is not honoured is remembered."""


def refusals(options: dict[str, str]) -> dict[str, list[str]]:
    """The refused options by who refuses them, of a table that has nothing else to refuse."""
    parsed = parse_options({**FIXED, **options})
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
    fields = {field.name for field in dataclasses.fields(TableOptions)} - set(ERRORS)
    assert sorted(option.field for option in OPTIONS if option.field) == sorted(fields)


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


@covers("TBL-9")
@pytest.mark.parametrize(
    "option", [one for one in OPTIONS if one.effect in SIDE and not one.honours("x")], ids=by_name
)
def test_a_value_that_is_not_honoured_is_refused_by_whom_it_concerns(option: Option) -> None:
    name = option.name.replace("*", "any")
    assert refusals({name: "something else"}) == {SIDE[option.effect]: [name]}
    for value in option.values or ():
        assert refusals({name: value.upper()}) == {}


@covers("TBL-9")
@pytest.mark.parametrize("name", ["path", "type", "owner", "comment", "metadata.iceberg.storage"])
def test_a_harmless_option_is_ignored(name: str) -> None:
    assert as_text({name: "anything"}) == as_text({})


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
def test_the_error_for_a_known_option_that_is_not_implemented_gives_the_reason() -> None:
    (error,) = parse_options({**FIXED, "aggregation.unknown": "1"}).unwritable
    assert str(error) == (
        "option aggregation.unknown='1' is not supported: expected the option to be absent, "
        "because aggregation has no such option here"
    )


@covers("TBL-9")
def test_a_column_named_false_is_no_absent_sequence_field() -> None:
    assert parse_options({**FIXED, "sequence.field": "false"}).sequence_fields == ("false",)


def test_a_merge_engine_that_is_added_is_honoured() -> None:
    options = {"merge-engine": "greatest"}
    assert refusals(options) == {"unmergeable": ["merge-engine"]}
    MERGE_ENGINES.add("greatest")
    try:
        assert refusals(options) == {}
        assert parse_options(options).merge_engine == "greatest"
    finally:
        MERGE_ENGINES.remove("greatest")
