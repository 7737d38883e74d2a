"""A condition or value in which a word is missing is refused, and changes nothing."""

from __future__ import annotations

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
