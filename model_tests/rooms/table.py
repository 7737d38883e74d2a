"""Which tests guard which folder of the reference: `ROOMS`.

A room is a folder under ``reference``; its tests are files and folders of ``model_tests``. They take at most a minute
of two cores, so they are not all tests that can notice a fault there: those are `make test` and `make verify`.
`model_tests.rooms.kills` holds the table to the stored mutants.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pktable_spec.errors import InvalidRequestError

ROOT: Final = Path(__file__).parents[2]

STORED: Final = ("histories/test_histories.py", "store_work")
"""Stored histories, and scripts whose work on the store is on record: both notice most faults of what writes."""

_FACE: Final = tuple(
    f"table/test_{name}.py"
    for name in (
        "arguments",
        "commit",
        "definition",
        "edges",
        "expiry",
        "given_rows",
        "history",
        "races",
        "reading",
    )
)
"""What a user of `Table` calls."""

ROOMS: Final[Mapping[str, tuple[str, ...]]] = {
    "pktable": (*STORED, *_FACE, "commit", "replay", "seams", "statements", "warehouse"),
    "pktable/bucket": (
        *STORED,
        "buckets",
        "table/test_reading.py",
        "table/test_windows.py",
        "changelog",
        "append",
    ),
    "pktable/catalog": (
        *STORED,
        "commit",
        "table/test_commit.py",
        "table/test_expiry.py",
        "changelog/test_expiry.py",
    ),
    "pktable/check": ("check",),
    "pktable/cli": ("cli", "changelog/test_cli.py", "append/test_cli.py"),
    "pktable/datafile": (
        "format",
        "table/test_encoded_columns.py",
        "table/test_times.py",
        "damage/test_every_byte.py",
    ),
    "pktable/format": ("format", "vectors", "table/test_keys.py"),
    "pktable/format/metadata": ("store_work", "format", "vectors", "damage/test_hostile_metadata.py"),
    "pktable/format/vectors": ("format", "vectors", "damage/test_hostile_sizes.py"),
    "pktable/ingest": (
        "table/test_given_rows.py",
        "table/test_map_keys.py",
        "table/test_times.py",
        "source",
        "seams",
    ),
    "pktable/kinds": (*STORED, "append", "seams"),
    "pktable/lsm": (
        *STORED,
        "oracle/test_picks_agree.py",
        "oracle/test_picks_by_the_clauses.py",
        "append/test_packing.py",
    ),
    "pktable/merge": ("engines", "seams/test_merge_engines.py", *STORED),
    "pktable/predicate": (
        "predicate",
        "table/test_estimate.py",
        "table/test_reading.py",
        "format/test_bounds.py",
    ),
    "pktable/run": (
        "table/test_runner_choice.py",
        "table/test_runner_of_writes.py",
        "table/test_together.py",
        *STORED,
    ),
    "pktable/run/spark": (
        "table/test_native_scan.py",
        "table/test_packets.py",
        "table/test_conformance.py",
        "append",
    ),
    "pktable/spark_source": ("source",),
    "pktable/spark_sql": ("warehouse",),
    "pktable/spark_sql/catalog": ("warehouse/test_catalog_in_spark.py",),
    "pktable/sql": ("warehouse/test_sql_without_spark.py",),
    "pktable/statements": ("statements", "append/test_questions.py"),
    "pktable/store": ("stores", "warehouse", "commit", "seams/test_cache.py", "table/test_store_failures.py"),
    "pktable_hudi": ("hudi",),
    "pktable_hudi/format": ("hudi",),
    "pktable_hudi/spark": ("hudi/test_on_spark.py", "hudi/test_frame_write.py"),
    "pyspark_pktable": ("source",),
}
ON_SPARK: Final = frozenset(
    {
        "pktable/run",
        "pktable/run/spark",
        "pktable/spark_source",
        "pktable/spark_sql",
        "pktable/spark_sql/catalog",
        "pktable_hudi/spark",
        "pyspark_pktable",
    }
)
"""The rooms whose tests start a Spark session too."""


def room_of(module: str) -> str:
    """Return the room of a module, such as ``pktable/lsm`` for ``pktable.lsm.universal``."""
    path = ROOT / "reference" / module.replace(".", "/")
    return (path if path.is_dir() else path.parent).relative_to(ROOT / "reference").as_posix()


def room_named(name: str) -> str:
    """Return the room that ``name`` means, which may leave out ``pktable/`` or ``pktable_``.

    Raises InvalidRequestError.
    """
    asked = name.strip("/").removeprefix("reference/")
    for room in (asked, f"pktable/{asked}", f"pktable_{asked}"):
        if room in ROOMS:
            return room
    rooms = ", ".join(room.removeprefix("pktable/") for room in ROOMS)
    raise InvalidRequestError(f"expected a room, found {name!r}; the rooms: {rooms}")


def paths_of(room: str) -> list[str]:
    """Return the paths of a room's tests, from the root of the repository."""
    return [f"model_tests/{path}" for path in ROOMS[room]]
