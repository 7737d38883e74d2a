"""The settings of a Hudi table that writing depends on, and reading does not; others are refused by name.

Only merge-on-read tables of version 8 are written. A table with a metadata table is refused, because Hudi's readers
list files there and would not see ours.

A record key is the value of one key column, or ``name:value`` of each, joined by commas. Some releases of Hudi spell a
key of one column with its name, too, if several columns partition the table. A partition is a directory of the values
of the partition columns, with their names or without.

Clauses: LOG-18, LOG-63, LOG-82 to LOG-85.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pktable.format.paths import SCHEMA, TablePaths, numbered
from pktable.format.types import DataType, Field
from pktable.store.file_io import FileIO
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError

from pktable_hudi.format.avro_schema import schema_text
from pktable_hudi.format.names import base_file, log_file
from pktable_hudi.format.properties import encode_properties
from pktable_hudi.scan import OWN_COLUMNS
from pktable_hudi.settings import COMMIT_TIME, EVENT_TIME, MODE, MODE_OF_STRATEGY, ORDERING, PAYLOAD, STRATEGY

VERSION: Final = 8
COMPLEX: Final = "Complex"
PAYLOADS: Final[Mapping[str, str]] = {
    EVENT_TIME: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    COMMIT_TIME: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
WITH_TEXT: Final = ("STRING", "INT", "BIGINT")
"""The types of the key and partition columns of a new table."""

OF_ONE_TEXT: Final = {
    "key": (*WITH_TEXT, "BOOLEAN", "DATE", "DECIMAL"),
    "partition": (*WITH_TEXT, "BOOLEAN", "DATE"),
}
"""The types of the key and partition columns of Hudi's tables whose values have one text in Hudi and here."""

TYPE: Final = "hoodie.table.type"
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    TYPE: ("MERGE_ON_READ",),
    "hoodie.table.version": (str(VERSION),),
    "hoodie.table.metadata.partitions": ("",),
    "hoodie.table.metadata.partitions.inflight": ("",),
    "hoodie.table.cdc.enabled": ("false",),
    "hoodie.datasource.write.partitionpath.urlencode": ("false",),
    "hoodie.datasource.write.slash.separated.date.partitioning": ("false",),
    "hoodie.table.keygenerator.type": ("SIMPLE", "COMPLEX", "NON_PARTITION"),
    "hoodie.table.keygenerator.class": (
        "",
        *(f"org.apache.hudi.keygen.{one}KeyGenerator" for one in ("Simple", COMPLEX, "Nonpartitioned")),
    ),
    "hoodie.table.partition_extractor_class": (
        "",
        *(
            f"org.apache.hudi.hive.{one}Extractor"
            for one in (
                "NonPartitioned",
                "SinglePartPartitionValue",
                "MultiPartKeysValue",
                "HiveStylePartitionValue",
            )
        ),
    ),
}
"""The values of settings with which tables are written. The first is what a missing setting means, but for the type."""

REMEDIES: Final = {
    "hoodie.table.metadata.partitions": "no value: drop the metadata table with Hudi (hoodie.metadata.enable=false)"
}
FORBIDDEN: Final = '/\\:*?"<>|%\n\r\t\0'
"""Characters that no partition value may have, because it is a part of a path."""


BUCKET: Final = re.compile(r"0000\d{4}-")
"""How Hudi's bucket index begins the name of a file group: with the number of the bucket. A UUID hardly ever does."""


@dataclass(frozen=True)
class WriteSettings:
    """``utc``: whether instants are in that zone. ``is_complex``: whether the complex generator makes its keys."""

    hive_style: bool
    utc: bool
    is_complex: bool


def write_settings(given: Mapping[str, str]) -> WriteSettings:
    """Return the settings for writing, of the properties of a table. Raises UnsupportedOptionError.

    Clauses: LOG-18, LOG-63.
    """
    given = {TYPE: "COPY_ON_WRITE", **{option: value for option, value in given.items() if value}}
    for option, values in REQUIRED.items():
        if (found := given.get(option, values[0])).lower() not in [value.lower() for value in values]:
            expected = " or ".join(value or "no value" for value in values)
            raise UnsupportedOptionError(option, found, REMEDIES.get(option, expected))
    generators = (given.get(f"hoodie.table.keygenerator.{one}", "") for one in ("type", "class"))
    return WriteSettings(
        given.get("hoodie.datasource.write.hive_style_partitioning", "false").lower() == "true",
        given.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC",
        any(COMPLEX.lower() in one.lower() for one in generators),
    )


