"""Rows in every form that callers have them in: each writes the same rows, or is refused in plain words."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pktable import InvalidRequestError, Table
from pktable_spec.covers import covers

COLUMNS = (
    "id BIGINT, city STRING, amount DECIMAL(5, 2), day DATE, at TIMESTAMP(6), ok BOOLEAN, raw BYTES, "
    "score DOUBLE, tags ARRAY<STRING>, place ROW<x INT, y STRING>"
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "city": "Rome",
        "amount": Decimal("1.50"),
        "day": datetime.date(2024, 5, 1),
        "at": datetime.datetime(2024, 5, 1, 12, 0, 0, 7),
        "ok": True,
        "raw": b"a\xff",
        "score": 0.1,
        "tags": ["a", None],
        "place": {"x": 1, "y": "b"},
    },
    {
        "id": 2,
        "city": None,
        "amount": None,
        "day": None,
        "at": None,
        "ok": None,
        "raw": None,
        "score": None,
        "tags": None,
        "place": None,
    },
]


class Capsule:
    """Nothing but the protocol that Arrow data is exchanged by."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Frame(pd.DataFrame):  # type: ignore[misc]
    """As those of geopandas are: another's class that is a DataFrame of pandas."""


def polars() -> Any:
    return pytest.importorskip("polars", reason="polars is not installed")


def duckdb() -> Any:
    return pytest.importorskip("duckdb", reason="duckdb is not installed")


def pandas_frame(table: pa.Table) -> pd.DataFrame:
    """Return columns of objects, as frames made of Python values have, under an index to be ignored."""
    frame = pd.DataFrame(
        {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.schema.names}
    )
    frame.index = pd.Index([7] * len(frame), name="line")
    return frame


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow.Table": lambda table: table,
    "RecordBatch": lambda table: table.combine_chunks().to_batches()[0],
    "RecordBatchReader": lambda table: table.to_reader(),
    "Dataset": lambda table: ds.dataset(table),
    "Scanner": lambda table: ds.dataset(table).scanner(),
    "StructArray": lambda table: table.to_struct_array().combine_chunks(),
    "a capsule": Capsule,
    "pandas": pandas_frame,
    "a subclass of pandas": lambda table: Frame(pandas_frame(table)),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table: polars().from_arrow(table),
    "polars lazily": lambda table: polars().from_arrow(table).lazy(),
    "DuckDB": lambda table: duckdb().from_arrow(table),
    "a list of dicts": lambda table: table.to_pylist(),
    "a tuple of dicts": lambda table: tuple(table.to_pylist()),
    "an iterator of dicts": lambda table: iter(table.to_pylist()),
    "a generator of dicts": lambda table: (row for row in table.to_pylist()),
    "a list of record batches": lambda table: table.to_batches(max_chunksize=1),
    "an iterator of record batches": lambda table: iter(table.to_batches(max_chunksize=1)),
    "a dict of lists": lambda table: table.to_pydict(),
    "a dict of Arrow": lambda table: {name: table[name] for name in table.column_names},
    "a dict of pandas": lambda table: dict(pandas_frame(table).items()),
    "a dict of polars": lambda table: {c.name: c for c in polars().from_arrow(table)},
}


def new_table(path: Path, columns: str = COLUMNS, key: str = "id") -> Table:
    return Table.create(path / "t", columns, primary_key=key)


