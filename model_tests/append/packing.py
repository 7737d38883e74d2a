"""Which files a compaction of an append table takes, compared with plain Python at the limits of sizes and shares.

Some files are written and rows of them deleted. Then the table gets a target size at which a file is just small or just
not, or at which some of them just make a group. The clauses say which files a compaction removes then.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import pyarrow as pa
from pktable import Table
from pktable.format.metadata.schema import encode_schema
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.seeded import drawn_options, play_at_random

OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "deletion-vectors.enabled": ("true", "true", "false"),
    "deletion-vector.index-file.target-size": ("2 mb", "30 b"),
    "compaction.min.file-num": ("2", "4", "5"),
    "source.split.open-file-cost": ("0 b", "1 b", "10000 b"),
    "compaction.delete-ratio-threshold": ("", "0.5", "0"),
}
BYTES: Final = 300
"""The most bytes of a row."""
SMALL: Final = Fraction(7, 10)
SHARE: Final = Fraction(1, 5)
"""The share of deleted rows above which a file is written again, if no option says another one."""


@dataclass(frozen=True)
class File:
    """A live file. ``index``: the DV index file that has its vector, None if it has none."""

    name: str
    size: int
    rows: int
    deleted: int
    index: str | None


def draw(number: int, seed: int) -> None:
    """Play some drawn schedules. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Compact a new table once."""
    options = drawn_options(drawn, OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(folder + "/t", "id INT, b BYTES", primary_key=None, options=options)
        ids = 0
        for _ in range(drawn.choice((1, 3, 5, 6, 7))):
            count = drawn.randint(1, 10)
            size = drawn.randrange(BYTES)
            rows = {"id": range(ids, ids + count), "b": [drawn.randbytes(size) for _ in range(count)]}
            table.append(pa.table({"id": pa.array(rows["id"], pa.int32()), "b": pa.array(rows["b"])}))
            ids += count
        for _ in range(drawn.choice((0, 1, 3)) if options["deletion-vectors.enabled"] == "true" else 0):
            gone = drawn.sample(range(ids), min(ids, drawn.randint(1, 4)))
            table.delete(where=f"id IN ({', '.join(map(str, gone))})")
        files = files_of(table)
        if not files:
            return
        cost = int(options["source.split.open-file-cost"].removesuffix(" b"))
        target = target_at_a_limit(files, cost, drawn)
        schema = table.schema
        given = {**schema.options, "target-file-size": f"{target} b"}
        later = replace(schema, id=schema.id + 1, options=given)
        Path(table.path, "schema", f"schema-{later.id}").write_bytes(encode_schema(later))
        table, full = Table.open(table.path), drawn.random() < 0.3
        before = sorted(table.to_arrow().column("id").to_pylist())
        expected = {file.name for group in groups(files, options, target, cost, full=full) for file in group}
        table.compact(full=full)
        taken = {file.name for file in files} - {file.name for file in files_of(table)}
        files_were_taken(files, taken, expected, f"target {target}, {options}, full={full}")
        rows_stay(before, sorted(table.to_arrow().column("id").to_pylist()))


def files_of(table: Table) -> list[File]:
    """Return the live files of a table."""
    vectors = {one["file_name"]: one for one in table.inspect.vectors().to_pylist()}
    return [
        File(
            one.file_name,
            one.file_size,
            one.row_count,
            vectors[one.file_name]["deleted_row_count"] if one.file_name in vectors else 0,
            vectors[one.file_name]["index_file"] if one.file_name in vectors else None,
        )
        for live in table.catalog.state().files.values()
        for one in live
    ]


def target_at_a_limit(files: Sequence[File], cost: int, drawn: random.Random) -> int:
    """Return a target size at which a file is just small or not, or a group just large enough or not."""
    if drawn.random() < 0.3:
        return max(1, int(drawn.choice(files).size / SMALL) + drawn.randint(0, 1))
    some = sorted(files, key=lambda file: file.size)[: drawn.randint(1, len(files))]
    if len(some) < len(files) and drawn.random() < 0.3:
        some = some[1:] or some
    whole = sum(file.size + cost for file in some)
    if drawn.random() < 0.2:
        return drawn.choice((whole, 3 * whole))
    return max(1, (whole + drawn.randint(0, 2)) // 2)


def groups(
    files: Sequence[File], options: Mapping[str, str], target: int, cost: int, *, full: bool
) -> list[list[File]]:
    """Return the groups of files that are to be written again. Clauses: APP-19, APP-20."""
    given = options.get("compaction.delete-ratio-threshold")
    most = SHARE if given is None else Fraction(given)
    chosen = [
        file
        for file in files
        if file.size < SMALL * target or Fraction(file.deleted, file.rows) > most or (full and file.index)
    ]
    if full:
        return [one for one in packed(chosen, target, cost, 1) if len(one) > 1 or one[0].index]
    fewest = int(options["compaction.min.file-num"])
    found = list(packed([file for file in chosen if file.index is None], target, cost, fewest))
    for index in sorted({file.index for file in chosen if file.index}):
        found += packed([file for file in chosen if file.index == index], target, cost, 1)
    return found


def packed(files: Sequence[File], target: int, cost: int, fewest: int) -> Iterator[list[File]]:
    """Yield groups of two files or more and twice the target size, and of what is left if it has ``fewest`` files."""
    group: list[File] = []
    for file in sorted(files, key=lambda one: (one.size, one.name)):
        group.append(file)
        if len(group) >= 2 and sum(one.size + cost for one in group) >= 2 * target:
            yield group
            group = []
    if group and len(group) >= fewest:
        yield group


@check
@covers("APP-19", "APP-20")
def files_were_taken(files: Sequence[File], taken: set[str], expected: set[str], what: str) -> None:
    """A compaction has written again what the clauses say."""
    if taken != expected:
        wrong = [file for file in files if file.name in taken ^ expected]
        fail(
            f"{what}: of {list(files)} these were {'not ' if wrong[0].name in expected else ''}taken: {wrong}"
        )


@check
@covers("APP-21")
def rows_stay(before: Sequence[int], after: Sequence[int]) -> None:
    """A compaction changes no row."""
    if before != after:
        fail(f"expected the rows {list(before)}, found {list(after)}")
