"""The writer mode tells sound writers from faulty ones, by what they answer and by what they leave on disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.bucket.locate import Locator
from pktable.cli import run
from pktable.cli.conform import OnDisk
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS
from pktable.format import bucket_hash
from pktable_conform import covering, typed
from pktable_conform.archive import Archive
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.expectations import OPTIONAL
from pktable_conform.judge.history import History
from pktable_conform.report import FAIL
from pktable_conform.run import WRITER, Asked, conform
from pktable_conform.runner import FORMATS, Refused, RunnerError, Supports, Unsupported
from pktable_conform.writing import Writers, smallest, stored
from pktable_spec.covers import covers

from model_tests.conform.guest_writer import Writer
from model_tests.conform.pktable_runner import Program
from model_tests.conform.tables import changes
from model_tests.interop.peers import PeerError

HISTORIES = {**stored(Archive().histories), **dict(typed.histories())}


class InProcess:
    """A program as a `Runner`, without a process. ``spoil`` changes its answers."""

    def __init__(self, spoil: Any = None, leave_out: str = "", program: Any = None) -> None:
        self.program, self.spoil, self.leave_out = program or Program(), spoil, leave_out
        self.done = 0

    def supports(self) -> Supports:
        found = self.ask("supports")
        commands, features = (frozenset(found[one]) - {self.leave_out} for one in ("commands", "features"))
        writes = {one: frozenset(types) - {self.leave_out} for one, types in found["writes"].items()}
        return Supports("p", commands, features, writes)

    def ask(self, do: str, **fields: object) -> Any:
        answer: Mapping[str, Any] = self.program.answer({"do": do, **fields})
        if "refused" in answer:
            raise Refused(answer["refused"])
        if "error" in answer:
            raise RunnerError(str(answer["error"]))
        return self.spoil(do, answer["ok"]) if self.spoil else answer["ok"]


def writers(folder: Path, runner: Any, **more: Any) -> Writers:
    return Writers(runner, folder, OnDisk(), **more)


COVERING = [name for name in HISTORIES if name.startswith("steps-")]
LEFT = (
    *COVERING[1:],
    *(name for name in HISTORIES if name.startswith("inserts-")),
    *map("types-{}".format, FORMATS),
)
SOME = [name for name in HISTORIES if name not in LEFT]
"""All histories but `LEFT`, which `make conform` replays, too."""


@pytest.mark.parametrize("name", SOME)
@covers("CMP-3", "DV-1", "DV-6", "DV-11", "LSM-2", "LSM-5", "RD-15", "CMT-1", "META-70", "META-71")
def test_pktable_passes_as_a_writer(name: str, tmp_path: Path) -> None:
    writers(tmp_path, InProcess()).replay(HISTORIES[name])


def test_the_histories_take_every_step_near_the_start_of_the_graph() -> None:
    edges, taken = covering.graph(), set()
    for name in COVERING:
        numbers = tuple(covering.OPERATIONS.index(one) for one in HISTORIES[name].operations)
        taken |= {(covering.after(numbers[:at]), number) for at, number in enumerate(numbers)}
    steps = {(state, number) for state in edges for number in range(len(covering.OPERATIONS))}
    assert len(steps) == 270
    assert steps <= taken


def test_more_steps_are_made_when_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    edges, taken = covering.graph(3), set()
    for walk in covering.walks(edges):
        state: covering.State = ()
        for number in walk:
            taken.add((state, number))
            state = edges[state][number]
    assert sum(map(len, edges.values())) == 954 == len(taken)
    runner = ["--runner", f"{sys.executable} -m model_tests.conform.pktable_runner", "--mode", "writer"]
    assert run(["conform", *runner, "--steps", "0", "--case=steps-001", "--case=steps-007"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("2 PASS, 0 FAIL, 0 UNSUPPORTED, 0 ERROR")
    assert run(["conform", *runner, "--steps", "0", "--case=steps-008"]) == 2  # one of the archive
    assert "--case steps-008: expected a case of the archive" in capsys.readouterr().err


def loses_a_row(do: str, answer: Any) -> Any:
    return {"rows": answer["rows"][1:]} if do == "read" else answer


def forgets_vectors(do: str, answer: Any) -> Any:
    return [] if do == "vectors" else answer


def calls_all_appends(do: str, answer: Any) -> Any:
    return [{**one, "kind": "APPEND"} for one in answer] if do == "snapshots" else answer


def shifts_levels(do: str, answer: Any) -> Any:
    return [{**one, "level": min(one["level"], 2)} for one in answer] if do == "files" else answer


@covers("CMP-10")
def test_a_file_that_changes_when_it_is_moved_is_noticed(tmp_path: Path) -> None:
    def grows(do: str, answer: Any) -> Any:
        return [{**one, "size": one["size"] + one["level"]} for one in answer] if do == "files" else answer

    with pytest.raises(CheckFailed, match="files_that_stay_are_the_same: nothing but the level"):
        writers(tmp_path, InProcess(grows)).replay(HISTORIES["an_upgrade_keeps_the_file"])


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (loses_a_row, "reads_agree"),
        (forgets_vectors, "compaction_took_the_pick"),
        (calls_all_appends, "compacted"),
        (shifts_levels, "compaction_took_the_pick"),
    ],
)
def test_a_writer_that_answers_wrongly_fails(spoil: Any, check: str, tmp_path: Path) -> None:
    found = failures(writers(tmp_path, InProcess(spoil)))
    assert check in {failure.check for failure in found}


def failures(some: Writers) -> list[CheckFailed]:
    found = []
    for history in list(HISTORIES.values())[:8]:
        try:
            some.replay(history)
        except CheckFailed as failure:
            found.append(failure)
    return found


class Shifts(InProcess):
    """A runner that shifts the ROWs inside of ROWs where some of them and none of these is null, as pyarrow in ORC."""

    def ask(self, do: str, **fields: Any) -> Any:
        if do == "create":
            self.kinds = [kind for _, kind in fields["columns"]]
        if do == "write":
            columns = [
                self.shifted(column) if kind.startswith("ROW<a ROW<") else column
                for kind, *column in zip(self.kinds, *(row for _, row in fields["changes"]), strict=True)
            ]
            kinds = [kind for kind, _ in fields["changes"]]
            fields["changes"] = list(zip(kinds, map(list, zip(*columns, strict=True)), strict=True))
        return super().ask(do, **fields)

    @staticmethod
    def shifted(column: list[str | None]) -> list[str | None]:
        rows = [json.loads(text) for text in column if text]
        inner = [row[0] for row in rows if row[0] is not None]
        if len(rows) < len(column) or len(inner) == len(rows):
            return column
        others = iter([["", *inner[0][1:]], *inner] if inner else [])
        return [typed.as_json([row[0] and next(others), *row[1:]]) for row in rows]


@covers("META-70", "META-71")
def test_values_in_the_rows_of_others_are_noticed_where_a_row_in_a_row_is_null(tmp_path: Path) -> None:
    some = writers(tmp_path, Shifts())
    history, _ = typed.part_for(
        HISTORIES["types-orc"], {"orc": {"INT", "VARCHAR", "BINARY", "DOUBLE", "ROW"}}
    )
    with pytest.raises(CheckFailed, match=r"reads_agree: .* missing") as failure:
        some.replay(history)
    small, again = smallest(some, history, failure.value)
    ((_, kind),) = small.shape.columns[1:-1]
    assert kind.startswith("ROW<a ROW<")
    assert (len(small.operations), len(small.operations[0].changes)) == (1, 2)
    assert again.check == "reads_agree"
    assert History.from_json(json.loads(small.to_json())) == small


def test_columns_of_types_that_a_runner_does_not_write_are_left_out(tmp_path: Path) -> None:
    some = writers(tmp_path, InProcess(leave_out="TIME"))
    part, missing = some.part(HISTORIES["types-orc"])
    kinds = [kind for _, kind in part.shape.columns]
    assert missing == "TIME"
    assert "TIMESTAMP(3)" in kinds
    assert not [kind for kind in kinds if "TIME(" in kind]
    assert len({len(row) + 1 for one in part.operations for _, row in one.changes} | {len(kinds)}) == 1


def test_a_runner_that_names_no_types_is_asked_for_what_it_was_always_asked(tmp_path: Path) -> None:
    class Silent(InProcess):
        def supports(self) -> Supports:
            found = super().supports()
            return Supports(found.name, found.commands, found.features)

    some = writers(tmp_path, Silent())
    for format, lacks in (("parquet", "ARRAY, BIGINT, .*ROW.* in parquet"), ("orc", "orc"), ("avro", "avro")):
        with pytest.raises(Unsupported, match=f"^writes of {lacks}$"):
            some.replay(HISTORIES[f"types-{format}"])
    history = HISTORIES["a_purge_clears_the_index"]
    assert some.part(history) == (history, "")


@covers("DVF-1", "RD-11")
def test_a_writer_whose_bytes_are_wrong_fails_though_its_answers_are_right(tmp_path: Path) -> None:
    runner: Any = InProcess()
    audited: list[Path] = []

    class Spoils(OnDisk):
        def findings(self, directory: Path) -> Any:
            audited.append(directory)
            for path in directory.glob("index/*"):
                path.write_bytes(b"\2" + path.read_bytes()[1:])
            return super().findings(directory)

    with pytest.raises(CheckFailed, match="DVF-1"):
        Writers(runner, tmp_path, Spoils()).replay(HISTORIES["an_upsert_marks_the_old_row"])
    assert audited


class IndexOfOneBucket(InProcess):
    """A runner whose compaction leaves the index entries of other buckets out of the index manifest."""

    seen = frozenset[str]()

    def ask(self, do: str, **fields: Any) -> Any:
        answer = super().ask(do, **fields)
        if do != "vectors":
            return answer
        new = [one for one in answer if one["index_file"] not in self.seen]
        self.seen |= {one["index_file"] for one in answer}
        return new or answer


class MovesWithoutVectors(InProcess):
    """A runner that drops the vector of a file when it moves the file to another level."""

    def ask(self, do: str, **fields: Any) -> Any:
        answer = super().ask(do, **fields)
        if do == "create":
            self.levels: dict[str, int] = {}
            self.moved: set[str] = set()
        if do == "files":
            self.moved |= {
                one["name"] for one in answer if self.levels.get(one["name"], 0) > 0 < one["level"]
            }
            self.moved -= {one["name"] for one in answer if self.levels.get(one["name"]) == one["level"]}
            self.levels |= {one["name"]: one["level"] for one in answer}
        return [one for one in answer if one["data_file"] not in self.moved] if do == "vectors" else answer


class DropsUpdatesBefore(InProcess):
    def ask(self, do: str, **fields: Any) -> Any:
        if do == "write":
            fields["changes"] = [change for change in fields["changes"] if change[0] != "-U"]
        return super().ask(do, **fields)


@covers("DV-6", "DV-11", "DV-12", "DV-17", "TBL-7")
@pytest.mark.parametrize(
    ("name", "runner", "check"),
    [
        ("a_compaction_keeps_the_vectors_of_other_buckets", IndexOfOneBucket, "compaction_took_the_pick"),
        ("an_upgraded_file_keeps_its_vector", MovesWithoutVectors, "vectors_only_grow"),
        ("an_update_before_alone_takes_its_row", DropsUpdatesBefore, "reads_agree"),
    ],
)
def test_a_faulty_writer_fails_the_history_that_is_there_for_it(
    name: str, runner: type[InProcess], check: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckFailed, match=f"^{check}: "):
        writers(tmp_path, runner()).replay(HISTORIES[name])


@covers("META-10")
def test_what_a_writer_leaves_out_is_noticed_and_may_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARQUET_WRITE_OPTIONS, "write_page_checksum", False)
    history = HISTORIES["an_upsert_marks_the_old_row"]
    said = "^nothing_is_left_out: META-10: note META-10: bucket-0: page checksums"
    with pytest.raises(CheckFailed, match=said):
        writers(tmp_path, InProcess()).replay(history)
    (tmp_path / "again").mkdir()
    writers(tmp_path / "again", InProcess(), without=frozenset({"nothing_is_left_out"})).replay(history)


@covers("DV-6", "DV-12")
def test_a_lookup_that_ends_with_the_next_level_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearest(context: Any, place: Any, older: Any) -> Locator:
        level = min(file.level for file in older)
        return Locator(context, place, [file for file in older if file.level == level])

    monkeypatch.setattr("pktable.bucket.compact.Locator", nearest)
    with pytest.raises(CheckFailed, match=r"^reads_agree: .* surplus \[\(1, "):
        writers(tmp_path, InProcess()).replay(HISTORIES["a_replaced_row_lies_behind_a_level_without_its_key"])


@covers("TBL-5", "META-80")
@pytest.mark.parametrize("name", ["inserts-int", "types-key-decimal", "types-key-timestamp"])
def test_another_hash_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = bucket_hash.hash_rows

    def wrong(columns: Any, types: Any) -> Any:
        """Leave out what lies behind the fields, and take the remainder that is never negative."""
        hashes = right(columns, types)
        return hashes % 3 if types[0].root == "INT" else 0 * hashes

    monkeypatch.setattr(bucket_hash, "hash_rows", wrong)
    with pytest.raises(CheckFailed, match=r"^appended: a write goes to the buckets of its keys, bucket 0, "):
        writers(tmp_path, InProcess()).replay(HISTORIES[name])


def test_a_check_of_one_strategy_is_left_out_by_name(tmp_path: Path) -> None:
    history = HISTORIES["a_purge_clears_the_index"]
    with pytest.raises(CheckFailed, match="compaction_took_the_pick"):
        writers(tmp_path, InProcess(shifts_levels)).replay(history)
    (tmp_path / "again").mkdir()
    writers(tmp_path / "again", InProcess(shifts_levels), without=frozenset(OPTIONAL)).replay(history)


def test_a_history_is_made_small(tmp_path: Path) -> None:
    some = writers(tmp_path, InProcess(loses_a_row))
    history = HISTORIES["the_last_of_a_batch_decides"]
    with pytest.raises(CheckFailed) as failure:
        some.replay(history)
    small, again = smallest(some, history, failure.value)
    assert (len(small.operations), len(small.operations[0].changes)) == (1, 1)
    assert again.check == "reads_agree"
    assert History.from_json(json.loads(small.to_json())) == small


def test_a_failing_history_is_told_of_and_kept_small(tmp_path: Path) -> None:
    name, runner = "the_last_of_a_batch_decides", InProcess(loses_a_row)
    asked = Asked((WRITER,), only=frozenset({name}), keep=tmp_path / "kept")
    (outcome,) = conform(runner, Archive(), asked).outcomes  # type: ignore[arg-type]
    assert (outcome.status, outcome.check, outcome.history) == (
        FAIL,
        "reads_agree",
        str(tmp_path / "kept" / f"writer-{name}.json"),
    )
    text = json.loads(Path(outcome.history).read_text())
    assert text["table"]["columns"] == [["k", "INT"], ["v", "STRING"], ["w", "INT"]]
    assert text["options"]["deletion-vectors.enabled"] == "true"
    kept = History.from_json(text)
    assert kept.shape == HISTORIES[name].shape
    assert (len(kept.operations), len(kept.operations[0].changes)) == (1, 1)


def test_a_history_that_fails_without_vectors_is_kept_with_that_option(tmp_path: Path) -> None:
    class Loses(InProcess):
        def ask(self, do: str, **fields: Any) -> Any:
            if do == "create":
                self.spoil = loses_a_row if fields["options"]["deletion-vectors.enabled"] == "false" else None
            return super().ask(do, **fields)

    name = "partitions_keep_apart"
    asked = Asked((WRITER,), only=frozenset({name}), keep=tmp_path)
    (outcome,) = conform(Loses(), Archive(), asked).outcomes  # type: ignore[arg-type]
    text = json.loads(Path(outcome.history).read_text())
    assert text["options"]["deletion-vectors.enabled"] == "false"
    assert text["table"]["partition_keys"] == ["p"]
    assert History.from_json(text).shape == HISTORIES[name].shape


def test_a_compaction_that_is_not_done_is_told_of_in_words(tmp_path: Path) -> None:
    class Idle(InProcess):
        def ask(self, do: str, **fields: Any) -> Any:
            return None if do == "compact" else super().ask(do, **fields)

    said = (
        r"^compacted: nothing was compacted, expected in bucket 0 data-\S+ of level 3 rewritten in place \["
    )
    with pytest.raises(CheckFailed, match=said):
        writers(tmp_path, Idle()).replay(HISTORIES["a_purge_clears_the_index"])


@pytest.mark.parametrize("missing", ["compact", "retractions", "create"])
def test_a_writer_without_a_command_or_feature_is_unsupported_by_its_name(
    missing: str, tmp_path: Path
) -> None:
    with pytest.raises(Unsupported, match=f"^{missing}$"):
        writers(tmp_path, InProcess(leave_out=missing)).replay(HISTORIES["a_purge_clears_the_index"])


@pytest.mark.parametrize("missing", ["compact", "retractions"])
@pytest.mark.parametrize("name", [name for name in HISTORIES if name.startswith("inserts-")])
@covers("LSM-5", "LSM-10", "CMT-2", "TBL-5")
def test_a_writer_of_inserts_alone_is_judged(name: str, missing: str, tmp_path: Path) -> None:
    writers(tmp_path, InProcess(leave_out=missing)).replay(HISTORIES[name])


class Peer:
    """A peer that writes inserts by pktable, or fails."""

    name = "peer 1.0"

    def __init__(self, complains: str = "") -> None:
        self.complains, self.written = complains, 0

    def ask(self, do: str, table: str, rows: Any = (), **_: Any) -> None:
        if self.complains:
            raise PeerError(self.name, self.complains)
        assert do == "write"
        self.written += len(rows)
        opened = Table.open(table)
        kinds = [field.type for field in opened.schema.arrow_schema]
        values = [
            [None if one is None else int(one) if pa.types.is_integer(kind) else one for one in column]
            for kind, column in zip(kinds, list(zip(*rows, strict=True))[1:], strict=True)
        ]
        changes(opened, *(("+I", *row) for row in zip(*values, strict=True)), write_only=True)


@covers("LSM-5", "RD-3")
def test_a_peer_that_writes_is_judged_by_what_it_leaves_on_disk(tmp_path: Path) -> None:
    peer: Any = Peer()
    writers(tmp_path, InProcess(program=Writer(peer))).replay(HISTORIES["inserts-partitioned"])
    assert peer.written == 2 * 10


@pytest.mark.parametrize(
    ("message", "error"), [("no such type", CheckFailed), ("died: out of memory", RunnerError)]
)
def test_a_peer_that_complains_has_refused_and_one_that_died_has_erred(
    message: str, error: type[Exception], tmp_path: Path
) -> None:
    peer: Any = Peer(message)
    with pytest.raises(error, match=message):
        writers(tmp_path, InProcess(program=Writer(peer))).replay(HISTORIES["inserts-int"])


VECTOR: Mapping[str, Any] = {"index_file": "i", "partition": [], "bucket": 0, "data_file": "d"}


def test_an_answer_of_another_form_is_the_error_of_the_runner(tmp_path: Path) -> None:
    for number, (do, value, what) in enumerate(
        (
            ("snapshots", {}, "expected a list of objects"),
            ("snapshots", [{"id": "1", "kind": "APPEND"}], "id: expected an integer, found '1'"),
            ("snapshots", [{"id": True, "kind": "APPEND"}], "id: expected an integer, found True"),
            ("files", [{"name": 1}], "name: expected a string"),
            ("vectors", [{**VECTOR, "positions": ["1"]}], "positions: expected a list of integers"),
            ("read", {"rows": [["1"]]}, "expected a list of the values of k, v, w"),
            ("read", {"rows": [["x", "v", "1"]]}, "expected a value of k, INT, as text"),
        )
    ):
        (tmp_path / str(number)).mkdir()
        runner = InProcess(lambda asked, ok, do=do, value=value: value if asked == do else ok)
        with pytest.raises(RunnerError, match=what):
            writers(tmp_path / str(number), runner).replay(HISTORIES["an_upsert_marks_the_old_row"])


def test_a_refused_operation_is_a_failure(tmp_path: Path) -> None:
    def refuses(do: str, ok: Any) -> Any:
        if do == "compact":
            raise Refused("no time")
        return ok

    with pytest.raises(CheckFailed, match=r"operation .*, compact, was refused: no time"):
        writers(tmp_path, InProcess(refuses)).replay(HISTORIES["a_purge_clears_the_index"])