def stored(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_arrow(fresh=True).to_pylist()
    return sorted(found, key=lambda row: row[table.schema.primary_keys[0]])


def refused(path: Path, columns: str, rows: Any, message: str) -> None:
    """Check that a refused write says ``message`` and leaves the table as it was."""
    table = new_table(path, columns)
    with pytest.raises(InvalidRequestError, match=message):
        table.upsert(rows)
    assert table.snapshots() == []


@covers("TBL-8")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_rows_writes_the_same_rows(tmp_path: Path, form: str) -> None:
    table = new_table(tmp_path)
    given = pa.Table.from_pylist(ROWS, table.schema.arrow_schema)
    table.upsert(FORMS[form](given))
    assert stored(table) == ROWS


@covers("TBL-8")
@pytest.mark.parametrize("evolve", [False, True])
@pytest.mark.parametrize("key", ["id", None])
@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"id": [1, 2], "s": ["a", None], "l": [[1], None]}, [(1, "a", [1]), (2, None, None)]),
        ({"id": np.array([1, 2]), "s": ["a", "b"], "l": [[], [3]]}, [(1, "a", []), (2, "b", [3])]),
        ({"id": 1, "s": "a", "l": [1, 2]}, [(1, "a", [1, 2])]),
        ({"id": 1, "s": None, "l": None}, [(1, None, None)]),
        ({"id": [], "s": [], "l": []}, []),
    ],
)
def test_a_dict_is_columns_if_a_list_is_where_no_value_is_one(
    tmp_path: Path, given: dict[str, Any], rows: list[Any], key: str | None, evolve: bool
) -> None:
    table = Table.create(tmp_path / "t", "id INT, s STRING, l ARRAY<INT>", primary_key=key)
    table.put(given, evolve=evolve)
    assert sorted(tuple(row.values()) for row in table.to_arrow(fresh=True).to_pylist()) == rows


@covers("TBL-8", "TBL-45")
@pytest.mark.parametrize("evolve", [False, True])
def test_a_dict_of_arrays_and_maps_alone_is_ambiguous(tmp_path: Path, evolve: bool) -> None:
    table = Table.create(tmp_path / "t", "l ARRAY<INT>, m MAP<INT, INT>", primary_key=None)
    for lists, maps in (([[1]], [{1: 1}]), ([1], {1: 1}), (None, [(1, 1)])):
        with pytest.raises(InvalidRequestError, match="a dict of l, m may hold one row or columns"):
            table.append({"l": lists, "m": maps}, evolve=evolve)
    table.append({"l": None, "m": {1: 1}}, evolve=evolve)
    assert table.to_arrow().to_pylist() == [{"l": None, "m": [(1, 1)]}]
    if evolve:
        table.append({"l": [[1], [2]], "n": [3, 4]}, evolve=True)
        assert sorted(table.to_arrow(where="n > 0")["n"].to_pylist()) == [3, 4]


@covers("TBL-4")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kinds", [["+I", "-D"], [0, 3]])
def test_every_form_of_rows_deletes_and_changes(tmp_path: Path, form: str, kinds: list[Any]) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING")
    table.upsert([{"id": key, "v": "old"} for key in (1, 2, 3)])
    changes = pa.table({"id": [1, 2], "op": kinds, "v": ["new", "new"]})
    table.write_changes(FORMS[form](changes), row_kind="op")
    assert stored(table) == [{"id": 1, "v": "new"}, {"id": 3, "v": "old"}]
    table.delete(FORMS[form](pa.table({"id": pa.array([3], pa.int64())})))
    assert stored(table) == [{"id": 1, "v": "new"}]


