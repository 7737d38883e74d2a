"""What a run needs, what the machine has, and what it is."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"
MEBIBYTE = 1 << 20


def java_command(heap_mebibytes: int) -> list[str]:
    """Return the command that compiles and runs JavaCell.java with what pyspark brings, in a JRE."""
    jars = [_jar("RoaringBitmap"), _jar("janino"), _jar("commons-compiler")]
    home = os.environ.get("JAVA_HOME")
    return [
        str(Path(home) / "bin" / "java") if home else "java",
        f"-Xmx{heap_mebibytes}m",
        "-cp",
        os.pathsep.join(map(str, jars)),
        "org.codehaus.janino.SimpleCompiler",
        str(Path(__file__).with_name("JavaCell.java")),
        "JavaCell",
    ]


def _jar(name: str) -> Path:
    found = sorted(JARS.glob(f"{name}-[0-9]*.jar"))
    if not found:
        sys.exit(f"benchmarks.roaring: expected {name}-*.jar in {JARS}, found none")
    return found[0]


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


def describe() -> dict[str, Any]:
    """Return what a reader must know to judge the numbers."""
    cpu = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    }
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu.get("model name", platform.machine()),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30), 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java_version(),
        "RoaringBitmap": _jar("RoaringBitmap").stem.partition("-")[2],
        **{name: metadata.version(name) for name in ("numpy", "pyarrow", "pyroaring", "pyspark")},
        "load_before": load(),
    }


def _java_version() -> str | None:
    try:
        found = subprocess.run([java_command(64)[0], "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stderr.splitlines()[0]


def load() -> list[float]:
    """Return how many processes wanted a core in the last 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]
