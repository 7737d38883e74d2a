"""Scripts of compactions that look keys up in a large file of the greatest level, which they leave where it is."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from pktable import Table

from model_tests.store_work.play import VECTORS, Play, changes, rows

LOOKUP: Final = {"changelog-producer": "lookup"}
BULK: Final = 300
"""Bytes of a row that do not compress."""


def _based(play: Play, columns: str, options: Mapping[str, str], count: int = 30) -> Table:
    """Return a table with rows of the even keys at the greatest level, each with number 5 and some bytes."""
    table = play.create(columns, options)
    drawn = random.Random(3)
    width = len(table.schema.fields) - 3
    many = [(key, 5, *([key] * width), drawn.randbytes(BULK)) for key in range(0, 2 * count, 2)]
    play.silently(partial(table.upsert, rows(table.schema, *many)), partial(table.compact, full=True))
    return table


def _write(play: Play, table: Table, *changed: tuple[Any, ...]) -> None:
    """Write changes: the kind of each, and its values but the bytes."""
    play.step(f"write {', '.join(map(str, changed))}", partial(_change, table, changed))


def _change(table: Table, changed: Sequence[tuple[Any, ...]]) -> int | None:
    return table.write_changes(changes(table, [(*one, b"x") for one in changed]), row_kind="op")


def looked_up_changes(play: Play) -> None:
    """Rows are replaced, deleted and added: the changelog of that, with vectors and without."""
    for options in ({**VECTORS, **LOOKUP}, {**LOOKUP, "num-levels": "4"}):
        play.fresh()
        table = _based(play, "k INT, n INT, b BYTES", options)
        _write(play, table, ("+I", 4, 1), ("+I", 5, 1))
        _write(play, table, ("-D", 4, 1), ("-D", 7, 1), ("+I", 6, 2))
        _write(play, table, ("+I", 4, 3))
        last = table.snapshots()[-1].id
        play.step("changes", partial(_without_bytes, table, last))


def _without_bytes(table: Table, last: int) -> object:
    return table.changes(2, last).to_arrow().drop_columns(["b"])


def equal_changes(play: Play) -> None:
    """A row that is replaced by an equal one is no change; null is equal to null alone."""
    equal = {**LOOKUP, "changelog-producer.row-deduplicate": "true"}
    of_some = {**equal, "changelog-producer.row-deduplicate-ignore-fields": "b"}
    first = [(1, None, "a", b""), (2, 2, None, b""), (3, None, None, None), (4, 4, "d", b"d")]
    second = [(1, 1, "a", b""), (2, None, None, b""), (3, None, None, b"x"), (4, 4, "d", b"d")]
    for more in ({**VECTORS, **equal}, {**VECTORS, **of_some}, {**of_some, "write-only": "true"}):
        play.fresh()
        table = play.create("k INT, n INT, s STRING, b BYTES", more)
        write = partial(_upsert_and_compact, table)
        play.silently(partial(write, *first))
        play.step(f"write {second}", partial(write, *second))
        play.silently(partial(write, *second[1:]), partial(write, second[0], (5, None, None, None)))
        play.step("changes", table.changes(0).to_arrow)


def _upsert_and_compact(table: Table, *some: tuple[Any, ...]) -> None:
    table.upsert(rows(table.schema, *some))
    table.compact()


def remembered_deletions(play: Play) -> None:
    """With ``sequence.field`` a deletion is kept, hidden by a vector, so that a late row does not come back."""
    late = ("+I", 6, 4), ("+I", 8, 1)
    writes = (
        (("-D", 4, 7), ("-D", 5, 7), ("-D", 6, 3)),
        (("+I", 4, 6), ("+I", 5, 8), ("+I", 8, 4)),
        (("+I", 4, 9), ("-D", 8, 5)),
    )
    for more in ({}, LOOKUP, {"sequence.field.retractions": "drop-in-full-compaction"}):
        play.fresh()
        table = _based(play, "k INT, n INT, b BYTES", {**VECTORS, **more, "sequence.field": "n"})
        for some in writes if not more else ():
            _write(play, table, *some)
        play.silently(*(partial(_change, table, some) for some in writes if more))
        play.step("compact fully", partial(table.compact, full=True))
        play.silently(partial(_change, table, late))
        play.step("read late rows", partial(table.to_arrow, columns=["k", "n"], where="k < 10"))
        play.step("changes", partial(_without_bytes, table, table.snapshots()[-1].id))


def looked_up_sums(play: Play) -> None:
    """An aggregation adds to what the deeper row holds, and needs only the columns that no newer record settles."""
    options = {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.m.aggregate-function": "max",
        "fields.b.ignore-retract": "true",
        "fields.m.ignore-retract": "true",
    }
    for more in ({}, LOOKUP):
        play.fresh()
        table = _based(play, "k INT, n INT, m INT, b BYTES", {**VECTORS, **options, **more})
        _write(play, table, ("+I", 4, 1, 9), ("+I", 5, 1, None), ("+I", 6, 1, 2))
        _write(play, table, ("-U", 4, 2, 0), ("+U", 4, 4, 1))
        play.step("read", partial(table.to_arrow, columns=["k", "n", "m"], where="k < 8"))
        _write(play, table, ("+I", 4, None, None))


def looked_up_updates(play: Play) -> None:
    """A partial update takes from the deeper row what newer records do not give."""
    groups = {"fields.n.sequence-group": "m", "fields.m.aggregate-function": "max"}
    for more in ({}, groups, LOOKUP):
        play.fresh()
        options = {"merge-engine": "partial-update", **VECTORS, **more}
        table = _based(play, "k INT, n INT, m INT, b BYTES", options)
        _write(play, table, ("+I", 4, 9, None), ("+I", 5, None, 1), ("+I", 6, 1, 99))
        _write(play, table, ("+I", 4, None, 7), ("+I", 58, None, None))
        play.step("read", partial(table.to_arrow, columns=["k", "n", "m"], where="k < 8"))


def tiny_files(play: Play) -> None:
    """Files and row groups are never smaller than what makes sense, however small the option."""
    options = {"target-file-size": "1 kb", "file.block-size": "1 kb", "write-only": "true", **VECTORS}
    table = play.create("k INT, b BYTES", options)
    drawn = random.Random(4)
    for size in (200, 90, 30):
        many = [(key, drawn.randbytes(size)) for key in range(18)]
        play.upsert(f"write 18 rows of {size} B", table, *many)
    play.step("compact", table.compact)