def expect_texts(fields: Sequence[Field], keys: Sequence[str], partition: Sequence[str]) -> None:
    """Raise InvalidRequestError for key and partition columns of which Hudi makes other texts. Clauses: LOG-54."""
    for what, names in (("key", keys), ("partition", partition)):
        for field in fields:
            if field.name in names and field.type.root not in OF_ONE_TEXT[what]:
                raise InvalidRequestError(
                    f"{what} column {field.name}: Hudi may write values of {field.type} as other texts, so a write "
                    "would not find their rows; write this table with Hudi"
                )


def new_properties(
    name: str, fields: Sequence[Field], keys: Sequence[str], partition: Sequence[str], ordering: str | None
) -> bytes:
    """Return the properties of a new table. Raises InvalidRequestError for a definition that is not allowed.

    Clauses: LOG-18.
    """
    _expect_columns(fields, keys, partition, ordering)
    if (
        not isinstance(name, str)
        or not name
        or not name.isascii()
        or not name.replace("_", "a").isalnum()
        or name[0].isdigit()
    ):
        raise InvalidRequestError(f"name: expected letters, digits and _, found {name!r}")
    mode = COMMIT_TIME if ordering is None else EVENT_TIME
    strategy = next(text for text, meant in MODE_OF_STRATEGY.items() if meant == mode)
    generator = (
        "NON_PARTITION" if not partition else "SIMPLE" if len(keys) == len(partition) == 1 else "COMPLEX"
    )
    return encode_properties(
        {
            "hoodie.table.name": name,
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": str(VERSION),
            "hoodie.table.initial.version": str(VERSION),
            "hoodie.table.checksum": str(zlib.crc32(f".{name}".encode())),
            "hoodie.table.format": "native",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.recordkey.fields": ",".join(keys),
            "hoodie.table.partition.fields": ",".join(partition),
            **({} if ordering is None else {ORDERING[0]: ordering}),
            "hoodie.table.keygenerator.type": generator,
            MODE: mode,
            STRATEGY: strategy,
            PAYLOAD: PAYLOADS[mode],
            "hoodie.table.create.schema": schema_text(fields, name),
            "hoodie.table.cdc.enabled": "false",
            "hoodie.table.multiple.base.file.formats.enable": "false",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.populate.meta.fields": "true",
            "hoodie.partition.metafile.use.base.format": "false",
            "hoodie.datasource.write.hive_style_partitioning": str(bool(partition)).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": "false",
            "hoodie.datasource.write.drop.partition.columns": "false",
        }
    )


def expect_no_other_table(store: FileIO, root: str) -> None:
    """Raise InvalidRequestError if a table of Paimon is at ``root``. Clauses: LOG-82."""
    if any(numbered(name, SCHEMA) is not None for name in store.list_names(TablePaths(root).schemas)):
        raise InvalidRequestError(f"{root}: a table of another format already exists here; Table opens it")


def expect_no_buckets(files: Sequence[str], root: str) -> None:
    """Raise InvalidRequestError if all ``files`` are of file groups that Hudi's bucket index has named.

    Clauses: LOG-84.
    """
    found = [one for name in files if (one := base_file(name) or log_file(name)) is not None]
    if found and all(BUCKET.match(one.group) for one in found):
        raise InvalidRequestError(
            f"{root}: its file groups are buckets, such as {found[0].group}; "
            "a table with Hudi's bucket index is not written"
        )


def default_name(root: str) -> str:
    """Return the name of a table from that of its directory."""
    directory = root.rstrip("/").rpartition("/")[2]
    name = "".join(one if one.isascii() and one.isalnum() else "_" for one in directory)
    return f"t_{name}" if not name or name[0].isdigit() else name


