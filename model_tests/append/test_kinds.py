"""A table is of the kind that its schema says; a kind that is not supported is refused by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pktable import InvalidRequestError, Table
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.append.paimon_tables import expected_of, expected_rows, path_of, rows_of
from model_tests.real_data import needs_shared

pytestmark = needs_shared


@covers("TBL-12", "TBL-16", "RD-1")
def test_cross_partition_keys_of_paimon_are_read() -> None:
    table, truth = Table.open(path_of("pk_crosspart")), expected_of("pk_crosspart")
    for snapshot, expected in truth["snapshots"].items():
        rows = expected_rows(expected["rows"])
        assert rows_of(table.to_arrow(snapshot=int(snapshot)).to_pylist()) == rows
        assert table.count(snapshot=int(snapshot)) == len(rows)
    assert [one for one in check(path_of("pk_crosspart")).findings if one.severity == "error"] == []


@covers("TBL-20")
def test_a_check_compares_no_rows_that_wait_for_a_bucket() -> None:
    report = check(path_of("pk_postpone"))
    assert {(found.severity, found.clause, found.bucket) for found in report.findings} == {
        ("note", "TBL-20", -2)
    }


@covers("APP-22")
def test_data_evolution_is_refused_for_writing_by_name() -> None:
    table = Table.open(path_of("ap_dataevo"))
    rows = table.to_arrow(limit=1)
    writes: list[Callable[[], object]] = [
        lambda: table.append(rows),
        lambda: table.delete(where="id = 1"),
        lambda: table.compact(full=True),
    ]
    for write in writes:
        with pytest.raises(
            InvalidRequestError, match=r"option data-evolution\.enabled='true' is not supported"
        ):
            write()
