"""The files of a timeline: the metadata of commits and the plans of compactions, in Avro or JSON.

Before table version 8 the metadata of commits is JSON, from version 8 on an Avro container. Plans are Avro containers
in all versions. The first bytes tell which one a file is.

Clauses: LOG-20.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pktable.format.avro import MAGIC, decode_container
from pktable_spec.errors import CorruptFileError

SCHEMA: Final = "schema"
INTERNAL_SCHEMA: Final = "latest_schema"


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The parts of a commit's metadata that readers need.

    ``schema``: the Avro schema of the rows, without Hudi's own columns; empty if the commit has none.
    ``internal_schema``: that of Hudi's schema-on-read, empty without. ``replaced``: (partition, file group) of the
    groups that the commit replaced. ``written``: (partition, path, rows) of the files it wrote. ``deleted_count``: of
    the keys that it deleted.
    """

    schema: str
    internal_schema: str
    replaced: frozenset[tuple[str, str]]
    written: tuple[tuple[str, str, int], ...]
    deleted_count: int
    operation: str


@dataclass(frozen=True, slots=True)
class CompactedGroup:
    """The part of a compaction that is of one file group. ``base``: the name of its base file, None without one.

    ``logs``: names of log files. ``base_instant``: when its file slice began.
    """

    partition: str
    group: str
    base_instant: str
    base: str | None
    logs: tuple[str, ...]
    log_bytes: int = 0


def decode_commit(data: bytes, *, at: str) -> CommitMetadata:
    """Return the metadata of a completed commit; an empty file says nothing. Raises CorruptFileError.

    Clauses: LOG-20.
    """
    content = timeline_content(data, at) if data else {}
    try:
        extra = content.get("extraMetadata") or {}
        replaced = content.get("partitionToReplaceFileIds") or {}
        return CommitMetadata(
            schema=extra.get(SCHEMA) or "",
            internal_schema=extra.get(INTERNAL_SCHEMA) or "",
            replaced=frozenset(
                (partition, group) for partition, groups in replaced.items() for group in groups
            ),
            written=tuple(_written(content.get("partitionToWriteStats") or {})),
            deleted_count=sum(
                int(one.get("numDeletes") or 0)
                for files in (content.get("partitionToWriteStats") or {}).values()
                for one in files
            ),
            operation=content.get("operationType") or "",
        )
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise CorruptFileError("commit metadata", at=at, expected="that of a commit", found=error) from None


def _written(stats: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    for partition, files in stats.items():
        for one in files:
            yield partition, one.get("path") or "", int(one.get("numWrites") or 0)


def decode_compaction_plan(data: bytes, *, at: str) -> list[CompactedGroup]:
    """Return what a planned compaction takes of each file group. Raises CorruptFileError. Clauses: LOG-20."""
    content = timeline_content(data, at)
    try:
        return [
            CompactedGroup(
                one["partitionPath"] or "",
                one["fileId"],
                one.get("baseInstantTime") or "",
                one.get("dataFilePath") or None,
                tuple(map(str, one.get("deltaFilePaths") or [])),
            )
            for one in content.get("operations") or []
        ]
    except (AttributeError, TypeError, KeyError) as error:
        raise CorruptFileError("compaction plan", at=at, expected="a plan", found=error) from None


def decode_rollback_plan(data: bytes, *, at: str) -> tuple[str, str]:
    """Return the instant and the action that a planned rollback takes back. Raises CorruptFileError.

    Clauses: LOG-20.
    """
    content = timeline_content(data, at)
    try:
        taken = content["instantToRollback"]
        return str(taken["commitTime"]), str(taken["action"])
    except (AttributeError, TypeError, KeyError) as error:
        raise CorruptFileError("rollback plan", at=at, expected="a plan", found=error) from None


def timeline_content(data: bytes, at: str) -> dict[str, Any]:
    """Return the record of a timeline file. Raises CorruptFileError. Clauses: LOG-20."""
    if data.startswith(MAGIC):
        records = decode_container(data, at)
        if len(records) != 1:
            raise CorruptFileError("timeline file", at=at, expected="one record", found=len(records))
        return records[0]
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError("timeline file", at=at, expected="Avro or JSON", found=error) from None
    if not isinstance(content, dict):
        raise CorruptFileError("timeline file", at=at, expected="an object", found=type(content).__name__)
    return content
