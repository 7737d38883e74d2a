"""Write the files of one file group: a log file of a commit, or a base file of a new group or a compaction.

A commit appends at most one log file to a file slice, of one block, whose index is the tail of its content. A new file
group begins with a base file, because some readers know no group without one. Its rows are sorted by key, and its
footer has a bloom filter and the key range under Hudi's names.

Clauses: LOG-5, LOG-9, LOG-38, LOG-45, LOG-56, LOG-57, LOG-62, LOG-65, LOG-73.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pktable.format.arrow_values import with_masked
from pktable.format.types import DataType, Field, arrow_field
from pktable.store.file_io import FileIO

from pktable_hudi.format.avro_content import encode_rows
from pktable_hudi.format.avro_schema import written_out
from pktable_hudi.format.bloom import SIMPLE, SimpleFilter, filter_of
from pktable_hudi.format.delete_content import DELETE_VERSION, Delete, DeleteContent, encode_delete_content
from pktable_hudi.format.key_summary import (
    BLOOM,
    BLOOM_KIND,
    KeyCollation,
    KeySummary,
    footer_of_summary,
)
from pktable_hudi.format.log_block import BlockKind, HeaderKey, LogBlock, encode_block
from pktable_hudi.format.log_index import encode_tail, with_index
from pktable_hudi.format.timeline_writing import WrittenFile
from pktable_hudi.index_writer import DEFAULT, IndexPolicy, IndexWriter
from pktable_hudi.log_rows import deleted_among
from pktable_hudi.markers import announce
from pktable_hudi.scan import OWN_COLUMNS
from pktable_hudi.slices import FileSlice

FALSE_POSITIVES: Final = 0.001
COMPRESSION: Final = "zstd"
TEXTS: Final = ("partition", "group", "path", "base", "before")
WRITTEN: Final = tuple(
    Field(i, name, DataType("STRING" if name in TEXTS else "BOOLEAN" if name == "is_log" else "BIGINT"))
    for i, name in enumerate(WrittenFile.__dataclass_fields__)
)
"""The columns of the table of written files that a piece of work yields."""


@dataclass(frozen=True)
class GroupWrite:
    """The write of one commit to one file group. ``rows``: the user's columns, None of a delete. ``keys``: of each.

    ``slice``: the file slice to append to, with the log files of open commits; None for a new group. ``number``: of
    the group in the commit. ``known``: how many of the keys the group has. ``pending``: whether a compaction of the
    group is planned. ``schema``: Avro's, with Hudi's own columns.
    """

    store: FileIO
    root: str
    instant: str
    schema: str
    partition: str
    group: str
    number: int
    rows: pa.Table | None
    keys: pa.Array
    known: int
    slice: FileSlice | None
    pending: bool
    policy: IndexPolicy = DEFAULT

    def __call__(self) -> Iterator[pa.Table]:
        """Write the file, and yield one row about it."""
        yield written_table([self.log() if self.slice is not None else self.base()])

    def base(self) -> WrittenFile:
        """Write the base file of a new file group, without rows that say they are deleted. Clauses: LOG-56."""
        assert self.rows is not None
        given, keys = self.rows, self.keys
        if (deleted := deleted_among(given)).any():  # a reader looks for deletes in log files only
            live = pa.array(~deleted)
            given, keys = given.filter(live), keys.filter(live)
        name = base_name(self.group, self.number, self.instant)
        path = below(self.partition, name)
        rows = with_own_columns(given, keys, self.partition, self.instant, self.number, name)
        content = base_content(rows, self.schema)
        size, count = self._write(path, content), rows.num_rows
        return WrittenFile(self.partition, self.group, path, size, count, inserts=count)

    def log(self) -> WrittenFile:
        """Write a log file. Clauses: LOG-57."""
        assert self.slice is not None
        name = f".{self.group}_{self.instant}.log.1_{self.number}-0-0"
        path = below(self.partition, name)
        block = self._deletes() if self.rows is None else self._data(self.rows)
        content = b"".join(map(encode_block, block))
        size = self._write(path, content)
        count, deletes = len(self.keys), self.rows is None
        return WrittenFile(
            self.partition,
            self.group,
            path,
            size,
            0 if deletes else count,
            inserts=count - self.known,
            updates=0 if deletes else self.known,
            deletes=count if deletes else 0,
            base=self.slice.base.name if self.slice.base else "",
            before=self.slice.instant,
            is_log=True,
        )

    def _write(self, path: str, content: bytes) -> int:
        """Write a file unless an attempt of the same work, which died, has; return its size. Clauses: LOG-73."""
        announce(self.store, self.root, self.instant, path)
        if self.store.put_if_absent(f"{self.root}/{path}", content):
            return len(content)
        with self.store.open(f"{self.root}/{path}") as file:
            return int(file.size())

    def _data(self, rows: pa.Table) -> list[LogBlock]:
        keys = self.keys.to_pylist()
        whole = with_own_columns(rows, self.keys, self.partition, self.instant, self.number, self.group)
        tail = encode_tail(self._index(keys), keys)
        content = encode_rows(whole, written_out(self.schema, at="the table's schema"), tail)
        return [LogBlock(BlockKind.AVRO, self._header(), content)]

    def _deletes(self) -> list[LogBlock]:
        """Return a block of deletes that take effect by their place in the log. Clauses: LOG-11, LOG-62."""
        deletes = [Delete(key, self.partition, "Int", 0) for key in self.keys.to_pylist()]
        content = encode_delete_content(DeleteContent(DELETE_VERSION, deletes))
        return with_index(LogBlock(BlockKind.DELETE, self._header(), content), self._index([]), [])

    def _index(self, keys: Sequence[str]) -> Any:
        assert self.slice is not None
        writer = IndexWriter(self.store, self.root, self.slice, self.pending, self.policy)
        return writer.next_index(self.instant, keys)

    def _header(self) -> tuple[tuple[int, bytes], ...]:
        return ((HeaderKey.INSTANT, self.instant.encode()), (HeaderKey.SCHEMA, self.schema.encode()))


def schema_with_own_columns(schema: str) -> str:
    """Return a table's Avro schema with Hudi's own columns in front of the user's."""
    content = json.loads(schema)
    own = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in OWN_COLUMNS]
    users = [one for one in content["fields"] if one["name"] not in OWN_COLUMNS]
    return json.dumps({**content, "fields": [*own, *users]}, separators=(",", ":"))


