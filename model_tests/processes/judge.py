"""Judge what the workers logged: is every acknowledged write there once, and did every read return what it had to?

The log has every snapshot that there ever was: an expiry logs them before it removes them. So the rows after each
snapshot follow from the numbers of the writes, in the order of their snapshots, and every read can be compared.

1. There is one snapshot of each id from 1 to the latest.
2. Each acknowledged write is in exactly one APPEND, each other write in at most one, a refused one in none.
3. Every read of a snapshot or a tag has the rows of the writes up to it.
4. A read that began after a write was acknowledged sees it.
5. Each snapshot was expired by one expiry.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from pktable_spec.vocabulary import APPEND

from model_tests.processes.content import Digest, Rows
from model_tests.processes.events import Event

READS: Final = ("read", "read latest", "read tag")


@dataclass
class Verdict:
    """The result. ``problems``: a sentence each; ``counts``: how often each thing happened."""

    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge(events: Sequence[Event]) -> Verdict:
    """Return what is wrong with what the workers did."""
    verdict = Verdict(counts=Counter(event["event"] for event in events))
    verdict.counts["lost"] = sum(event.get("lost", 0) for event in events)
    expired = Counter(one for event in events if event["event"] == "expired" for one in event["ids"])
    verdict.counts["expired snapshots"] = len(expired)
    twice = sorted(one for one, times in expired.items() if times > 1)
    if twice:
        verdict.problems.append(f"two expiries said that they have expired the snapshots {twice[:9]}")
    for event in events:
        if event["event"] == "error":
            verdict.problems.append(f"{event['kind']}: {event['what']}\n{event['trace']}")
        elif event["event"] == "refused":
            verdict.problems.append(f"the write {event['number']} was refused: {event['what']}")
    chain = _chain(events, verdict)
    where = _expect_each_once(events, chain, verdict)
    _expect_reads(events, _digests(events, chain), verdict)
    _expect_acknowledged_are_seen(events, where, verdict)
    return verdict


def _chain(events: Sequence[Event], verdict: Verdict) -> list[Event]:
    """Return the snapshots by id. Clauses: CMT-1, CMT-19."""
    found: dict[int, Event] = {}
    for event in events:
        if event["event"] != "snapshot":
            continue
        other = found.setdefault(event["id"], event)
        if other["name"] != event["name"]:
            verdict.problems.append(
                f"snapshot {event['id']} was seen twice, as write {other['number']} and as {event['number']}"
            )
    missing = sorted(set(range(1, max(found, default=0) + 1)) - set(found))
    if missing:
        verdict.problems.append(f"no process has seen the snapshots {missing[:9]}")
    verdict.counts["snapshots"] = len(found)
    return [found[one] for one in sorted(found)]


def _expect_each_once(events: Sequence[Event], chain: Sequence[Event], verdict: Verdict) -> dict[int, int]:
    """Return the snapshot of each write."""
    numbers = [one["number"] for one in chain if one["kind"] == APPEND]
    where = {one["number"]: one["id"] for one in chain if one["kind"] == APPEND}
    for number, times in Counter(numbers).items():
        if times > 1:
            verdict.problems.append(f"write {number} was committed {times} times")
    named: dict[str, set[int]] = {
        name: {event["number"] for event in events if event["event"] == name}
        for name in ("try", "committed", "refused")
    }
    checks = {
        "acknowledged, but in no snapshot": named["committed"] - set(where),
        "refused, but in a snapshot": named["refused"] & set(where),
        "in a snapshot, but of nobody": set(where) - named["try"],
    }
    for what, bad in checks.items():
        if bad:
            verdict.problems.append(f"{len(bad)} writes are {what}: {sorted(bad)[:9]}")
    verdict.counts["committed without an answer"] = len(set(where) - named["committed"])
    return where


def _digests(events: Sequence[Event], chain: Sequence[Event]) -> dict[int, Digest]:
    """Return the digest of the rows after each snapshot."""
    deletes = {event["number"]: event["deletes"] for event in events if event["event"] == "try"}
    rows, found = Rows(), {0: (0, 0)}
    for one in chain:
        if one["kind"] == APPEND:
            keys = deletes.get(one["number"])
            if keys is None:
                rows.upsert(one["number"])
            else:
                rows.delete(keys)
        found[one["id"]] = rows.digest
    return found


def _expect_reads(events: Sequence[Event], digests: dict[int, Digest], verdict: Verdict) -> None:
    """Every read returned the rows of a snapshot that was the latest while it ran. Clauses: CMT-15, CMT-17, RD-10."""
    for event in events:
        if event["event"] not in READS:
            continue
        verdict.counts["reads compared"] += 1
        span = range(event["low"], event["high"] + 1)
        if tuple(event["digest"]) not in [digests[one] for one in span if one in digests]:
            expected = digests.get(event["low"])
            verdict.problems.append(
                f"{event['event']} of the snapshots {event['low']} to {event['high']}: "
                f"expected {expected}, found {event['digest']}"
            )


def _expect_acknowledged_are_seen(events: Sequence[Event], where: dict[int, int], verdict: Verdict) -> None:
    """A read sees the snapshots of all writes that were acknowledged before it began."""
    known = sorted((e["at"], where.get(e["number"], 0)) for e in events if e["event"] == "committed")
    times = [at for at, _ in known]
    newest = list(accumulate((snapshot for _, snapshot in known), max))
    for event in events:
        if event["event"] == "read latest" and (before := bisect_left(times, event["began"])):
            expected = newest[before - 1]
            if event["low"] < expected:
                verdict.problems.append(
                    f"a read that began after snapshot {expected} was acknowledged saw snapshot {event['low']}"
                )
