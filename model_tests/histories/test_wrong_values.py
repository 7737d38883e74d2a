"""Sets that are none, and row kinds that there are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pktable.bucket import changes
from pktable.format.vectors.roaring import read_bitmap
from pktable.merge import bitmaps, sketches
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, VALUE_KIND

from model_tests.engines.cases import SKETCHES
from model_tests.histories import wrong_values
from model_tests.histories.checks import CheckFailed


def test_wrong_values_are_refused() -> None:
    wrong_values.draw(1)


def test_a_bitmap_with_more_after_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmaps, "_read_32", lambda blob, at: read_bitmap(memoryview(blob), at))
    with pytest.raises(CheckFailed, match="rbm32, a byte more: not noticed"):
        wrong_values.draw(1)


@pytest.mark.skipif(not SKETCHES, reason="the library for sketches is not installed")
def test_a_sketch_that_is_none_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "_expect_hashes", lambda *_: None)
    with pytest.raises(CheckFailed, match=r"theta_sketch, .*: not noticed"):
        wrong_values.draw(1)


def test_a_row_kind_that_there_is_not_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def symbols(rows: pa.Table, path: str) -> Any:
        kinds = np.clip(rows.column(VALUE_KIND).to_numpy(), 0, 3)
        return pa.array(ROW_KIND_SYMBOLS).take(pa.array(kinds))

    monkeypatch.setattr(changes, "_symbols", symbols)
    with pytest.raises(CheckFailed, match="row kind 4: read as"):
        wrong_values.draw(1)
