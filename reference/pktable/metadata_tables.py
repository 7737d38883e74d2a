"""What a table says of itself, as tables with Paimon's columns: snapshots, schemas, files and so on.

Paimon calls them system tables, ``t$snapshots`` and the like. They are made of metadata alone. Times are instants.

Clauses: WH-9.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timezone
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, SnapshotNotFoundError

from pktable.catalog.as_of import LATEST, AsOf
from pktable.catalog.catalog import Catalog
from pktable.catalog.state import TableState
from pktable.catalog.tag_times import TagTime, iso_text
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import encode_schema
from pktable.format.metadata.snapshot import decode_snapshot
from pktable.format.metadata.stats import decode_stats
from pktable.format.paths import BRANCH
from pktable.lsm.bucket import BucketId

TEXT, LONG, NUMBER = pa.string(), pa.int64(), pa.int32()
TIME = pa.timestamp("ms", "UTC")
SOURCES: Final = ("APPEND", "COMPACT")
AUDIT_LOG: Final = "audit_log"
ROW_KIND: Final = "rowkind"

Row = tuple[Any, ...]


def _snapshots(catalog: Catalog) -> Iterator[Row]:
    for one in catalog.snapshots.retained():
        yield (
            *(one.id, one.schema_id, one.commit_user, one.commit_identifier, one.commit_kind),
            *(one.time_millis, one.base_manifest_list, one.delta_manifest_list, one.changelog_manifest_list),
            *(one.total_record_count, one.delta_record_count, one.changelog_record_count),
            *(one.watermark, one.next_row_id),
        )


def _schemas(catalog: Catalog) -> Iterator[Row]:
    for _, schema in sorted(catalog.context.schemas.items()):
        stored = json.loads(encode_schema(schema))
        parts = (stored["fields"], stored["partitionKeys"], stored["primaryKeys"], stored["options"])
        texts = (json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in parts)
        yield schema.id, *texts, schema.comment, schema.time_millis


def _options(catalog: Catalog) -> Iterator[Row]:
    yield from catalog.context.schema.options.items()


def _tags(catalog: Catalog) -> Iterator[Row]:
    context = catalog.context
    for name in catalog.snapshots.tags():
        path = context.paths.tag(name)
        try:
            data = catalog.snapshots.tag_file(name)
        except SnapshotNotFoundError:  # deleted since the listing
            continue
        one, time = decode_snapshot(data, at=path), TagTime.of(data, path)
        made = time.created and time.created.replace(tzinfo=timezone.utc)
        counts = (one.id, one.schema_id, one.time_millis, one.total_record_count)
        yield name, *counts, made, None if time.retained is None else iso_text(time.retained)


def _branches(catalog: Catalog) -> Iterator[Row]:
    context = catalog.context
    for found in sorted(context.store.list_names(context.paths.branches)):
        name = found.removeprefix(BRANCH)
        if name != found:
            files = context.store.list_files(context.paths.of_branch(name).schemas)
            yield name, min((file.modified_millis for file in files), default=None)


def _consumers(catalog: Catalog) -> Iterator[Row]:
    yield from sorted(catalog.expiry.consumers.all().items())


def _files(state: TableState, context: TableContext) -> Iterator[Row]:
    for identity, file in _live(state):
        place = context.place(*identity)
        schema = context.schema_of(file.schema_id)
        fields = file.value_stats_fields(schema) or ()
        stats = decode_stats(file.value_stats, [field.type for field in fields], at=file.file_name)
        known = sorted(zip((field.name for field in fields), stats, strict=True))
        keys = [field.type for field in schema.key_fields]
        ends = [_listed(decode_row(key, keys, at=file.file_name)) if keys else None for key in _ends(file)]
        bounds = (
            _braced({name: nulls for name, (_, _, nulls) in known}),
            _braced({name: low for name, (low, _, _) in known}),
            _braced({name: high for name, (_, high, _) in known}),
        )
        yield (
            *(_partition(identity, context), identity[1], context.data_path(place, file)),
            *(file.file_name.rpartition(".")[2], file.schema_id, file.level, file.row_count, file.file_size),
            *(*ends, *bounds, file.min_sequence_number, file.max_sequence_number, file.creation_time),
            *(file.delete_row_count, None if file.file_source is None else SOURCES[file.file_source]),
            *(file.first_row_id, None if file.write_cols is None else list(file.write_cols)),
        )


def _partitions(state: TableState, context: TableContext) -> Iterator[Row]:
    groups: dict[str, list[DataFileMeta]] = defaultdict(list)
    for (partition, _), file in _live(state):
        groups[context.partition_path(partition)].append(file)
    for name, files in sorted(groups.items()):
        yield name, *_sums(files), None, None, None, None


def _buckets(state: TableState, context: TableContext) -> Iterator[Row]:
    groups: dict[tuple[str, int], list[DataFileMeta]] = defaultdict(list)
    for identity, file in _live(state):
        groups[_partition(identity, context), identity[1]].append(file)
    for name, files in sorted(groups.items()):
        yield *name, *_sums(files)


def _manifests(state: TableState, context: TableContext) -> Iterator[Row]:
    types = [field.type for field in context.schema.partition_fields]
    for one in state.manifests:
        stats = decode_stats(one.partition_stats, types, at=one.file_name) if types else ()
        ends = ("{" + ", ".join(_text(part[i]) for part in stats) + "}" if types else None for i in range(2))
        counts = (one.file_size, one.num_added_files, one.num_deleted_files, one.schema_id)
        yield one.file_name, *counts, *ends, one.min_row_id, one.max_row_id


def _live(state: TableState) -> Iterator[tuple[BucketId, DataFileMeta]]:
    for identity, files in sorted(state.files.items()):
        for file in sorted(files, key=lambda file: (file.level, file.file_name)):
            yield identity, file


def _sums(files: Sequence[DataFileMeta]) -> Row:
    """Return the columns of Paimon's about several files: records, bytes, files, and the time of the newest."""
    times = [file.creation_time for file in files if file.creation_time is not None]
    sizes = sum(file.file_size for file in files)
    return sum(file.row_count for file in files), sizes, len(files), max(times, default=None)


