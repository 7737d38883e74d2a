"""What the merge engines refuse: options that fit nothing, retractions that cannot be merged, statements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table, UnsupportedOptionError
from pktable.catalog.definitions import parse_definition
from pktable.format.metadata.schema import TableSchema
from pktable.merge.engine_options import RETRACTIONS, EngineOptions
from pktable_spec.covers import covers

from model_tests.backends import wrong_requests
from model_tests.backends.wrong_requests import AGGREGATION, MERGED, PARTIAL, SUMS

MAXIMA = {**AGGREGATION, "fields.a.aggregate-function": "max"}


def create(path: Path, options: Mapping[str, str]) -> Table:
    return Table.create(path / "t", MERGED, primary_key="k", options=dict(options))


def files_of(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


def change(table: Table, kind: str, a: int | None = 1) -> Any:
    return table.write_changes(
        pa.table({"k": pa.array([1], pa.int32()), "a": pa.array([a], pa.int32()), "b": ["x"],
                  "g": pa.array([1], pa.int32()), "op": [kind]}),
        row_kind="op",
    )  # fmt: skip


@covers("MRG-11", "MRG-26", "TBL-9", "DV-24")
@pytest.mark.parametrize(("options", "message"), wrong_requests.ENGINES)
def test_options_that_fit_nothing_are_refused_in_one_line(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        create(tmp_path, options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not files_of(tmp_path)


@covers("MRG-26")
@pytest.mark.parametrize(
    "stray",
    [
        {"first-row.ignore-delete": "false"},
        {"fields.b.list-agg-delimiter": "|"},
        {"fields.g.sequence-group": "a"},
        {"sequence.field.sort-order": "ascending"},
        {"changelog-producer.row-deduplicate": "true"},
    ],
    ids=str,
)
def test_a_table_that_has_such_an_option_already_is_read_and_not_written(
    tmp_path: Path, stray: dict[str, str]
) -> None:
    change(create(tmp_path, {}), "+I", 5)
    schema = tmp_path / "t" / "schema" / "schema-0"
    text = json.loads(schema.read_text())
    text["options"] |= stray
    del text["pktable.crc32"]  # which other writers do not have
    schema.write_text(json.dumps(text))
    table = Table.open(tmp_path / "t")
    assert table.to_arrow().column("a").to_pylist() == [5]
    with pytest.raises(InvalidRequestError, match=next(iter(stray))):
        change(table, "+I")
    assert table.to_arrow().column("a").to_pylist() == [5]


@covers("MRG-15", "MRG-26")
@pytest.mark.parametrize("name", ["ignore-delete", "first-row.ignore-delete", "partial-update.ignore-delete"])
def test_any_name_of_ignore_delete_is_read_and_the_plain_one_first(name: str) -> None:
    fields = tuple(parse_definition(MERGED))
    options = [{name: "true"}, {"ignore-delete": "false", "first-row.ignore-delete": "true"}]
    found = [
        EngineOptions(TableSchema(0, fields, len(fields), (), ("k",), one, "", 0)).ignores for one in options
    ]
    assert found == [RETRACTIONS, frozenset()]


@covers("MRG-11")
def test_the_function_that_a_partial_update_has_anyway_may_be_named(tmp_path: Path) -> None:
    table = create(tmp_path, {**PARTIAL, "fields.default-aggregate-function": "last_non_null_value"})
    change(table, "+I", 1)
    change(table, "+I", None)
    assert table.to_arrow().column("a").to_pylist() == [1]


@covers("MRG-10")
@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MAXIMA, "option fields.a.aggregate-function=max: column a cannot take back a retraction"),
        (PARTIAL, "rows cannot be deleted"),
        ({"merge-engine": "first-row"}, "rows cannot be deleted"),
    ],
)
def test_a_retraction_that_cannot_be_merged_is_refused_and_nothing_written(
    tmp_path: Path, options: dict[str, str], message: str, kind: str
) -> None:
    table = create(tmp_path, options)
    change(table, "+I")
    before = files_of(tmp_path)
    with pytest.raises(InvalidRequestError, match=message):
        change(table, kind)
    assert files_of(tmp_path) == before


@covers("MRG-9")
@pytest.mark.parametrize("function", ["sum", "product"])
def test_a_number_that_its_column_cannot_hold_is_refused(tmp_path: Path, function: str) -> None:
    table = create(tmp_path, {**AGGREGATION, "fields.a.aggregate-function": function, "write-only": "true"})
    change(table, "+I", (1 << 31) - 1)
    change(table, "+I", 2)
    back = "write a retraction or a value that brings the sum back, or " if function == "sum" else ""
    with pytest.raises(InvalidRequestError) as refused:
        table.to_arrow()
    assert str(refused.value) == (
        f"column a: expected a {function} that INT can hold, found one that is too great for the key k = 1; "
        f"{back}read other columns"
    )


@covers("MRG-9")
@pytest.mark.parametrize(("kind", "value"), [("+I", -5), ("-U", 2)])
def test_a_sum_that_is_too_great_names_its_key_and_can_be_brought_back(
    tmp_path: Path, kind: str, value: int
) -> None:
    options = {**AGGREGATION, "fields.a.aggregate-function": "sum"}
    table = Table.create(tmp_path / "t", "p STRING, k INT, a INT", primary_key=["p", "k"], options=options)
    table.upsert([{"p": "x", "k": 1, "a": 7}, {"p": "x'y", "k": 2, "a": (1 << 31) - 1}])
    table.upsert([{"p": "x'y", "k": 2, "a": 2}])
    with pytest.raises(InvalidRequestError, match=r"for the key p = x'y, k = 2; "):
        table.compact(full=True)
    assert table.to_arrow(columns=["p", "k"]).num_rows == 2
    table.write_changes([{"p": "x'y", "k": 2, "a": value, "kind": kind}], row_kind="kind")
    assert table.to_arrow(where="k = 2").column("a").to_pylist() in ([(1 << 31) - 4], [(1 << 31) - 1])
    table.compact(full=True)


@covers("MRG-9")
@pytest.mark.parametrize(("digits", "scale"), [(38, 0), (38, 38), (5, 2)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_one_more_than_all_nines_is_refused(
    tmp_path: Path, digits: int, scale: int, sign: int
) -> None:
    options = {**AGGREGATION, "fields.a.aggregate-function": "sum", "write-only": "true"}
    table = Table.create(
        tmp_path / "t", f"k INT, a DECIMAL({digits}, {scale})", primary_key="k", options=options
    )
    for nines in ((9,) * digits, (1,)):
        value = Decimal((int(sign < 0), nines, -scale))
        table.upsert(pa.table({"k": [1], "a": pa.array([value], pa.decimal128(digits, scale))}))
    with pytest.raises(InvalidRequestError, match=r"column a: expected a sum that DECIMAL\(.* can hold"):
        table.to_arrow()


@covers("MRG-9")
def test_nulls_add_nothing_to_a_sum_of_fractions(tmp_path: Path) -> None:
    options = {**AGGREGATION, "fields.a.aggregate-function": "sum", "write-only": "true"}
    table = Table.create(tmp_path / "t", "k INT, a DECIMAL(38, 38)", primary_key="k", options=options)
    for value in (None, None, None, Decimal("0.5")):
        table.upsert(pa.table({"k": [1], "a": pa.array([value], pa.decimal128(38, 38))}))
    assert table.to_arrow().column("a").to_pylist() == [Decimal("0.5")]


@covers("MRG-18")
@pytest.mark.parametrize("options", [PARTIAL, SUMS, {"merge-engine": "first-row"}, {"ignore-delete": "true"}])
def test_a_deletion_by_key_is_refused_where_it_would_do_something_else(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = create(tmp_path, options)
    change(table, "+I")
    arguments: list[dict[str, Any]] = [{"keys": [{"k": 1}]}, {"where": "k = 1"}]
    for one in arguments:
        message = r"rows cannot be deleted by key under merge-engine=.*; `pktable options delete` lists"
        with pytest.raises(InvalidRequestError, match=message):
            table.delete(**one)
    assert table.count() == 1


@covers("MRG-17", "MRG-18")
@pytest.mark.parametrize("name", ["partial-update", "aggregation"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_deletion_by_key_removes_the_row_where_the_options_say_so(
    tmp_path: Path, name: str, vectors: str
) -> None:
    options = {"merge-engine": name, f"{name}.remove-record-on-delete": "true"}
    table = create(tmp_path, {**options, "deletion-vectors.enabled": vectors})
    change(table, "+I")
    table.delete([{"k": 1}])
    assert table.count() == 0
    change(table, "+I", None)
    assert table.to_arrow().column("a").to_pylist() == [None]


@covers("MRG-18")
@pytest.mark.parametrize("options", [PARTIAL, SUMS])
def test_statements_that_replace_rows_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    table = create(tmp_path, options)
    with pytest.raises(InvalidRequestError, match=r"rows cannot be replaced under merge-engine=.*; upsert "):
        table.update({"a": "a + 1"})
    with pytest.raises(InvalidRequestError, match=r"rows cannot be replaced under merge-engine=.*; upsert "):
        table.merge([{"k": 1}], on="k")


def test_an_unknown_function_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOptionError, match="expected sum or product or max"):
        create(tmp_path, {**AGGREGATION, "fields.a.aggregate-function": "most"})


@covers("MRG-28")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("count", "; Paimon has no count either"),
        ("hll_sketch", "; hll_sketch is not implemented, because "),
        ("nested_partial_update", "; nested_partial_update is not implemented"),
    ],
)
@pytest.mark.parametrize("option", ["fields.a.aggregate-function", "fields.default-aggregate-function"])
def test_a_function_that_is_missing_is_refused_with_the_reason(
    tmp_path: Path, option: str, function: str, reason: str
) -> None:
    with pytest.raises(UnsupportedOptionError) as caught:
        create(tmp_path, {**AGGREGATION, option: function})
    assert f"option {option}='{function}'" in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not files_of(tmp_path)
