"""A script that Paimon-Spark has run gives the same columns, types and rows in a session of ours."""

from __future__ import annotations

from pathlib import Path

import pktable
import pytest
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.warehouse.paimon_script import answers, recorded, statements

pytestmark = pytest.mark.spark


def test_the_record_has_no_statement_that_paimon_refused() -> None:
    assert not [one for one in recorded() if "error" in one]
    assert {one["sql"] for one in recorded()} <= set(statements())


@pytest.mark.deep("a statement of Paimon-Spark that is refused here, or gives other rows")
@covers("WH-14", "WH-15", "WH-18", "WH-19", "WH-20", "WH-22")
def test_a_script_of_paimons_gives_the_same_rows_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = spark_session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        lake = pktable.session(spark, warehouse=tmp_path)
        differ = [
            (here, there) for here, there in zip(answers(lake.sql), recorded(), strict=True) if here != there
        ]
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert differ == []