def _partition(identity: BucketId, context: TableContext) -> str:
    types = [field.type for field in context.schema.partition_fields]
    return "{" + ", ".join(map(_text, decode_row(identity[0], types, at=context.root))) + "}"


def _ends(file: DataFileMeta) -> tuple[bytes, bytes]:
    return file.min_key, file.max_key


def _listed(values: Sequence[Any]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"


def _braced(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}={_text(value)}" for name, value in values.items()) + "}"


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


KINDS: Final = {
    "long": LONG,
    "text": TEXT,
    "time": TIME,
    "int": NUMBER,
    "texts": pa.list_(TEXT),
}


def _columns(text: str) -> dict[str, pa.DataType]:
    """Return columns by name, from the names of each kind: ``long: a b, text: c``."""
    found: dict[str, pa.DataType] = {}
    for part in text.split(","):
        kind, _, names = part.partition(":")
        found |= dict.fromkeys(names.split(), KINDS[kind.strip()])
    return found


SUMS: Final = "long: record_count file_size_in_bytes file_count, time: last_update_time"
OF_TABLE: Final[Mapping[str, tuple[Callable[[Catalog], Iterator[Row]], Mapping[str, pa.DataType]]]] = {
    "snapshots": (
        _snapshots,
        _columns(
            "long: snapshot_id schema_id, text: commit_user, long: commit_identifier, text: commit_kind, "
            "time: commit_time, text: base_manifest_list delta_manifest_list changelog_manifest_list, "
            "long: total_record_count delta_record_count changelog_record_count watermark next_row_id"
        ),
    ),
    "schemas": (
        _schemas,
        _columns(
            "long: schema_id, text: fields partition_keys primary_keys options comment, time: update_time"
        ),
    ),
    "options": (_options, _columns("text: key value")),
    "tags": (
        _tags,
        _columns(
            "text: tag_name, long: snapshot_id schema_id, time: commit_time, long: record_count, "
            "time: create_time, text: time_retained"
        ),
    ),
    "branches": (_branches, _columns("text: branch_name, time: create_time")),
    "consumers": (_consumers, _columns("text: consumer_id, long: next_snapshot_id")),
}
"""Those of the whole table: how their rows are made, and their columns."""
OF_SNAPSHOT: Final[
    Mapping[str, tuple[Callable[[TableState, TableContext], Iterator[Row]], Mapping[str, pa.DataType]]]
] = {
    "files": (
        _files,
        _columns(
            "text: partition, int: bucket, text: file_path file_format, long: schema_id, int: level, "
            "long: record_count file_size_in_bytes, text: min_key max_key null_value_counts min_value_stats "
            "max_value_stats, long: min_sequence_number max_sequence_number, time: creation_time, "
            "long: deleteRowCount, text: file_source, long: first_row_id, texts: write_cols"
        ),
    ),
    "partitions": (
        _partitions,
        _columns(f"text: partition, {SUMS}, time: created_at, text: created_by updated_by options"),
    ),
    "buckets": (_buckets, _columns(f"text: partition, int: bucket, {SUMS}")),
    "manifests": (
        _manifests,
        _columns(
            "text: file_name, long: file_size num_added_files num_deleted_files schema_id, "
            "text: min_partition_stats max_partition_stats, long: min_row_id max_row_id"
        ),
    ),
}
"""Those of one snapshot, by default the latest."""
NAMES: Final = (*OF_TABLE, *OF_SNAPSHOT, AUDIT_LOG)
COLUMNS: Final = MappingProxyType({name: made[1] for name, made in {**OF_TABLE, **OF_SNAPSHOT}.items()})


def metadata_table(catalog: Catalog, name: str, as_of: AsOf = LATEST) -> pa.Table:
    """Return a metadata table other than `AUDIT_LOG`. ``as_of``: a snapshot, for those of `OF_SNAPSHOT`.

    Raises InvalidRequestError for another name, and if a snapshot is given that the table has no use for;
    SnapshotNotFoundError, CorruptFileError. Clauses: WH-9.
    """
    if not isinstance(name, str) or name not in NAMES:
        raise InvalidRequestError(f"metadata: expected one of {', '.join(NAMES)}, found {name!r}")
    if name in OF_SNAPSHOT:
        of_snapshot = OF_SNAPSHOT[name][0]
        rows = catalog.read_as_of(as_of, lambda state, context: list(of_snapshot(state, context)))
    elif as_of != LATEST:
        raise InvalidRequestError(
            f"metadata {name}: it is not of one snapshot; those that are: {', '.join((*OF_SNAPSHOT, AUDIT_LOG))}"
        )
    else:
        catalog.expect_opened()
        rows = list(OF_TABLE[name][0](catalog))
    kinds = COLUMNS[name]
    columns = zip(*rows, strict=True) if rows else ([] for _ in kinds)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds.values(), strict=True)]
    return pa.table(arrays, names=list(kinds))


def expect_auditable(state: TableState, context: TableContext) -> None:
    """Raise InvalidRequestError if Paimon's audit log has deletions that a read of rows does not show.

    Clauses: WH-9.
    """
    if not context.options.deletion_vectors_enabled and any(
        file.delete_row_count for _, file in _live(state)
    ):
        raise InvalidRequestError(
            f"{context.root}: {AUDIT_LOG} of a table without deletion vectors shows the deletions that are not "
            "compacted yet; compact it fully, or read its changes"
        )
