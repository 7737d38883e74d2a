"""What pytest-benchmark stores with each run, besides times."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import describe


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    machine_info.update(describe())
