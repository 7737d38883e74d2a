"""Two writers of one Hudi table: whatever one does between two operations of the other, nothing is lost or doubled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pktable import HudiTable
from pktable.store.file_io import FileIO, LocalFileIO
from pktable_hudi.actions import ROLLED_BACK, Actions, Decision
from pktable_hudi.cleaning import VERSIONS, Retention
from pktable_hudi.format.clean_files import encode_clean_plan
from pktable_hudi.format.timeline_writing import encode_rollback_plan
from pktable_hudi.history import History
from pktable_spec.covers import covers
from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidRequestError,
    SnapshotNotFoundError,
)
from pktable_spec.model.log_index import Row

from model_tests.hudi.dying_store import DyingStore, InterruptedStore, Killed
from model_tests.hudi.written_tables import delete, look_of, new_table, rows_of, tiny_groups, upsert
from model_tests.preempted import preempted

OTHERS: dict[str, Callable[[HudiTable], object]] = {
    "upsert": lambda table: upsert(table, {"f": Row(3, 3), "a": Row(3, 3)}),
    "delete": lambda table: delete(table, "b"),
    "plan": lambda table: table.plan_compaction(),
    "compact": lambda table: table.compact(),
    "rollback": lambda table: table.rollback(),
    "clean and archive": lambda table: tidy(table),
}


def tidy(table: HudiTable) -> None:
    """Compact, and remove all that is old."""
    table.compact()
    remove_old(table)


def remove_old(table: HudiTable) -> None:
    table.clean(retain_commits=1)
    table.archive(retain_writes=1, fewest=1)


OWN: dict[str, Callable[[HudiTable], object]] = {
    "upsert": lambda table: upsert(table, {"f": Row(4, 4), "c": Row(4, 4)}),
    "compact": lambda table: table.compact(),
    "clean and archive": lambda table: remove_old(table),
}


def opened(path: Path) -> HudiTable:
    return tiny_groups(HudiTable.open(path))


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables of the same rows, to be copied: of two writes, and the same compacted and written to again."""
    path = tmp_path_factory.mktemp("writers")
    table = tiny_groups(new_table(path / "written"))
    upsert(table, {key: Row(1, 1) for key in "abcd"})
    upsert(table, {"a": Row(2, 2)})
    shutil.copytree(path / "written", path / "compacted")
    table = opened(path / "compacted")
    table.compact()
    upsert(table, {"b": Row(1, 1)})
    return path


@covers("LOG-49", "LOG-50", "LOG-51", "LOG-52", "LOG-60", "LOG-61", "LOG-68", "LOG-69", "LOG-72", "LOG-76")
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("own", OWN)
def test_another_writer_between_any_two_operations_loses_and_doubles_nothing(
    templates: Path, tmp_path: Path, own: str, other: str
) -> None:
    expected = {**{key: Row(1, 1) for key in "abcd"}, "a": Row(2, 2)}
    expected |= {"f": Row(3, 3), "a": Row(3, 3)} if other == "upsert" else {}
    expected |= {"f": Row(4, 4), "c": Row(4, 4)} if own == "upsert" else {}
    if other == "delete":
        del expected["b"]
    template = templates / ("compacted" if own == "clean and archive" else "written")
    seen = set()
    for table in preempted(template, tmp_path / "t", opened, OWN[own], OTHERS[other]):
        assert rows_of(table) == expected
        if (look := look_of(tmp_path / "t")) in seen:
            continue
        seen.add(look)
        table.compact()
        assert rows_of(table) == expected
        timeline = tmp_path / "t" / ".hoodie" / "timeline"
        finished = [path.name.partition("_")[0] for path in timeline.glob("*_*")]
        assert len(finished) == len(set(finished)), "an action is complete twice"
        found = table.locate(list("abcdef"))["key"].to_pylist()
        assert len(found) == len(set(found))
        assert table.check().findings == []


