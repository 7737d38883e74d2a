"""Another reader of the table, driven by commands, in an environment of its own: `pypaimon` or `pypaimon-rust`.

A command carries a query; the answer tells the seconds it took, the processor's too, and what came out. What
the reader leaves of a condition to its caller is filtered again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.reads.queries import Query, answered, selected
from model_tests.interop.answering import METHODS, answer_commands

COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less_than",
    "<=": "less_or_equal",
    ">": "greater_than",
    ">=": "greater_or_equal",
}
"""The methods of pypaimon's builder of predicates."""


def ask(read: Callable[[Path, Query], pa.Table], command: Mapping[str, Any]) -> dict[str, Any]:
    query = Query(**command["query"])
    began, processor = time.perf_counter(), time.process_time()
    answer = answered(selected(read(Path(command["table"]), query), query), query)
    return {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - processor,
        "answer": answer,
    }


def read_with_pypaimon(path: Path, query: Query) -> pa.Table:
    from pypaimon import CatalogFactory
    from pypaimon.common.predicate_builder import PredicateBuilder

    catalog = CatalogFactory.create({"warehouse": str(path.parents[1])})
    table = catalog.get_table(f"{path.parent.name.removesuffix('.db')}.{path.name}")
    builder = table.new_read_builder()
    if query.conditions:
        predicates = PredicateBuilder(table.fields)
        parts = [
            getattr(predicates, COMPARISONS[sign])(column, value) for column, sign, value in query.conditions
        ]
        builder = builder.with_filter(predicates.and_predicates(parts))
    builder = builder.with_projection(query.columns)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def read_with_rust(path: Path, query: Query) -> pa.Table:
    from pypaimon_rust.datafusion import PaimonCatalog

    catalog = PaimonCatalog({"warehouse": str(path.parents[1])})
    builder = catalog.get_table((path.parent.name.removesuffix(".db"), path.name)).new_read_builder({})
    if query.conditions:
        parts = [
            {"method": METHODS[sign], "field": column, "literals": [value]}
            for column, sign, value in query.conditions
        ]
        builder = builder.with_filter({"method": "and", "children": parts})
    builder = builder.with_projection(query.columns)
    return pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits()))


READERS = {"pypaimon": read_with_pypaimon, "pypaimon-rust": read_with_rust}

if __name__ == "__main__":
    answer_commands({"query": partial(ask, READERS[sys.argv[1]])})
