"""Entries of manifests in which every field takes many values."""

from __future__ import annotations

import random

from pktable.format.binary_row import EMPTY_ROW, encode_row
from pktable.format.metadata.manifest import DataFileMeta, ManifestEntry
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import parse_columns

TYPES = [field.type for field in parse_columns("a STRING, b BIGINT")]


def entries(count: int, *, partitioned: bool = True) -> list[ManifestEntry]:
    """Return entries of which every field takes its values of all lengths, null where it may be."""
    draw = random.Random(7)
    made = []
    for i in range(count):
        partition = (
            encode_row([f"part {'x' * draw.randrange(90)}", i], TYPES)[:] if partitioned else EMPTY_ROW
        )
        key = bytes(encode_row(["k" * draw.randrange(12), draw.getrandbits(50)], TYPES))
        nulls = draw.choice([None, (), (0, 3), (None, 1 << 40), tuple(range(draw.randrange(9)))])
        file = DataFileMeta(
            file_name=f"data-{draw.getrandbits(64)}-é.parquet"[draw.randrange(3) :],
            file_size=draw.getrandbits(draw.randrange(1, 61)),
            row_count=draw.getrandbits(20),
            min_key=key,
            max_key=key,
            key_stats=SimpleStats(key, key, (0, 0)),
            value_stats=SimpleStats(key, bytes(partition), nulls),
            min_sequence_number=-draw.getrandbits(30),
            max_sequence_number=draw.getrandbits(30),
            schema_id=draw.randrange(3),
            level=draw.randrange(6),
            extra_files=tuple(f"extra-{j}" for j in range(draw.randrange(3))),
            creation_time=draw.choice([None, 1_700_000_000_000 + i]),
            delete_row_count=draw.choice([None, 0, 77]),
            embedded_index=draw.choice([None, b"", b"\4\0\x18\0\0\0\2"]),
            file_source=draw.choice([None, 0, 1]),
            value_stats_cols=draw.choice([None, (), ("a",), ("a", "b")]),
            external_path=draw.choice([None, "s3://bucket/é"]),
            first_row_id=draw.choice([None, 5]),
            write_cols=draw.choice([None, ("b",)]),
        )
        made.append(ManifestEntry(draw.randrange(2), bytes(partition), i % 5 - 2, 5, file))
    return made
