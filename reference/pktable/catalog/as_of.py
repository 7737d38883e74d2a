"""Which snapshot a read asks for: the latest, one by id, one by tag, or the one that was the latest at a time.

Clauses: RD-10, RD-17.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from numbers import Integral
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable.catalog.snapshots import SnapshotLog
from pktable.format.bounds import is_file_name
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.paths import TAG


@dataclass(frozen=True, slots=True)
class AsOf:
    """At most one of ``snapshot``, ``tag`` and ``time_millis`` (since the epoch); none of them: the latest snapshot."""

    snapshot: int | None = None
    tag: str | None = None
    time_millis: int | None = None

    @classmethod
    def given(
        cls,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
    ) -> AsOf:
        """Return what a caller asks for by keywords. Raises InvalidRequestError if that is not one snapshot."""
        keywords = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp}
        named = [name for name, value in keywords.items() if value is not None]
        if len(named) > 1:
            raise InvalidRequestError(
                f"read: give one of snapshot, tag and timestamp, not {' and '.join(named)}"
            )
        if tag is not None and (not isinstance(tag, str) or not is_file_name(f"{TAG}{tag}")):
            raise InvalidRequestError(f"tag: expected a name, found {tag!r}")
        number = None if snapshot is None else snapshot_id(snapshot)
        return cls(number, tag, None if timestamp is None else millis_of(timestamp))

    def find(self, snapshots: SnapshotLog) -> Snapshot | None:
        """Return the snapshot asked for, None for the latest. Raises SnapshotNotFoundError, CorruptFileError."""
        if self.snapshot is not None:
            return snapshots.read(self.snapshot)
        if self.tag is not None:
            return snapshots.by_tag(self.tag)
        return None if self.time_millis is None else snapshots.as_of(self.time_millis)


LATEST: Final = AsOf()


def snapshot_id(snapshot: object, what: str = "snapshot") -> int:
    """Return the id of a snapshot. Raises InvalidRequestError; ``what`` begins the message."""
    if not isinstance(snapshot, Integral) or isinstance(snapshot, bool):
        raise InvalidRequestError(f"{what}: expected an integer, found {snapshot!r}")
    return int(snapshot)  # such as one of numpy


def millis_of(timestamp: int | str | datetime, what: str = "timestamp") -> int:
    """Return a time as milliseconds since the epoch. Text and datetimes are UTC unless they say otherwise.

    Raises InvalidRequestError; ``what`` begins the message.
    """
    if isinstance(timestamp, str):
        try:
            # Python 3.10 does not know the Z of ISO text.
            utc = timestamp.endswith(("Z", "z"))
            timestamp = datetime.fromisoformat(timestamp[:-1] + "+00:00" if utc else timestamp)
        except ValueError:
            raise InvalidRequestError(
                f"{what}: expected ISO text such as 2024-05-01T12:00:00, found {timestamp!r}"
            ) from None
    if isinstance(timestamp, datetime) and timestamp == timestamp:  # NaT of pandas is a datetime, too
        aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=timezone.utc)
        return int(aware.timestamp() * 1000)
    if not isinstance(timestamp, Integral) or isinstance(timestamp, bool):
        raise InvalidRequestError(
            f"{what}: expected a datetime, ISO text or milliseconds since 1970, found {timestamp!r}"
        )
    return int(timestamp)
