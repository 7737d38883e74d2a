"""Paimon's JVM commits and expires in one table with us: one partition each, and never two commits at once.

On a local directory Paimon looks for the snapshot file and then renames its own to that name. A rename replaces a file
that another process put in between, so on a local directory commits of Paimon and of others must take turns. Expiries
need not: Paimon's puts no fences, and runs here while we commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import Table
from pktable_spec.covers import covers

from model_tests.interop.environments import JVM, set_up
from model_tests.interop.peers import Peer, PeerError

pytestmark = pytest.mark.deep("an expiry of Paimon removes what a commit of ours needs")

WRITES = 40
OPTIONS = {"deletion-vectors.enabled": "true"}


@pytest.fixture
def peers() -> Iterator[tuple[Peer, Peer]]:
    """Two processes of Paimon."""
    starts, problems = set_up([JVM])
    if problems:
        pytest.skip(f"{JVM}: {problems[JVM]}")
    both = Peer(JVM, starts[JVM]), Peer(JVM, starts[JVM])
    for peer in both:
        peer.ask("hello")
    yield both
    for peer in both:
        peer.stop()


@covers("CMT-41", "CMT-29")
def test_nothing_is_lost_while_paimon_commits_to_a_partition_of_its_own_and_expires(
    tmp_path: Path, peers: tuple[Peer, Peer]
) -> None:
    path, turn, done = str(tmp_path / "t"), threading.Lock(), threading.Event()
    columns = "p STRING, k BIGINT, v BIGINT"
    Table.create(path, columns, primary_key=["p", "k"], partition_by="p", options=OPTIONS)

    def ours(first: int) -> None:
        table = Table.open(path)
        for number in range(first, first + WRITES):
            with turn:
                table.upsert(pa.table({"p": ["ours"], "k": [number], "v": [number]}))

    def theirs() -> None:
        for number in range(WRITES):
            with turn:
                peers[0].ask("write", table=path, rows=[["+I", "theirs", str(number), str(number)]])

    expired = 0

    def expire() -> None:
        nonlocal expired
        while not done.wait(0.05):
            try:
                peers[1].ask("expire", table=path, retain=2)
                expired += 1
            except PeerError as error:
                # A snapshot or a manifest has expired while it read it; its next expiry goes on.
                if "not found" not in error.message and "No such file" not in error.message:
                    raise

    works: list[Callable[[], None]] = [lambda: ours(0), lambda: ours(1000), theirs]
    with ThreadPoolExecutor(4) as threads:
        expiring = threads.submit(expire)
        try:
            for work in [threads.submit(work) for work in works]:
                work.result()
        finally:
            done.set()
        expiring.result()
    table = Table.open(path)
    rows = [(row["p"], row["k"]) for row in table.to_arrow(fresh=True).to_pylist()]
    numbers = [*range(WRITES), *range(1000, 1000 + WRITES)]
    assert sorted(rows) == sorted([("ours", n) for n in numbers] + [("theirs", n) for n in range(WRITES)])
    assert expired > 1
    assert table.snapshots()[0].id > 1, "Paimon expired nothing"
    assert not [str(one) for one in table.check().findings if one.severity == "error"]
