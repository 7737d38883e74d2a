"""A mutant: a bug that some table format has had, to be put into `pktable` for as long as a context lasts.

Nothing of it is in the package; a mutant patches the kernel, the catalog or the readers from outside. It says
which check must find it: an exception out of `pktable`, or another check, is an accident and no kill.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from model_tests.histories.run import check_of

SAME_CODE: Final = "the same code"
IN_THE_PLAN: Final = "Spark's plan, changed alike"

READ: Final = r"reads_agree: (fresh )?read of snapshot|query_agrees: "
"""A read that returned other rows than the oracle's."""

NOT_PICKED: Final = r"compaction_took_the_pick: (inputs|output level)|\w+: (nothing was compacted|expected )"
NOT_ABSORBED: Final = r"\w+: (level 0 is left|compaction leaves no level-0 run)"
"""A compaction that did not take what the strategy picks, or left level 0 behind."""

REPOSITORIES: Final[Mapping[str, str]] = {
    "paimon": "apache/paimon",
    "paimon-rust": "apache/paimon-rust",
    "delta": "delta-io/delta",
    "iceberg": "apache/iceberg",
    "iceberg-go": "apache/iceberg-go",
    "trino": "trinodb/trino",
    "icebird": "hyparam/icebird",
    "hudi": "apache/hudi",
}


@dataclass(frozen=True)
class Mutant:
    """A fault. ``inject`` gives the context it lives in.

    ``id``: M.. and S.. are those of the catalogue of historic bugs, C.. those of consistency counterexamples;
    a letter tells two forms of one bug apart. ``bugs``: where it was seen, as repository#number. ``clauses``:
    those it breaks. ``found_by``: check and message that must find it, a pattern for `kill`. ``spark``: where
    it lives when Spark runs the table. ``local_only``: why it is not replayed on Spark, None where it is.
    ``twin``: whether only the twin table, without deletion vectors, can show it.
    """

    id: str
    title: str
    inject: Callable[[], AbstractContextManager[None]]
    found_by: str
    clauses: tuple[str, ...]
    bugs: tuple[str, ...] = ()
    spark: str = SAME_CODE
    local_only: str | None = None
    twin: bool = False

    def kill(self, failure: BaseException) -> Kill:
        """Judge what a history under this mutant ended with."""
        return self.judge(check_of(failure), f"{type(failure).__name__}: {failure}")

    def judge(self, check: str | None, message: str) -> Kill:
        """Judge a failure by the check that found it, None for an accident, and its message."""
        told = f"{check}: {message.removeprefix('AssertionError: ')}"
        return Kill(check, message, meant=check is not None and bool(re.match(self.found_by, told)))

    @property
    def links(self) -> list[str]:
        """Where the bugs are told."""
        split = (bug.partition("#") for bug in self.bugs)
        return [f"https://github.com/{REPOSITORIES[name]}/issues/{number}" for name, _, number in split]


@dataclass(frozen=True)
class Kill:
    """What ended a history: the check (None: none of ours), its message, and whether it was the one meant."""

    check: str | None
    message: str
    meant: bool


def patched(*changes: tuple[Any, str, Callable[[Any], Any]]) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which each (owner, name, make) has ``owner.name`` replaced by ``make(owner.name)``."""

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for owner, name, make in changes:
                stack.enter_context(mock.patch.object(owner, name, make(getattr(owner, name))))
            yield

    return context


def instead(value: Any) -> Callable[[Any], Any]:
    """Return a maker for `patched` that puts ``value`` there, whatever was."""
    return lambda original: value
