"""The operations that histories with retractions leave out, with proof, and histories that meet limits of peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pktable_conform.judge.history import BULK

from model_tests.interop import retracting
from model_tests.interop.environments import JVM, JVMS, NEWER_JVM
from model_tests.interop.histories import PRODUCER, VECTORS, History, Step
from model_tests.interop.outcomes import OURS
from model_tests.interop.probes import Probe, plays

LOOKUP: Final = {VECTORS: "false", PRODUCER: "lookup"}


def _takes_back(
    peer: str,
    what: str,
    error: str,
    case: str,
    *writes: Sequence[tuple[str, Mapping[str, str]]],
    loaded: bool = False,
    lookup: bool = False,
) -> Probe:
    """Return the probe of writes to a table of a case that takes retractions; ``loaded``: the first to the bottom.

    ``lookup``: without deletion vectors.
    """
    options = LOOKUP if lookup else {}
    steps = [retracting.write(peer, case, *changes) for changes in writes]
    if loaded:
        steps[:1] = [replace(steps[0], write_only=True), Step(peer, "compact", full=True)]
    else:
        steps.append(Step(peer, "compact", full=True))
    return Probe(peer, what, error, plays(retracting.table(case, **options), OURS, *steps, readers=(peer,)))


_ADD, _DELETE = ("+I", {"a": "1", "g": "1"}), ("-D", {"a": "1", "g": "1"})
RETRACTIONS: Final = (
    *(
        probe
        for jvm in JVMS
        for probe in (
            _takes_back(
                jvm,
                "leave a key without a row if all that it gets is retractions",
                "0 rows missing, 1 too many",
                "numbers",
                [_DELETE],
                [_DELETE],
            ),
            _takes_back(
                jvm,
                "take back what a write has before other changes of the key",
                "rows missing",
                "values",
                [("+I", {"n": "a"})],
                [("-D", {"n": "a"}), ("+I", {})],
            ),
        )
    ),
    _takes_back(
        NEWER_JVM,
        "keep what a row begins with in a sequence group whose order is null",
        "rows missing",
        "sequence groups",
        [("+I", {"k": "2", "t": BULK})],
        [("+I", {"a": "a"})],
        loaded=True,
    ),
    _takes_back(
        NEWER_JVM,
        "take rows back from collect in any merge",
        "do not support equals",
        "collected rows",
        [("+I", {"c": '[["0","x"]]', "t": BULK})],
        [("-U", {"c": '[["0","x"]]'})],
        lookup=True,
    ),
    _takes_back(
        JVM,
        "tell which file has the newer row, after a retraction in a sequence group",
        "rows missing",
        "sequence groups",
        [("+I", {"h": "1", "n": "2", "t": BULK})],
        [("-U", {"h": "2", "n": "1"})],
        loaded=True,
        lookup=True,
    ),
    _takes_back(
        JVM,
        "take a container that is null back",
        "NullPointerException",
        "containers",
        [("+I", {"c": '["1"]'})],
        [("-D", {})],
    ),
    _takes_back(
        JVM, "remove a row of aggregation", "does not support retraction", "removals", [_ADD], [_DELETE]
    ),
    _takes_back(
        JVM,
        "begin a row of partial-update again in the merge that removes it",
        "NullPointerException",
        "updates with removals",
        [_ADD],
        [_DELETE, _ADD],
    ),
    _takes_back(
        JVM,
        "remove a row by a sequence group",
        "0 rows missing, 1 too many",
        "sequence groups with removals",
        [_ADD],
        [_DELETE],
    ),
)
"""The operations that histories with retractions leave out."""


def _merged(case: str, change: tuple[str, Mapping[str, str]], *, write_only: bool = False) -> History:
    """Return a history of a table without vectors, whose last change a read meets in another file than the others."""
    first = [("+I", {"k": key, "a": "2", "m": '[["p","1"]]', "t": BULK}) for key in ("1", "2")]
    steps = (
        retracting.write(OURS, case, *first, write_only=True),
        Step(OURS, "compact", full=True),
        retracting.write(OURS, case, change, write_only=write_only),
    )
    return History(retracting.table(case, **LOOKUP), OURS, steps)


RETRACTED: Final = (
    History(
        retracting.table("values"),
        OURS,
        (retracting.write(OURS, "values", ("+I", {"x": "1"}), ("-D", {"x": "1"})), Step(OURS, "compact")),
    ),
    _merged("numbers", ("-D", {"a": "1"}), write_only=True),
    _merged("containers", ("+I", {"m": '[["q","2"]]'}), write_only=True),
    _merged("numbers", ("+I", {"a": "1"})),
)
"""Histories of retractions, maps and sums that peers merge otherwise, and of options that they do not know."""