@covers("TBL-4", "TBL-8")
def test_a_dict_of_values_is_one_row(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id STRING, tags ARRAY<INT>")
    table.upsert({"id": "ab", "tags": [1, 2]})
    table.upsert({"id": ["c", "d"], "tags": [[3], None]})
    assert stored(table) == [
        {"id": "ab", "tags": [1, 2]},
        {"id": "c", "tags": [3]},
        {"id": "d", "tags": None},
    ]
    table.delete({"id": "ab"})
    assert [row["id"] for row in stored(table)] == ["c", "d"]


@covers("TBL-8")
@pytest.mark.parametrize("rows", [[], (), {"id": [], "v": []}, pd.DataFrame({"id": [], "v": []})])
def test_no_rows_make_no_snapshot(tmp_path: Path, rows: Any) -> None:
    table = new_table(tmp_path, "id BIGINT, v ARRAY<INT>")
    assert table.upsert(rows) is None
    assert table.snapshots() == []


@pytest.mark.parametrize("rows", ["rows.csv", None, 5, [1], pd.Series([1]), {1, 2}])
def test_a_refusal_names_the_form_that_came_and_those_that_are_accepted(tmp_path: Path, rows: Any) -> None:
    found = "row 0: expected a dict of the columns id, v, found 1"
    if not isinstance(rows, list):
        found = f"rows: expected .*pandas, polars or Spark.*iterator of dicts.*found {type(rows).__name__}$"
    refused(tmp_path, "id BIGINT, v INT", rows, f"^{found}")


BATCH = pa.record_batch({"id": [1], "v": [1]})


@pytest.mark.parametrize("rows", [[BATCH, BATCH.select(["id"])], [BATCH, {"id": 2, "v": 2}]])
def test_record_batches_of_other_columns_are_refused_in_one_line(tmp_path: Path, rows: Any) -> None:
    refused(tmp_path, "id BIGINT, v INT", rows, "^rows: expected record batches of the same columns: [^\n]*$")


def test_a_row_of_a_wrong_kind_is_shown_in_one_line(tmp_path: Path) -> None:
    rows = [pa.table({"id": [1], "v": [1]})]
    refused(tmp_path, "id BIGINT, v INT", rows, "^row 0: expected a dict of the columns id, v, found [^\n]*$")


@pytest.mark.parametrize("rows", [pa.chunked_array([[1]]), pa.array([1])])
def test_arrow_data_that_is_no_table_is_refused(tmp_path: Path, rows: Any) -> None:
    refused(tmp_path, "id BIGINT, v INT", rows, "rows: Arrow cannot read this (ChunkedArray|Int64Array): ")


def test_a_condition_given_as_keys_hints_at_where(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    hint = r"^delete takes rows of the key columns; for a condition use delete\(where='id=1'\)$"
    with pytest.raises(InvalidRequestError, match=hint):
        table.delete("id=1")


NAMES: list[tuple[dict[str, Any], str]] = [
    ({"v": 1}, "primary-key column id is missing"),
    ({"id": 1}, "column v is missing"),
    ({"id": 1, "v": 1, "x": 1}, "column x is not in the table"),
    ({"ID": 1, "v": 1}, "ID must be written id"),
    ({"Id": 1, "w": 1}, "Id must be written id; column v is missing; column w is not in the table"),
    ({}, "primary-key column id is missing; column v is missing"),
]


@covers("TBL-13", "TBL-8")
@pytest.mark.parametrize(("row", "message"), NAMES)
def test_other_columns_than_those_of_the_table_are_refused_by_name(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    expected = f"{message}; expected id, v$"
    columns = {name: [value] for name, value in row.items()}
    refused(tmp_path / "Arrow", "id BIGINT, v INT", pa.table(columns), f"^columns: {expected}")
    refused(tmp_path / "pandas", "id BIGINT, v INT", pd.DataFrame(columns), f"^columns: {expected}")
    refused(tmp_path / "lists", "id BIGINT, v INT", columns, f"^columns: {expected}")
    refused(tmp_path / "dicts", "id BIGINT, v INT", [{"id": 0, "v": 0}, row], f"^row 1: {expected}")


@covers("TBL-8")
def test_a_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["id", "v", "v"])
    message = "^columns: v occurs 2 times; expected id, v$"
    refused(tmp_path / "Arrow", "id BIGINT, v INT", twice, message)
    refused(tmp_path / "pandas", "id BIGINT, v INT", twice.to_pandas(), message)
    table = new_table(tmp_path)
    with pytest.raises(InvalidRequestError, match="row kinds: expected one column 'op', found id, op, op"):
        table.write_changes(pa.table([[1], ["+I"], ["-D"]], names=["id", "op", "op"]), row_kind="op")


@covers("TBL-4")
@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([1.5, 2.5], ", found double$"),
        ([b"+I", b"-D"], ", found binary$"),
        ([1, "-D"], "$"),
        ([2**70, 1], "$"),
    ],
)
def test_row_kinds_that_are_neither_strings_nor_integers_are_refused(
    tmp_path: Path, kinds: list[Any], found: str
) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT")
    columns = {"id": [1, 2], "v": [1, 2], "op": kinds}
    dicts = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for rows in (columns, dicts):
        with pytest.raises(
            InvalidRequestError, match=f"^row kinds in 'op': expected strings or integers{found}"
        ):
            table.write_changes(rows, row_kind="op")
    assert table.count() == 0


