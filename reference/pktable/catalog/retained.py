"""Which snapshots an expiry keeps: by number, by age, and by consumers that have not read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pktable_spec.options import TableOptions

DEFAULT_LEAST = 10
DEFAULT_MILLIS = 60 * 60 * 1000
"""Paimon's values of `snapshot.num-retained.min` and `snapshot.time-retained`."""


@dataclass(frozen=True, slots=True)
class Retained:
    """The snapshots that stay: the ``least`` newest, and of the ``most`` newest those from ``since`` on.

    ``most``: None for all. ``since``: milliseconds since the epoch; None: age keeps none. ``at_once``: how many one
    expiry removes at most, None for all.
    """

    least: int
    since: int | None
    most: int | None = None
    at_once: int | None = None

    @classmethod
    def asked_for(cls, options: TableOptions, now_millis: int) -> Retained | None:
        """Return what the options of a table say, None if they say nothing. Clauses: CMT-63."""
        least, most = options.snapshot_retained_min, options.snapshot_retained_max
        retained = options.snapshot_retained_millis
        if options.write_only or least is most is retained is None:
            return None
        least = min(DEFAULT_LEAST, most or DEFAULT_LEAST) if least is None else least
        return cls(
            least,
            since=now_millis - (DEFAULT_MILLIS if retained is None else retained),
            most=most,
            at_once=options.snapshots_expired_at_once,
        )

    def candidates(self, ids: Sequence[int]) -> Iterator[tuple[int, int | None]]:
        """Yield the ids that may go, in order, and from which time on age keeps each. Clauses: CMT-63."""
        too_many = 0 if self.most is None else len(ids) - self.most
        for at, one in enumerate(ids[: -self.least][: self.at_once]):
            yield one, self.since if at >= too_many else None