@covers("LOG-74")
def test_a_delete_by_a_condition_deletes_no_row_that_has_ceased_to_match(tmp_path: Path) -> None:
    upsert(opened(Path(new_table(tmp_path / "a").path)), {key: Row(1, 1) for key in "abc"})

    def deletes(table: HudiTable) -> object:
        return table.delete(where="v = 1")

    for table in preempted(tmp_path / "a", tmp_path / "t", opened, deletes, OTHERS["upsert"]):
        assert rows_of(table) == {"f": Row(3, 3), "a": Row(3, 3)}
        assert table.check().findings == []


def actions(path: Path, store: FileIO) -> Actions:
    timeline = f"{path}/.hoodie/timeline"
    return Actions(store, str(path), timeline, f"{timeline}/history", True, lambda: 0)


@covers("LOG-49")
def test_of_two_claims_of_one_instant_the_second_is_made_again(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    claimed: list[str] = []

    class Outrun(LocalFileIO):
        """Lets another writer claim the first instant just before."""

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if not claimed:
                claimed.append(Path(path).name.partition(".")[0])
                assert super().put_if_absent(path, data)
            return super().put_if_absent(path, data)

    assert actions(tmp_path / "t", Outrun()).begin() > claimed[0]


@covers("LOG-49")
@pytest.mark.parametrize("late", ["instant", "completion"])
def test_a_claim_is_made_again_after_a_write_that_has_been_completed_since(tmp_path: Path, late: str) -> None:
    """Clocks differ: the other writer, which saw no claim of ours, has a later one."""
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    begun = "30000101000000000" if late == "instant" else "19700101000000001"
    other = f"{tmp_path}/t/.hoodie/timeline/{begun}_30000101000000001.deltacommit"

    before = set(Path(other).parent.glob("*.requested"))

    class Overtaken(LocalFileIO):
        done = False

        def put_if_absent(self, path: str, data: bytes) -> bool:
            found = super().put_if_absent(path, data)
            if path.endswith(".deltacommit.requested") and not self.done:
                self.done = True
                self.write(other, b"")
            return found

    claimed = actions(tmp_path / "t", Overtaken()).begin()
    assert claimed > "30000101000000001"
    assert set(Path(other).parent.glob("*.requested")) - before == {
        Path(other).with_name(f"{claimed}.deltacommit.requested")
    }


@covers("LOG-69")
def test_a_clean_retains_what_a_pending_action_may_read(tmp_path: Path) -> None:
    table = opened(Path(new_table(tmp_path / "t").path))
    upsert(table, {"a": Row(1, 1)})
    table.compact()
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    claims = actions(tmp_path / "t", LocalFileIO())
    pending = claims.begin()
    claimed = timeline / f"{pending}.deltacommit.requested"
    hidden = claimed.read_bytes()
    claimed.unlink()  # our writers would end it
    for value in (2, 3):
        upsert(table, {"a": Row(value, value)})
        table.compact()
    claimed.write_bytes(hidden)
    files = {path.name for path in (tmp_path / "t").glob("*.parquet")}
    assert table.clean(retain_versions=1) is None
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == files
    assert table.clean(retain_commits=1) is None
    claimed.unlink()
    assert table.clean(retain_versions=1) is not None
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} < files
    assert rows_of(table) == {"a": Row(3, 3)}


@covers("LOG-68")
def test_a_clean_of_a_partition_that_there_is_not_deletes_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for value in (1, 2):
        upsert(table, {"a": Row(value, value)})
        table.compact()
    cleaner = table.writer().cleaner()
    plan = cleaner.chosen(Retention(VERSIONS, 1))
    assert plan is not None
    (names,) = plan.files.values()
    damaged = replace(plan, files={**plan.files, "../elsewhere": names})
    instant = cleaner.actions.begin_clean(encode_clean_plan(damaged, cleaner.root))
    files = set((tmp_path / "t").iterdir())
    with pytest.raises(CorruptFileError, match=r"expected partitions of the table, found \.\./elsewhere"):
        cleaner.execute(instant)
    assert set((tmp_path / "t").iterdir()) == files


