"""The picks of universal compaction, and how a pick is divided into rewrites and upgrades."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from pktable_spec.covers import covers
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.picks import (
    Pick,
    PickFile,
    Run,
    allowed_picks,
    divide,
    full_pick,
    take,
    universal_pick,
)

OPTIONS = ModelOptions(trigger=3, num_levels=5)
FORCED = ModelOptions(trigger=9, num_levels=5)
PLAIN = ModelOptions(deletion_vectors=False, trigger=3, num_levels=5)


def file(name: str, level: int, size: int = 1, keys: tuple[int, int] = (0, 9), **other: object) -> PickFile:
    described: dict[str, object] = {"retraction_count": 0, "row_count": 10, "deleted_count": 0, **other}
    return PickFile(name, level, (keys[0],), (keys[1],), size, **described)  # type: ignore[arg-type]


def runs(*levels_and_sizes: tuple[int, int]) -> list[Run]:
    return [[file(f"{at}", level, size)] for at, (level, size) in enumerate(levels_and_sizes)]


def picked(pick: Pick | None) -> tuple[int, int] | None:
    """Return the number of files and the output level."""
    return None if pick is None else (len(pick.files), pick.output_level)


@covers("CMP-2", "CMP-19")
def test_the_output_level_is_one_less_than_that_of_the_next_run_and_never_zero() -> None:
    assert picked(take(runs((0, 1), (3, 1)), 1, OPTIONS)) == (1, 2)
    assert picked(take(runs((0, 1), (1, 1), (3, 1)), 1, OPTIONS)) == (2, 1)
    assert picked(take(runs((0, 1), (0, 1), (2, 1), (3, 1)), 1, OPTIONS)) == (3, 2)
    assert picked(take(runs((0, 1), (0, 1)), 1, OPTIONS)) == (2, 4)
    assert picked(take(runs((0, 1), (1, 1)), 1, OPTIONS)) == (2, 4)


@covers("CMP-4")
def test_size_amplification_above_the_limit_picks_everything() -> None:
    assert picked(universal_pick(runs((0, 100), (3, 100), (4, 99)), PLAIN)) == (3, 4)
    assert picked(universal_pick(runs((0, 50), (3, 150), (4, 100)), PLAIN)) is None
    assert picked(universal_pick(runs((0, 300), (4, 1)), PLAIN)) is None, "fewer runs than the trigger"


@covers("CMP-5", "CMP-27")
def test_runs_are_added_while_they_are_not_larger_than_what_is_picked() -> None:
    assert picked(universal_pick(runs((0, 100), (2, 101), (3, 500)), PLAIN)) == (2, 2)
    assert picked(universal_pick(runs((0, 100), (2, 102), (3, 500)), PLAIN)) is None


@covers("CMP-6")
def test_more_runs_than_the_trigger_are_made_fewer() -> None:
    assert picked(universal_pick(runs((0, 1), (2, 9), (3, 90), (4, 900)), PLAIN)) == (2, 2)
    assert picked(universal_pick(runs((0, 1), (2, 9), (3, 10), (4, 900)), PLAIN)) == (3, 3)


@covers("CMP-3", "CMP-20", "CMP-21")
def test_with_deletion_vectors_level_zero_is_forced_out() -> None:
    assert picked(universal_pick(runs((0, 1)), FORCED)) == (1, 4)
    assert picked(universal_pick(runs((0, 1), (0, 1), (3, 90)), FORCED)) == (2, 2)
    assert picked(universal_pick(runs((0, 1), (1, 90), (3, 900)), FORCED)) == (2, 2)
    assert picked(universal_pick(runs((0, 10), (2, 10), (4, 900)), FORCED)) == (2, 3)
    assert universal_pick(runs((3, 90)), FORCED) is None
    assert universal_pick(runs((0, 1)), PLAIN) is None


@covers("CMP-8")
def test_a_single_file_at_its_output_level_is_no_compaction() -> None:
    assert universal_pick(runs((4, 1)), ModelOptions(trigger=1, num_levels=5)) is None


@covers("CMP-7", "CMP-22")
def test_a_full_compaction_of_the_last_run_takes_its_files_with_vectors() -> None:
    marked, clean = file("a", 4, keys=(0, 1), deleted_count=1), file("b", 4, keys=(2, 3))
    pick = full_pick([[marked, clean]], OPTIONS)
    assert pick is not None
    assert (pick.files, pick.purges) == ((marked,), True)
    assert divide(pick, OPTIONS, lambda _: True).rewrites == ((marked,),)
    assert full_pick([[clean]], OPTIONS) is None
    assert full_pick([], OPTIONS) is None
    assert picked(full_pick([[clean._replace(level=3)]], OPTIONS)) == (1, 4)


@covers("CMP-9", "CMP-10", "CMP-23", "CMP-24")
def test_a_large_file_alone_is_upgraded_and_small_neighbours_are_rewritten_together() -> None:
    a, b = file("a", 0, 1, (0, 1)), file("b", 2, 1, (2, 3))
    large, c = file("large", 2, 100, (4, 5)), file("c", 2, 1, (6, 7))
    division = divide(Pick((c, large, b, a), 3), OPTIONS, lambda one: one.size > 50)
    assert division.rewrites == ((a, b),)
    assert division.upgrades == (large, c)
    there = divide(Pick((large._replace(level=3),), 3), OPTIONS, lambda one: True)
    assert there == ((), ())


@covers("CMP-9", "CMP-24")
def test_files_that_overlap_are_rewritten_however_large() -> None:
    a, b = file("a", 0, 100, (0, 4)), file("b", 2, 100, (4, 9))
    assert divide(Pick((b, a), 3), OPTIONS, lambda one: True).rewrites == ((a, b),)


@covers("CMP-11", "CMP-25", "DV-13")
def test_a_file_that_may_not_keep_its_bytes_is_rewritten() -> None:
    def upgraded(one: PickFile, options: ModelOptions, level: int, *, full: bool = False) -> bool:
        return divide(Pick((one,), level, full), options, lambda _: True).upgrades == (one,)

    retractions = file("a", 0, retraction_count=1)
    assert not upgraded(retractions, OPTIONS, 2)
    assert upgraded(retractions, PLAIN, 2)
    assert not upgraded(retractions, PLAIN, 4)
    marked = file("b", 2, deleted_count=1)
    assert upgraded(marked, OPTIONS, 4)
    assert not upgraded(marked, OPTIONS, 4, full=True)


@st.composite
def sized_runs(draw: st.DrawFn) -> list[Run]:
    sizes = st.integers(1, 40)
    level_zero = draw(st.lists(sizes, max_size=4))
    deeper = draw(st.dictionaries(st.integers(1, 4), sizes, max_size=4))
    return runs(*((0, size) for size in level_zero), *sorted(deeper.items()))


@covers("CMP-1", "CMP-2", "CMP-3", "CMP-18", "CMP-19")
@given(sized_runs(), st.booleans(), st.integers(2, 5))
def test_what_sizes_pick_is_allowed_whatever_they_are(
    sized: Sequence[Run], deletion_vectors: bool, trigger: int
) -> None:
    options = ModelOptions(deletion_vectors=deletion_vectors, trigger=trigger, num_levels=5)
    pick = universal_pick(sized, options)
    level_zero_count = sum(run[0].level == 0 for run in sized)
    if pick is None:
        assert len(sized) <= trigger
        assert not (deletion_vectors and level_zero_count)
        return
    assert pick in allowed_picks(sized, options)
    taken = [file for run in sized for file in run][: len(pick.files)]
    assert list(pick.files) == taken, "a prefix, newest first"
    assert len(taken) >= level_zero_count, "all of level 0"
    assert pick.output_level > 0
    left = sized[len(taken) :]
    assert not left or pick.output_level < left[0][0].level
    assert left or pick.output_level == options.max_level


@covers("CMP-1")
@given(sized_runs(), st.integers(2, 5))
def test_every_allowed_pick_is_what_some_sizes_pick(sized: Sequence[Run], trigger: int) -> None:
    options = ModelOptions(trigger=trigger, num_levels=5, max_amplification_percent=10**9)
    for pick in allowed_picks(sized, options):
        possible = [small_until(sized, count) for count in range(1, len(pick.files) + 1)]
        assert picked(pick) in [picked(universal_pick(one, options)) for one in possible]


def small_until(sized: Sequence[Run], count: int) -> list[Run]:
    """Return the same runs, the newest ``count`` of a size and each other far larger than all before it."""
    sizes = [2 ** max(at - 1, 0) if at < count else 10**6 * 4**at for at in range(len(sized))]
    return [[run[0]._replace(size=size)] for run, size in zip(sized, sizes, strict=True)]