@covers("TBL-4")
def test_a_delete_by_key_takes_no_other_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT")
    with pytest.raises(
        InvalidRequestError, match=r"^columns: column v is not part of the primary key; expected id$"
    ):
        table.delete(pa.table({"id": [1], "v": [1]}))


INEXACT: list[tuple[str, Any, str]] = [
    ("INT", 1 << 31, "2147483648"),
    ("BIGINT", 1 << 70, str(1 << 70)),
    ("INT", 1.5, "1.5"),
    ("INT", 1.0, "1.0"),
    ("INT", True, "True"),
    ("INT", "1", "'1'"),
    ("INT", float("nan"), "nan"),
    ("INT", Decimal("1.5"), r"Decimal\('1.5'\)"),
    ("BIGINT", np.datetime64("2024-05-01T00:00:00.000000001"), r".*datetime64"),
    ("FLOAT", 0.1, "0.1; that rounds it; round it yourself with numpy.float32"),
    ("FLOAT", 1e300, r"1e\+300"),
    ("FLOAT", (1 << 24) + 1, "16777217"),
    ("DOUBLE", (1 << 53) + 1, "9007199254740993"),
    ("DOUBLE", True, "True"),
    ("DECIMAL(5, 2)", Decimal("1.001"), r"Decimal\('1.001'\)"),
    ("DECIMAL(5, 2)", 1000, "1000"),
    ("DECIMAL(5, 2)", Decimal("NaN"), r"Decimal\('NaN'\)"),
    ("DECIMAL(5, 2)", 1.5, "1.5"),
    ("DATE", datetime.datetime(2024, 5, 1, 12), r"datetime.*; take its date\(\)"),
    ("DATE", 19000, "19000"),
    ("TIMESTAMP(6)", datetime.date(2024, 5, 1), "datetime.date"),
    ("TIMESTAMP(6)", 5, "5"),
    ("TIMESTAMP(6)", pd.Timestamp(1), "Timestamp.*; that cuts digits off its second"),
    (
        "TIMESTAMP(3)",
        datetime.datetime(2024, 5, 1, 0, 0, 0, 1),
        "datetime.*; that cuts digits off its second",
    ),
    ("TIMESTAMP(9)", datetime.datetime(1, 1, 1), "datetime"),
    ("TIMESTAMP(6)", pd.NaT, "NaT"),
    ("STRING", b"a", "b'a'"),
    ("STRING", 1, "1"),
    ("STRING", "\ud800", r"'\\ud800'"),
    ("BYTES", "a", "'a'"),
    ("BOOLEAN", 1, "1"),
    ("ARRAY<INT>", "12", "'12'"),
    ("ARRAY<INT>", [1, "2"], "'2'"),
    ("ARRAY<INT>", [1 << 31], r"\[2147483648\]"),
    ("MAP<STRING, INT>", [("a",)], r"\[\('a',\)\]"),
    ("MAP<STRING, INT>", {"a": 1.5}, "1.5"),
    ("MAP<STRING, INT>", {None: 1}, "{None: 1}"),
    ("ROW<x INT>", {"x": 1, "y": 2}, "{'x': 1, 'y': 2}"),
    ("ROW<x INT>", {}, "{}"),
    ("ROW<x INT>", (1,), r"\(1,\)"),
]


@covers("TBL-8")
@pytest.mark.parametrize(("kind", "value", "found"), INEXACT)
def test_a_python_value_that_does_not_fit_is_refused_by_column_and_row(
    tmp_path: Path, kind: str, value: Any, found: str
) -> None:
    columns, message = f"id BIGINT, v {kind}", f"^column v, row 1: expected .*, found {found}"
    refused(tmp_path / "dicts", columns, [{"id": 1, "v": None}, {"id": 2, "v": value}], message)
    refused(tmp_path / "lists", columns, {"id": [1, 2], "v": [None, value]}, message)
    if value == value:  # otherwise it is missing, to pandas
        frame = pd.DataFrame({"id": [1, 2], "v": pd.Series([None, value], dtype=object)})
        refused(tmp_path / "pandas", columns, frame, message)


