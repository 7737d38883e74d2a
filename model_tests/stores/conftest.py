"""One server for all tests of this folder; each test has a bucket directory of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from model_tests.stores.s3_server import BUCKET, Server, running_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, in good order, and an environment that says nothing of another one."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running.ignores_conditions = False
    return running


@pytest.fixture
def root() -> str:
    """The URI of a table that is not there yet."""
    return f"s3://{BUCKET}/test-{next(_numbers)}/table"
