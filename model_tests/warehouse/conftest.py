"""The fixture ``lake``: a session of Spark that knows the tables of a warehouse by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pktable
import pytest
from pktable.run import by_size

from model_tests.backends.spark_session import spark_session


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose sizes decide who works, as they do for users: the session of other tests gives all to Spark."""
    found = pktable.session(spark_session(), warehouse=tmp_path_factory.mktemp("lake"))
    found.warehouse.create_database("db")
    found.sql("USE db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_size, "SMALL_BYTES", 32 << 20)
        yield found
    for name in ("there", "shadow"):
        spark_session().catalog.dropTempView(name)
