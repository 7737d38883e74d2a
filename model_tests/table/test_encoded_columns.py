"""Columns that a rewrite moves encoded by a dictionary, against the rows and the files that it must write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable import Table
from pktable.datafile.encoded import concatenated, without_unused
from pktable.datafile.readers import ParquetRows
from pktable_spec.covers import covers

from model_tests.table.test_schema_changes import changed, with_fields

ROWS = 25_000
"""Fewer are read as strings."""

VECTORS = {"deletion-vectors.enabled": "true", "bucket": "1"}
WORDS = ("ash", "birch", "cedar", "elm")


def rows(keys: Sequence[int], word: str | None = None) -> pa.Table:
    words = [word or (None if k % 11 == 0 else WORDS[k % 4]) for k in keys]
    return pa.table(
        {
            "k": pa.array(keys, pa.int32()),
            "repeats": words,
            "bytes": pa.array([None if text is None else text.encode() for text in words]),
            "differs": [f"text {k} of {word}" for k in keys],
        }
    )


def create(folder: Path, **options: str) -> Table:
    columns = "k INT, repeats STRING, bytes BYTES, differs STRING"
    return Table.create(folder / "t", columns, primary_key=["k"], options={**VECTORS, **options})


def contents(table: Table) -> dict[int, dict[str, Any]]:
    return {row["k"]: row for row in table.read().to_pylist()}


def expected(*writes: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["k"]: row for one in writes for row in one.to_pylist()}


def data_files(table: Table) -> list[Path]:
    found = table.files().to_pylist()
    return [next(Path(table.path).rglob(file["file_name"])) for file in found]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return the list of which columns were read encoded, of each file that some could be of."""
    seen: list[tuple[str, ...]] = []
    tables = ParquetRows.tables

    def noted(
        self: ParquetRows, *arguments: Any, encoded: Collection[str] = (), **named: Any
    ) -> Iterator[tuple[int, pa.Table]]:
        if encoded:
            seen.append(tuple(name for name in self.encoded if name in encoded))
        return tables(self, *arguments, encoded=encoded, **named)

    monkeypatch.setattr(ParquetRows, "tables", noted)
    return seen


@covers("CMP-12", "CMP-14")
def test_a_rewrite_moves_repeated_values_encoded(tmp_path: Path, encoded: list[tuple[str, ...]]) -> None:
    table = create(tmp_path)
    first, some = rows(range(ROWS)), rows(range(5, ROWS, 40), "fir")
    table.upsert(first)
    table.compact(full=True)
    table.upsert(some)
    table.delete(where="k % 100 = 7")
    table.compact(full=True)
    assert ("bytes", "repeats") in encoded
    right = {k: row for k, row in expected(first, some).items() if k % 100 != 7}
    assert contents(table) == right
    assert not table.check().findings


@covers("RD-1", "RD-8")
@pytest.mark.parametrize(
    "where", [None, "repeats = 'elm'", "k % 3 = 1", "repeats IS NULL", "differs LIKE '%7 of%'"]
)
def test_a_read_returns_strings_whatever_stayed_encoded_on_the_way(
    tmp_path: Path, encoded: list[tuple[str, ...]], where: str | None
) -> None:
    table = create(tmp_path)
    table.upsert(rows(range(ROWS)))
    table.delete(where="k % 10 = 0")
    found = table.read(where=where)
    assert any(encoded)
    assert found.schema.types == rows([1]).schema.types
    holds: dict[str | None, Callable[[dict[str, Any]], bool]] = {
        None: lambda row: True,
        "repeats = 'elm'": lambda row: row["repeats"] == "elm",
        "k % 3 = 1": lambda row: row["k"] % 3 == 1,
        "repeats IS NULL": lambda row: row["repeats"] is None,
        "differs LIKE '%7 of%'": lambda row: "7 of" in row["differs"],
    }
    right = {k: row for k, row in expected(rows(range(ROWS))).items() if k % 10 and holds[where](row)}
    assert {row["k"]: row for row in found.to_pylist()} == right


