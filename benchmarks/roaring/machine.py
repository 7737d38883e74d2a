"""What a run needs, and what the machine has of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

from benchmarks.machine import java

JARS = Path(pyspark.__file__).parent / "jars"
MEBIBYTE = 1 << 20


def java_command(heap_mebibytes: int) -> list[str]:
    """Return the command that runs JavaCell.java."""
    return janino_command(Path(__file__).with_name("JavaCell.java"), f"-Xmx{heap_mebibytes}m")


def janino_command(source: Path, *options: str) -> list[str]:
    """Return the command that compiles and runs a Java class with what pyspark brings, in a JRE.

    ``PKTABLE_ROARING_JAR`` names another RoaringBitmap than that of pyspark.
    """
    roaring = os.environ.get("PKTABLE_ROARING_JAR") or _jar("RoaringBitmap")
    jars = [roaring, _jar("janino"), _jar("commons-compiler")]
    path = os.pathsep.join(map(str, jars))
    return [java(), *options, "-cp", path, "org.codehaus.janino.SimpleCompiler", str(source), source.stem]


def _jar(name: str) -> Path:
    found = sorted(JARS.glob(f"{name}-[0-9]*.jar"))
    if not found:
        sys.exit(f"benchmarks.roaring: expected {name}-*.jar in {JARS}, found none")
    return found[0]


def roaring_version() -> str:
    return _jar("RoaringBitmap").stem.partition("-")[2]


def heap_mebibytes(rows: int) -> int:
    """What the Java cells need: bitmaps, words and bytes of one bit per row, several at a time, and room to collect."""
    return 512 + 10 * rows // 8 // MEBIBYTE


def memory_needed(rows: int) -> int:
    """Bytes that the greediest cell of a row may take."""
    return (heap_mebibytes(rows) + 300) * MEBIBYTE


def disk_needed(rows: int) -> int:
    return rows // 8 + MEBIBYTE


def memory_available() -> int:
    """Bytes that the machine, or the container it lends us, has left."""
    left = []
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            left.append(int(line.split()[1]) << 10)
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and limit.read_text().strip() != "max":
        left.append(int(limit.read_text()) - int(used.read_text()))
    return min(left)
