"""Our bitmaps against those of Java's library, which Paimon writes with, byte for byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pktable_spec.covers import covers

from benchmarks.roaring.cells import Cell, expect_same_bytes

CONTAINER = 1 << 16


def every_kind_of_container() -> np.ndarray:
    """A mask with arrays, bitsets and runs, and with runs around the size at which they no longer pay."""
    mask = np.zeros(20 * CONTAINER, np.bool_)
    random = np.random.default_rng(1)
    stretches = [mask[i * CONTAINER : (i + 1) * CONTAINER] for i in range(20)]
    for stretch, rate in zip(stretches, (0.0001, 0.05, 0.07, 0.5, 0.95, 0.9999, 0, 1), strict=False):
        stretch[:] = random.random(CONTAINER) < rate
    for stretch, runs in zip(stretches[8:], (1, 2, 3, 2046, 2047, 2048, 2049), strict=False):
        length = CONTAINER // (2 * runs)
        stretch.reshape(-1)[: 2 * runs * length].reshape(runs, -1)[:, :length] = True
    for stretch, (length, runs) in zip(stretches[15:], ((2, 9), (2, 1), (3, 1), (4096, 1)), strict=False):
        stretch[: runs * (length + 1)].reshape(runs, -1)[:, :length] = True
    return mask


@pytest.mark.spark
@covers("DVF-2", "DVF-3", "DVF-6")
@pytest.mark.parametrize("bits", [32, 64])
def test_java_python_and_we_store_the_same_bytes(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "bits"
    mask = every_kind_of_container()
    path.write_bytes(np.packbits(mask, bitorder="little").tobytes())
    names = ("java-per-value", "java-bulk", "pyroaring", "ours")
    cells = [Cell("all kinds", len(mask), "mixed", bits, name) for name in names]
    for cell in cells:
        cell.run(path, repeats=1, warm_seconds=0)
        assert cell.wall_ms
        assert cell.peak_bytes > 1 << 20
    expect_same_bytes(cells)
    assert len({cell.facts["digest"] for cell in cells}) == 1
    cells[-1].facts["digest"] = "another"
    with pytest.raises(RuntimeError, match="digest differs"):
        expect_same_bytes(cells)
