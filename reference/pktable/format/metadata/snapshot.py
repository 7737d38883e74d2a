"""Encode and decode snapshot files, and fence files, which say that snapshots have ended.

A reader checks the fields it knows and ignores any other. An optional field that is absent is None here.

A fence says which snapshot ids have ended: those that have expired, and those above the target of a rollback. It also
says which expired snapshots no longer keep their changelogs. Fences are numbered from 1 and each takes over the
contents of the one before, so the newest says everything. A fence also names the snapshots that it ended itself,
because after their files are gone nothing else does.

Clauses: CMT-35, CMT-36, CMT-42, CMT-61, META-2, META-13, META-21, META-52.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pktable_spec.errors import CorruptFileError

from pktable.format.metadata.json_text import CRC, JsonObject, decode_json, encode_json

VERSION: Final = 3
COMMIT_KINDS: Final = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")
FENCE: Final = "pktable.fence"
CREATED, RETAINED = "tagCreateTime", "tagTimeRetained"
"""Fields that only a tag has. Clauses: CMT-32."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a table after one commit. Sizes in bytes, counts in records. Clauses: META-2."""

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
    changelog_manifest_list_size: int | None = None
    uuid: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: int | None = None
    fence: int | None = None
    """The number of the newest fence that the writer of this snapshot knew; None of other writers. Clauses: META-53."""
    delta_commits: int | None = None
    """The number of commits since a full compaction; None of other tables and writers. Clauses: META-55."""
    version: int = VERSION


def _version(json: JsonObject, name: str) -> int:
    version = json.long(name)
    if version != VERSION:
        raise CorruptFileError(name, at=json.at, expected=VERSION, found=version)
    return version


def _commit_kind(json: JsonObject, name: str) -> str:
    kind = json.text(name)
    if kind not in COMMIT_KINDS:
        raise CorruptFileError(name, at=json.at, expected=" or ".join(COMMIT_KINDS), found=kind)
    return kind


FIELDS: Final[tuple[tuple[str, str, Callable[[JsonObject, str], object]], ...]] = (
    ("version", "version", _version),
    ("uuid", "uuid", JsonObject.optional_text),
    ("id", "id", JsonObject.long),
    ("schemaId", "schema_id", JsonObject.long),
    ("baseManifestList", "base_manifest_list", JsonObject.file_name),
    ("baseManifestListSize", "base_manifest_list_size", JsonObject.optional_long),
    ("deltaManifestList", "delta_manifest_list", JsonObject.file_name),
    ("deltaManifestListSize", "delta_manifest_list_size", JsonObject.optional_long),
    ("changelogManifestList", "changelog_manifest_list", JsonObject.optional_file_name),
    ("changelogManifestListSize", "changelog_manifest_list_size", JsonObject.optional_long),
    ("indexManifest", "index_manifest", JsonObject.optional_file_name),
    ("commitUser", "commit_user", JsonObject.text),
    ("commitIdentifier", "commit_identifier", JsonObject.long),
    ("commitKind", "commit_kind", _commit_kind),
    ("timeMillis", "time_millis", JsonObject.long),
    ("totalRecordCount", "total_record_count", JsonObject.long),
    ("deltaRecordCount", "delta_record_count", JsonObject.long),
    ("changelogRecordCount", "changelog_record_count", JsonObject.optional_long),
    ("watermark", "watermark", JsonObject.optional_long),
    ("statistics", "statistics", JsonObject.optional_file_name),
    ("properties", "properties", JsonObject.optional_text_map),
    ("nextRowId", "next_row_id", JsonObject.optional_long),
    (FENCE, "fence", JsonObject.optional_long),
    ("pktable.deltaCommits", "delta_commits", JsonObject.optional_long),
)
"""For each field, in the order of the file: its name in the file, the attribute that holds it, and how it is read."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the snapshot file of ``snapshot``. Clauses: META-2, META-13."""
    assert snapshot.commit_kind in COMMIT_KINDS
    fields = {name: getattr(snapshot, attribute) for name, attribute, _ in FIELDS}
    return encode_json({name: value for name, value in fields.items() if value is not None})


def decode_snapshot(data: bytes, *, at: str) -> Snapshot:
    """Return the snapshot that a snapshot file holds. ``at``: the path of the file, for errors.

    Raises CorruptFileError. Clauses: META-2, META-21.
    """
    json = decode_json(data, at=at)
    found: dict[str, Any] = {attribute: read(json, name) for name, attribute, read in FIELDS}
    return Snapshot(**found)


