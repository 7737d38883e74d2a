"""The backends a history can run on, each as a context that gives a way to open new tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from pktable_spec.interface import OpenTable
from pktable_spec.model.table import ModelTable


@contextlib.contextmanager
def model_backend() -> Iterator[OpenTable]:
    """The oracle's mechanism, in memory."""
    yield ModelTable


BACKENDS: Mapping[str, Callable[[], AbstractContextManager[OpenTable]]] = {
    "model": model_backend,
}
