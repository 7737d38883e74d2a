"""Histories that several implementations take part in: a table, and who does what to it, in order.

As in `model_tests.histories.strategies`, universes are small so that steps meet: four keys of every type, one of them
at an edge of what its encoding does. Values are plain (see `plain`). The last column, ``w``, numbers the
change a row comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pktable_conform.judge.history import BULK, spelled_out
from pktable_spec.interface import Row
from pktable_spec.model.merge import IGNORE_DELETE, MergeEngine, engine_of

PlainChange: TypeAlias = tuple[str, Row]
"""A row kind by symbol, and a row."""
Condition: TypeAlias = tuple[str, str, str]
"""A column, one of = <> < <= > >=, and a literal."""

KEYS: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "INT": ("1", "0", "-1", "2147483647"),
    "BIGINT": ("1", "0", "-1", "9223372036854775807"),
    "SMALLINT": ("1", "0", "-1", "32767"),
    "TINYINT": ("1", "0", "-1", "-128"),
    # Prefixes of each other, within and beyond 7 bytes and 16 code points, in an order that UTF-16 has otherwise.
    "STRING": ("a", "ab\uffee", "ab\U0001f600", "a long one, of more than 16 code points"),
    "VARCHAR(20)": ("a", "", " ", "abcdefgh"),
    "BYTES": ("61", "", "00", "ff00ff00ff00ff00ff"),
    "DATE": ("1", "0", "-1", "19000"),
    "DECIMAL(12, 2)": ("1.00", "0.00", "-0.01", "9999999999.99"),
    "DECIMAL(30, 5)": ("1.00000", "0.00000", "-0.00001", "123456789012345678901.12345"),
    "TIME(3)": ("1", "0", "43200000", "86399999"),
    "TIMESTAMP(3)": ("1000000", "0", "-1000000", "1700000000123000000"),
    "TIMESTAMP(6)": ("1000", "0", "-1000", "1700000000123456000"),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ("1000", "0", "-1000", "1700000000123456000"),
    "DOUBLE": ("3ff8000000000000", "0000000000000000", "8000000000000000", "nan"),
    "FLOAT": ("3fc00000", "00000000", "80000000", "nan"),
    "BOOLEAN": ("false", "true", "false", "true"),
}
"""Four keys of each type that a primary key is drawn of."""


PARTITIONS: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "STRING": ("x", "a/b=c%", "", "\u00fc \U0001f600"),
    "INT": ("1", "0", "-1", "2147483647"),
    "DATE": ("1", "0", "-1", "19000"),
    "TIME(3)": ("1", "0", "43200000", "86399999"),
    "BOOLEAN": ("false", "true", "false", "true"),
}


VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    **KEYS,
    "CHAR(5)": ("abcde", "vwxyz"),
    "BINARY(3)": ("000102", "ffffff"),
    "VARBINARY(9)": ("00", "ffffffffffffffffff"),
    "TIMESTAMP(0)": ("1000000000", "-1000000000"),
    "TIMESTAMP(9)": ("1", "-1000000", "1700000000123456789"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": ("1000000", "-1000000"),
}
"""Every atomic type, with some of its values."""

VECTORS: Final = "deletion-vectors.enabled"
SEQUENCE_FIELD: Final = "sequence.field"
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bucket": ("1", "2", "3"),
    "num-sorted-run.compaction-trigger": ("5", "2", "3"),
    "num-levels": ("6", "3", "2"),
    "target-file-size": ("128 mb", "2 kb"),
    "manifest.merge-min-count": ("30", "2"),
    "metadata.stats-mode": ("truncate(16)", "full", "none"),
    "compaction.delete-ratio-threshold": ("1", "0.2"),
}
BITMAP64: Final = "deletion-vectors.bitmap64"
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"
ENGINES: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {},
    {IGNORE_DELETE: "true"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "aggregation"},
    {"merge-engine": "aggregation", DEFAULT_FUNCTION: "last_value"},
    {"merge-engine": "aggregation", DEFAULT_FUNCTION: "first_non_null_value"},
)
"""Merge engines as table options. Tables of others than deduplicate get no retractions."""
PRODUCER: Final = "changelog-producer"
PRODUCERS: Final = ("none", "lookup", "input")


@dataclass(frozen=True)
class Universe:
    """The universe that histories are drawn from: keys and partitions by type, and types of values.

    Histories leave out the operations that a participating implementation cannot do, as `probes` shows.
    """

    keys: Mapping[str, tuple[str, str, str, str]]
    partitions: Mapping[str, tuple[str, str, str, str]]
    values: tuple[str, ...]

    def merged(self) -> Universe:
        """Return what of it every implementation merges alike.

        Without NaN and a negative zero as keys: each has an order of its own for them. Without times of
        nanoseconds: pypaimon loses digits of them where it merges.
        """
        keys = {**self.keys, **{name: EVEN_FLOATS[name] for name in EVEN_FLOATS.keys() & self.keys.keys()}}
        return replace(self, keys=keys, values=tuple(type for type in self.values if type != NANOSECONDS))


EVEN_FLOATS: Final = {
    "DOUBLE": ("3ff8000000000000", "0000000000000000", "bff8000000000000", "7ff0000000000000"),
    "FLOAT": ("3fc00000", "00000000", "bfc00000", "7f800000"),
}
NANOSECONDS: Final = "TIMESTAMP(9)"
EVERYTHING: Final = Universe(KEYS, PARTITIONS, tuple(VALUES))
FOR_LEVEL_ZERO: Final = EVERYTHING.merged()
"""Of times of nanoseconds also since pypaimon and pypaimon-rust write them in a way that the JVM does not."""
FOR_JVM: Final = replace(
    EVERYTHING,
    keys={**KEYS, **EVEN_FLOATS},
    partitions={**PARTITIONS, "STRING": ("x", "a:b=c%", "", "\u00fc \U0001f600")},
)
"""No partition with a slash: the JVM looks keys up in files named after the partition."""
FOR_NEWER_JVM: Final = replace(
    FOR_JVM, keys={name: keys for name, keys in FOR_JVM.keys.items() if name != "BYTES"}
)
"""No binary keys: Paimon 1.4 cannot compare them in a lookup."""


@dataclass(frozen=True)
class Definition:
    """A table as all of them define it. ``columns``: name and SQL type; the last one is ``w``.

    ``case``: of `retracting.CASES`, if its merge engine takes retractions back.
    """

    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    case: str = ""

    @property
    def has_vectors(self) -> bool:
        return self.options[VECTORS] == "true"

    @property
    def takes_retractions(self) -> bool:
        return "merge-engine" not in self.options

    @property
    def ignores_retractions(self) -> bool:
        return self.options.get(IGNORE_DELETE) == "true"

    @property
    def merge_engine(self) -> MergeEngine:
        """The oracle's engine, with the option to ignore retractions where it never gets any."""
        return engine_of(self.options if self.takes_retractions else {**self.options, IGNORE_DELETE: "true"})

    def type_of(self, column: str) -> str:
        return dict(self.columns)[column]


