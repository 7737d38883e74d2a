"""Cross-partition keys: a key has one place in the whole table, and a write moves it or stays with it.

1. `known_places` reads where the keys of some buckets are. `with_places` joins that to rows that are written.
2. `MovingKeys.placed` says what is written where. A row of deduplicate goes to its own partition, and leaves a
   retraction where its key was. With other engines a row goes to where its key is.
3. A key that is new in a partition gets a bucket there as a key of dynamic buckets does.

No index is stored: each write reads the key columns of the files whose keys are in the range of its own.

Clauses: BKT-21 to BKT-25, BKT-28.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.vocabulary import RowKind

from pktable.bucket.dynamic import Room, assigner_of, assigners
from pktable.bucket.hash_index import hashes_of_rows
from pktable.bucket.partitions import Partitions, partitions_of
from pktable.bucket.read import BucketRead, read_bucket
from pktable.context import TableContext
from pktable.format.binary_row import decode_row, encode_row
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.format.types import FLOATS, Value, array_of, values_of
from pktable.ingest.changes import KIND_COLUMN
from pktable.lsm.bucket import Key
from pktable.merge.engine import Deduplicate
from pktable.merge.key_encoding import encode_keys
from pktable.predicate import Predicate
from pktable.predicate.tree import And, Column, Expression
from pktable.statements.plan import among
from pktable.store.new_files import NewFiles

AT_PARTITION: Final = "__pktable_at_partition"
AT_BUCKET: Final = "__pktable_at_bucket"
"""The columns that say where the key of a row is: a BinaryRow and a number, null if it has no row."""
NOWHERE: Final = -1
PAIR: Final = ("__pktable_partition", "__pktable_bucket", "__pktable_is_here")
"""The columns of what is remembered of a key for each partition that it has been in: the number of the partition, the
bucket, and whether the row is there now.
"""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Batch:
    """n changes of a write. ``keys``: of each the number of its key, of ``count`` keys; ``partitions``: its own.

    ``before``: of each key the partition that its row is in, or `NOWHERE`. Partitions are numbers. ``removals``: the
    changes after which a key has no row, whatever it had.
    """

    keys: Numbers
    count: int
    partitions: Numbers
    adds: Flags
    removals: Flags
    before: Numbers


@dataclass(frozen=True, slots=True)
class _Settled:
    """The changes as they are written. ``rows``: the numbers of these, in order; as a retraction where ``moved``.

    ``partitions``: of each the one that it is written into. ``after``: of each key the one that its row is in then.
    """

    rows: Numbers
    moved: Flags
    partitions: Numbers
    after: Numbers


class MovingKeys:
    """The `BucketAssigner` of a table with cross-partition keys."""

    columns: Sequence[str] = ()

    def __init__(
        self,
        context: TableContext,
        live: Sequence[BucketRead],
        tasks: int = 1,
        *,
        stored: dict[bytes, dict[int, int]] | None = None,
        may_move: bool = True,
        keys_only: bool = False,
    ) -> None:
        """``live``: the buckets that have keys. ``stored``: how many rows they have, by partition.

        ``may_move``: whether a key of them may be written; an overwrite cannot take it out of partitions that stay.
        ``keys_only``: whether rows are deletions that have no partition.
        """
        self._context, self.live, self._may_move, self._keys_only = context, live, may_move, keys_only
        self._moves_rows = context.merge_engine.name == Deduplicate.name
        self._stored = rows_by_bucket(context, live) if stored is None else stored
        self.groups = assigners(context, tasks)
        self._room = Room(context, self.groups, lambda partition: dict(self._stored.get(partition, {})))
        self._encoded: list[bytes] = []
        self._number_of: dict[bytes, int] = {}
        self._pairs: pa.Table | None = None

    def among(self, tasks: int) -> MovingKeys:
        """Return the assigner for rows that come `with_places`."""
        context, stored = self._context, self._stored
        return MovingKeys(
            context, (), tasks, stored=stored, may_move=self._may_move, keys_only=self._keys_only
        )

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> Numbers:
        raise AssertionError("keys that move are `placed`")

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Value, ...]]) -> set[int] | None:
        return None

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        return ()

    def groups_of(self, rows: pa.Table) -> Numbers:
        """Return of each row, which comes `with_places`, who has its key. All places of a key are of one group."""
        at = rows.column(AT_BUCKET).fill_null(NOWHERE).to_numpy().astype(np.int64)
        hashes = hashes_of_rows(self._context, rows, self._context.schema.key_names)
        return np.where(at == NOWHERE, assigner_of(hashes, self.groups), at % self.groups)

    def placed(self, rows: pa.Table) -> tuple[pa.Table, Partitions, Numbers]:
        """Return what is written for ``rows`` (with `KIND_COLUMN`), and the partition and bucket of each.

        Raises InvalidRequestError, CorruptFileError. Clauses: BKT-22 to BKT-25, BKT-28.
        """
        if AT_BUCKET not in rows.column_names:
            wanted = Wanted.of(self._context, rows)
            found = [table for part in self.live for table in known_places(self._context, part, wanted)]
            rows = with_places(self._context, rows, found)
        if self._keys_only:
            rows = self._to_delete(rows.filter(pc.is_valid(rows.column(AT_BUCKET))))
        at_partition, at_bucket = rows.column(AT_PARTITION), rows.column(AT_BUCKET)
        rows = rows.drop_columns([AT_PARTITION, AT_BUCKET])
        if not rows.num_rows:
            return rows, Partitions((), np.empty(0, np.int64)), np.empty(0, np.int64)
        self._expect_to_stay(rows, at_bucket)
        own = partitions_of(self._context, rows)
        names = list(self._context.schema.primary_keys)
        numbers, firsts = self._key_numbers(rows)
        old, keys = np.split(numbers, [len(numbers) - rows.num_rows])
        is_here = pc.is_valid(at_bucket).to_numpy()
        places = at_partition.filter(pa.array(is_here)).combine_chunks().dictionary_encode()
        of_place = np.array([self._number(one.as_py()) for one in places.dictionary], np.int64)
        of_own = np.array([self._number(one) for one in own.encoded], np.int64)
        before = np.full(len(firsts), NOWHERE, np.int64)
        before[keys[is_here]] = of_place[places.indices.to_numpy()]
        known = [(keys[is_here], before[keys[is_here]], at_bucket.filter(pa.array(is_here)).to_numpy())]
        if self._pairs is not None:
            partitions, buckets, here = (self._pairs.column(name).to_numpy() for name in PAIR)
            before[old] = NOWHERE
            before[old[here]] = partitions[here]
            known.append((old, partitions, buckets))
        kinds = rows.column(KIND_COLUMN).to_numpy()
        removals = (kinds == RowKind.DELETE) & self._context.merge_engine.deletes
        batch = _Batch(keys, len(firsts), of_own[own.numbers], kinds & 1 == 0, removals, before)
        settled = (moves if self._moves_rows else stays)(batch)
        buckets = self._buckets(rows, batch, settled, known)
        self._remember(rows.select(names), firsts, settled, known, (keys[settled.rows], buckets))
        written = self._written(rows, batch, settled)
        return written, Partitions(list(self._encoded), settled.partitions), buckets

    def _to_delete(self, rows: pa.Table) -> pa.Table:
        """Return the first row of each key that no earlier row has deleted."""
        if not rows.num_rows:
            return rows
        numbers, _ = self._key_numbers(rows)
        old, keys = np.split(numbers, [len(numbers) - rows.num_rows])
        _, first = np.unique(keys, return_index=True)
        if self._pairs is not None:
            here = self._pairs.column(PAIR[2]).to_numpy()
            gone = np.setdiff1d(old, old[here])
            first = first[~np.isin(keys[first], gone)]
        return rows.take(pa.array(np.sort(first)))

    def _expect_to_stay(self, rows: pa.Table, at_bucket: pa.ChunkedArray[Any]) -> None:
        """Raise InvalidRequestError if a row would take a key out of a partition that stays. Clauses: BKT-28."""
        if self._may_move or at_bucket.null_count == len(at_bucket):
            return
        moved = rows.select(list(self._context.schema.primary_keys)).filter(pc.is_valid(at_bucket))
        raise InvalidRequestError(
            f"overwrite: key {next(iter(moved.slice(0, 1).to_pylist()))} is in a partition that is not replaced; "
            "delete it there first, or write the rows by upsert"
        )

    def _number(self, partition: bytes) -> int:
        found = self._number_of.setdefault(partition, len(self._encoded))
        if found == len(self._encoded):
            self._encoded.append(partition)
        return found

    def _key_numbers(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """Return the number of the key of each pair that is remembered and of each row, and where each key is first."""
        tables = [rows] if self._pairs is None else [self._pairs, rows]
        encoded = np.concatenate(encoded_keys(self._context, tables))
        _, firsts, numbers = np.unique(encoded, return_index=True, return_inverse=True)
        return numbers, firsts

    def _buckets(
        self,
        rows: pa.Table,
        batch: _Batch,
        settled: _Settled,
        known: Sequence[tuple[Numbers, Numbers, Numbers]],
    ) -> Numbers:
        """Return the bucket of each row that is written. Clauses: BKT-25."""
        width = len(self._encoded)
        keys = batch.keys[settled.rows]
        wanted, first, places = np.unique(
            keys * width + settled.partitions, return_index=True, return_inverse=True
        )
        found = np.full(len(wanted), NOWHERE, np.int64)
        groups = np.full(batch.count, NOWHERE, np.int64)
        for of_key, partitions, buckets in known:
            groups[of_key] = buckets % self.groups
            pairs = of_key * width + partitions
            at = np.searchsorted(wanted, pairs)
            at[at == len(wanted)] = 0
            hits = wanted[at] == pairs
            found[at[hits]] = buckets[hits]
        (new,) = np.nonzero(found == NOWHERE)
        new = new[np.argsort(first[new])]
        chosen = rows.take(pa.array(settled.rows[first[new]]))
        hashes = hashes_of_rows(self._context, chosen, self._context.schema.key_names)
        of_new = groups[keys[first[new]]]
        of_new = np.where(of_new == NOWHERE, assigner_of(hashes, self.groups), of_new)
        partitions = settled.partitions[first[new]]
        for partition in np.unique(partitions).tolist():
            mine = partitions == partition
            found[new[mine]] = self._room.give(self._encoded[partition], hashes[mine], of_new[mine])
        return found[places]

    def _remember(
        self,
        keys: pa.Table,
        firsts: Numbers,
        settled: _Settled,
        known: Sequence[tuple[Numbers, Numbers, Numbers]],
        written: tuple[Numbers, Numbers],
    ) -> None:
        """Remember where all keys so far have been, for rows that come later. ``keys``: of the rows."""
        parts = [*known, (written[0], settled.partitions, written[1])]
        numbers, partitions, buckets = (np.concatenate([part[i] for part in parts]) for i in range(3))
        _, chosen = np.unique(numbers * len(self._encoded) + partitions, return_index=True)
        numbers, partitions, buckets = numbers[chosen], partitions[chosen], buckets[chosen]
        every = (
            keys if self._pairs is None else pa.concat_tables([self._pairs.select(keys.column_names), keys])
        )
        pairs = every.take(pa.array(firsts[numbers]))
        for name, values in zip(
            PAIR, (partitions, buckets, settled.after[numbers] == partitions), strict=True
        ):
            pairs = pairs.append_column(name, pa.array(values))
        self._pairs = pairs

    def _written(self, rows: pa.Table, batch: _Batch, settled: _Settled) -> pa.Table:
        """Return the rows that are written, with the values of their partitions in the partition columns."""
        whole = len(settled.rows) == rows.num_rows and not settled.moved.any()
        found = rows if whole else rows.take(pa.array(settled.rows))
        if settled.moved.any():
            kinds = np.where(
                settled.moved, np.int8(RowKind.DELETE), found.column(KIND_COLUMN).to_numpy()
            ).astype(np.int8)
            found = found.set_column(found.column_names.index(KIND_COLUMN), KIND_COLUMN, pa.array(kinds))
        others = settled.partitions != batch.partitions[settled.rows]
        if not others.any():
            return found
        fields = self._context.schema.partition_fields
        types = [field.type for field in fields]
        values = [decode_row(one, types, at=self._context.root) for one in self._encoded]
        for i, field in enumerate(fields):
            at, column = found.column_names.index(field.name), found.column(field.name)
            given = array_of([one[i] for one in values], field.type).cast(column.type)
            replaced = pc.if_else(pa.array(others), given.take(pa.array(settled.partitions)), column)
            found = found.set_column(at, field.name, replaced)
        return found


def moves(batch: _Batch) -> _Settled:
    """Each row goes to its partition, and a retraction to where its key was. Clauses: BKT-22, BKT-24."""
    order = np.argsort(batch.keys, kind="stable")
    keys, own, adds = batch.keys[order], batch.partitions[order], batch.adds[order]
    left = np.where(adds, own, NOWHERE)
    begins = np.append(True, keys[1:] != keys[:-1])
    before = np.empty(len(keys), np.int64)
    before[order] = np.where(begins, batch.before[keys], np.append(NOWHERE, left[:-1]))
    after = batch.before.copy()
    ends = np.append(begins[1:], True)
    after[keys[ends]] = left[ends]
    targets = np.where(batch.adds | (before == NOWHERE), batch.partitions, before)
    (gone,) = np.nonzero(batch.adds & (before != NOWHERE) & (before != batch.partitions))
    rows = np.arange(len(keys))
    at = np.argsort(np.concatenate([2 * gone, 2 * rows + 1]))
    moved = np.append(np.ones(len(gone), bool), np.zeros(len(rows), bool))[at]
    partitions = np.concatenate([before[gone], targets])[at]
    return _Settled(np.concatenate([gone, rows])[at], moved, partitions, after)


def stays(batch: _Batch) -> _Settled:
    """Each row goes to the place of its key, or of the first row of the key that adds. Clauses: BKT-23, BKT-24.

    A removal ends the life of a key: what follows it is placed as if the key had not been there.
    """
    order = np.argsort(batch.keys, kind="stable")
    keys, adds, removals = batch.keys[order], batch.adds[order], batch.removals[order]
    is_first = np.append(True, keys[1:] != keys[:-1])
    begins = is_first | np.append(False, removals[:-1])
    lives = np.cumsum(begins) - 1
    places = np.where(is_first, batch.before[keys], NOWHERE)[begins]
    since = np.where(places == NOWHERE, len(keys), 0)  # the first of the rows that are at the place
    added, first = np.unique(lives[adds], return_index=True)
    first = np.flatnonzero(adds)[first]
    new = places[added] == NOWHERE
    places[added[new]], since[added[new]] = batch.partitions[order[first[new]]], first[new]
    targets = np.empty(len(keys), np.int64)
    targets[order] = np.where(np.arange(len(keys)) < since[lives], batch.partitions[order], places[lives])
    after = batch.before.copy()
    ends = np.append(is_first[1:], True)
    after[keys[ends]] = np.where(removals[ends], NOWHERE, places[lives[ends]])
    return _Settled(np.arange(len(keys)), np.zeros(len(keys), bool), targets, after)


def encoded_keys(context: TableContext, tables: Sequence[pa.Table]) -> list[npt.NDArray[Any]]:
    """Return the whole primary keys of rows, so that they compare."""
    names = context.schema.primary_keys
    types = [context.schema.field(name).type for name in names]
    return encode_keys([[table.column(name) for name in names] for table in tables], types)


def rows_by_bucket(context: TableContext, live: Sequence[BucketRead]) -> dict[bytes, dict[int, int]]:
    """Return how many rows each bucket has, by partition, by what metadata says. Clauses: BKT-25."""
    found: dict[bytes, dict[int, int]] = {}
    for part in live:
        partition, bucket = part.state.place.id
        adds = sum(file.row_count - (file.delete_row_count or 0) for file in part.state.files)
        deleted = sum(context.deleted_counts(part.state).values())
        found.setdefault(partition, {})[bucket] = max(0, adds - deleted)
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """The keys that are looked for: from ``low`` to ``high``, and those for which ``condition`` holds."""

    low: Key
    high: Key
    condition: Predicate | None

    @classmethod
    def of(cls, context: TableContext, rows: pa.Table) -> Wanted:
        """Return what finds the keys of ``rows``, at least one."""
        types, columns = context.key_types, [rows.column(name) for name in context.schema.key_names]
        (encoded,) = encode_keys([columns], types)
        ends = pa.array([int(np.argmin(encoded)), int(np.argmax(encoded))])
        values = [values_of(column.take(ends), kind) for column, kind in zip(columns, types, strict=True)]
        low, high = (
            context.order.key(encode_row(key, types), context.root) for key in zip(*values, strict=True)
        )
        return cls(low, high, _condition(context, rows))

    def among(self, context: TableContext, files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
        """Return those of ``files`` that may have such keys."""
        order = context.order
        return tuple(
            one for one in files if order.smallest(one) <= self.high and self.low <= order.greatest(one)
        )


def known_places(context: TableContext, part: BucketRead, wanted: Wanted | None) -> Iterator[pa.Table]:
    """Yield the keys that have a row in a bucket, with `AT_PARTITION` and `AT_BUCKET`.

    ``wanted``: None for all. Clauses: BKT-21.
    """
    if wanted is not None:
        files = wanted.among(context, part.state.files)
        part = replace(part, state=replace(part.state, files=files))
        if not files:
            return
    partition, bucket = part.state.place.id
    condition = wanted.condition if wanted else None
    for table in read_bucket(context, part, context.schema.primary_keys, condition):
        number = table.num_rows
        table = table.append_column(AT_PARTITION, pa.repeat(pa.scalar(partition, pa.binary()), number))
        yield table.append_column(AT_BUCKET, pa.repeat(pa.scalar(bucket, pa.int32()), number))


def _condition(context: TableContext, rows: pa.Table) -> Predicate | None:
    """Return a condition that holds for the keys of ``rows``, on those columns that bounds are useful for."""
    found: list[Expression] = []
    for field in context.schema.key_fields:
        if field.type.root in (*FLOATS, "BOOLEAN"):
            continue
        found += among(Column(field.name, field.type), pc.unique(rows.column(field.name)))
    if not found:
        return None
    return Predicate("the keys of the rows", And(tuple(found)) if len(found) > 1 else found[0])


def with_places(context: TableContext, rows: pa.Table, known: Sequence[pa.Table]) -> pa.Table:
    """Return ``rows`` with `AT_PARTITION` and `AT_BUCKET`. ``known``: `known_places` of all buckets.

    Raises CorruptFileError if a key has two places. Clauses: BKT-21.
    """
    if not known:
        nowhere = rows.append_column(AT_PARTITION, pa.nulls(rows.num_rows, pa.binary()))
        return nowhere.append_column(AT_BUCKET, pa.nulls(rows.num_rows, pa.int32()))
    places = pa.concat_tables(known)
    keys, wanted = encoded_keys(context, [places, rows])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    at = np.searchsorted(keys, wanted)
    hits = at < len(keys)
    hits[hits] = keys[at[hits]] == wanted[hits]
    twice = hits & (at + 1 < len(keys))
    twice[twice] = keys[at[twice] + 1] == wanted[twice]
    if twice.any():
        one = int(np.flatnonzero(twice)[0])
        key = rows.select(list(context.schema.primary_keys)).slice(one, 1).to_pylist()[0]
        both = places.take(pa.array(order[at[one] : at[one] + 2]))
        raise CorruptFileError(
            f"key {key}",
            at=context.root,
            expected="a row in one partition; delete it, then write the row that is right",
            found="rows in " + " and ".join(_named(context, row) for row in both.to_pylist()),
        )
    chosen = pa.array(np.where(hits, order[np.where(hits, at, 0)], 0), mask=~hits)
    found = rows.append_column(AT_PARTITION, places.column(AT_PARTITION).take(chosen))
    return found.append_column(AT_BUCKET, places.column(AT_BUCKET).take(chosen))


def _named(context: TableContext, row: dict[str, Any]) -> str:
    return context.place(row[AT_PARTITION], row[AT_BUCKET]).directory
