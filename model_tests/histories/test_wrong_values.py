"""Sets that are none, and row kinds that there are not."""

from __future__ import annotations

from typing import Any

import pytest
from pktable.bucket import changelog
from pktable.format.vectors.roaring import Bitmap, read_bitmap
from pktable.merge import set_functions
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS

from model_tests.engines.cases import SKETCHES
from model_tests.histories import wrong_values


def test_wrong_values_are_refused() -> None:
    wrong_values.draw(1)


def test_a_bitmap_with_more_after_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_all(data: memoryview, at: str) -> Any:
        return Bitmap(data, read_bitmap(data, at).cardinality, is_optimized=False)

    monkeypatch.setattr(set_functions, "read_bitmap", with_all)
    with pytest.raises(CheckFailed, match="rbm32, a byte more: not noticed"):
        wrong_values.draw(1)


@pytest.mark.skipif(not SKETCHES, reason="the library for sketches is not installed")
def test_a_sketch_that_is_none_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_functions, "PLAIN", -1)  # the version of sketches whose hashes are looked at
    with pytest.raises(CheckFailed, match=r"theta_sketch, .*: not noticed"):
        wrong_values.draw(1)


def test_a_row_kind_that_there_is_not_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "ROW_KIND_SYMBOLS", (*ROW_KIND_SYMBOLS, "?"))
    with pytest.raises(CheckFailed, match="row kind 4: read as"):
        wrong_values.draw(1)
