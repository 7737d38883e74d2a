"""The tables of the archive whose snapshots are not all that lies in their directory, or have other options than today.

The files of ended ids are put back, as a writer leaves them that died between its put and its look at the fences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pktable import Table

from model_tests.conform.tables import (
    HOUR,
    KEYS,
    MERGED,
    MERGES,
    VECTORS,
    Made,
    bulk,
    changes,
    created,
    with_options,
)
from model_tests.damage.table_damage import Surgeon

TARGET, LAST = 4, 7
"""The id to which the table is rolled back, and the greatest id before that."""


def strays(root: Path) -> None:
    """Roll back, commit, expire, and put back the files of an expired id and of two that were rolled back.

    One of these says that its writer knew no fence. The other is of a writer that says nothing of fences, and the fence
    names it. So the one snapshot above the target is that of the id that was given again.
    """
    table = created(root, "k INT, v STRING", MERGED)
    for number in range(1, LAST + 1):
        changes(table, ("+I", number, "kept" if number <= TARGET else "rolled back"), write_only=True)
    for number in range(1, LAST + 1):
        Surgeon(root).edit_snapshot(number, time_millis=number * HOUR)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    table = Table.open(root)
    table.rollback(snapshot=TARGET)
    changes(table, ("+I", 1, "after the rollback"), write_only=True)
    Surgeon(root).edit_snapshot(TARGET + 1, time_millis=(LAST + 1) * HOUR)
    Table.open(root).expire_snapshots(retain_last=TARGET)
    for path, data in before.items():
        if not path.exists() and path.parent.name != "fence":
            path.write_bytes(data)
    Surgeon(root).edit_snapshot(TARGET + 2, fence=None)


def switched_off(root: Path) -> None:
    """Switch deletion vectors off where a snapshot that has them has rows at level 0, which no default read shows."""
    table = created(root, "k INT, v STRING", VECTORS)
    changes(table, *(("+I", number, bulk(number)) for number in range(4)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 1, None), ("+U", 2, "two"))
    changes(table, ("+U", 2, "of level 0"), ("+I", 9, "of level 0"), write_only=True)
    table = with_options(root, {"deletion-vectors.enabled": "false"})
    changes(table, ("+I", 5, "five"), ("-D", 3, None), write_only=True)


TABLES: Final = (
    Made(
        "strays",
        "a fence, and files of an expired id and of two that were rolled back, which are no snapshots",
        ("CMT-36", "CMT-42", "META-52", "META-53", "RD-10"),
        MERGES,
        strays,
        ({"timestamp": (LAST - 1) * HOUR}, {"timestamp": (LAST + 1) * HOUR}),
        refused=({"snapshot": 1}, {"snapshot": TARGET + 2}, {"snapshot": LAST}, {"timestamp": HOUR}),
    ),
    Made(
        "switched-off",
        "deletion vectors that a later schema switches off, which older snapshots keep",
        ("RD-22", "CMT-15", "RD-1"),
        (*KEYS, "merge on read"),
        switched_off,
    ),
)
