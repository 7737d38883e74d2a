"""The files of a clean on the timeline: its plan, and the metadata of one that is complete.

Both are Avro containers of one record, with the names and the order of Hudi's fields. A plan names files by their
paths, the metadata by their names.

Clauses: LOG-20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable_hudi.format.names import base_file, log_file
from pktable_hudi.format.timeline_files import timeline_content
from pktable_hudi.format.timeline_writing import VERSION_FIELD, array_of, container, map_of, optional, record

PLAN_VERSION: Final = 2
_TEXT: Final = {"type": "string"}

_RETAINED: Final = record(
    "HoodieActionInstant", [{"name": name, **_TEXT} for name in ("timestamp", "action", "state")]
)
_FILE: Final = record(
    "HoodieCleanFileInfo", [optional("filePath", "string"), optional("isBootstrapBaseFile", "boolean")]
)
_PLAN: Final = fastavro.parse_schema(
    record(
        "HoodieCleanerPlan",
        [
            optional("earliestInstantToRetain", _RETAINED),
            {"name": "policy", **_TEXT},
            optional("filesToBeDeletedPerPartition", map_of(array_of("string"))),
            VERSION_FIELD,
            optional("filePathsToBeDeletedPerPartition", map_of(array_of(_FILE))),
            optional("partitionsToBeDeleted", array_of("string")),
        ],
    )
)
_CLEANED: Final = record(
    "HoodieCleanPartitionMetadata",
    [
        {"name": "partitionPath", **_TEXT},
        {"name": "policy", **_TEXT},
        *(
            {"name": name, "type": array_of("string")}
            for name in ("deletePathPatterns", "successDeleteFiles", "failedDeleteFiles")
        ),
        optional("isPartitionDeleted", "boolean"),
    ],
)
_METADATA: Final = fastavro.parse_schema(
    record(
        "HoodieCleanMetadata",
        [
            {"name": "policy", **_TEXT, "default": ""},
            {"name": "startCleanTime", **_TEXT},
            {"name": "timeTakenInMillis", "type": "long"},
            {"name": "totalFilesDeleted", "type": "int"},
            {"name": "earliestCommitToRetain", **_TEXT},
            {"name": "lastCompletedCommitTimestamp", **_TEXT, "default": ""},
            {"name": "partitionMetadata", "type": map_of(_CLEANED)},
            VERSION_FIELD,
            optional("bootstrapPartitionMetadata", map_of("HoodieCleanPartitionMetadata")),
        ],
    )
)


@dataclass(frozen=True)
class CleanPlan:
    """``policy``: by Hudi's name. ``retained``: the earliest instant that is readable afterwards, empty if unknown.

    ``files``: the names of the files to delete, by partition.
    """

    policy: str
    retained: str
    files: Mapping[str, Sequence[str]]


def encode_clean_plan(plan: CleanPlan, root: str) -> bytes:
    """Return the plan of a clean of the table at ``root``. Clauses: LOG-20."""
    retained = {"timestamp": plan.retained, "action": "commit", "state": "COMPLETED"}
    paths = {
        partition: [
            {"filePath": f"{root}/{partition}".rstrip("/") + f"/{name}", "isBootstrapBaseFile": False}
            for name in names
        ]
        for partition, names in plan.files.items()
    }
    return container(
        _PLAN,
        {
            "earliestInstantToRetain": retained if plan.retained else None,
            "policy": plan.policy,
            "filesToBeDeletedPerPartition": None,
            "version": PLAN_VERSION,
            "filePathsToBeDeletedPerPartition": paths,
            "partitionsToBeDeleted": [],
        },
    )


def decode_clean_plan(data: bytes, *, at: str) -> CleanPlan:
    """Return the plan of a clean. Raises CorruptFileError, InvalidRequestError for what only Hudi can do.

    Clauses: LOG-20, LOG-68.
    """
    content = timeline_content(data, at)
    try:
        retained = (content.get("earliestInstantToRetain") or {}).get("timestamp") or ""
        if content.get("partitionsToBeDeleted") or content.get("filesToBeDeletedPerPartition"):
            raise InvalidRequestError(f"{at}: a clean that drops partitions is pending; finish it with Hudi")
        given = content.get("filePathsToBeDeletedPerPartition") or {}
        files = {
            str(partition): [_name(one, at) for one in found] for partition, found in given.items() if found
        }
        return CleanPlan(str(content["policy"]), str(retained), files)
    except (AttributeError, TypeError, KeyError) as error:
        raise CorruptFileError("clean plan", at=at, expected="a plan", found=error) from None


def _name(file: Mapping[str, Any], at: str) -> str:
    """Return the name of a file to delete. Raises CorruptFileError for one that is no file of a table."""
    name = str(file["filePath"]).rpartition("/")[2]
    if base_file(name) is None and log_file(name.removesuffix(".cdc")) is None:
        raise CorruptFileError("clean plan", at=at, expected="base files and log files", found=name)
    return name


def encode_clean(plan: CleanPlan, at: str, last_commit: str) -> bytes:
    """Return the metadata of a clean that began ``at`` an instant. ``last_commit``: the latest one then.

    Clauses: LOG-20.
    """
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": plan.policy,
            "deletePathPatterns": list(names),
            "successDeleteFiles": list(names),
            "failedDeleteFiles": [],
            "isPartitionDeleted": False,
        }
        for partition, names in plan.files.items()
    }
    return container(
        _METADATA,
        {
            "policy": plan.policy,
            "startCleanTime": at,
            "timeTakenInMillis": 0,
            "totalFilesDeleted": sum(map(len, plan.files.values())),
            "earliestCommitToRetain": plan.retained,
            "lastCompletedCommitTimestamp": last_commit,
            "partitionMetadata": partitions,
            "version": PLAN_VERSION,
        },
    )


def decode_retained(data: bytes, *, at: str) -> str:
    """Return from which instant on a table is readable after a clean, empty if its plan or metadata do not say it.

    Raises CorruptFileError. Clauses: LOG-20, LOG-67.
    """
    content = timeline_content(data, at)
    planned = content.get("earliestInstantToRetain")
    found = planned.get("timestamp") if isinstance(planned, dict) else content.get("earliestCommitToRetain")
    return str(found or "")
