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

from pktable.format.hudi.timeline_files import CompactedGroup

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


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _record(name: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": list(fields)}


def _map(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_VERSION_FIELD: Final = {"name": "version", "type": ["int", "null"], "default": 1}
_RUNTIME: Final = _record(
    "HoodieRuntimeStats",
    [_optional(name, "long") for name in ("totalScanTime", "totalCreateTime", "totalUpsertTime")],
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
    "logFiles": _array("string"),
    "cdcStats": _map("long"),
    "prevBaseFile": "string",
    **dict.fromkeys(("minEventTime", "maxEventTime"), "long"),
    "runtimeStats": _RUNTIME,
    **dict.fromkeys(("totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted"), "long"),
    "tempPath": "string",
    "numUpdates": "long",
}
_STAT: Final = _record("HoodieWriteStat", [_optional(*one) for one in _STAT_TYPES.items()])
_COMMIT: Final = fastavro.parse_schema(
    _record(
        "HoodieCommitMetadata",
        [
            _optional("partitionToWriteStats", _map(_array(_STAT))),
            _optional("compacted", "boolean"),
            _optional("extraMetadata", _map("string")),
            _VERSION_FIELD,
            _optional("operationType", "string"),
        ],
    )
)
_STRATEGY: Final = _record(
    "HoodieCompactionStrategy",
    [_optional("compactorClassName", "string"), _optional("strategyParams", _map("string")), _VERSION_FIELD],
)
_OPERATION: Final = _record(
    "HoodieCompactionOperation",
    [
        {"name": "baseInstantTime", "type": ["null", "string"]},
        _optional("deltaFilePaths", _array("string")),
        _optional("dataFilePath", "string"),
        {"name": "fileId", "type": ["null", "string"]},
        _optional("partitionPath", "string"),
        _optional("metrics", _map("double")),
        _optional("bootstrapFilePath", "string"),
    ],
)
_COMPACTION: Final = fastavro.parse_schema(
    _record(
        "HoodieCompactionPlan",
        [
            _optional("operations", _array(_OPERATION)),
            _optional("extraMetadata", _map("string")),
            _VERSION_FIELD,
            _optional("strategy", _STRATEGY),
            {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
            _optional("missingSchedulePartitions", _array("string")),
        ],
    )
)
_INSTANT: Final = _record(
    "HoodieInstantInfo",
    [{"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}],
)
_REQUEST: Final = _record(
    "HoodieRollbackRequest",
    [
        {"name": "partitionPath", "type": "string"},
        _optional("fileId", "string"),
        _optional("latestBaseInstant", "string"),
        {"name": "filesToBeDeleted", "type": _array("string"), "default": []},
        _optional("logBlocksToBeDeleted", _map("long")),
    ],
)
_ROLLBACK_PLAN: Final = fastavro.parse_schema(
    _record(
        "HoodieRollbackPlan",
        [
            _optional("instantToRollback", _INSTANT),
            _optional("RollbackRequests", _array(_REQUEST)),
            _VERSION_FIELD,
        ],
    )
)
_ROLLBACK_PARTITION: Final = _record(
    "HoodieRollbackPartitionMetadata",
    [
        {"name": "partitionPath", "type": "string"},
        {"name": "successDeleteFiles", "type": _array("string")},
        {"name": "failedDeleteFiles", "type": _array("string")},
        _optional("rollbackLogFiles", _map("long")),
        _optional("logFilesFromFailedCommit", _map("long")),
    ],
)
_ROLLBACK: Final = fastavro.parse_schema(
    _record(
        "HoodieRollbackMetadata",
        [
            {"name": "startRollbackTime", "type": "string"},
            {"name": "timeTakenInMillis", "type": "long"},
            {"name": "totalFilesDeleted", "type": "int"},
            {"name": "commitsRollback", "type": _array("string")},
            {"name": "partitionMetadata", "type": _map(_ROLLBACK_PARTITION)},
            _VERSION_FIELD,
            {"name": "instantsRollback", "type": _array(_INSTANT), "default": []},
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
    return _container(
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
    return _container(_COMPACTION, {**plan, "missingSchedulePartitions": []})


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
    return _container(_ROLLBACK_PLAN, {"instantToRollback": info, "RollbackRequests": requests, "version": 1})


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
    return _container(
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


def _container(schema: Any, record: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [record], sync_marker=SYNC)
    return stream.getvalue()
