"""What machine a benchmark runs on, and what its processes use."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def java() -> str:
    """Return the command that starts Java."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


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
        **{name: metadata.version(name) for name in ("numpy", "pyarrow", "pyroaring", "pyspark")},
        "load_before": load(),
    }


def _java_version() -> str | None:
    try:
        found = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stderr.splitlines()[0]


def load() -> list[float]:
    """Return how many processes wanted a core in the last 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def hardware(about: Mapping[str, Any]) -> str:
    """Tell the machine of what `describe` returned."""
    return f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB, {about['system']}"


def processor_seconds() -> dict[int, float]:
    """Return what this process and each of its descendants has used, in hundredths; nothing where no one tells."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(path.parent.name)
        parents[process], used[process] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS
    wanted = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in wanted} - wanted:
        wanted |= more
    return {one: used[one] for one in wanted if one in used}


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds that this process and its descendants use for ``work``."""
    before = processor_seconds()
    work()
    return sum(used - before.get(process, 0) for process, used in processor_seconds().items())


@contextmanager
def greatest_memory() -> Iterator[list[float]]:
    """Give a list of one number: the greatest resident bytes of this process and its descendants inside the block.

    Pages that forked processes share count once.
    """
    greatest, done = [0.0], threading.Event()

    def look() -> None:
        greatest[0] = max(greatest[0], sum(map(_resident, processor_seconds())))

    def watch() -> None:
        while not done.wait(0.2):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield greatest
    finally:
        done.set()
        thread.join()
        look()  # the block may have been shorter


def _resident(process: int) -> float:
    folder = Path(f"/proc/{process}")
    try:
        # Java shares nothing, and would be slow to ask for what it shares.
        if (folder / "comm").read_text().strip() == "java":
            return int((folder / "statm").read_text().split()[1]) * PAGE
        _, shared = (folder / "smaps_rollup").read_text().split("\nPss:", 1)
        return int(shared.split()[0]) * 1024
    except (OSError, ValueError):  # it has ended
        return 0
