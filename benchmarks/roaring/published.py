"""The table of PIP-16, as published."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One row: of ``rows`` rows of a file a share of ``percent`` is deleted."""

    percent: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.percent} % of {self.rows:,}"


class Published(NamedTuple):
    """What the paper measured: milliseconds, and the size in MB of 2^20 bytes."""

    add: float
    serialize: float
    deserialize: float
    megabytes: float
    contains: float


TABLE: dict[Row, Published] = {
    Row(20, 2_000_000): Published(43, 5, 26, 0.24, 7),
    Row(50, 2_000_000): Published(47, 3, 52, 0.24, 5),
    Row(80, 2_000_000): Published(57, 1, 24, 0.24, 8),
    Row(20, 20_000_000): Published(450, 13, 247, 2.4, 49),
    Row(50, 20_000_000): Published(629, 6, 222, 2.4, 76),
    Row(80, 20_000_000): Published(1040, 5, 222, 2.4, 121),
    Row(20, 200_000_000): Published(5079, 44, 2262, 24, 442),
    Row(50, 200_000_000): Published(9469, 43, 2773, 24, 1107),
    Row(80, 200_000_000): Published(13625, 38, 2233, 24, 1799),
    Row(20, 2_000_000_000): Published(93753, 568, 22290, 239, 5747),
    Row(50, 2_000_000_000): Published(166070, 679, 22339, 239, 14735),
    Row(80, 2_000_000_000): Published(218233, 553, 22684, 239, 26504),
}
