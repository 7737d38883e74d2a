"""The reference picks what the oracle picks, over random runs and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.lsm import universal
from pktable.lsm.bucket import Run
from pktable_spec.covers import covers
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import PickFile, universal_pick
from pktable_spec.options import parse_options

from model_tests.seeded import cases


@dataclass(frozen=True)
class SizedFile:
    """The part of a file's metadata that the reference's picks depend on."""

    file_name: str
    level: int
    file_size: int


@st.composite
def levels_and_sizes(draw: st.DrawFn) -> list[tuple[int, int]]:
    sizes = st.integers(1, 9).flatmap(lambda digit: st.sampled_from((digit, 10 * digit, 100 * digit)))
    level_zero = draw(st.lists(sizes, max_size=4))
    deeper = draw(st.dictionaries(st.integers(1, 4), sizes, max_size=4))
    return [*((0, size) for size in level_zero), *sorted(deeper.items())]


@covers("CMP-1", "CMP-2", "CMP-18", "CMP-19", "CMP-20", "CMP-21", "CMP-27", "CMP-4", "CMP-5", "CMP-6")
@covers("CMP-8")
@settings(max_examples=cases(250), deadline=None)
@given(levels_and_sizes(), st.booleans(), st.integers(2, 5))
def test_the_reference_picks_what_the_clauses_say(
    runs: Sequence[tuple[int, int]], deletion_vectors: bool, trigger: int
) -> None:
    options = {
        "bucket": "1",
        "deletion-vectors.enabled": str(deletion_vectors).lower(),
        "num-sorted-run.compaction-trigger": str(trigger),
        "num-levels": "5",
    }
    expected = universal_pick(
        [[PickFile(str(at), level, (0,), (9,), size, 0, 1, 0)] for at, (level, size) in enumerate(runs)],
        ModelOptions.parse(options),
    )
    files: list[Any] = [SizedFile(str(at), level, size) for at, (level, size) in enumerate(runs)]
    done = universal.pick([Run(file.level, (file,)) for file in files], parse_options(options))
    assert (done and (len(done.files), done.output_level)) == (
        expected and (len(expected.files), expected.output_level)
    )
