"""Encode and decode fence files.

A fence says which snapshot ids have ended: those that have expired, and those above the target of a rollback. It also
says of which expired ones the changelogs are kept no more. Fences are numbered from 1 and each takes over the contents
of the one before, so the newest says everything. A fence also names the snapshots that it ended itself, because after
their files are gone nothing else does.

Clauses: CMT-35, CMT-36, CMT-42, CMT-61, META-52.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pktable_spec.errors import CorruptFileError

from pktable.format.metadata.json_text import decode_json, encode_json
from pktable.format.metadata.snapshot import Snapshot

VERSION: Final = 1


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
    kept no more, 0 for none.
    """

    number: int = 0
    expired: int = 0
    rollbacks: tuple[Rollback, ...] = ()
    ended: Mapping[int, str] = field(default_factory=dict)
    changelogs: int = 0

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
            "version": VERSION,
            "expired": fence.expired,
            "rollbacks": [{"fence": one.fence, "target": one.target} for one in fence.rollbacks],
            "ended": {str(snapshot): name for snapshot, name in sorted(fence.ended.items())},
            **({"changelogs": fence.changelogs} if fence.changelogs else {}),
        }
    )


def decode_fence(number: int, data: bytes, *, at: str) -> Fence:
    """Return the fence that a file holds. ``at``: the path of the file. Raises CorruptFileError. Clauses: META-52."""
    json = decode_json(data, at=at)
    version = json.long("version")
    if version != VERSION:
        raise CorruptFileError("version of the fence", at=at, expected=VERSION, found=version)
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
    )
