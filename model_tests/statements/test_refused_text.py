"""What is refused before anything is read, and what is not computed at all."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pktable import InvalidRequestError, Table
from pktable_spec.covers import covers

ROWS = [{"id": i, "s": str(i)} for i in range(4)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = Table.create(tmp_path_factory.mktemp("t"), "id BIGINT, s STRING", primary_key="id")
    made.upsert(ROWS)
    return made


@covers("STM-13")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CASE WHEN id = 1 id = 2 END", "Expected THEN"),
        ("CASE WHEN id = 1 THEN END", "Expected"),
        ("CASE WHEN THEN TRUE END", "Expected a value"),
        ("CASE WHEN id = 1 THEN TRUE ELSE END", "Expected"),
        ("CASE id END", "Expected WHEN"),
        ("id IN (1,)", "both sides of the comma"),
        ("id IN (,1)", "both sides of the comma"),
        ("id IN (1,,2)", "both sides of the comma"),
        ("coalesce(id,) = 1", "both sides of the comma"),
        ("id BETWEEN 1 2", "Expected AND"),
        ("id BETWEEN 1 2 AND s = 'a'", "Expected AND"),
        ("id NOT BETWEEN 1 AND", "Expected a value"),
        ("IF id = 1 THEN TRUE ELSE FALSE END", "Unexpected token|Expected AS"),
    ],
)
def test_a_text_that_lacks_a_word_changes_nothing(
    table: Table, text: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        table.delete(where=text)
    with pytest.raises(InvalidRequestError, match=problem):
        table.update({"s": "'x'"}, where=text)
    with pytest.raises(InvalidRequestError, match=problem):
        table.update({"s": f"CAST({text} AS STRING)"})
    with pytest.raises(InvalidRequestError):
        table.merge(ROWS, on="id").when_matched_delete(text).execute()
    assert table.to_arrow().sort_by("id").to_pylist() == ROWS
    assert not caplog.records


@covers("STM-15")
@pytest.mark.parametrize(
    "value", ["m * 1.1", "m + 0.005", "m * m", "m * 1.0", "CASE WHEN id > 0 THEN m * 1.1 END"]
)
def test_a_number_with_more_places_is_refused_whatever_the_rows_are(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    table = Table.create(tmp_path_factory.mktemp("m"), "id BIGINT, m DECIMAL(10, 2)", primary_key="id")
    with pytest.raises(InvalidRequestError, match=r"write CAST\(.* AS DECIMAL\(10, 2\)\)"):
        table.update({"m": value})
    table.upsert([{"id": 1, "m": Decimal("10.00")}])
    with pytest.raises(InvalidRequestError, match=r"write CAST\(.* AS DECIMAL\(10, 2\)\)"):
        table.update({"m": value})
    table.update({"m": f"CAST(({value}) + 1 AS DECIMAL(10, 2))"})
    table.update({"m": "round(m * 1.005, 2) + 0.1"})
    assert table.to_arrow().column("m").to_pylist()[0] > 11


@covers("STM-16")
@pytest.mark.parametrize(
    "value",
    [
        "CASE WHEN id >= 0 THEN 1 ELSE 1 / 0 END",
        "CASE WHEN FALSE THEN 1 % 0 ELSE 1 END",
        "if(id >= 0, 1, CAST(99999 AS TINYINT))",
        "coalesce(id - id + 1, 1 / 0)",
        "CASE WHEN id < 0 THEN 2147483647 + 1 ELSE CASE WHEN id < 9 THEN 1 ELSE 1 / (id - id) END END",
        "CASE WHEN id < 0 OR id >= 0 OR 1 / id > 0 THEN 1 END",
        "CASE WHEN id <> 0 AND 1 / id > 9 THEN 2 ELSE 1 END",
        "CAST(id >= 0 OR 1 / id > 0 AS INT)",
        "CASE "
        + " ".join(f"WHEN id + 1 = {9 * i + 9} THEN 1 / (id - id)" for i in range(40))
        + " ELSE 1 END",
    ],
)
def test_a_value_that_is_not_taken_does_not_fail(table: Table, value: str) -> None:
    assert table.count(where=f"{value} = 1") == len(ROWS)


@covers("STM-16")
def test_a_value_that_is_taken_fails(table: Table) -> None:
    for value in (
        "CASE WHEN id > 1 THEN 1 / (id - 2) ELSE 1 END",
        "coalesce(nullif(id, 3), 1 / 0)",
        "id > 9 OR 1 / id > 0",
    ):
        with pytest.raises(InvalidRequestError, match="divide by zero"):
            table.to_arrow(where=f"({value}) IS NULL")
