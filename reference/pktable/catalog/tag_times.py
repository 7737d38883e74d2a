"""How long a tag is kept, in two fields of its file that only tags have, as Paimon writes them.

Its creation is a wall clock without a zone, of the machine that made it. A machine in another zone would delete the tag
hours too early. So the time of its file counts where that is later.

Clauses: CMT-32, CMT-70.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pktable_spec.errors import SnapshotNotFoundError

from pktable.catalog.arguments import duration_of
from pktable.catalog.catalog import Catalog
from pktable.catalog.holds import kind_of_hold
from pktable.format.metadata.json_text import decode_json
from pktable.format.metadata.snapshot import CREATED, RETAINED
from pktable.format.paths import TAG

ISO: Final = re.compile(r"PT(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")
MILLIS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TagTime:
    """``created``: by the clock on the wall. ``retained``: None of a tag that is kept for ever."""

    created: datetime | None = None
    retained: timedelta | None = None

    @classmethod
    def of(cls, data: bytes, at: str) -> TagTime:
        """Return what the file of a tag says. ``at``: its path. Raises CorruptFileError."""
        json = decode_json(data, at=at)
        created = json.optional(CREATED, "a date and time", _wall_clock)
        return cls(created, json.optional(RETAINED, "seconds", _duration))

    def fields(self) -> dict[str, Any]:
        """Return what `of` reads, as Paimon writes it."""
        if self.created is None or self.retained is None:
            return {}
        created, nanos = self.created.timetuple()[:6], self.created.microsecond * 1000
        return {CREATED: [*created, nanos], RETAINED: self.retained.total_seconds()}

    def is_over(self, written_millis: int, now_millis: int) -> bool:
        """Return whether a tag whose file was written then is kept no more."""
        if self.retained is None:
            return False
        return self.since(written_millis) + self.retained // MILLIS < now_millis

    def since(self, written_millis: int) -> int:
        """Return the time in milliseconds from which the tag of a file that was written then is kept."""
        if self.created is None:
            return written_millis
        return max(written_millis, int(self.created.timestamp() * 1000))


def time_of(
    retained: str | timedelta | None, default_millis: int | None, clock: Callable[[], int]
) -> TagTime:
    """Return the time of a tag that is made now. ``retained``: as of `Table.create_tag`. Raises InvalidRequestError.

    ``default_millis``: how long it is kept if ``retained`` is None. ``clock``: milliseconds.
    """
    if retained is None:
        if default_millis is None:
            return TagTime()
        retained = f"{default_millis} ms"
    return TagTime(datetime.fromtimestamp(clock() / 1000), duration_of("time_retained", retained))


def expired_tags(catalog: Catalog, older_than: int | None, now_millis: int) -> dict[str, bytes]:
    """Return the tags whose time is over, and those that are kept since before ``older_than``, in milliseconds.

    They come by name, in order, with what their files say. Work that keeps files by its own tag removes that itself.
    Raises CorruptFileError. Clauses: CMT-70.
    """
    snapshots, paths, says = catalog.snapshots, catalog.context.paths, {}
    for name in snapshots.tags():
        if kind_of_hold(name) is None:
            with suppress(SnapshotNotFoundError):  # deleted since the listing
                says[name] = snapshots.tag_file(name)
    # Looked at last: a file that is replaced since is younger than what was read.
    written = {file.name: file.modified_millis for file in catalog.context.store.list_files(paths.tags)}
    found = {}
    for name, data in says.items():
        time, at = TagTime.of(data, paths.tag(name)), written.get(TAG + name)
        if at is not None and (
            time.is_over(at, now_millis) or (older_than is not None and time.since(at) < older_than)
        ):
            found[name] = data
    return found


def iso_text(duration: timedelta) -> str:
    """Return a duration as Java prints one, such as PT24H or PT1M30.5S."""
    seconds = duration // timedelta(seconds=1)
    micros = duration.microseconds
    hours, minutes, rest = seconds // 3600, seconds % 3600 // 60, seconds % 60
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    last = f"{rest}{fraction}S" if rest or micros or not seconds else ""
    return "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + last


def _wall_clock(stored: Any) -> datetime:
    """Read the parts of a date and time, the last one nanoseconds, or ISO text."""
    if isinstance(stored, str):
        found = datetime.fromisoformat(stored[:26])
    else:
        year, month, day, hour, minute, second, nanos = [*stored, 0, 0, 0, 0][:7]
        found = datetime(year, month, day, hour, minute, second, nanos // 1000)
    found.timestamp()  # or it is too long ago
    return found


def _duration(stored: Any) -> timedelta:
    """Read seconds, or ISO text."""
    if not isinstance(stored, str):
        return timedelta(seconds=stored)
    found = ISO.fullmatch(stored)
    if found is None:
        raise ValueError(stored)
    hours, minutes, seconds = (float(one or 0) for one in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
