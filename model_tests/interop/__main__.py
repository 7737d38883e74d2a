"""``python -m model_tests.interop [small|quick|deep]``: compare pktable with every Paimon there is to be had.

Sets the peers up (the first time; some minutes), plays histories in every direction and compares every snapshot as
everyone reads it. Histories are drawn, and the small profile has the histories of `small`. It writes on tables that
Paimon's Spark wrote (`written_on`), if they are there. Except in the small profile it checks the comparison, too:
the limits of the peers, the shipped vectors, and that known faults are found.
Ends on a summary; exits 1 at a mismatch, a peer that cannot be set up, a known limit or fault that does not show, or
where no vector was met, or none of some kind.
"""

from __future__ import annotations

import itertools
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from model_tests.interop import changed_columns, formats, vectors, written_on
from model_tests.interop.calibration import filtered_positions, own_faults
from model_tests.interop.cases import CASES
from model_tests.interop.claims import CLAIMS
from model_tests.interop.directions import DIRECTIONS, Bench, Result
from model_tests.interop.environments import (
    JVM,
    JVMS,
    NEWER_JVM,
    OLDER_PYPAIMON,
    OPTIONAL,
    PYPAIMON,
    RUST,
    set_up,
)
from model_tests.interop.kept_changelogs import differences
from model_tests.interop.limits import KINDS_OF_CONTAINERS, LIMITS
from model_tests.interop.outcomes import OURS, Tally
from model_tests.interop.peers import PeerError, running
from model_tests.interop.probes import PROBES, WITNESSES
from model_tests.interop.retraction_probes import RETRACTED, RETRACTIONS
from model_tests.interop.small import histories_of

