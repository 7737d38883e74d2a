"""Interrupts between any two lines of a commit: nothing that a snapshot names is removed."""

from __future__ import annotations

import inspect
import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from pktable import Table
from pktable.catalog import commit
from pktable.catalog.commit import CommittedError
from pktable_spec.covers import covers
from pktable_spec.errors import CommitUnknownError

LINES_OF = {inspect.getsourcefile(commit)}
BEFORE, AFTER = {1: 0, 2: 0}, {1: 0, 2: 1, 3: 1}


class Interrupt:
    """Raises KeyboardInterrupt before the ``at``-th line that is executed of a commit, if there are so many."""

    def __init__(self, at: int) -> None:
        self._left, self._before = at, sys.gettrace()

    @property
    def has_come(self) -> bool:
        return self._left == 0

    def __enter__(self) -> Interrupt:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in LINES_OF else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and self._left:
            self._left -= 1
            if self.has_come:
                raise KeyboardInterrupt
        return self._line


@covers("CMT-12", "CMT-38", "CMT-69")
def test_an_interrupt_between_any_two_lines_of_a_commit_leaves_all_or_nothing(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}
    table = Table.create(tmp_path / "0", "id INT, v INT", primary_key="id", options=options)
    table.upsert([{"id": 1, "v": 0}, {"id": 2, "v": 0}])
    seen = set()
    for at in range(1, 1000):
        shutil.copytree(tmp_path / "0", tmp_path / "1")
        table, outcome = Table.open(tmp_path / "1"), "done"
        interrupt = Interrupt(at)
        try:
            with interrupt:
                table.upsert([{"id": 2, "v": 1}, {"id": 3, "v": 1}])
        except CommittedError:
            outcome = "committed"
        except CommitUnknownError:
            outcome = "unknown"
        except KeyboardInterrupt:
            outcome = "interrupted"
        found = {row["id"]: row["v"] for row in Table.open(tmp_path / "1").to_arrow(fresh=True).to_pylist()}
        allowed = {"done": (AFTER,), "committed": (AFTER,), "interrupted": (BEFORE,)}.get(
            outcome, (BEFORE, AFTER)
        )
        assert found in allowed, f"{outcome} at line {at}"
        shutil.rmtree(tmp_path / "1")
        seen.add(outcome)
        if not interrupt.has_come:
            break
    assert seen == {"done", "committed", "unknown", "interrupted"}