EXACT: list[tuple[str, Any, Any]] = [
    ("INT", np.int64(7), 7),
    ("INT", Decimal("7.0"), 7),
    ("BIGINT", -(1 << 63), -(1 << 63)),
    ("FLOAT", np.float32(0.1), float(np.float32(0.1))),
    ("FLOAT", 0.5, 0.5),
    ("DOUBLE", 7, 7.0),
    ("DECIMAL(38, 0)", 10**37, Decimal(10**37)),
    ("DECIMAL(5, 2)", Decimal("1.5000"), Decimal("1.50")),
    ("STRING", np.str_("a"), "a"),
    ("BYTES", bytearray(b"a"), b"a"),
    ("BOOLEAN", np.True_, True),
    (
        "TIMESTAMP(3)",
        datetime.datetime(1900, 1, 1, 0, 0, 0, 1000),
        datetime.datetime(1900, 1, 1, 0, 0, 0, 1000),
    ),
    ("TIMESTAMP(9)", pd.Timestamp(1), pd.Timestamp(1)),
    ("ARRAY<INT>", np.array([1, 2]), [1, 2]),
    ("ARRAY<ARRAY<INT>>", np.array([[1], [2]]), [[1], [2]]),
    ("MAP<STRING, INT>", {"a": 1}, [("a", 1)]),
    ("MAP<STRING, INT>", [("a", 1), ["b", None]], [("a", 1), ("b", None)]),
    ("ROW<x INT, m MAP<INT, DATE>>", {"m": {1: None}, "x": None}, {"x": None, "m": [(1, None)]}),
]


@covers("TBL-8")
@pytest.mark.parametrize(("kind", "value", "expected"), EXACT)
def test_a_python_value_that_fits_is_stored_exactly(
    tmp_path: Path, kind: str, value: Any, expected: Any
) -> None:
    table = new_table(tmp_path, f"id BIGINT, v {kind}")
    table.upsert([{"id": 1, "v": value}, {"id": 2, "v": None}])
    assert [row["v"] for row in stored(table)] == [expected, None]


@covers("TBL-11")
def test_python_times_are_converted_in_utc(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, wall TIMESTAMP(6), point TIMESTAMP_LTZ(6)")
    noon = datetime.datetime(2024, 5, 1, 12)
    east = noon.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    table.upsert([{"id": 1, "wall": noon, "point": noon}, {"id": 2, "wall": east, "point": east}])
    ten, utc = noon.replace(hour=10), datetime.timezone.utc
    assert [(row["wall"], row["point"]) for row in stored(table)] == [
        (noon, noon.replace(tzinfo=utc)),
        (ten, ten.replace(tzinfo=utc)),
    ]


@covers("TBL-13")
def test_none_in_a_key_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "id BIGINT, v INT", [{"id": None, "v": 1}], "column id: .* found null in 1 of 1 rows")


@pytest.mark.parametrize("values", ["ab", 5, {"a": 1}, np.zeros((1, 1)), (value for value in [1])])
def test_a_column_of_a_dict_that_is_no_list_is_refused(tmp_path: Path, values: Any) -> None:
    refused(
        tmp_path,
        "id BIGINT, v INT",
        {"id": [1], "v": values},
        "column v: (expected a list|Arrow cannot read)",
    )


def test_columns_of_a_dict_have_one_length(tmp_path: Path) -> None:
    rows = {"id": [1, 2], "v": [1]}
    refused(tmp_path, "id BIGINT, v INT", rows, "as many values in each, but id has 2, v has 1")


def test_the_index_of_pandas_is_ignored_and_a_key_in_it_is_hinted_at(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [1], "v": [2]}).set_index("id")
    message = (
        r"primary-key column id is missing; .* the index is ignored: make id a column by reset_index\(\)"
    )
    refused(tmp_path, "id BIGINT, v INT", frame, message)


MISSING: dict[str, Any] = {
    "floats": pd.Series([1.0, np.nan, 3.0]),
    "single floats": pd.Series([1.0, np.nan, 3.0], dtype="float32"),
    "objects": pd.Series([1, np.nan, 3], dtype=object),
    "None": pd.Series([1, None, 3], dtype=object),
    "NA": pd.Series([1, pd.NA, 3], dtype=object),
    "Int64": pd.Series([1, pd.NA, 3], dtype="Int64"),
    "of Arrow": pd.Series([1, None, 3], dtype="int16[pyarrow]"),
    "category": pd.Series([1, None, 3], dtype=pd.CategoricalDtype(pd.Index([1, 3]))),
}


