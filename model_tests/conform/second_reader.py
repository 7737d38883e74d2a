"""Tables that are drawn, read by pktable and by a reader that shares nothing with it.

pktable writes, compacts and alters a table under drawn options. Then both read its latest snapshot, fresh and not, and
each snapshot by its id. They give the same rows, or one refuses: the reader in JavaScript knows fewer conversions, and
pktable refuses options that do not fit each other.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from pktable import Table
from pktable_conform.judge.checks import check, fail
from pktable_conform.runner import Refused, Runner
from pktable_spec.covers import covers
from pktable_spec.errors import PkTableError

from model_tests.conform.__main__ import node_reader
from model_tests.conform.tables import changes, read, with_options
from model_tests.interop.environments import SetupError
from model_tests.interop.kept import MAKES_NONE
from model_tests.seeded import drawn_options, play_at_random

OPTIONS: Final = {
    "bucket": ("1", "2", "-1"),
    "num-levels": ("3",),
    "num-sorted-run.compaction-trigger": ("3",),
    "deletion-vectors.enabled": ("true", "false"),
    "changelog-producer": ("none", "lookup"),
}
GROUP: Final = {"merge-engine": "partial-update", "fields.a.sequence-group": "b"}
REMOVING: Final = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
ENGINES: Final[tuple[Mapping[str, str], ...]] = (
    *({}, {"sequence.field": "a"}, {"ignore-delete": "true"}, {"merge-engine": "partial-update"}, GROUP, REMOVING),
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    {"merge-engine": "first-row", "deletion-vectors.enabled": "false"},
)  # fmt: skip
TYPES: Final = ("INT", "STRING", "ARRAY<INT>", "DATE", "TIMESTAMP(3)")
WIDER: Final = ("BIGINT", "DOUBLE", "STRING", "DECIMAL(9, 3)")
KEYS: Final = ("p", "k")


def is_set_up() -> bool:
    """Whether the reader for Node is there, as `test_second_reader` leaves it; nothing is fetched."""
    with mock.patch.dict(os.environ, {MAKES_NONE: "1"}):
        try:
            return bool(node_reader())
        except (SetupError, FileNotFoundError):
            return False


def draw(number: int, seed: int) -> None:
    """Compare all reads of some drawn tables. Raises CheckFailed at the first that differs."""
    runner = Runner(node_reader())
    try:
        runner.supports()
        play_at_random(number, seed, lambda drawn: play(runner, drawn))
    finally:
        runner.end()


def play(runner: Runner, drawn: random.Random) -> int:
    """Make a table, and compare all reads of it; return how many both gave rows for. Raises CheckFailed."""
    with tempfile.TemporaryDirectory(prefix="pktable-second-") as folder:
        root = Path(folder, "t")
        options = {**drawn_options(drawn, OPTIONS), **drawn.choice(ENGINES)}
        partitions = ["p"] if drawn.random() < 0.4 else []
        columns = "p STRING, k INT, a INT, b STRING, c DECIMAL(6, 2)".removeprefix(
            "" if partitions else "p STRING, "
        )
        Table.create(root, columns, primary_key=[*partitions, "k"], partition_by=partitions, options=options)
        for number in range(drawn.randint(3, 12)):
            try:
                step(Table.open(root), number, drawn)
            except PkTableError:
                continue  # what may be refused, such as a deletion, a type that is no wider one
        runner.ask("open", table=str(root))
        asked: list[dict[str, Any]] = [{}, {"fresh": True}]
        asked += [{"snapshot": one.id} for one in Table.open(root).snapshots()]
        return sum(reads_agree(root, runner, one) for one in asked)


def step(table: Table, number: int, drawn: random.Random) -> None:
    """Do something to a table. Raises PkTableError if it is refused."""
    what = drawn.choices(("write", "compact", "alter", "switch"), (8, 2, 3, 1))[0]
    others = [one.name for one in table.schema.fields if one.name not in KEYS]
    if not others:
        table.alter(add=f"n{number} {drawn.choice(TYPES)}")
        return
    if what == "write":
        kinds = drawn.choices(("+I", "+U", "-U", "-D"), (6, 2, 1, 2), k=drawn.randint(1, 5))
        rows = [(kind, *(value(one, drawn) for one in table.schema.arrow_schema)) for kind in kinds]
        changes(table, *rows, write_only=drawn.random() < 0.5)
    elif what == "compact":
        table.compact(full=drawn.random() < 0.3)
    elif what == "switch" and drawn.random() < 0.5 and "merge-engine" not in table.schema.options:
        with_options(
            Path(table.path), drawn.choice(({"sequence.field": others[0]}, {"ignore-delete": "true"}))
        )
    elif what == "switch":
        table.alter(set_options={"deletion-vectors.enabled": drawn.choice(("true", "false"))})
    else:
        given: Mapping[str, Any] = drawn.choice(
            (
                {"add": f"n{number} {drawn.choice(TYPES)}"},
                {"rename": {drawn.choice(others): f"r{number}"}},
                {"drop": drawn.choice(others)},
                {"widen": {drawn.choice(others): drawn.choice(WIDER)}},
                {"move": {drawn.choice(others): "FIRST"}},
            )
        )
        table.alter(**given)


def value(field: pa.Field, drawn: random.Random) -> Any:
    """Return a value for a column."""
    kind = field.type
    if field.name in KEYS:
        return drawn.choice(("u", "v w")) if field.name == "p" else drawn.randint(0, 4)
    if drawn.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [value(kind.value_field, drawn) for _ in range(drawn.randint(0, 2))]
    if pa.types.is_decimal(kind):
        return Decimal(drawn.randint(-99, 99)).scaleb(-kind.scale)
    if pa.types.is_floating(kind):
        return drawn.choice((0.5, -0.0, 1.0))
    if pa.types.is_date(kind):
        return dt.date(1969, 12, drawn.randint(1, 31))
    if pa.types.is_timestamp(kind):
        return dt.datetime(1970, 1, drawn.randint(1, 9))
    return drawn.randint(-3, 3) if pa.types.is_integer(kind) else drawn.choice(("", "x", "yy", "é"))


@check
@covers("RD-1", "RD-3", "RD-4", "RD-14", "RD-22", "META-15", "DV-22")
def reads_agree(root: Path, runner: Runner, arguments: Mapping[str, Any]) -> bool:
    """Compare a read; return whether both gave rows."""
    try:
        ours = sorted(map(str, read(Table.open(root), arguments)))
        theirs = sorted(map(str, runner.ask("read", **arguments)["rows"]))
    except (PkTableError, Refused):
        return False
    if ours != theirs:
        fail(f"{arguments or 'the latest snapshot'}: pktable reads {ours}, the other one {theirs}")
    return True
