"""The tables that drawn histories reshape: their buckets, merge engines, options, and the values of their columns."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pktable.format.types import is_atomic

from model_tests.engines import cases, sequences
from model_tests.engines.cases import EVERY, PLAIN, Case
from model_tests.seeded import drawn_options

KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "postponed": {"bucket": "-2", "postpone.default-bucket-num": "2"},
    "moving": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
}
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3", "5"),
    "changelog-producer": ("none", "none", "lookup", "full-compaction"),
    "changelog-producer.row-deduplicate": ("", "true"),
    "dynamic-bucket.initial-buckets": ("", "2"),
    "file.format": ("", "", "orc", "avro"),
    "metadata.stats-mode": ("", "", "full", "none"),
}
POOLS: Final[Mapping[str, Sequence[Any]]] = {
    "INT": (None, -1, 0, 1, 2),
    "BIGINT": (None, -1, 0, 1, 2),
    "DOUBLE": (None, 0.0, -0.0, 1.5, float("inf")),
    "DECIMAL(6, 2)": (None, Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")),
    "STRING": (None, "", "a", "b", "ä"),
    "BOOLEAN": (None, True, False),
    "ARRAY<INT>": (None, [], [1], [None, 2, 1]),
    "MAP<STRING, INT>": (None, [], [("p", 0)], [("p", 1), ("q", 2)]),
}
"""Values of columns, by type: few, so that records tie."""
CASES: Final = [
    Case("deduplicate", PLAIN, {}, sequences.newest, EVERY),
    *(case for case in (*cases.CASES, *sequences.CASES) if set(case.columns.values()) <= POOLS.keys()),
]


def drawn_shape(drawn: random.Random) -> tuple[str, Case, dict[str, str]]:
    """Return a kind of buckets, an engine and the options of a table that has both."""
    kind = drawn.choice(list(KINDS))
    fitting = [case for case in CASES if fits(case, kind)]
    case = drawn.choice([*fitting, *fitting[:1] * (len(fitting) // 2)])  # a third is deduplicate
    options = {**drawn_options(drawn, OPTIONS), **KINDS[kind], **case.options}
    if not case.vectors:
        options["deletion-vectors.enabled"] = "false"
    if options["changelog-producer"] == "none" or any(
        not is_atomic(field.type) for field in case.schema.fields
    ):
        options.pop("changelog-producer.row-deduplicate", None)
    if options["deletion-vectors.enabled"] == "true" or not case.vectors:
        options["changelog-producer"] = options["changelog-producer"].replace("full-compaction", "lookup")
    return kind, case, options


def fits(case: Case, kind: str) -> bool:
    """Return whether tables of a kind take the engine of ``case``. Clauses: BKT-29."""
    ignores = any(name.endswith("ignore-delete") for name in case.options)
    replaces = case.options.get("merge-engine", "deduplicate") == "deduplicate"
    return kind != "moving" or not ("sequence.field" in case.options or (ignores and replaces))