@covers("LOG-72")
@pytest.mark.parametrize("action", ["deltacommit", "compaction"])
def test_an_action_that_is_archived_is_not_ended_again(tmp_path: Path, action: str) -> None:
    table = new_table(tmp_path / "t")
    first = upsert(table, {"a": Row(1, 1)})
    upsert(table, {"a": Row(2, 2)})
    (compacted,) = table.compact()
    for value in (3, 4):
        upsert(table, {"b": Row(value, value)})
    before = rows_of(table)
    assert table.archive(retain_writes=1, fewest=1) == 4
    names = {path.name for path in (tmp_path / "t" / ".hoodie" / "timeline").iterdir()}
    late = actions(tmp_path / "t", table.store)
    assert first is not None
    if action == "deltacommit":
        assert late.end(first)
        late.complete(first, b"other")
    else:
        late.complete_compaction(compacted, b"other")
    assert {path.name for path in (tmp_path / "t" / ".hoodie" / "timeline").iterdir()} == names
    assert rows_of(table) == before
    assert table.check().findings == []


@covers("LOG-53", "LOG-70")
def test_a_writer_that_was_rolled_back_and_writes_on_is_neither_seen_nor_in_the_way(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    late: list[tuple[str, bytes]] = []

    class Late(DyingStore):
        """Keeps what its process would have written after its death."""

        def write(self, path: str, data: bytes) -> None:
            late.append((path, data))
            super().write(path, data)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            late.append((path, data))
            return super().put_if_absent(path, data)

    with pytest.raises(Killed):
        upsert(HudiTable.open(table.path, store=Late(4)), {"b": Row(1, 1)})
    written = [path for path, _ in late if "/.hoodie/" not in path]
    assert written
    table.rollback()
    for value in (2, 3, 4):
        upsert(table, {"a": Row(value, value)})
        for path, data in late:
            if path in written or (value == 4 and path.endswith("inflight")):
                table.store.write(path, data)
        assert rows_of(table) == {"a": Row(value, value)}
        assert table.locate(["a", "b"])["key"].to_pylist() == ["a"]
        table.archive(retain_writes=1, fewest=1)
        assert rows_of(table) == {"a": Row(value, value)}
        assert table.locate(["a", "b"])["key"].to_pylist() == ["a"]
    upsert(table, {"a": Row(5, 5)})
    assert not table.timeline().pending
    assert table.archive(retain_writes=1, fewest=1) > 0
    assert len(table.history()) == 1


def end_and_archive(table: HudiTable) -> None:
    """Roll every open write back, and remove all that is older than the last write."""
    table.rollback()
    for value in (3, 4):
        upsert(table, {"a": Row(value, value)})
    table.archive(retain_writes=1, fewest=1)


@covers("LOG-75", "LOG-78")
def test_a_writer_whose_rollback_is_archived_does_not_complete_its_write(tmp_path: Path) -> None:
    upsert(new_table(tmp_path / "a"), {"a": Row(1, 1)})

    def writes(table: HudiTable) -> object:
        return upsert(table, {"b": Row(1, 1)})

    for table in preempted(tmp_path / "a", tmp_path / "t", HudiTable.open, writes, end_and_archive):
        assert rows_of(table) == {"a": Row(4, 4), "b": Row(1, 1)}
        assert table.check().findings == []
        end_and_archive(table)
        timeline = {path.name[:17] for path in Path(table.path, ".hoodie", "timeline").glob("2*")}
        decisions = [path.name[:17] for path in Path(table.path, ".hoodie", ".pktable").iterdir()]
        assert all(one >= min(timeline) for one in decisions)


@covers("LOG-71")
def test_a_history_has_no_file_that_its_last_manifests_do_not_name(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    history = tmp_path / "t" / ".hoodie" / "timeline" / "history"
    for value in range(26):
        upsert(table, {"a": Row(value, value)})
        table.archive(retain_writes=1, fewest=1)
        named = "".join(path.read_text() for path in history.glob("manifest_*"))
        assert [path.name for path in history.glob("*.parquet") if path.name not in named] == []
    assert list(history.glob("*_1.parquet"))


@covers("LOG-71")
def test_a_manifest_of_the_history_that_is_put_late_counts_for_nobody(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    history = tmp_path / "t" / ".hoodie" / "timeline" / "history"
    instants = [upsert(table, {"a": Row(value, value)}) for value in range(3)]

    class Slow(LocalFileIO):
        late = False

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.endswith("/manifest_1"):
                for value in range(3, 9):
                    instants.append(upsert(table, {"a": Row(value, value)}))
                    table.archive(retain_writes=1, fewest=1)
                self.late = not Path(path).exists()
            return super().put_if_absent(path, data)

    slow = Slow()
    HudiTable.open(table.path, store=slow).archive(retain_writes=1, fewest=1)
    assert slow.late
    archived = History(table.store, str(history))
    assert all(archived.completion_of(one) for one in instants[:-1] if one)
    assert rows_of(table) == {"a": Row(8, 8)}
    assert table.check().findings == []
    assert f"manifest_{(history / '_version_').read_text()}" == max(
        path.name for path in history.glob("manifest_*")
    )
    upsert(table, {"a": Row(9, 9)})
    table.archive(retain_writes=1, fewest=1)
    assert not (history / "manifest_1").exists()


@covers("LOG-76", "LOG-77")
@pytest.mark.parametrize("own", ["read", "locate", "upsert", "delete"])
def test_a_compaction_that_is_executed_and_cleaned_meanwhile_hides_no_row(tmp_path: Path, own: str) -> None:
    table = new_table(tmp_path / "a")
    upsert(table, {key: Row(1, 1) for key in "ab"})
    upsert(table, {"a": Row(2, 2)})
    table.plan_compaction()
    upsert(table, {"c": Row(3, 3)})
    before = {"a": Row(2, 2), "b": Row(1, 1), "c": Row(3, 3)}

    def others(table: HudiTable) -> None:
        table.compact(fewest_logs=9)
        table.clean(retain_versions=1)

    def works(mine: HudiTable) -> None:
        if own == "read":
            assert rows_of(mine) == before
        elif own == "locate":
            assert sorted(mine.locate(list("abc"))["key"].to_pylist()) == list("abc")
        else:
            assert upsert(mine, {"b": Row(4, 4)}) if own == "upsert" else delete(mine, "b")

    changed = {"upsert": {**before, "b": Row(4, 4)}, "delete": {"a": Row(2, 2), "c": Row(3, 3)}}
    for table in preempted(tmp_path / "a", tmp_path / "t", HudiTable.open, works, others):
        assert rows_of(table) == changed.get(own, before)
        found = table.locate(list("abc"))["key"].to_pylist()
        assert len(found) == len(set(found))


def read_streaming(table: HudiTable) -> dict[str, Row]:
    return {row["k"]: Row(row["ts"], row["v"]) for batch in table.to_batches() for row in batch.to_pylist()}


@covers("LOG-67", "LOG-76")
@pytest.mark.parametrize("how", ["the last", "by key", "streaming", "an old one"])
def test_a_read_during_a_clean_has_all_rows_or_says_that_they_are_cleaned(tmp_path: Path, how: str) -> None:
    failed = 0
    table = opened(Path(new_table(tmp_path / "a").path))
    upsert(table, {key: Row(1, 1) for key in "abcd"})
    old = upsert(table, {"a": Row(2, 2)})
    expected, latest = rows_of(table), {key: Row(4, 4) for key in "abcd"}

    def others(table: HudiTable) -> None:
        for value in (3, 4):
            upsert(table, {key: Row(value, value) for key in "abcd"})
            tidy(table)

    def reads(reader: HudiTable) -> None:
        nonlocal failed
        try:
            if how == "by key":
                assert sorted(reader.locate(list("abcd"))["key"].to_pylist()) == list("abcd")
                assert reader.to_arrow(where="k = 'a'", columns="v").to_pylist() in ([{"v": 2}], [{"v": 4}])
            elif how == "an old one":
                assert rows_of(reader, old) == expected
            else:
                read = rows_of if how == "the last" else read_streaming
                assert read(reader) in (expected, latest)
        except SnapshotNotFoundError:
            failed += 1

    assert list(preempted(tmp_path / "a", tmp_path / "t", opened, reads, others))
    assert (failed > 0) == (how in ("streaming", "an old one"))


@covers("LOG-53")
def test_a_writer_that_was_rolled_back_deletes_what_it_wrote_since(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    timeline = tmp_path / "t" / ".hoodie" / "timeline"

    def others() -> None:
        if any(timeline.glob("*.deltacommit.inflight")) and len(list(timeline.glob("*.rollback"))) < 1:
            HudiTable.open(table.path).rollback()

    for number in range(30):
        upsert(HudiTable.open(table.path, store=InterruptedStore(number, others)), {"b": Row(number, number)})
    logs = {path.name.split("_")[1].split(".")[0] for path in (tmp_path / "t").glob(".*log*")}
    assert logs <= {one["instant"] for one in table.history().to_pylist()}
    assert list(timeline.glob("*.rollback"))


class UnansweredStore(DyingStore):
    """Creates decisions, and raises an error instead of an answer."""

    late_puts = True

    def __init__(self, *, creates: bool, readable: bool = True) -> None:
        super().__init__(1 << 30)
        self.creates, self.readable = creates, readable

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if ".pktable" in path and (self.creates or not self.readable):
            super().put_if_absent(path, data)
        if ".pktable" in path and not hasattr(self, "answered"):
            self.answered = True
            raise TimeoutError
        return super().put_if_absent(path, data)

    def read(self, path: str) -> bytes:
        if ".pktable" in path and not self.readable:
            raise TimeoutError
        return super().read(path)


@covers("LOG-50")
@pytest.mark.parametrize("creates", [True, False])
def test_a_decision_that_is_not_answered_is_found_out(tmp_path: Path, creates: bool) -> None:
    table = new_table(tmp_path / "t")
    upsert(HudiTable.open(table.path, store=UnansweredStore(creates=creates)), {"a": Row(1, 1)})
    assert rows_of(table) == {"a": Row(1, 1)}
    assert not table.timeline().pending


@covers("LOG-50")
def test_a_decision_that_cannot_be_found_out_is_reported_as_unknown(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    store = UnansweredStore(creates=True, readable=False)
    with pytest.raises(CommitUnknownError):
        upsert(HudiTable.open(table.path, store=store), {"a": Row(1, 1)})
    assert table.rollback() == []
    assert rows_of(table) == {"a": Row(1, 1)}


@covers("LOG-50")
def test_a_write_that_is_rolled_back_is_never_complete(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    with pytest.raises(Killed):
        upsert(HudiTable.open(table.path, store=DyingStore(4)), {"a": Row(1, 1)})
    (instant,) = table.rollback()
    with pytest.raises(CommitConflictError, match="was rolled back"):
        actions(tmp_path / "t", table.store).complete(instant, b"")
    assert table.to_arrow().num_rows == 0


@covers("LOG-50")
@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"name": "../x", "content": ""}', b'{"name": null, "content": "#"}']
)
def test_a_damaged_decision_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="decision"):
        Decision.decode(data, at="d")
    assert Decision.decode(ROLLED_BACK.encode(), at="d") == ROLLED_BACK


@covers("LOG-49")
def test_instants_ascend_whatever_the_clock_says(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    instant = upsert(table, {"a": Row(1, 1)})
    assert instant is not None
    assert (
        actions(tmp_path / "t", table.store).begin() > table.history().to_pylist()[0]["completion"] > instant
    )


@covers("LOG-63")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("99999999999999999.clean.requested", b"", "instant: expected a time, found 99999999999999999"),
        (
            "20260101000000000.rollback.requested",
            encode_rollback_plan("2", "commit", {}),
            "rollback of a commit",
        ),
        ("20260101000000000.rollback.requested", None, "the rollback of a complete write is pending"),
    ],
)
def test_a_timeline_that_a_write_cannot_go_on_with_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    table = new_table(tmp_path / "t")
    instant = upsert(table, {"a": Row(1, 1)})
    assert instant is not None
    path = tmp_path / "t" / ".hoodie" / "timeline" / name
    path.write_bytes(encode_rollback_plan(instant, "deltacommit", {}) if content is None else content)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((InvalidRequestError, CorruptFileError), match=message):
        upsert(table, {"a": Row(2, 2)})
    assert sorted(tmp_path.rglob("*")) == before
    assert rows_of(table) == {"a": Row(1, 1)}
