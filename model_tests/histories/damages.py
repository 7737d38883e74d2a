"""Every damage of `DAMAGES`, one after another, on copies of small tables in use.

Histories draw one of them now and then. Here a table gets writes and compactions, which are drawn, and then a
request must report the damage in the right words.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pktable import Table
from pktable_spec.covers import covers

from model_tests.backends.wrong_files import DAMAGES, unnoticed
from model_tests.histories.checks import check, fail
from model_tests.seeded import drawn_options, play_at_random

OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "2"),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "parquet.page.row.count.limit": ("", "1"),
    "manifest.merge-min-count": ("30", "2"),
}


def draw(number: int, seed: int) -> None:
    """Damage some tables. Raises CheckFailed, or what a table raises, at the first damage that nobody reports."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Damage one new table in every way."""
    with tempfile.TemporaryDirectory() as folder:
        options = drawn_options(drawn, OPTIONS)
        table = Table.create(folder + "/t", "k INT, v STRING", primary_key=["k"], options=options)
        for number in range(drawn.randint(3, 5)):
            keys = drawn.sample(range(6), 3)
            table.upsert(pa.table({"k": pa.array(keys, pa.int32()), "v": [f"{number}"] * len(keys)}))
            if drawn.random() < 0.3:
                table.compact(full=True)
        every_damage_is_noticed(table, drawn)


@check
@covers("RD-11", "RD-19", "CMT-1", "CMT-51")
def every_damage_is_noticed(table: Table, drawn: random.Random) -> None:
    """Nobody reads a damaged copy of the table as if nothing were wrong."""
    files = table.files().column("file_name").to_pylist()
    problems = [unnoticed(Path(table.path), drawn.choice(files), damage) for damage in DAMAGES]
    if found := [one for one in problems if one]:
        fail("; ".join(found))
