"""A snapshot and the file that holds it.

What a reader does not know it ignores, what it knows it checks. Fields that are absent when they have
nothing to say are None here.

Clauses: META-2, META-13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import CorruptFileError

from pktable.format.metadata.json_text import decode_json, encode_json

VERSION: Final = 3
COMMIT_KINDS: Final = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")


@dataclass(frozen=True)
class Snapshot:
    """What a table was after one commit. Sizes in bytes, counts in records. Clauses: META-2."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    total_record_count: int
    delta_record_count: int
    changelog_manifest_list: str | None = None
    index_manifest: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    uuid: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    version: int = VERSION


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the snapshot file of ``snapshot``. Clauses: META-2, META-13."""
    assert snapshot.commit_kind in COMMIT_KINDS
    fields: dict[str, object] = {
        "version": snapshot.version,
        "uuid": snapshot.uuid,
        "id": snapshot.id,
        "schemaId": snapshot.schema_id,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": snapshot.base_manifest_list_size,
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": snapshot.delta_manifest_list_size,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "indexManifest": snapshot.index_manifest,
        "commitUser": snapshot.commit_user,
        "commitIdentifier": snapshot.commit_identifier,
        "commitKind": snapshot.commit_kind,
        "timeMillis": snapshot.time_millis,
        "totalRecordCount": snapshot.total_record_count,
        "deltaRecordCount": snapshot.delta_record_count,
        "changelogRecordCount": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "statistics": snapshot.statistics,
        "properties": None if snapshot.properties is None else dict(snapshot.properties),
        "nextRowId": snapshot.next_row_id,
    }
    return encode_json({name: value for name, value in fields.items() if value is not None})


def decode_snapshot(data: bytes, *, at: str) -> Snapshot:
    """Return the snapshot that a snapshot file holds. Raises CorruptFileError; ``at`` is the file's path.

    Clauses: META-2.
    """
    json = decode_json(data, at=at)
    version = json.long("version")
    if version != VERSION:
        raise CorruptFileError("version", at=at, expected=VERSION, found=version)
    kind = json.text("commitKind")
    if kind not in COMMIT_KINDS:
        raise CorruptFileError("commitKind", at=at, expected=" or ".join(COMMIT_KINDS), found=kind)
    return Snapshot(
        id=json.long("id"),
        schema_id=json.long("schemaId"),
        base_manifest_list=json.file_name("baseManifestList"),
        delta_manifest_list=json.file_name("deltaManifestList"),
        commit_user=json.text("commitUser"),
        commit_identifier=json.long("commitIdentifier"),
        commit_kind=kind,
        time_millis=json.long("timeMillis"),
        total_record_count=json.long("totalRecordCount"),
        delta_record_count=json.long("deltaRecordCount"),
        changelog_manifest_list=json.optional_file_name("changelogManifestList"),
        index_manifest=json.optional_file_name("indexManifest"),
        base_manifest_list_size=json.optional_long("baseManifestListSize"),
        delta_manifest_list_size=json.optional_long("deltaManifestListSize"),
        uuid=json.optional_text("uuid"),
        changelog_record_count=json.optional_long("changelogRecordCount"),
        watermark=json.optional_long("watermark"),
        statistics=json.optional_file_name("statistics"),
        properties=json.optional_text_map("properties"),
        next_row_id=json.optional_long("nextRowId"),
        version=version,
    )
