"""The operations that histories leave out because an implementation cannot do them, and the proof that it cannot.

Each probe does the thing and must fail as it tells. One that succeeds fails the run: then the histories
are to be drawn without the exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pktable_spec.errors import PkTableError

from model_tests.interop.directions import Bench
from model_tests.interop.environments import JVM, JVMS, NEWER_JVM, PYPAIMON, RUST
from model_tests.interop.histories import (
    BITMAP64,
    VECTORS,
    Definition,
    History,
    Step,
)
from model_tests.interop.long_histories import SPAN_KEY, SPAN_ROWS
from model_tests.interop.outcomes import OURS, Tally
from model_tests.interop.peers import PeerError

NAN, NEGATIVE_ZERO, ZERO, ONE = "nan", "8000000000000000", "0000000000000000", "3ff8000000000000"


@dataclass(frozen=True)
class Probe:
    """``who`` cannot do ``what``: `show` raises an error that matches ``error``."""

    who: str
    what: str
    error: str
    show: Callable[[Bench], None]

    def failure(self, bench: Bench) -> str | None:
        """Return what is wrong with this probe, or None if it failed as it should."""
        try:
            self.show(bench)
        except (PeerError, PkTableError, AssertionError) as error:
            found = str(error)
            return None if re.search(self.error, found) else f"expected {self.error!r}, found {found}"
        return "it can, so let histories do it"


def _table(key: str, *, partition: str | None = None, **options: str) -> Definition:
    columns = (("k", key), *((("p", partition),) if partition else ()), ("v", "STRING"), ("w", "INT"))
    keys = ("p", "k") if partition else ("k",)
    enabled = {VECTORS: "true", "file.format": "parquet", "bucket": "1", **options}
    return Definition(columns, keys, keys[:-1], enabled)


def _write(by: str, *keys: tuple[str, ...], write_only: bool = False) -> Step:
    return Step(by, "write", changes=tuple(("+I", (*key, "bulk")) for key in keys), write_only=write_only)


_NANOSECONDS = Definition(
    (("k", "INT"), ("v", "TIMESTAMP(9)"), ("w", "INT")),
    ("k",),
    (),
    {VECTORS: "true", "bucket": "1"},
)


def plays(
    definition: Definition, created_by: str, *steps: Step, readers: Sequence[str] = ()
) -> Callable[[Bench], None]:
    """Return what plays a history, and compares what ``readers`` and pktable read."""
    history = History(definition, created_by, steps)
    return lambda bench: bench.check(history, readers, Tally())


def _asks(peer: str, do: str, **arguments: Any) -> Callable[[Bench], None]:
    """Ask a peer to do something to an empty table of ours."""

    def ask(bench: Bench) -> None:
        with bench.played(History(_table("INT"), OURS, ())) as played:
            bench.peers[peer].ask(do, table=str(played.path), **arguments)

    return ask


def _compacts_without_buckets(bench: Bench) -> None:
    options = {VECTORS: "true", "bucket": "-1"}
    definition = Definition((("k", "INT"), ("v0", "STRING"), ("w", "INT")), (), (), options)
    steps = (Step(JVM, "write", changes=(("+I", ("1", "a")),)), Step(JVM, "compact", full=True))
    bench.check(History(definition, OURS, steps), [], Tally())


PROBES: Final = (
    *(
        Probe(
            jvm,
            "look keys up in a partition with a slash",
            "No such file or directory",
            plays(
                _table("INT", partition="STRING"),
                jvm,
                _write(jvm, *((str(key), "a/b") for key in range(4))),
                _write(jvm, ("1", "a/b")),
            ),
        )
        for jvm in JVMS
    ),
    *(
        Probe(
            jvm,
            "keep a key that is NaN apart from others",
            "rows missing",
            plays(_table("DOUBLE"), jvm, _write(jvm, (ONE,), (NAN,))),
        )
        for jvm in JVMS
    ),
    *(
        Probe(
            reader,
            "merge keys in an order of all floats",
            "rows missing",
            plays(
                _table("DOUBLE", **{VECTORS: "false"}),
                OURS,
                _write(OURS, (ONE,), (ZERO,), (NEGATIVE_ZERO,), (NAN,)),
                _write(OURS, (ZERO,)),
                readers=(reader,),
            ),
        )
        for reader in (*JVMS, PYPAIMON)
    ),
    Probe(
        PYPAIMON,
        "merge times of nanoseconds",
        "rows missing",
        plays(
            replace(_NANOSECONDS, options={VECTORS: "false", "bucket": "1"}),
            OURS,
            *[Step(OURS, "write", changes=(("+I", ("1", "1")),))] * 2,
            readers=(PYPAIMON,),
        ),
    ),
    Probe(
        NEWER_JVM,
        "look up binary keys",
        "ClassCastException",
        plays(_table("BYTES"), NEWER_JVM, _write(NEWER_JVM, ("61",), ("62",)), _write(NEWER_JVM, ("61",))),
    ),
    Probe(
        JVM,
        "read times before 1970 that it wrote itself, unless they are of whole milliseconds",
        "IllegalArgumentException",
        plays(
            _NANOSECONDS,
            JVM,
            Step(JVM, "write", changes=(("+I", ("1", "-1000001")),), write_only=True),
            Step(JVM, "compact", full=True),
        ),
    ),
    Probe(
        JVM,
        "compact what has 64-bit vectors",
        "Size not match",
        plays(
            _table("INT", **{BITMAP64: "true"}),
            OURS,
            _write(OURS, ("1",), ("2",), ("3",), ("4",)),
            Step(OURS, "write", changes=(("-D", ("1", None)),)),
            Step(JVM, "compact", full=True),
        ),
    ),
    Probe(
        JVM,
        "compact an append table without buckets through its writer",
        "NoopCompactManager does not support",
        _compacts_without_buckets,
    ),
    *(
        Probe(
            peer,
            "order a key that is NaN",
            "key order|rows missing",
            plays(
                _table("DOUBLE"),
                OURS,
                _write(peer, (NAN,), (ONE,), (NEGATIVE_ZERO,), write_only=True),
                Step(OURS, "compact", full=True),
            ),
        )
        for peer in (PYPAIMON,)
    ),
    *(
        Probe(
            peer,
            "write times of nanoseconds that Paimon 0.9 reads",
            "Unexpected type: INT64|UnsupportedOperationException|rows missing",
            plays(
                _NANOSECONDS,
                OURS,
                Step(peer, "write", changes=(("+I", ("1", "1700000000123456789")),), write_only=True),
                Step(OURS, "compact"),
                readers=(JVM,),
            ),
        )
        for peer in (PYPAIMON, RUST)
    ),
    Probe(PYPAIMON, "compact", "no method", _asks(PYPAIMON, "compact")),
    Probe(
        PYPAIMON,
        "write retractions",
        "no parameter",
        _asks(PYPAIMON, "write", rows=[["-D", "1", None, None]]),
    ),
    Probe(RUST, "compact", "Unknown procedure", _asks(RUST, "compact")),
    Probe(
        RUST, "delete", "not yet supported", _asks(RUST, "sql", statement="DELETE FROM {table} WHERE k = 1")
    ),
)


_CONDITION: Final = (("k", "=", "1"),)
_DECIMALS: Final = replace(_NANOSECONDS, columns=(("k", "INT"), ("v", "DECIMAL(12, 2)"), ("w", "INT")))
_NO_STATISTICS: Final = _table("INT", **{"metadata.stats-mode": "none"})
WITNESSES: Final = (
    # Decimals that pypaimon wrote, in a file that a compaction leaves as it is.
    History(
        _DECIMALS,
        OURS,
        (
            Step(PYPAIMON, "write", changes=(("+I", ("1", "0.01")), ("+I", ("2", "0.01"))), write_only=True),
            Step(OURS, "compact"),
        ),
    ),
    # Statistics of no column, as we and then as Paimon 0.9 tell of them.
    History(
        _NO_STATISTICS,
        OURS,
        (_write(OURS, ("1",), ("2",), write_only=True), Step(OURS, "compact")),
        _CONDITION,
    ),
    History(
        _NO_STATISTICS,
        OURS,
        (_write(OURS, ("1",), ("2",), write_only=True), Step(JVM, "compact")),
        _CONDITION,
    ),
    # The same with a file that Paimon 0.9 compacts away.
    History(
        _NO_STATISTICS,
        OURS,
        (
            _write(OURS, ("1",), ("2",), write_only=True),
            Step(OURS, "compact"),
            _write(JVM, ("1",)),
            Step(JVM, "compact", full=True),
        ),
        _CONDITION,
    ),
    # Files without columns of keys, to be merged.
    History(
        _table("INT", **{VECTORS: "false"}),
        OURS,
        (_write(RUST, ("1",), write_only=True), _write(OURS, ("1",), write_only=True)),
    ),
    # Keys in dynamic buckets, to which each of two writers gives some.
    *(
        History(
            _table("INT", partition=partition, bucket="-1"),
            OURS,
            (
                _write(OURS, *((key, "x")[: 1 + (partition is not None)] for key in ("1", "2"))),
                _write(
                    PYPAIMON,
                    *((key, "x")[: 1 + (partition is not None)] for key in ("2", "3")),
                    write_only=True,
                ),
                _write(OURS, *((key, "x")[: 1 + (partition is not None)] for key in ("1", "3", "4"))),
                Step(OURS, "compact", full=True),
            ),
        )
        for partition in (None, "STRING")
    ),
    # A vector with a bitmap.
    History(
        _table(SPAN_KEY),
        OURS,
        (
            Step(OURS, "write", span=("+I", 0, SPAN_ROWS, 1)),
            Step(OURS, "write", span=("-D", 0, SPAN_ROWS, 2)),
        ),
    ),
)
"""Histories that meet the limits, and the kinds of containers, that random ones meet seldom."""
