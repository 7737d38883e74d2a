"""Which records of a merge are late: an older file holds a newer record of their key, by ``sequence.field``.

Without the option what lies deeper is older. With it, a compaction compares the newest record that it has of a key
with every row of the key that the lookup finds. Deleted rows count: a row that remembers a deletion is deleted by the
vector of its file (DV-21). A row that was replaced does no harm, since its replacement is newer.

Clauses: DV-23, MRG-19.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.fetch import fetch_rows
from pktable.bucket.locate import Located
from pktable.context import TableContext
from pktable.lsm.bucket import BucketPath
from pktable.merge.grouping import Flags, Window


def ordering_rows(context: TableContext, place: BucketPath, found: Sequence[Located]) -> list[pa.Table]:
    """Return of each of ``found`` the rows, in the columns that order records."""
    columns = ordering_columns(context)
    return [fetch_rows(context, place, one.file, one.positions, columns) for one in found]


def ordering_columns(context: TableContext) -> list[str]:
    order = context.user_order
    assert order is not None, "the caller has asked"
    return list(dict.fromkeys([*order.columns, SEQUENCE_NUMBER, VALUE_KIND]))


def late_keys(
    context: TableContext, newest: pa.Table, found: Sequence[Located], rows: Sequence[pa.Table]
) -> Flags:
    """Return per row of ``newest``, n records of different keys, whether one of ``found`` is newer.

    ``found``: where older files hold these keys, by row number of ``newest``. ``rows``: their `ordering_rows`.
    """
    count = newest.num_rows
    records = pa.concat_tables([*rows, newest.select(ordering_columns(context))])
    keys = np.concatenate([*(one.keys for one in found), np.arange(count)])
    # Of equal ones the newest is the last, which is that of the merge.
    by_key = np.argsort(keys, kind="stable")
    starts = np.searchsorted(keys[by_key], np.arange(count))
    window = Window(records, starts, by_key, np.zeros(len(keys), dtype=np.int32)).in_order(context.user_order)
    late: Flags = window.newest < records.num_rows - count
    return late