def _expect_columns(
    fields: Sequence[Field], keys: Sequence[str], partition: Sequence[str], ordering: str | None
) -> None:
    by_name = {field.name: field for field in fields}
    taken = [name for name in by_name if name.startswith("_hoodie_")]
    if taken:
        raise InvalidRequestError(f"column {taken[0]}: names that begin with _hoodie_ are Hudi's own")
    _expect_names(fields, "column ")
    if not keys:
        raise InvalidRequestError("key: expected the names of one or more columns, found none")
    for what, names in (
        ("key", keys),
        ("partition_by", partition),
        ("ordering", [] if ordering is None else [ordering]),
    ):
        unknown = [name for name in names if name not in by_name]
        if unknown or len(set(names)) < len(names):
            raise InvalidRequestError(
                f"{what}: expected some of {', '.join(by_name)}, each once, found {', '.join(names)}"
            )
    for name in (*keys, *partition):
        if by_name[name].type.root not in WITH_TEXT:
            raise InvalidRequestError(
                f"column {name}: key and partition columns are {', '.join(WITH_TEXT)}, found {by_name[name].type}"
            )
    if ordering is not None and by_name[ordering].type.root not in ORDERED:
        raise InvalidRequestError(
            f"column {ordering}: an ordering column is {', '.join(ORDERED)}, found {by_name[ordering].type}"
        )


def _expect_names(fields: Sequence[Field], what: str) -> None:
    """Raise InvalidRequestError for names that Avro does not allow, or Spark does not tell apart. Clauses: LOG-83."""
    seen: dict[str, str] = {}
    for field in fields:
        at = f"{what}{field.name}"
        if not field.name.isascii() or not field.name.isidentifier():
            raise InvalidRequestError(f"{at}: Avro allows letters, digits and _ in names only")
        if (same := seen.setdefault(field.name.lower(), field.name)) != field.name:
            raise InvalidRequestError(
                f"{at}: {what}{same} differs in letter case only, which Spark does not distinguish"
            )
        _expect_names_in(field.type, at)


def _expect_names_in(kind: DataType, at: str) -> None:
    if kind.root == "ROW":
        _expect_names(kind.children, f"{at}.")
        return
    for part in kind.children:
        _expect_names_in(part.type, f"{at}.{part.name}")


ORDERED: Final = ("INT", "BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
"""The types of an ordering column."""


def record_keys(rows: pa.Table, keys: Sequence[str], *, named: bool = False) -> pa.Array:
    """Return the record key of each row. ``named``: whether one key column is spelled with its name, too.

    Raises InvalidRequestError for an empty one or one with a null. Clauses: LOG-85.
    """
    texts = [_text(rows, name, "key") for name in keys]
    if named or len(keys) > 1:
        parts: list[Any] = [
            part
            for i, (name, text) in enumerate(zip(keys, texts, strict=True))
            for part in (f"{',' if i else ''}{name}:", text)
        ]
        texts = [pc.binary_join_element_wise(*parts, "")]
    return texts[0]


def has_named_key(row: pa.Table, key: str, root: str) -> bool:
    """Return whether the record key of a stored row is ``name:value``, False if there is no row.

    ``row``: of the columns ``_hoodie_record_key`` and ``key``. Raises InvalidRequestError for any other record key.
    Clauses: LOG-85.
    """
    stored = row.column(0).to_pylist()
    spelled = {named: record_keys(row, [key], named=named).to_pylist() for named in (False, True)}
    for named, keys in spelled.items():
        if keys == stored:
            return named
    raise InvalidRequestError(
        f"{root}: the record key of a row is {stored[0]!r}, where {spelled[False][0]!r} or {spelled[True][0]!r} was "
        "expected; write this table with Hudi"
    )


def partition_paths(rows: pa.Table, columns: Sequence[str], *, hive_style: bool) -> pa.Array:
    """Return the partition of each row; empty for a table without partitions. Raises InvalidRequestError."""
    if not columns:
        return pa.array([""] * rows.num_rows, pa.string())
    parts: list[Any] = []
    for i, name in enumerate(columns):
        text = _text(rows, name, "partition")
        bad = next(
            (one for one in pc.unique(text).to_pylist() if set(one) & set(FORBIDDEN) or one[0] == "."), None
        )
        if bad is not None:
            raise InvalidRequestError(f"column {name}: {bad!r} cannot be the name of a partition's directory")
        parts += [("/" if i else "") + (f"{name}=" if hive_style else ""), text]
    return pc.binary_join_element_wise(*parts, "")


def _text(rows: pa.Table, name: str, what: str) -> Any:
    values = rows.column(name)
    if values.null_count:
        raise InvalidRequestError(
            f"column {name}: expected a {what} value in every row, found null in {values.null_count}"
        )
    text = values.cast(pa.string())
    if pc.any(pc.equal(text, "")).as_py():
        raise InvalidRequestError(f"column {name}: expected a {what} value in every row, found an empty one")
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def users(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the columns that are not Hudi's own."""
    return tuple(field for field in fields if field.name not in OWN_COLUMNS)