@covers("TBL-8")
@pytest.mark.parametrize("values", MISSING)
@pytest.mark.parametrize("kind", ["TINYINT", "BIGINT"])
def test_a_missing_integer_of_pandas_is_null_and_the_others_are_integers(
    tmp_path: Path, values: str, kind: str
) -> None:
    table = new_table(tmp_path, f"id BIGINT, v {kind}")
    table.upsert(pd.DataFrame({"id": [1, 2, 3], "v": MISSING[values]}))
    assert [row["v"] for row in stored(table)] == [1, None, 3]


@covers("TBL-8")
@pytest.mark.parametrize("kind", ["STRING", "INT", "ARRAY<INT>"])
def test_a_column_of_pandas_without_any_value_is_null_whatever_its_type(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, f"id BIGINT, v {kind}")
    table.upsert(pd.DataFrame({"id": [1, 2], "v": [np.nan, np.nan]}))
    assert [row["v"] for row in stored(table)] == [None, None]


@covers("TBL-8")
@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.array([1.0, np.nan, 1.5]), "1.5"),
        (np.array([1.0, np.nan, np.inf]), "inf"),
        (np.array([1.0, np.nan, 2.0**53]), "9007199254740992.0"),
        (np.array([1.0, np.nan, 2.0**24], dtype=np.float32), "16777216.0"),
        (np.array([1, np.nan, "x"], dtype=object), "'x'"),
    ],
)
def test_a_number_of_pandas_that_may_not_be_the_integer_it_was_is_refused(
    tmp_path: Path, values: Any, found: str
) -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "v": values}, index=["a", "b", "c"])
    refused(tmp_path, "id BIGINT, v BIGINT", frame, f"^column v, row 2: expected BIGINT, found {found}")


@covers("TBL-8")
def test_floats_of_numpy_and_arrow_are_no_integers(tmp_path: Path) -> None:
    for name, values in (("numpy", np.array([1.0])), ("Arrow", pa.array([1.0]))):
        refused(tmp_path / name, "id BIGINT, v INT", {"id": [1], "v": values}, "column v: expected INT")


@covers("TBL-8")
def test_nan_is_null_where_pandas_means_missing_and_nan_elsewhere(tmp_path: Path) -> None:
    nan = float("nan")
    for name, rows, expected in (
        ("pandas", pd.DataFrame({"id": [1], "v": [nan]}), "[None]"),
        ("dicts", [{"id": 1, "v": nan}], "[nan]"),
        ("numpy", {"id": np.array([1]), "v": np.array([nan])}, "[nan]"),
        ("Arrow", pa.table({"id": [1], "v": [nan]}), "[nan]"),
    ):
        table = new_table(tmp_path / name, "id BIGINT, v DOUBLE")
        table.upsert(rows)
        assert str([row["v"] for row in stored(table)]) == expected


@covers("TBL-8")
@pytest.mark.parametrize("values", [[1 + 2j], pd.period_range("2024", periods=1), pd.to_timedelta([1])])
def test_a_type_of_pandas_that_no_column_has_is_refused(tmp_path: Path, values: Any) -> None:
    refused(tmp_path, "id BIGINT, v BIGINT", pd.DataFrame({"id": [1], "v": values}), "^column v: ")


def test_objects_of_polars_are_refused_and_not_stored_as_addresses(tmp_path: Path) -> None:
    frame = polars().DataFrame({"id": [1], "v": [object()]})
    refused(tmp_path, "id BIGINT, v BYTES", frame, "column v: the type Object of polars")


def test_a_table_without_a_session_refuses_spark_frames_and_says_what_to_do(tmp_path: Path) -> None:
    class DataFrame:
        __module__ = "pyspark.sql.classic.dataframe"

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise AssertionError("its times would be converted in the wrong zone")

    refused(tmp_path, "id BIGINT, v INT", DataFrame(), "Spark DataFrame .* opened with spark=session")