@covers("CMP-32")
def test_values_of_deleted_rows_are_in_no_file_after_a_full_compaction(
    tmp_path: Path, encoded: list[tuple[str, ...]]
) -> None:
    table = create(tmp_path)
    table.upsert(pa.concat_tables([rows(range(ROWS)), rows(range(ROWS, ROWS + 300), "aaa secret")]))
    table.compact(full=True)
    (before,) = data_files(table)
    table.delete(where="repeats = 'aaa secret'")
    table.compact(full=True)
    assert ("bytes", "repeats") in encoded
    (after,) = data_files(table)
    held = [pq.ParquetFile(path, read_dictionary=["repeats", "bytes"]).read() for path in (before, after)]
    words = [set(one.column("repeats").chunk(0).dictionary.to_pylist()) for one in held]
    assert words == [{*WORDS, "aaa secret"}, {*WORDS}]
    assert b"aaa secret" not in set(held[1].column("bytes").chunk(0).dictionary.to_pylist())


@covers("APP-4", "CMP-32")
def test_an_append_table_as_well(tmp_path: Path, encoded: list[tuple[str, ...]]) -> None:
    table = Table.create(
        tmp_path / "t",
        "k INT, repeats STRING, bytes BYTES, differs STRING",
        primary_key=[],
        options={"deletion-vectors.enabled": "true"},
    )
    table.append(rows(range(ROWS)))
    table.delete(where="repeats = 'birch'")
    table.compact(full=True)
    assert ("bytes", "repeats") in encoded
    right = {k: row for k, row in expected(rows(range(ROWS))).items() if row["repeats"] != "birch"}
    assert contents(table) == right
    (path,) = data_files(table)
    held = pq.ParquetFile(path, read_dictionary=["repeats"]).read().column("repeats")
    assert "birch" not in held.chunk(0).dictionary.to_pylist()


@covers("META-16")
def test_columns_of_another_type_are_converted(tmp_path: Path, encoded: list[tuple[str, ...]]) -> None:
    table = create(tmp_path)
    table.upsert(rows(range(ROWS)))
    table.compact(full=True)
    table = changed(
        tmp_path / "t",
        with_fields(
            (0, "k", "INT NOT NULL"),
            (1, "repeats", "VARCHAR(2)"),
            (2, "renamed", "BYTES"),
            (3, "differs", "STRING"),
        ),
    )
    table.delete(where="k = 1")
    table.compact(full=True)
    assert encoded[-1] == ("bytes",)
    found = table.read()
    assert set(found.column("repeats").to_pylist()) == {None, "as", "bi", "ce", "el"}
    assert set(found.column("renamed").to_pylist()) == {None, *(word.encode() for word in WORDS)}


@covers("MRG-19", "DV-23")
def test_columns_that_order_records_are_compared(tmp_path: Path) -> None:
    table = create(tmp_path, **{"sequence.field": "repeats", "write-only": "true"})
    first, late, newer = (
        rows(range(4 * ROWS), "birch"),
        rows(range(ROWS), "ash"),
        rows(range(ROWS, 2 * ROWS), "cedar"),
    )
    table.upsert(first)
    table.compact(full=True)
    table.upsert(pa.concat_tables([late, newer]))
    table.compact()
    assert len(table.files()) == 2, "the older file must be looked up, not rewritten"
    assert contents(table) == expected(first, newer)


def column(values: list[str | None], encode: bool) -> pa.Table:
    array: Any = pa.array(values, pa.string())
    return pa.table({"c": array.dictionary_encode() if encode else array})


PARTS = st.lists(
    st.tuples(st.lists(st.none() | st.sampled_from(WORDS), max_size=6), st.booleans()), min_size=1
)


@given(PARTS)
@covers("CMP-32")
def test_parts_come_together_whether_encoded_or_not(parts: list[tuple[list[str | None], bool]]) -> None:
    found = without_unused(concatenated([column(*part) for part in parts]))
    every = [value for values, _ in parts for value in values]
    assert found.column("c").to_pylist() == every
    encoded_rows = sum(len(values) for values, encode in parts if encode)
    if len({encode for _, encode in parts}) == 2:
        assert pa.types.is_dictionary(found.schema.types[0]) == (2 * encoded_rows > len(every))
    if pa.types.is_dictionary(found.schema.types[0]):
        held = {value for chunk in found.column("c").chunks for value in chunk.dictionary.to_pylist()}
        assert held == {*every} - {None}
