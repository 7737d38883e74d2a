"""Write the files of a timeline of table version 8: metadata of commits, plans of compactions and of rollbacks.

Each is an Avro container of one record. The schemas have the names and the order of Hudi's, because its Java readers
resolve fields by name; fields that we never set are left null.

Clauses: LOG-20.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro

from pktable_hudi.format.timeline_files import CompactedGroup

NAMESPACE: Final = "org.apache.hudi.avro.model"
SYNC: Final = b"pktable.timeline"
NO_COMMIT: Final = "null"  # as Hudi spells it


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a write made. ``path``: below the table. ``rows``: those in it.

    ``inserts``, ``updates``, ``deletes``: how many keys were new, known and deleted. ``base``: the name of the base
    file of its slice, empty without one. ``before``: the instant of that slice, None for a new file group.
    """

    partition: str
    group: str
    path: str
    size: int
    rows: int
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    base: str = ""
    before: str | None = None
    is_log: bool = False
    logs_compacted: int = 0


def optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def record(name: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": list(fields)}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


VERSION_FIELD: Final = {"name": "version", "type": ["int", "null"], "default": 1}
_RUNTIME: Final = record(
    "HoodieRuntimeStats",
    [optional(name, "long") for name in ("totalScanTime", "totalCreateTime", "totalUpsertTime")],
)
_STAT_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("fileId", "path", "prevCommit"), "string"),
    **dict.fromkeys(
        ("numWrites", "numDeletes", "numUpdateWrites", "totalWriteBytes", "totalWriteErrors"), "long"
    ),
    "partitionPath": "string",
    **dict.fromkeys(("totalLogRecords", "totalLogFiles", "totalUpdatedRecordsCompacted"), "long"),
    **dict.fromkeys(("numInserts", "totalLogBlocks", "totalCorruptLogBlock", "totalRollbackBlocks"), "long"),
    "fileSizeInBytes": "long",
    "logVersion": "int",
    "logOffset": "long",
    "baseFile": "string",
    "logFiles": array_of("string"),
    "cdcStats": map_of("long"),
    "prevBaseFile": "string",
    **dict.fromkeys(("minEventTime", "maxEventTime"), "long"),
    "runtimeStats": _RUNTIME,
    **dict.fromkeys(("totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted"), "long"),
    "tempPath": "string",
    "numUpdates": "long",
}
_STAT: Final = record("HoodieWriteStat", [optional(*one) for one in _STAT_TYPES.items()])
_COMMIT: Final = fastavro.parse_schema(
    record(
        "HoodieCommitMetadata",
        [
            optional("partitionToWriteStats", map_of(array_of(_STAT))),
            optional("compacted", "boolean"),
            optional("extraMetadata", map_of("string")),
            VERSION_FIELD,
            optional("operationType", "string"),
        ],
    )
)
_STRATEGY: Final = record(
    "HoodieCompactionStrategy",
    [optional("compactorClassName", "string"), optional("strategyParams", map_of("string")), VERSION_FIELD],
)
_OPERATION: Final = record(
    "HoodieCompactionOperation",
    [
        {"name": "baseInstantTime", "type": ["null", "string"]},
        optional("deltaFilePaths", array_of("string")),
        optional("dataFilePath", "string"),
        {"name": "fileId", "type": ["null", "string"]},
        optional("partitionPath", "string"),
        optional("metrics", map_of("double")),
        optional("bootstrapFilePath", "string"),
    ],
)
_COMPACTION: Final = fastavro.parse_schema(
    record(
        "HoodieCompactionPlan",
        [
            optional("operations", array_of(_OPERATION)),
            optional("extraMetadata", map_of("string")),
            VERSION_FIELD,
            optional("strategy", _STRATEGY),
            {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
            optional("missingSchedulePartitions", array_of("string")),
        ],
    )
)
_INSTANT: Final = record(
    "HoodieInstantInfo",
    [{"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}],
)
_REQUEST: Final = record(
    "HoodieRollbackRequest",
    [
        {"name": "partitionPath", "type": "string"},
        optional("fileId", "string"),
        optional("latestBaseInstant", "string"),
        {"name": "filesToBeDeleted", "type": array_of("string"), "default": []},
        optional("logBlocksToBeDeleted", map_of("long")),
    ],
)
_ROLLBACK_PLAN: Final = fastavro.parse_schema(
    record(
        "HoodieRollbackPlan",
        [
            optional("instantToRollback", _INSTANT),
            optional("RollbackRequests", array_of(_REQUEST)),
            VERSION_FIELD,
        ],
    )
)
_ROLLBACK_PARTITION: Final = record(
    "HoodieRollbackPartitionMetadata",
    [
        {"name": "partitionPath", "type": "string"},
        {"name": "successDeleteFiles", "type": array_of("string")},
        {"name": "failedDeleteFiles", "type": array_of("string")},
        optional("rollbackLogFiles", map_of("long")),
        optional("logFilesFromFailedCommit", map_of("long")),
    ],
)
_ROLLBACK: Final = fastavro.parse_schema(
    record(
        "HoodieRollbackMetadata",
        [
            {"name": "startRollbackTime", "type": "string"},
            {"name": "timeTakenInMillis", "type": "long"},
            {"name": "totalFilesDeleted", "type": "int"},
            {"name": "commitsRollback", "type": array_of("string")},
            {"name": "partitionMetadata", "type": map_of(_ROLLBACK_PARTITION)},
            VERSION_FIELD,
            {"name": "instantsRollback", "type": array_of(_INSTANT), "default": []},
        ],
    )
)


def encode_commit(
    files: Iterable[WrittenFile], *, schema: str, operation: str, is_compaction: bool = False
) -> bytes:
    """Return the metadata of a commit. ``schema``: that of the rows, as Avro; empty for none. Clauses: LOG-20."""
    stats: dict[str, list[dict[str, Any]]] = {}
    for one in files:
        stats.setdefault(one.partition, []).append(_stat(one))
    return container(
        _COMMIT,
        {
            "partitionToWriteStats": stats,
            "compacted": is_compaction,
            "extraMetadata": {"schema": schema} if schema else {},
            "version": None,
            "operationType": operation,
        },
    )


def _stat(file: WrittenFile) -> dict[str, Any]:
    name = file.path.rpartition("/")[2]
    counts = dict.fromkeys((name for name, kind in _STAT_TYPES.items() if kind == "long"), 0)
    found: dict[str, Any] = {
        **counts,
        "logOffset": None,
        "minEventTime": None,
        "maxEventTime": None,
        "fileId": file.group,
        "path": file.path,
        "prevCommit": file.before or NO_COMMIT,
        "numWrites": file.rows,
        "numInserts": file.inserts,
        "numUpdateWrites": file.updates,
        "numDeletes": file.deletes,
        "totalWriteBytes": file.size,
        "fileSizeInBytes": file.size,
        "partitionPath": file.partition,
        "totalLogFilesCompacted": file.logs_compacted,
    }
    if file.is_log:
        found |= {"logVersion": 1, "logOffset": 0, "baseFile": file.base, "logFiles": [name]}
    elif file.base:
        found["prevBaseFile"] = file.base
    return found


def encode_compaction_plan(groups: Iterable[CompactedGroup]) -> bytes:
    """Return the plan of a compaction. Clauses: LOG-20."""
    operations = [
        {
            "baseInstantTime": one.base_instant,
            "deltaFilePaths": list(one.logs),
            "dataFilePath": one.base,
            "fileId": one.group,
            "partitionPath": one.partition,
            "metrics": {
                "TOTAL_LOG_FILES": float(len(one.logs)),
                "TOTAL_LOG_FILES_SIZE": float(one.log_bytes),
            },
        }
        for one in groups
    ]
    plan = {"operations": operations, "extraMetadata": {}, "version": 2, "preserveHoodieMetadata": False}
    return container(_COMPACTION, {**plan, "missingSchedulePartitions": []})


def encode_rollback_plan(instant: str, action: str, paths: Mapping[str, Sequence[str]]) -> bytes:
    """Return the plan of the rollback of a write. ``paths``: of its files, by partition. Clauses: LOG-20."""
    requests = [
        {
            "partitionPath": partition,
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": [path],
            "logBlocksToBeDeleted": {},
        }
        for partition, found in paths.items()
        for path in found
    ]
    info = {"commitTime": instant, "action": action}
    return container(_ROLLBACK_PLAN, {"instantToRollback": info, "RollbackRequests": requests, "version": 1})


def encode_rollback(at: str, instant: str, action: str, paths: Mapping[str, Sequence[str]]) -> bytes:
    """Return the metadata of a rollback that began ``at`` an instant. ``paths``: what it deleted, by partition.

    Clauses: LOG-20.
    """
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": list(found),
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition, found in paths.items()
    }
    return container(
        _ROLLBACK,
        {
            "startRollbackTime": at,
            "timeTakenInMillis": 0,
            "totalFilesDeleted": sum(map(len, paths.values())),
            "commitsRollback": [instant],
            "partitionMetadata": partitions,
            "version": 1,
            "instantsRollback": [{"commitTime": instant, "action": action}],
        },
    )


def container(schema: Any, content: Mapping[str, Any]) -> bytes:
    """Return an Avro container of one record."""
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [content], sync_marker=SYNC)
    return stream.getvalue()
