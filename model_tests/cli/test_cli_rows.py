"""Rows that the command line reads from files: each is what its text says, or is refused by name."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import Table
from pktable.cli import run
from pktable.cli.files import read_rows
from pktable.format.types import parse_columns
from pktable_spec.errors import InvalidRequestError

COLUMNS = (
    "id BIGINT, v VARCHAR(9), y BYTES, d DATE, w TIMESTAMP(9), f DOUBLE, e FLOAT, n INT, b BOOLEAN, l ARRAY<INT>, "
    "a ARRAY<STRING>, m MAP<STRING, STRING>, i MAP<INT, DATE>, r ROW<p STRING, q DECIMAL(3, 1)>, "
    "k ROW<p STRING NOT NULL>, t ROW<w TIMESTAMP(9)>"
)


def rows_of(path: Path, body: str, row_kind: str | None = None) -> list[dict[str, Any]]:
    path.write_text(body, "utf-8")
    found: list[dict[str, Any]] = read_rows(path, parse_columns(COLUMNS), row_kind).to_pylist()
    return found


def both_forms(name: str, json_text: str) -> list[tuple[str, str]]:
    """Return a file of JSON lines and one of CSV that hold the same nested value."""
    quoted = json_text.replace('"', '""')
    return [("r.jsonl", f'{{"{name}": {json_text}}}\n'), ("r.csv", f'{name},id\n"{quoted}",1\n')]


# Shapes


@pytest.mark.parametrize(
    ("name", "json_text"),
    [
        ("m", '{"ab": ["x"]}'),
        ("m", '"ab"'),
        ("m", '["ab", "cd"]'),
        ("m", '[["a", "b", "c"]]'),
        ("m", '[["a"]]'),
        ("m", '[[null, "b"]]'),
        ("m", '[{"a": "b", "c": "d"}]'),
        ("m", '{"a": "x", "a": "y"}'),
        ("i", '{"one": "2024-01-01"}'),
        ("a", '"abc"'),
        ("a", '{"x": 1}'),
        ("a", "[1]"),
        ("r", '["x", "1.5"]'),
        ("r", '"pq"'),
        ("r", '{"p": "x", "q": "1.5", "z": 1}'),
        ("k", "{}"),
        ("k", '{"p": null}'),
    ],
)
def test_a_nested_value_of_another_shape_is_refused(tmp_path: Path, name: str, json_text: str) -> None:
    for file, body in both_forms(name, json_text):
        with pytest.raises(InvalidRequestError, match=r"column \w: expected [A-Z]+<.*, found|line 1: "):
            rows_of(tmp_path / file, body)


def test_nothing_is_written_of_a_file_with_a_wrong_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table.create(tmp_path / "table", "id INT, m MAP<STRING, STRING>", primary_key=["id"])
    (tmp_path / "r.jsonl").write_text('{"id": 1, "m": {}}\n{"id": 2, "m": "ab"}\n')
    assert run(["write", str(tmp_path / "table"), str(tmp_path / "r.jsonl")]) == 2
    error = capsys.readouterr().err
    assert "r.jsonl: line 2, column m: expected MAP<STRING, STRING>, found 'ab'" in error
    assert error.count("\n") == 1
    assert not list(table.snapshots())


@pytest.mark.parametrize(
    ("name", "json_text", "expected"),
    [
        ("m", '{"ab": "x", "cd": null}', [("ab", "x"), ("cd", None)]),
        ("m", '[["ab", "x"], ["cd", null]]', [("ab", "x"), ("cd", None)]),
        ("m", "{}", []),
        ("r", '{"q": "1.5"}', {"p": None, "q": "1.5"}),
        ("r", "{}", {"p": None, "q": None}),
        ("a", '["abc", null]', ["abc", None]),
    ],
)
def test_a_map_may_be_an_object_and_a_row_may_leave_out_nulls(
    tmp_path: Path, name: str, json_text: str, expected: Any
) -> None:
    for file, body in both_forms(name, json_text):
        found = rows_of(tmp_path / file, body)[0][name]
        assert (found | {"q": found["q"] and str(found["q"])} if name == "r" else found) == expected


def test_names_of_an_object_spell_the_keys_of_a_map_as_text_does(tmp_path: Path) -> None:
    for file, body in both_forms("i", '{"-7": "2024-01-01"}'):
        [[(key, value)]] = [row["i"] for row in rows_of(tmp_path / file, body)]
        assert (key, value.isoformat()) == (-7, "2024-01-01")


@pytest.mark.parametrize(
    "line",
    [
        '{"v": 5}',
        '{"y": 1234}',
        '{"d": 2024}',
        '{"w": 2024}',
        '{"n": true}',
        '{"b": 1}',
        '{"n": {}}',
        '{"v": []}',
    ],
)
def test_a_number_is_no_text_and_no_bytes_and_no_time(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidRequestError, match="line 1, column"):
        rows_of(tmp_path / "r.jsonl", line)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("b", text) for text in ("yes", "y", "t", "1", "no", "n", "f", "0", " true")),
        *(("n", text) for text in ("8.0", "8.", "8e0", "1e1", " 8", "8 ", "0x8")),
        *(("d", text) for text in ("2024", "2024-02", "2024-02-29 ")),
        *(("f", text) for text in (" 1.5", "1.5 ")),
        ("w", "2024-02-29 12:00 "),
    ],
)
def test_only_the_text_of_a_value_is_that_value(tmp_path: Path, name: str, text: str) -> None:
    for file, body, line in (
        ("r.csv", f"id,{name}\n1,{text}\n", 2),
        ("r.jsonl", f'{{"id": 1, "{name}": "{text}"}}\n', 1),
    ):
        with pytest.raises(
            InvalidRequestError, match=f"line {line}, column {name}: expected [A-Z()9]+, found '{text}'"
        ):
            rows_of(tmp_path / file, body)


@pytest.mark.parametrize("line", ['{"n": 8.0}', '{"n": 1e1}', '{"l": [8.0]}', '{"b": "true"}'])
def test_a_number_with_a_fraction_is_no_integer(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"line 1, column .: expected"):
        rows_of(tmp_path / "r.jsonl", line)


def test_text_may_be_spelled_in_few_other_ways(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path / "r.csv", "b,n,d,w\nTrue,+7,2024-2-9,2024-02-09\nFALSE,007,2024-02-09,2024-02-09 00:00\n"
    )
    assert [row["b"] for row in rows] == [True, False]
    assert [row["n"] for row in rows] == [7, 7]
    assert rows[0]["d"] == rows[1]["d"]
    assert rows[0]["w"] == rows[1]["w"]
    assert [row["id"] for row in rows_of(tmp_path / "r.jsonl", '{"id": "9007199254740993"}\n')] == [
        9007199254740993
    ]


# Ranges


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f", "1e400"),
        ("f", "-1E+400"),
        ("f", "1" + "0" * 400),
        ("f", "1e-400"),
        ("f", "-0." + "0" * 400 + "1"),
        ("e", "1e39"),
        ("e", "1e-60"),
        ("e", "1e400"),
    ],
)
def test_a_number_is_not_rounded_to_infinity_nor_to_zero(tmp_path: Path, name: str, text: str) -> None:
    for body in (f'{{"{name}": {text}}}\n', f'{{"{name}": "{text}"}}\n'):
        with pytest.raises(
            InvalidRequestError, match=f"line 1, column {name}: expected (DOUBLE|FLOAT), found"
        ):
            rows_of(tmp_path / "r.jsonl", body)
    with pytest.raises(InvalidRequestError, match=f"line 2, column {name}"):
        rows_of(tmp_path / "r.csv", f"id,{name}\n1,{text}\n")


def test_the_ends_of_the_range_are_numbers(tmp_path: Path) -> None:
    numbers = {
        "f": ["1.7976931348623157e308", "5e-324", "0.0", "-inf"],
        "e": ["3.4028234663852886e38", "1e-45", "0", "Infinity"],
    }
    for name, texts in numbers.items():
        found = rows_of(tmp_path / "r.csv", f"id,{name}\n" + "".join(f"1,{text}\n" for text in texts))
        assert [row[name] for row in found] == pytest.approx([float(text) for text in texts], abs=1e-45)
        assert all(row[name] for row in found[:2])
    assert rows_of(tmp_path / "r.csv", "f,e\n0e9,-0.00E-99\n") == [dict.fromkeys(("f", "e"), 0.0)]


# What no type can hold


@pytest.mark.parametrize(
    ("file", "body", "named"),
    [
        ("r.csv", "id,w\n1,1500-01-01\n", "line 2, column w: expected TIMESTAMP"),
        ("r.csv", "id,w\n1,2500-01-01\n", "line 2, column w: expected TIMESTAMP"),
        ("r.jsonl", '{"w": "1500-01-01"}\n', "line 1, column w: expected TIMESTAMP"),
        ("r.jsonl", '{"t": {"w": "1500-01-01"}}\n', "line 1, column t: expected ROW"),
        ("r.csv", "id,n\n1,1e99999999999999999999\n", "line 2, column n: expected INT"),
        ("r.csv", 'id,r\n1,{"q": 1e99999999999999999999}\n', "line 2, column r: expected ROW"),
        ("r.jsonl", '{"n": 1e99999999999999999999}\n', "line 1: expected a JSON object: an exponent"),
        ("r.jsonl", '{"n": "1e99999999999999999999"}\n', "line 1, column n: expected INT"),
        ("r.jsonl", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 1: .*deep"),
        ("r.csv", "id,v,v\n1,a,b\n", "expected each column once, found v twice"),
        ("r.jsonl", '{"id": 1, "v": "\\ud800"}\n', "line 1, column v: expected VARCHAR"),
        ("r.jsonl", '{"id": 1, "m": {"\\ud800": ""}}\n', "line 1, column m: expected MAP"),
        ("r.jsonl", '{"\\ud800": 1}\n', "expected columns id, "),
    ],
)
def test_what_no_type_can_hold_is_refused(tmp_path: Path, file: str, body: str, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        rows_of(tmp_path / file, body)


# Lines


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("id,v\n1,Rome\n1,Rome,x\n", "line 3: expected 2 columns, found 3"),
        ("id,v\r\n1,Rome\r\n2\r\n", "line 3: expected 2 columns, found 1"),
        ('id,v\n1,"a\n\nb"\n\n2,b,c\n', "line 6: expected 2 columns, found 3"),
        ('id,v\n1,"a\n\nb"\n\nx,b\n', "line 6, column id: expected BIGINT, found 'x'"),
        ("\n\nid,v\n\n1,a\nx,b\n", "line 6, column id: expected BIGINT, found 'x'"),
        ("id\n1\n\nx\n", "line 4, column id: expected BIGINT, found 'x'"),
        ("id,v\n1,a\n2,\udcff\n", "line 3: expected UTF-8 text"),
        ("id,\udcff\n1,a\n", "line 1: expected UTF-8 text"),
        ("", "expected a line of column names, found an empty file"),
        ("\n\n", "expected a line of column names, found an empty file"),
        ('id,v\n1,"' + "x" * 3_000_000 + '"\n2\n', "line 3: expected 2 columns, found 1"),
        ('id,v\n1,"' + "x" * 300_000 + '"\nx,a\n', "line 3, column id: expected BIGINT, found 'x'"),
    ],
)
def test_an_error_in_a_csv_file_names_the_line(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(body.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidRequestError) as caught:
        read_rows(path, parse_columns(COLUMNS), None)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('\n{"id": 1}\n\n{"id": "x"}\n', "line 4, column id: expected BIGINT, found 'x'"),
        ('{"id": 1}\n{"id": 1, "l": [300000000000]}\n', "line 2, column l: expected ARRAY<INT>, found '[30"),
        ('{"id": 1}\n\n[]\n', "line 3: expected a JSON object, found '[]'"),
        ('{"id": 1}\n{"v": "\udcff"}\n', "line 2: expected UTF-8 text"),
    ],
)
def test_an_error_in_a_file_of_json_lines_names_the_line(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(body.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidRequestError) as caught:
        read_rows(path, parse_columns(COLUMNS), None)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("name", "body"),
    [("r.csv", "id,v\n1,a\n2,b\n,c\n"), ("r.jsonl", '{"id": 1}\n{"id": 2, "v": "b"}\n\n{"v": "c"}\n')],
)
def test_a_missing_key_is_an_error_that_names_the_line(tmp_path: Path, name: str, body: str) -> None:
    path = tmp_path / name
    path.write_text(body, "utf-8")
    with pytest.raises(InvalidRequestError) as caught:
        read_rows(path, parse_columns("id BIGINT NOT NULL, v STRING"), None)
    assert str(caught.value) == f"{path}: line 4, column id: expected BIGINT NOT NULL, found null"


@pytest.mark.parametrize(
    ("kind", "body"), [("csv", b"id,v\n7,a\n"), ("jsonl", b'{"id": 7, "v": "a"}\n'), ("parquet", None)]
)
def test_rows_come_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, body: bytes | None
) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    if body is None:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [7], "v": ["a"]}), sink)
        body = sink.getvalue().to_pybytes()
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(body)))
    assert run(["write", table.path, "-", "--input-format", kind]) == 0
    assert table.to_arrow().to_pylist() == [{"id": 7, "v": "a"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "--input-format: expected parquet, csv or jsonl for standard input, found none"),
        (
            ["-", "--input-format", "csv"],
            "standard input: line 2, column id: expected BIGINT NOT NULL, found 'x'",
        ),
    ],
)
def test_an_error_in_standard_input_names_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key="id")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"id,v\nx,a\n")))
    assert run(["write", table.path, *arguments]) == 2
    assert capsys.readouterr().err == f"pktable: {message}\n"
    assert not table.snapshots()


def test_the_form_of_a_file_may_be_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("id\n1\n", "utf-8")
    assert read_rows(path, parse_columns("id BIGINT"), None, "csv").to_pylist() == [{"id": 1}]


def test_a_file_that_is_not_parquet_is_refused_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(b"PAR1 and no more PAR1")
    with pytest.raises(InvalidRequestError, match="expected a Parquet file, found other or damaged bytes"):
        read_rows(path, parse_columns(COLUMNS), None)


# Sizes


@pytest.mark.parametrize("before", [0, 1, 3000])
def test_a_row_may_be_longer_than_a_block(tmp_path: Path, before: int) -> None:
    rows = [(row, f"short {row}") for row in range(before)] + [
        (before, 'long, "\n' * 600_000),
        (before + 1, "end"),
    ]
    quoted = [(row, text.replace('"', '""')) for row, text in rows]
    body = "".join(f'{row},"{text}"\n' for row, text in quoted)
    assert [(row["id"], row["v"]) for row in rows_of(tmp_path / "r.csv", "id,v\n" + body)] == rows


# Row kinds, BOMs


def test_row_kinds_may_be_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bodies = {
        "r.csv": "id,op\n1,0\n2,+I\n3,2\n2,3\n1,-U\n",
        "r.jsonl": '{"id":1,"op":0}\n{"id":2,"op":"+I"}\n{"id":3,"op":"2"}\n{"id":2,"op":3}\n{"id":1,"op":1}\n',
    }
    for name, body in bodies.items():
        table = Table.create(tmp_path / f"table of {name}", "id INT", primary_key=["id"])
        (tmp_path / name).write_text(body)
        assert run(["write", table.path, str(tmp_path / name), "--row-kind", "op"]) == 0
        assert table.to_arrow(fresh=True).to_pylist() == [{"id": 3}]


@pytest.mark.parametrize("kind", ["4", "-1", '"4"', "true", "1.0", "null", "[]"])
def test_what_is_no_row_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    table = Table.create(tmp_path / "table", "id INT", primary_key=["id"])
    (tmp_path / "r.jsonl").write_text(f'{{"id": 1, "op": {kind}}}\n')
    assert run(["write", table.path, str(tmp_path / "r.jsonl"), "--row-kind", "op"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_byte_order_mark_is_no_part_of_the_rows(tmp_path: Path) -> None:
    for name, body in (("r.jsonl", '{"id": 1}\n'), ("r.csv", "id\n1\n")):
        assert rows_of(tmp_path / name, "\ufeff" + body) == [{"id": 1}]


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_quote_that_is_never_closed_is_refused_with_its_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / "rows.csv"
    fields = parse_columns("id INT, s STRING")
    path.write_text(f'id,s\n1,a\n2,"b\n3,c\n4,d{end}')
    with pytest.raises(InvalidRequestError, match="line 3: a quote is never closed"):
        read_rows(path, fields, None)
    path.write_text(f'id,s\n1,a\n2,"b\n"{end}')
    assert read_rows(path, fields, None).to_pylist()[1]["s"] == "b\n"


@pytest.mark.parametrize("rest", ['2,"', '2,"""', '2,"é'])
def test_an_open_quote_is_noticed_behind_a_quote_inside_of_a_value(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f'id,s\n1,"a"b\n{rest}')
    with pytest.raises(InvalidRequestError, match="line 3: a quote is never closed"):
        read_rows(path, parse_columns("id INT, s STRING"), None)
