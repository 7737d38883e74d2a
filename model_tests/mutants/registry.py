"""A mutant: a bug that some table format has had, put into `pktable` while a context lasts.

Nothing of it is in the package: a mutant replaces a public function or method of the kernel, the catalog or the
readers from outside. It says which check must find it. An error that `pktable` raises, or another check, is an accident
and no kill.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, Final
from unittest import mock

from pktable_conform.judge.checks import CheckFailed, message_of

SAME_CODE: Final = "the same code"
IN_THE_PLAN: Final = "Spark's plan, changed alike"

READ: Final = "reads_agree: |query_agrees: |changes_agree: "
"""A read that returned other rows, or other changes, than the oracle's."""

NOT_PICKED: Final = "compaction_took_the_pick: (inputs|output level)|compacted: |compaction_begins: "
LEVEL_ZERO_LEFT: Final = "level_zero_is_compacted: "
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
    """A bug. ``inject`` puts it in.

    ``id``: M.. and S.. are those of the catalogue of historic bugs, C.. those of consistency counterexamples, P.. and
    D.. are wrong picks, O.. refusals of what is right, L.. faults of lookups for changelogs, K.. of changelogs that are
    kept, B.. of dynamic buckets; a last letter tells two forms of one bug apart.
    ``bugs``: where it was seen, as repository#number. ``clauses``: those it breaks. ``found_by``: a pattern for the
    start of the check's name and message that must find it. ``spark``: where it lives when Spark runs the table.
    ``local_only``: why it is not replayed on Spark, None where it is. ``twin``: whether only the twin table, without
    deletion vectors, can show it. ``engines``: whether it takes another merge engine than deduplicate.
    """

    id: str
    title: str
    inject: Fault
    found_by: str
    clauses: tuple[str, ...]
    bugs: tuple[str, ...] = ()
    spark: str = SAME_CODE
    local_only: str | None = None
    twin: bool = False
    engines: bool = False

    def kill(self, failure: BaseException) -> Kill:
        """Judge the failure that a history under this mutant ended with."""
        return self.judge(failure.check if isinstance(failure, CheckFailed) else None, message_of(failure))

    def judge(self, check: str | None, message: str) -> Kill:
        """Judge a failure by the check that found it (None: an accident) and its message."""
        return Kill(check, message, meant=check is not None and bool(re.match(self.found_by, message)))

    @property
    def links(self) -> list[str]:
        """The issues of the bugs."""
        split = (bug.partition("#") for bug in self.bugs)
        return [f"https://github.com/{REPOSITORIES[name]}/issues/{number}" for name, _, number in split]


@dataclass(frozen=True)
class Kill:
    """How a history ended: the check that failed (None: an accident), its message, whether it is the one meant.

    ``step``: the number of the step that failed, 0 if it was not counted.
    """

    check: str | None
    message: str
    meant: bool
    step: int = 0


@dataclass(frozen=True)
class Fault:
    """A fault in code of ``modules``; called, it gives the context that it lives in."""

    modules: tuple[str, ...]
    context: Callable[[], AbstractContextManager[None]]

    def __call__(self) -> AbstractContextManager[None]:
        return self.context()


def patched(*changes: tuple[Any, str, Callable[[Any], Any]]) -> Fault:
    """Return a context in which each (owner, name, make) has ``owner.name`` replaced by ``make(owner.name)``."""

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for owner, name, make in changes:
                stack.enter_context(mock.patch.object(owner, name, make(getattr(owner, name))))
            yield

    return Fault(tuple(_defined_in(owner, name) for owner, name, _ in changes), context)


def _defined_in(owner: Any, name: str) -> str:
    """Return the module of the reference that has the code of ``owner.name``, which ``owner`` may have imported."""
    home = str(getattr(getattr(owner, name), "__module__", None))
    is_ours = home.partition(".")[0] in ("pktable", "pktable_hudi")
    return home if is_ours else str(getattr(owner, "__module__", None) or owner.__name__)


def reworded(module: ModuleType, *changes: tuple[str, str]) -> Fault:
    """Return a context in which the functions of ``module`` do what its source says after some changes of its text.

    Each text that is replaced must be there once.
    """

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        source = inspect.getsource(module)
        for old, new in changes:
            assert source.count(old) == 1, (
                f"{module.__name__}: expected once, found {source.count(old)} times: {old}"
            )
            source = source.replace(old, new)
        changed = dict(vars(module))
        exec(compile(source, str(module.__file__), "exec"), changed)
        with contextlib.ExitStack() as stack:
            for function, other in _pairs(vars(module), changed, module.__name__):
                stack.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = other.__code__
            yield

    return Fault((module.__name__,), context)


def _pairs(
    old: Mapping[str, Any], new: Mapping[str, Any], module: str
) -> Iterator[tuple[FunctionType, FunctionType]]:
    """Yield the functions and methods of a module, each with its other form."""
    for name, value in old.items():
        if getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, FunctionType) and value.__name__ == name:
            yield value, new[name]
        elif isinstance(value, type):
            yield from _pairs(vars(value), vars(new[name]), module)


def both(*faults: Fault) -> Fault:
    """Return the fault that is all of ``faults`` at once."""

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for one in faults:
                stack.enter_context(one())
            yield

    return Fault(tuple(module for one in faults for module in one.modules), context)


def instead(value: Any) -> Callable[[Any], Any]:
    """Return a maker for `patched` that puts ``value`` there, whatever was."""
    return lambda original: value