def with_fields(data: bytes, given: Mapping[str, Any]) -> bytes:
    """Return a snapshot file or a tag that says ``given``, and all else that ``data`` says, known to us or not.

    A field that is None is left out. Each branch has fences of its own, so a snapshot that goes from one to another
    must not take a number with it. Clauses: BRN-5, CMT-32, META-53.
    """
    fields = json.loads(data)
    if all(fields.get(name) == value for name, value in given.items()):
        return data
    rest = {name: value for name, value in fields.items() if name != CRC and name not in given}
    return encode_json(rest | {name: value for name, value in given.items() if value is not None})


def is_same_snapshot(one: Snapshot, other: Snapshot) -> bool:
    """Return whether both are one snapshot, of two branches. Clauses: BRN-5.

    Other writers leave out the fields that only we have, where they copy a snapshot.
    """
    plain, copied = (replace(each, fence=None, delta_commits=None) for each in (one, other))
    return plain == copied


FENCE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Rollback:
    """``fence``: the number of the fence that it put. ``target``: the greatest id that stayed."""

    fence: int
    target: int


@dataclass(frozen=True, slots=True)
class Fence:
    """``number``: 0 for a table without fences. ``expired``: the greatest id that has expired, 0 for none.

    ``rollbacks``: of this fence and all before it. ``ended``: the snapshots that this fence ended, by id, each by the
    name of its delta manifest list, which no other snapshot has. ``changelogs``: the greatest id whose changelog is
    kept no more, 0 for none. ``writer``: unique to the put, empty if the file does not name it.
    """

    number: int = 0
    expired: int = 0
    rollbacks: tuple[Rollback, ...] = ()
    ended: Mapping[int, str] = field(default_factory=dict)
    changelogs: int = 0
    writer: str = ""

    @property
    def has_ended_ids(self) -> bool:
        """Whether this fence or one before it has ended an id."""
        return bool(self.expired or self.rollbacks)

    def rolled_back(self, snapshot: Snapshot) -> tuple[int, ...]:
        """Return the fences of the rollbacks to a smaller id that ``snapshot`` did not know. Clauses: CMT-42.

        For a snapshot of another writer, which says nothing about fences, these are all rollbacks to a smaller id.
        """
        known = snapshot.fence or 0
        return tuple(one.fence for one in self.rollbacks if one.fence > known and one.target < snapshot.id)

    def continues(self, other: Fence) -> bool:
        """Return whether this fence has taken over all that ``other``, an older one, says of ids."""
        return (
            other.expired <= self.expired
            and other.changelogs <= self.changelogs
            and set(other.rollbacks) <= set(self.rollbacks)
        )


def encode_fence(fence: Fence) -> bytes:
    """Return the file of ``fence``. Clauses: META-52."""
    return encode_json(
        {
            "version": FENCE_VERSION,
            "expired": fence.expired,
            "rollbacks": [{"fence": one.fence, "target": one.target} for one in fence.rollbacks],
            "ended": {str(snapshot): name for snapshot, name in sorted(fence.ended.items())},
            **({"changelogs": fence.changelogs} if fence.changelogs else {}),
            **({"writer": fence.writer} if fence.writer else {}),
        }
    )


def decode_fence(number: int, data: bytes, *, at: str) -> Fence:
    """Return the fence that a file holds. ``at``: the path of the file. Raises CorruptFileError. Clauses: META-52."""
    json = decode_json(data, at=at)
    version = json.long("version")
    if version != FENCE_VERSION:
        raise CorruptFileError("version of the fence", at=at, expected=FENCE_VERSION, found=version)
    rollbacks = tuple(Rollback(one.long("fence"), one.long("target")) for one in json.objects("rollbacks"))
    ended = json.optional_text_map("ended") or {}
    if not all(id_.isdecimal() and id_.isascii() and len(id_) < 20 for id_ in ended):
        raise CorruptFileError("ended snapshots", at=at, expected="ids", found=", ".join(ended))
    return Fence(
        number,
        json.long("expired"),
        rollbacks,
        {int(id_): name for id_, name in ended.items()},
        json.optional_long("changelogs") or 0,
        json.optional_text("writer") or "",
    )
