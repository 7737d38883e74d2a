"""Two writers of a Hudi table: one acts between two operations of the other, wherever the seed says.

`model_tests.hudi.test_writers_at_once` does so at every place of a few tables; here tables and rows are drawn.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Final

from pktable import HudiTable
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.model.log_index import Row

from model_tests.hudi.dying_store import InterruptedStore
from model_tests.hudi.written_tables import delete, new_table, rows_of, tiny_groups, upsert
from model_tests.seeded import play_at_random

KEYS: Final = "abcdef"
OWN: Final = ("upsert", "compact", "tidy")
OPERATIONS: Final = 60
"""More than most writes do on the store: then nobody acts in between."""


def draw(number: int, seed: int) -> None:
    """Play some drawn pairs. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Let one writer act between two operations of another one."""
    with tempfile.TemporaryDirectory(prefix="hudi-") as folder:
        table, rows = tiny_groups(new_table(Path(folder) / "t")), dict[str, Row]()
        for number in range(drawn.randint(1, 4)):
            rows |= _some(drawn, number)
            upsert(table, rows)
        own, other = drawn.choice(OWN), drawn.choice((*OWN, "delete", "plan", "rollback"))
        ours, theirs = _some(drawn, 9), _some(drawn, 8)
        gone = drawn.choice(sorted(rows.keys() - ours.keys()) or [""])

        def act() -> None:
            if other == "delete":
                delete(table, gone)
            else:
                _do(table, other, theirs)

        store = InterruptedStore(drawn.randrange(OPERATIONS), act)
        mine = tiny_groups(HudiTable.open(table.path, store=store))
        _do(mine, own, ours)
        if store.operations > store.number:
            rows |= theirs if other == "upsert" else {}
            if other == "delete":
                rows.pop(gone, None)
        rows |= ours if own == "upsert" else {}
        nothing_is_lost_or_doubled(table, rows, f"{other} within {own}")
        table.compact()
        nothing_is_lost_or_doubled(table, rows, f"{other} within {own}, compacted")


def _some(drawn: random.Random, order: int) -> dict[str, Row]:
    return {key: Row(order, drawn.randrange(9)) for key in drawn.sample(KEYS, drawn.randint(1, 3))}


def _do(table: HudiTable, what: str, rows: dict[str, Row]) -> None:
    if what == "upsert":
        upsert(table, rows)
    elif what == "plan":
        table.plan_compaction()
    elif what == "rollback":
        table.rollback()
    else:
        table.compact()
    if what == "tidy":
        table.clean(retain_commits=1)
        table.archive(retain_writes=1, fewest=1)


@check
@covers("LOG-49", "LOG-50", "LOG-51", "LOG-60", "LOG-61", "LOG-68")
def nothing_is_lost_or_doubled(table: HudiTable, rows: dict[str, Row], what: str) -> None:
    """Compare the rows, and look whether a key is in two places."""
    if (found := rows_of(table)) != rows:
        fail(f"{what}: expected {rows}, found {found}")
    keys = table.locate([*KEYS])["key"].to_pylist()
    if len(keys) != len(set(keys)):
        fail(f"{what}: keys are in two places: {sorted(keys)}")
    if findings := table.check().findings:
        fail(f"{what}: {findings}")
