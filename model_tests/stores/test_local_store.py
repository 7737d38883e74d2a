"""Files of a local directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable.store.file_io import LocalFileIO


@pytest.mark.parametrize("before", [None, b"", b"1", b"12", b"a longer text"])
@pytest.mark.parametrize("after", [b"", b"7", b"78", b"x" * 3_000_000])
def test_a_file_that_is_written_holds_what_was_written_last(
    tmp_path: Path, before: bytes | None, after: bytes
) -> None:
    store, path = LocalFileIO(), tmp_path / "folder" / "file"
    if before is not None:
        store.write(str(path), before)
    store.write(str(path), after)
    assert path.read_bytes() == store.read(str(path)) == after
