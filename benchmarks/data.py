"""TPC-H data from tpchgen-cli, made once and kept in a folder that git ignores.

A folder is complete when its stamp says what it was made of; anything else is made anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TREE = Path(__file__).parents[1]
KEPT = Path(os.environ.get("PKTABLE_BENCH_DATA") or TREE / ".benchmarks" / "data")


def kept(name: str, made_of: str, make: Callable[[Path], None]) -> Path:
    """Return the folder ``name`` of what is kept, filled by ``make`` unless it was made of the same before."""
    folder = KEPT / name
    stamp = folder / ".made-of"
    if not stamp.is_file() or stamp.read_text() != made_of:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        stamp.write_text(made_of)
    return folder


def tpch(table: str, scale: float) -> pa.Table:
    """Return a TPC-H table in the order of its key, as plain Arrow types. Exits if tpchgen-cli is not installed."""
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which(
        "tpchgen-cli"
    )
    if program is None:
        sys.exit("benchmarks: expected tpchgen-cli, found none; pip install -e '.[bench]'")

    def generate(folder: Path) -> None:
        command = [program, "parquet", "-s", str(scale), f"--tables={table}", f"--output-dir={folder}", "-q"]
        subprocess.run(command, check=True)

    folder = kept(f"tpch-{table}-{scale:g}", f"tpchgen-cli {table} {scale:g}", generate)
    return _plain(pq.read_table(folder / f"{table}.parquet"))


def _plain(table: pa.Table) -> pa.Table:
    """Return ``table`` without views and metadata."""
    fields = [
        pa.field(field.name, pa.string() if field.type == pa.string_view() else field.type, field.nullable)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