READERS: Final = (JVM, NEWER_JVM, PYPAIMON, RUST)
PROFILES: Final = ("small", "quick", "deep")
HISTORIES: Final = {"quick": (30, 2, 15), "deep": (60, 4, 40)}
"""By profile: how many histories, long ones and ones with retractions a direction of weight 1 plays."""
SEED: Final = 20_260


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code: 0 fine, 1 something differs or is missing, 2 the caller's mistake."""
    profile = arguments[0] if arguments else "quick"
    if profile not in PROFILES or len(arguments) > 1:
        print(f"expected one of: {', '.join(PROFILES)}; found {' '.join(arguments)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    small = profile == "small"
    starts, missing = set_up([*READERS] if small else [*READERS, OLDER_PYPAIMON])
    for name, reason in missing.items():
        print(f"{name}: {'absent, and left out' if name in OPTIONAL else 'cannot be set up'}: {reason}")
    if set(missing) - OPTIONAL:
        return 1
    print(f"peers set up in {time.monotonic() - started:.0f} s: {', '.join(starts)}")
    try:
        with running(starts) as peers, tempfile.TemporaryDirectory(prefix="pktable-interop-") as folder:
            bench = Bench(Path(folder), peers)
            results = [*(_small(bench) if small else _directions(bench, profile)), _witnesses(bench)]
            wrong = [*_changelogs(bench), *_formats(bench), *_written_on(bench, small=small)]
            if not small:
                wrong += [*_claims(bench), *_probes(bench), *_vectors(bench), *_calibration(bench)]
    except PeerError as error:
        print(f"cannot be started: {error}")
        return 1
    return _summary(results, wrong, set(starts), time.monotonic() - started)


def _small(bench: Bench) -> list[Result]:
    """Play the histories of `small`."""
    results = []
    for number, direction in enumerate(DIRECTIONS):
        if direction.writers <= {*bench.peers, OURS}:
            for name, histories in histories_of(number, direction).items():
                results.append(bench.play(name, histories, _readers(bench)))
                _tell(results[-1])
    return results


def _readers(bench: Bench) -> list[str]:
    return [name for name in READERS if name in bench.peers]


def _directions(bench: Bench, profile: str) -> list[Result]:
    """Draw and play the histories of a profile. "deep" draws by a fresh seed; a failure shows its history."""
    results, first = [], secrets.randbelow(1 << 32) if profile == "deep" else SEED
    short, long, retracting = HISTORIES[profile]
    for number, direction in enumerate(DIRECTIONS):
        if not direction.writers <= {*bench.peers, OURS}:
            continue
        drawn = [(direction.name, direction.histories(), short)]
        if not direction.append and not direction.ordered:
            drawn.append((f"{direction.name}, long writes", direction.long_histories(), long))
            if direction.engines:
                drawn.append((f"{direction.name}, retractions", direction.retracting_histories(), retracting))
        for name, strategy, count in drawn:
            result = bench.run(
                name, strategy, _readers(bench), count=int(count * direction.weight), first=first + number
            )
            results.append(result)
            _tell(result)
    return results


def _witnesses(bench: Bench) -> Result:
    """Play the histories that meet the limits of the peers."""
    result = bench.play("what peers do not read", [*WITNESSES, *RETRACTED], _readers(bench))
    _tell(result)
    return result


def _probes(bench: Bench) -> list[str]:
    """Prove what histories leave out; return what is wrong."""
    print("What histories leave out, and proof that it is so still:")
    wrong = []
    for probe in (*PROBES, *RETRACTIONS):
        if probe.who not in (*bench.peers, OURS):
            continue
        failure = probe.failure(bench)
        print(f"{'WRONG' if failure else 'proven':8}  {probe.who} cannot {probe.what}", flush=True)
        if failure:
            wrong.append(f"{probe.who}, {probe.what}: {failure}")
    return wrong


def _claims(bench: Bench) -> list[str]:
    """Try what clauses claim of Paimon; return what is wrong."""
    print("What clauses claim of Paimon, and whether a release does as they ask of us:")
    wrong = []
    for claim in CLAIMS:
        for name in JVMS:
            if name in bench.peers:
                with tempfile.TemporaryDirectory(prefix="pktable-interop-") as folder:
                    failure = claim.failure(bench.peers[name], Path(folder))
                print(
                    f"{'WRONG' if failure else claim.of(name):8}  {name}, {claim.clause}: {claim.what}",
                    flush=True,
                )
                wrong += [f"{name}, {failure}"] if failure else []
    return wrong


def _vectors(bench: Bench) -> list[str]:
    """Make the shipped vectors elsewhere and compare; return what differs."""
    cases = [case for case in CASES if case.writer in bench.peers]
    wrong = vectors.check(bench.peers, cases)
    count = f"{len(cases)} of {len(CASES)} vectors of model_tests/vectors"
    print(f"{'WRONG' if wrong else 'equal':8}  {count}, made again", flush=True)
    return wrong


def _changelogs(bench: Bench) -> list[str]:
    """Expire snapshots whose changelogs are kept, in turn with Paimon; return what is wrong."""
    wrong = []
    for name in JVMS:
        if name in bench.peers:
            with tempfile.TemporaryDirectory(prefix="pktable-interop-") as folder:
                found = list(differences(bench.peers[name], Path(folder)))
            print(
                f"{'WRONG' if found else 'equal':8}  pktable and {name} keep changelogs in turn", flush=True
            )
            wrong += found
    return wrong


def _formats(bench: Bench) -> list[str]:
    """Write data files of every format in turn with Paimon; return what is wrong."""
    wrong = []
    for name in JVMS:
        if name in bench.peers:
            with tempfile.TemporaryDirectory(prefix="pktable-interop-") as folder:
                found = list(formats.differences(bench.peers[name], Path(folder)))
            print(
                f"{'WRONG' if found else 'equal':8}  pktable and {name} write ORC and Avro in turn",
                flush=True,
            )
            wrong += found
    if NEWER_JVM in bench.peers:
        with tempfile.TemporaryDirectory(prefix="pktable-interop-") as folder:
            found = list(changed_columns.differences(bench.peers[NEWER_JVM], Path(folder)))
        print(f"{'WRONG' if found else 'equal':8}  {NEWER_JVM} reads columns that changed inside", flush=True)
        wrong += found
    return wrong


def _written_on(bench: Bench, *, small: bool) -> list[str]:
    """Write on tables that Paimon's Spark wrote; return what is wrong. ``small``: on few of them."""
    if not written_on.ROOT.is_dir():
        print(f"{'skipped':8}  tables of Paimon's Spark, written on: {written_on.ABSENT}", flush=True)
        return []
    wrong = []
    for case in written_on.CASES:
        if (small and not case.small) or not case.writers <= bench.peers.keys():
            continue
        with tempfile.TemporaryDirectory(prefix="pktable-interop-") as folder:
            found = list(written_on.differences(case, bench.peers, Path(folder)))
        print(f"{'WRONG' if found else 'equal':8}  {case.name} of Paimon's Spark, written on", flush=True)
        wrong += found
    return wrong


def _calibration(bench: Bench) -> list[str]:
    """Look for known faults; return what is wrong with what was found."""
    wrong = []
    for result, failure in itertools.chain(filtered_positions(bench, SEED), own_faults(bench, SEED)):
        found = "a fault" if result.failure else "nothing"
        counts = f"found {found}, after {result.tally.histories} sound histories, {result.seconds:.0f} s"
        print(f"{'WRONG' if failure else 'found':8}  {result.name}: {counts}", flush=True)
        if failure:
            wrong.append(f"{result.name}: {failure}")
    return wrong


def _tell(result: Result) -> None:
    tally, readers = result.tally, sum(result.tally.reads.values())
    counts = (
        f"{tally.histories} histories, {tally.snapshots} snapshots, {tally.with_vectors} with vectors, "
        f"{readers} reads, {result.seconds:.0f} s"
    )
    print(f"{'MISMATCH' if result.failure else 'equal':8}  {result.name}: {counts}", flush=True)
    if result.failure is not None:
        message, history = result.failure
        print(f"{message}\nThe smallest history found:\n{history}")


def _summary(results: Sequence[Result], wrong: Sequence[str], present: set[str], seconds: float) -> int:
    total = Tally()
    for result in results:
        total.add(result.tally)
    failed = sum(result.failure is not None for result in results)
    unmet = [
        *(
            f"no snapshot showed that {limit.peer} does not read {limit.what}"
            for limit in LIMITS
            if limit.peer in present and limit not in total.limits
        ),
        *(f"no vector had a container of kind {kind}" for kind in KINDS_OF_CONTAINERS - total.vector_kinds),
        *(f"no snapshot had vectors: {one.name}" for one in results if not one.tally.with_vectors),
    ]
    for limit in LIMITS:
        if limit.peer in present:
            print(
                f"{limit.peer} does not read {limit.what} ({limit.why}): {total.limits.get(limit, 0)} times"
            )
    for one in unmet:
        print(f"UNPROVEN  {one}")
    for one in wrong:
        print(f"WRONG  {one}")
    print(f"containers of the vectors: {', '.join(sorted(total.vector_kinds))}")
    for reader, reads in total.reads.items():
        print(f"  {reader}: {reads} reads of snapshots compared")
    print(
        f"interop: {len(results)} directions, {total.histories} histories, {total.snapshots} snapshots, "
        f"{total.with_vectors} with vectors, {total.changes} changes, "
        f"{sum(total.reads.values())} reads compared, {failed} mismatches, "
        f"{len(wrong) + len(unmet)} other faults, {seconds:.0f} s"
    )
    return 1 if failed or wrong or unmet else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