def with_own_columns(
    rows: pa.Table, keys: pa.Array, partition: str, instant: str, number: int, file: str
) -> pa.Table:
    """Return ``rows`` with Hudi's own columns in front. ``file``: the name of the base file, in a log the group's."""
    count = rows.num_rows
    sequence = pc.binary_join_element_wise(
        f"{instant}_{number}_", pa.array(np.arange(count)).cast(pa.string()), ""
    )
    own = [_repeated(instant, count), sequence, keys, _repeated(partition, count), _repeated(file, count)]
    return pa.table([*own, *rows.columns], names=[*OWN_COLUMNS, *rows.column_names])


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def base_name(group: str, number: int, instant: str) -> str:
    """Return the name of a base file."""
    return f"{group}_{number}-0-0_{instant}.parquet"


def below(partition: str, name: str) -> str:
    """Return the path of a file below the table."""
    return f"{partition}/{name}" if partition else name


def base_content(rows: pa.Table, schema: str) -> bytes:
    """Return a base file of ``rows``, which have Hudi's own columns. Clauses: LOG-13, LOG-16, LOG-56."""
    key = OWN_COLUMNS[2]
    rows = rows.sort_by(key)
    entries = {b"parquet.avro.schema": schema.encode(), **_footer(rows.column(key).to_pylist())}
    sink = io.BytesIO()
    # Without Arrow's schema, which Hudi does not know, the writer drops the metadata that a table has.
    with pq.ParquetWriter(sink, rows.schema, compression=COMPRESSION, store_schema=False) as writer:
        writer.write_table(with_masked(rows))
        writer.add_key_value_metadata(entries)
    return sink.getvalue()


def _footer(keys: Sequence[str]) -> Mapping[bytes, bytes]:
    made = filter_of(
        KeyCollation.BYTES.of_all(keys), sized_for=max(1, len(keys)), false_positives=FALSE_POSITIVES
    )
    assert isinstance(made, SimpleFilter)
    if not keys:  # there is no least key
        whole = footer_of_summary(KeySummary("", "", KeyCollation.JAVA, made))
        return {BLOOM: whole[BLOOM], BLOOM_KIND: SIMPLE.encode()}
    low, high = (choose(keys, key=KeyCollation.JAVA.of) for choose in (min, max))
    return footer_of_summary(KeySummary(low, high, KeyCollation.JAVA, made))


def written_table(files: Sequence[WrittenFile]) -> pa.Table:
    """Return written files as a table of the columns `WRITTEN`."""
    return pa.Table.from_pylist(
        [asdict(one) for one in files], schema=pa.schema([arrow_field(one) for one in WRITTEN])
    )


def written_files(table: pa.Table) -> list[WrittenFile]:
    """Return what `written_table` was made of."""
    return [WrittenFile(**one) for one in table.to_pylist()]
