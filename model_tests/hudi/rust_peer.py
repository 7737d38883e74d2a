"""hudi-rs as a process: a command a line, an answer a line. Started by `interop.environments`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa


def rows(table: str, columns: list[str], instant: str = "") -> list[list[str]]:
    """Return the columns of all rows as JSON. ``instant``: as of it, if given."""
    hudi: Any = importlib.import_module("hudi")
    options = hudi.HudiReadOptions()
    if instant:
        options = options.with_as_of_timestamp(instant)
    batches = hudi.HudiTableBuilder.from_base_uri(table).build().read(options)
    found = pa.Table.from_batches([pa.record_batch(one) for one in batches]).select(columns).to_pylist()
    return sorted([json.dumps(value, sort_keys=True, default=str) for value in one.values()] for one in found)


def scan(table: str, query: str) -> int:
    """Read all columns of all rows; return how many there are. ``query``: snapshot or read_optimized."""
    hudi: Any = importlib.import_module("hudi")
    options = hudi.HudiReadOptions()
    if query == "read_optimized":
        options = options.with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
    batches = hudi.HudiTableBuilder.from_base_uri(table).build().read(options)
    return sum(pa.record_batch(one).num_rows for one in batches)


COMMANDS: dict[str, Callable[..., Any]] = {"rows": rows, "scan": scan}


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer: Any = {"ok": COMMANDS[command.pop("do")](**command)}
        except BaseException as error:  # a panic of Rust is no Exception
            answer = {"error": str(error)[:2000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
