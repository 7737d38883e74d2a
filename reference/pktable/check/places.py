"""Check where the keys of a table are that move between partitions: each has a row in one place.

Memory holds the keys of the newest snapshot, in all of its buckets.

Clauses: BKT-21.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pktable.bucket.moving import AT_BUCKET, AT_PARTITION, encoded_keys, known_places
from pktable.bucket.read import BucketRead
from pktable.check.findings import Findings, counted
from pktable.check.history import BucketHistory
from pktable.context import TableContext
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketState


def check_places(context: TableContext, buckets: Sequence[BucketHistory], findings: Findings) -> None:
    """Expect every key in one bucket of one partition, in the newest snapshot. Clauses: BKT-21."""
    newest = max(
        (one for bucket in buckets for last in bucket.versions[-1:] for one in last.snapshots), default=0
    )
    with findings.guard("RD-11", snapshots=[newest]):
        tables = [
            table for part in _parts(context, buckets, newest) for table in known_places(context, part, None)
        ]
        if not tables:
            return
        keys = pa.concat_tables(tables)
        (encoded,) = encoded_keys(context, [keys])
        order = np.argsort(encoded, kind="stable")
        (twice,) = np.nonzero(encoded[order][1:] == encoded[order][:-1])
        if len(twice):
            at = order[twice[0] : twice[0] + 2]
            places = [
                context.place(row[AT_PARTITION], row[AT_BUCKET]).directory
                for row in keys.take(pa.array(at)).to_pylist()
            ]
            findings.add(
                "BKT-21",
                "keys",
                context.root,
                expected="in one bucket of one partition; delete them and write the right row",
                found=f"{counted(len(twice), 'key')} in two, one of them in {' and '.join(places)}",
                snapshots=[newest],
            )


def _parts(context: TableContext, buckets: Iterable[BucketHistory], snapshot: int) -> Iterator[BucketRead]:
    """Yield what a fresh read of a snapshot takes of each bucket."""
    kind = kind_of(context.schema, context.root)
    for bucket in buckets:
        for version in bucket.versions[-1:]:
            if snapshot in version.snapshots and version.entries:
                live = tuple(entry.file for entry in version.entries)
                wanted, merges = kind.files_to_read(context, live, fresh=True)
                yield BucketRead(BucketState(bucket.place, tuple(wanted), version.indexes), merges)
