"""What the actors of a run did on the store, and what they concluded of their puts, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from greenlet import getcurrent
from pktable.catalog.publish import Publisher, Put, Verdict

from model_tests.simulation.store import Happened, World


@dataclass(frozen=True)
class PutBegun:
    """An actor begins to put a snapshot."""

    actor: str
    put: Put


@dataclass(frozen=True)
class PutEnded:
    """An actor knows what has become of its snapshot; ``verdict``: None if it died before that."""

    actor: str
    verdict: Verdict | None


Record = Happened | PutBegun | PutEnded


@contextmanager
def recording(world: World, story: list[Record]) -> Iterator[None]:
    """Add what the actors on a world do to ``story`` while the context lasts."""
    put = Publisher.put

    def recorded(publisher: Publisher, one: Put) -> Any:
        actor = getattr(getcurrent(), "name", "")
        story.append(PutBegun(actor, one))
        verdict = None
        try:
            verdict, error = put(publisher, one)
            return verdict, error
        finally:
            story.append(PutEnded(actor, verdict))

    world.happened = story.append
    try:
        with mock.patch.object(Publisher, "put", recorded):
            yield
    finally:
        world.happened = None
