"""Mutants of writing and looking up: each is one rule done wrong, and one of the two machines must notice it.

The machines are those of `test_lookup_histories`, with commits that end in any order, and of `test_write`, with
processes that die. A mutant replaces a public function or method.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from pktable_hudi import actions, attempt, compaction, incoming, lookup, slices
from pktable_hudi.format import bloom, key_summary
from pktable_spec.covers import covers

from model_tests.hudi.test_lookup_histories import FileGroupMachine
from model_tests.hudi.test_write import WriterMachine

pytestmark = pytest.mark.deep("the machines of Hudi no longer notice one of the rules done wrong")

Patch = Callable[[pytest.MonkeyPatch], None]
Original = Callable[..., Any]


def instead(*places: tuple[Any, str], of: Callable[..., Any]) -> Patch:
    """Replace a function in all ``places`` by ``of``, which gets the original first."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name in places:
            original = getattr(module, name)
            monkeypatch.setattr(
                module, name, _bound(of, original) if isinstance(module, type) else partial(of, original)
            )

    return patch


def _bound(of: Callable[..., Any], original: Original) -> Callable[..., Any]:
    return lambda *arguments, **options: of(original, *arguments, **options)


def without_its_greatest(original: Original, self: Any, low: str, high: str, order: Any) -> Any:
    found = original(self, low, high, order)
    encoded = [order.of(self.keys[i]) for i in found.tolist()]
    return found[: bisect_left(encoded, order.of(high))]


def of_the_newest_slice(original: Original, group: Any, timeline: Any, settings: Any) -> Any:
    return original(group, timeline, settings)[-1:]


def nowhere(original: Original, lookups: Any, keys: Any, pieces: Any) -> Any:
    return [numbers[:0] for numbers in original(lookups, keys, pieces)]


def visible_keys_only(original: Original, self: Any, batch: Any) -> Any:
    found = original(self, batch)
    logs = [one.name for one in self.slice.logs]
    return found if len(logs) < 2 else found[: max(0, len(found) - 1)]


def never(original: Original, *arguments: Any, **options: Any) -> None:
    return None


def no_files(original: Original, *arguments: Any) -> dict[str, list[str]]:
    return {}


def first_rows(original: Original, form: Any, given: Any) -> Any:
    found = original(form, given)
    return found.take(np.arange(max(1, len(found.keys) - 1))) if len(found.keys) else found


def without_the_last_log(original: Original, groups: Any) -> bytes:
    cut: bytes = original([replace(one, logs=one.logs[:-1]) if len(one.logs) > 1 else one for one in groups])
    return cut


def of_the_first_rows(original: Original, rows: pa.Table, schema: str) -> bytes:
    content: bytes = original(rows.slice(0, max(1, rows.num_rows - 1)), schema)
    return content


LOOKUPS: Final[dict[str, Patch]] = {
    "the greatest key is out of its range": instead(
        (key_summary.KeyBatch, "between"), of=without_its_greatest
    ),
    "only the newest slice is read": instead((slices, "all_slices"), of=of_the_newest_slice),
    "a filter misses every second key": instead(
        (bloom.SimpleFilter, "among"),
        of=lambda original, self, keys, numbers: original(self, keys, numbers)[::2],
    ),
    "one key in a log is not found": instead((lookup.SliceLookup, "locate"), of=visible_keys_only),
}
WRITES: Final[dict[str, Patch]] = {
    "keys are not looked up": instead((attempt, "tagged"), of=nowhere),
    "one key in a log is not found": instead((lookup.SliceLookup, "locate"), of=visible_keys_only),
    "a rollback deletes no files": instead((actions.Actions, "delete_files"), of=no_files),
    "a row of a write is lost": instead((incoming.RowForm, "winners"), of=first_rows),
    "a plan leaves out a log file": instead((compaction, "encode_compaction_plan"), of=without_the_last_log),
    "a compaction loses a row": instead((compaction, "base_content"), of=of_the_first_rows),
    "a compaction is decided and not complete": instead(
        (actions.Actions, "complete_compaction"), of=lambda original, self, instant, content: instant
    ),
    "a write that died is left open": instead((actions.Actions, "end"), of=never),
    "new keys go to a group twice": instead(
        (attempt, "placed"), of=lambda original, *rest: [one for one in original(*rest) for _ in range(2)]
    ),
}


def notices(machine: type[RuleBasedStateMachine], examples: int) -> None:
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=12,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
            ),
        )
    except Exception:  # whatever shows it
        return
    pytest.fail("the machine did not notice it")


@covers("LOG-14", "LOG-16", "LOG-24", "LOG-41")
@pytest.mark.parametrize("mutant", LOOKUPS)
def test_the_machine_of_lookups_notices(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    LOOKUPS[mutant](monkeypatch)
    notices(FileGroupMachine, 30)


@covers("LOG-50", "LOG-53", "LOG-54", "LOG-59", "LOG-60", "LOG-61")
@pytest.mark.parametrize("mutant", WRITES)
def test_the_machine_of_writes_notices(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITES[mutant](monkeypatch)
    notices(WriterMachine, 36)