@dataclass(frozen=True)
class Step:
    """One operation of one implementation: ``write`` its ``changes`` or its ``span``, or ``compact``.

    On an append table also a statement: ``delete`` or ``update`` the rows ``where`` a condition holds, ``merge`` or
    ``overwrite`` with its ``changes``. ``span``: row kind, start, stop and step of the integer keys of a long write.
    """

    by: str
    do: str
    changes: tuple[PlainChange, ...] = ()
    span: tuple[str, int, int, int] | None = None
    write_only: bool = False
    full: bool = False
    where: Condition | None = None


@dataclass(frozen=True)
class History:
    """A table, who creates it, what is done to it, and conditions every reader reads it under as well."""

    definition: Definition
    created_by: str
    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...] = ()

    def __repr__(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def numbered(steps: Sequence[Step]) -> list[list[PlainChange]]:
    """Return the changes of each step with their number in the last column."""
    count, found = 0, []
    for step in steps:
        changes = []
        for kind, row in step.changes or _spanned(step):
            count += 1
            changes.append((kind, (*spelled_out(row, count), str(count))))
        found.append(changes)
    return found


def _spanned(step: Step) -> list[PlainChange]:
    if step.span is None:
        return []
    kind, start, stop, by = step.span
    # Values that do not compress, so that the first long run is the largest.
    return [(kind, (str(key), str(key * 2654435761 % (1 << 32)))) for key in range(start, stop, by)]


# ------------------------------------------------------------------------------ drawing


def definitions(
    universe: Universe, *, vectors: bool, bitmap64: bool, ordered: bool = False
) -> SearchStrategy[Definition]:
    """Draw a table, with deletion vectors or without: one to two key columns, partitions, all atomic types or one.

    ``ordered``: its records are ordered by the option ``sequence.field``, which names a column of strings.
    """
    order = {
        SEQUENCE_FIELD: st.just("v0"),
        # Paimon 0.9, which does not know the option, merges tables without vectors in ascending order.
        f"{SEQUENCE_FIELD}.sort-order": st.sampled_from(("ascending", "descending")[: 1 + vectors]),
    }
    return st.builds(
        definition_of,
        keys=st.one_of(
            st.sampled_from([(name,) for name in universe.keys]),
            st.lists(st.sampled_from(list(universe.keys)), min_size=2, max_size=2).map(tuple),
        ),
        partitions=st.one_of(st.just(()), st.sampled_from([(name,) for name in universe.partitions])),
        # The first one is a column of strings.
        values=st.sampled_from((("STRING",), ("STRING", *universe.values) if ordered else universe.values)),
        options=st.fixed_dictionaries(
            {
                **{name: st.sampled_from(values) for name, values in OPTIONS.items()},
                VECTORS: st.just(str(vectors).lower()),
                PRODUCER: st.sampled_from(PRODUCERS if vectors else (*PRODUCERS, "full-compaction")),
                BITMAP64: st.sampled_from(("false", "true") if bitmap64 else ("false",)),
                **(order if ordered else {}),
            }
        ),
    )


def definition_of(
    keys: tuple[str, ...], partitions: tuple[str, ...], values: tuple[str, ...], options: dict[str, str]
) -> Definition:
    """Return a table with columns of these types."""
    key_columns = [(f"k{at}", kind) for at, kind in enumerate(keys)]
    partition_columns = [("p", kind) for kind in partitions]
    value_columns = [(f"v{at}", kind) for at, kind in enumerate(values)]
    if "metadata.stats-mode" in options:  # changelog files have others
        options["changelog-file.stats-mode"] = "full" if options["metadata.stats-mode"] == "none" else "none"
    return Definition(
        columns=(*key_columns, *partition_columns, *value_columns, ("w", "INT")),
        primary_key=tuple(name for name, _ in (*partition_columns, *key_columns)),
        partition_by=tuple(name for name, _ in partition_columns),
        options={VECTORS: "true", "file.format": "parquet", **options},
    )


def change(definition: Definition, number: int, universe: Universe, *, inserts_only: bool) -> PlainChange:
    """Return the change that ``number`` stands for: its kind, its key, and which values it has."""
    number, key = divmod(number, 4)
    variant, kind = divmod(number, 6)
    symbol = "+I" if inserts_only else ("+I", "+I", "-D", "+I", "+U", "-U")[kind]
    row: list[str | None] = []
    for at, (name, type) in enumerate(definition.columns[:-1]):
        if name in definition.partition_by:
            row.append(universe.partitions[type][key // 2])
        elif name in definition.primary_key:
            row.append(universe.keys[type][(key + at) % 4])
        else:
            row.append(None if variant == 1 else VALUES[type][(variant + at) % len(VALUES[type])])
    return symbol, tuple(row)


NUMBERS = st.lists(st.integers(0, 4 * 6 * 4 - 1), min_size=1, max_size=4)


@dataclass(frozen=True)
class Actor:
    """Who may do what: ``compacts``, ``retracts``, chooses ``write_only`` writes.

    Of append tables: ``changes`` "rows" by their deletion vectors, "all" by every statement, or "nothing", and compacts
    those without buckets (``compacts_unaware``).
    """

    name: str
    compacts: bool = True
    retracts: bool = True
    changes: str = "all"
    compacts_unaware: bool = True


@st.composite
def histories(
    draw: st.DrawFn,
    actors: Sequence[Actor],
    creators: Sequence[str],
    universe: Universe,
    *,
    bitmap64: bool,
    engines: bool = False,
    most_conditions: int = 1,
    ordered: bool = False,
) -> History:
    """Draw a history of two to six steps, most on tables with vectors; an actor that compacts ends it.

    ``engines``: whether tables with vectors, or whose compactions look rows up, are of any of `ENGINES`.
    """
    vectors = draw(st.sampled_from((True, True, True, False)))
    if not vectors or ordered:  # peers merge where there are retractions, also deleted ones
        universe = universe.merged()
    definition = draw(definitions(universe, vectors=vectors, bitmap64=bitmap64, ordered=ordered))
    if engines and not ordered and (vectors or definition.options[PRODUCER] == "lookup"):
        options = {**definition.options, **draw(st.sampled_from(ENGINES))}
        definition = replace(definition, options=options)
    compactors = [actor.name for actor in actors if actor.compacts]
    begins = draw(st.sampled_from((True, True, True, False)))
    steps = loaded(definition, universe, draw(st.sampled_from(compactors))) if begins else []
    for _ in range(draw(st.integers(2, 6))):
        actor = draw(st.sampled_from(list(actors)))
        do = draw(st.sampled_from(("write", "write", "write", "compact") if actor.compacts else ("write",)))
        if do == "compact":
            steps.append(Step(actor.name, do, full=draw(st.booleans())))
            continue
        inserts_only = not (actor.retracts and definition.takes_retractions)
        first, *more = draw(NUMBERS)
        # Paimon makes no snapshot where nothing is left to write.
        always = inserts_only or definition.ignores_retractions
        changes = (
            change(definition, first, universe, inserts_only=always),
            *(change(definition, n, universe, inserts_only=inserts_only) for n in more),
        )
        write_only = not actor.compacts or draw(st.integers(0, 4)) == 4
        steps.append(Step(actor.name, do, changes=changes, write_only=write_only))
    steps.append(Step(draw(st.sampled_from(compactors)), "compact", full=draw(st.booleans())))
    return History(
        definition,
        draw(st.sampled_from(list(creators))),
        tuple(steps),
        draw(conditions(definition, universe, most_conditions)),
    )


def loaded(definition: Definition, universe: Universe, by: str) -> list[Step]:
    """Return steps that make a large run at the bottom: what is written over it meets it by lookup, not by merge."""
    at = [type for _, type in definition.columns].index("STRING", len(definition.primary_key))
    changes = []
    for key in range(4):
        kind, row = change(definition, key, universe, inserts_only=True)
        changes.append((kind, (*row[:at], BULK, *row[at + 1 :])))
    return [Step(by, "write", changes=tuple(changes), write_only=True), Step(by, "compact", full=True)]


def conditions(
    definition: Definition, universe: Universe, most: int
) -> SearchStrategy[tuple[Condition, ...]]:
    """Draw up to ``most`` conditions on key columns of integers or strings."""
    possible = [
        (name, operator, literal)
        for name in definition.primary_key
        for type in (definition.type_of(name),)
        if type in ("INT", "STRING", "BIGINT")
        for literal in (universe.partitions if name in definition.partition_by else universe.keys)[type]
        for operator in ("=", "<>", "<", "<=", ">", ">=")
    ]
    if not possible:
        return st.just(())
    return st.lists(st.sampled_from(possible), max_size=most, unique=True).map(tuple)
