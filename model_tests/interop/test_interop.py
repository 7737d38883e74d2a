"""The comparison with real implementations is itself right: tested here without any of them."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pktable import Table
from pktable.bucket import index
from pktable.format.types import parse_columns, to_arrow
from pktable_conform.judge.history import row_kind
from pktable_spec.covers import covers
from pktable_spec.errors import PkTableError
from pktable_spec.interface import Row
from pktable_spec.vocabulary import RowKind

from model_tests.interop import __main__ as command
from model_tests.interop import directions, environments, retracting
from model_tests.interop.append_histories import append_histories
from model_tests.interop.calibration import FAULTS
from model_tests.interop.claims import CLAIMS, UNTRIED
from model_tests.interop.environments import JVM, NEWER_JVM, SetupError, Start
from model_tests.interop.histories import (
    EVEN_FLOATS,
    EVERYTHING,
    KEYS,
    VALUES,
    Actor,
    Definition,
    History,
    Step,
    histories,
)
from model_tests.interop.limits import Limit, Snapshot
from model_tests.interop.outcomes import OURS, Played, Tally, compare
from model_tests.interop.peers import Outcome, Peer, PeerError
from model_tests.interop.plain import array_of, column_of, rows_of
from model_tests.interop.retracting_histories import retracting_histories
from model_tests.meta.wording import clauses
from model_tests.real_data import VECTORS


@pytest.mark.parametrize("type", VALUES)
def test_plain_values_become_columns_and_plain_values_again(type: str) -> None:
    (field,) = parse_columns(f"v {type}")
    values = [*VALUES[type], None]
    assert column_of(pa.chunked_array([array_of(values, to_arrow(field.type))])) == values


@pytest.mark.parametrize("type", retracting.VALUES)
def test_plain_values_with_others_in_them_become_columns_and_plain_values_again(type: str) -> None:
    (field,) = parse_columns(f"v {type}")
    values = retracting.VALUES[type]
    assert column_of(pa.chunked_array([array_of(values, to_arrow(field.type))])) == list(values)


def test_each_claim_of_a_clause_on_paimon_is_tried_or_has_a_reason_and_names_releases_that_differ() -> None:
    texts: dict[str, str] = {}
    for path in sorted((environments.TREE / "spec" / "clauses").glob("*.md")):
        for clause in clauses(path.read_text("utf-8")):
            texts[clause.id] = clause.text
    claiming = {id for id, text in texts.items() if "paimon" in text.lower()}
    tried = {claim.clause for claim in CLAIMS}
    assert not tried & UNTRIED.keys()
    assert claiming == tried | UNTRIED.keys()
    for claim in CLAIMS:
        if claim.older != claim.newer:
            assert re.search(r"\b(0\.9\.0|1\.4\.2)\b", texts[claim.clause]), claim.clause


def test_maps_are_plain_in_the_order_of_their_keys() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    found = column_of(pa.chunked_array([pa.array([[("q", 1), ("p", None)]], kind)]))
    assert found == ['[["p",null],["q","1"]]']


@given(histories([Actor(OURS)], [OURS], EVERYTHING, bitmap64=True))
def test_a_history_has_only_keys_and_values_of_its_types(history: History) -> None:
    for step in history.steps:
        for _, row in step.changes:
            for value, (name, type) in zip(row, history.definition.columns, strict=False):
                key, partition = (
                    name in some for some in (history.definition.primary_key, history.definition.partition_by)
                )
                known = (*KEYS[type], *EVEN_FLOATS.get(type, ())) if key else VALUES[type]
                assert partition or value in (None, "bulk", *known)


APPENDED = append_histories([Actor(OURS)], [OURS], EVERYTHING, bitmap64=True, row_ids=True)
FEW = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def statements_agree(folder: Path) -> None:
    bench = directions.Bench(folder, {})

    @FEW
    @given(APPENDED)
    def agree(history: History) -> None:
        bench.check(history, [], Tally())

    agree()


@covers("APP-1", "APP-12", "APP-31", "STM-7")
def test_statements_of_append_tables_of_all_types_agree_with_the_oracle(tmp_path: Path) -> None:
    statements_agree(tmp_path)


def test_a_vector_that_forgets_what_was_deleted_before_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "merged", lambda before, deleted, bits: deleted)
    with pytest.raises((AssertionError, PkTableError)):
        statements_agree(tmp_path)


RETRACTING = retracting_histories([Actor(OURS)], [OURS], EVERYTHING, bitmap64=True)


def retractions_agree(folder: Path) -> None:
    bench = directions.Bench(folder, {})

    @FEW
    @given(RETRACTING)
    def agree(history: History) -> None:
        bench.check(history, [], Tally())

    agree()


@covers("MRG-8", "MRG-9", "MRG-14", "MRG-17", "MRG-27")
def test_retractions_from_keys_of_all_types_agree_with_plain_python(tmp_path: Path) -> None:
    retractions_agree(tmp_path)


def test_a_sum_that_adds_what_a_retraction_takes_back_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*FAULTS["sums that add what a retraction takes back"][1])
    with pytest.raises(AssertionError, match="rows missing"):
        retractions_agree(tmp_path)


@FEW
@given(retracting_histories([Actor(JVM), Actor(OURS)], [OURS], EVERYTHING.merged(), bitmap64=False))
def test_no_retraction_is_of_a_key_without_a_row_or_merged_by_a_write_of_paimon(history: History) -> None:
    definition, keys = history.definition, len(history.definition.primary_key)
    before: dict[Row, list[tuple[RowKind, Row]]] = {}
    for step in history.steps:
        for symbol, row in step.changes:
            kind, earlier = row_kind(symbol), before.setdefault(row[:keys], [])
            assert kind.is_add or retracting.row_after(definition, earlier) is not None
            earlier.append((kind, (*row, None)))
        counts = Counter(row[:keys] for _, row in step.changes)
        assert step.by == OURS or all(
            counts[row[:keys]] == 1 for symbol, row in step.changes if not row_kind(symbol).is_add
        )


def test_only_where_the_order_of_elements_is_open_they_compare_in_any() -> None:
    definition = retracting.table("containers")
    names = [name for name, _ in definition.columns]
    for column, open_one in (("c", False), ("n", False), ("d", True), ("np", True)):
        rows = [
            tuple(text if name == column else None for name in names) for text in ('["1","2"]', '["2","1"]')
        ]
        one, two = (retracting.in_any_order(definition, [row]) for row in rows)
        assert (one == two) == open_one


# ---------------------------------------------------------------------------------- comparing

ROWS = (("+I", ("1", "a")), ("+I", ("2", None)))
HISTORY = History(
    Definition(
        (("k", "INT"), ("v", "STRING"), ("w", "INT")), ("k",), (), {"deletion-vectors.enabled": "true"}
    ),
    OURS,
    (Step(OURS, "write", changes=ROWS), Step(OURS, "write", changes=(("-D", ("1", None)),))),
    conditions=(("k", ">", "1"),),
)


class Pretender:
    """A peer that reads with pktable, and then ``spoils`` what it read of the last snapshot."""

    name = "pretender"

    def __init__(self, spoil: Callable[[list[Any]], Outcome]) -> None:
        self._spoil = spoil

    def send(self, do: str, table: str, where: list[list[str]]) -> None:
        self._table, self._where = Table.open(table), " ".join(where[0]) if where else None

    def received_snapshots(self) -> dict[int, Outcome]:
        found: dict[int, Outcome] = {
            one.id: [tuple(row) for row in rows_of(self._table.to_arrow(snapshot=one.id, where=self._where))]
            for one in self._table.snapshots()
        }
        found[max(found)] = self._spoil(cast("list[Any]", found[max(found)]))
        return found


def compared(tmp_path: Path, spoil: Callable[[list[Any]], Outcome], *limits: Limit) -> Tally:
    played = Played(HISTORY, tmp_path / "w.db" / "t", {})
    played.play()
    tally = Tally()
    compare(played, [cast("Peer", Pretender(spoil))], limits, tally)
    return tally


def test_equal_reads_are_counted(tmp_path: Path) -> None:
    tally = compared(tmp_path, lambda rows: rows)
    assert (tally.histories, tally.snapshots, tally.reads) == (1, 4, {OURS: 8, "pretender": 8})
    assert tally.with_vectors == 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows[1:], "pretender, snapshot 4: 1 rows missing, 0 too many"),
        (lambda rows: [*rows, rows[0]], "0 rows missing, 1 too many"),
        (lambda rows: [(*rows[0][:-1], "7")], "1 rows missing, 1 too many"),
        (lambda rows: PeerError("pretender", "no such magic"), "pretender, snapshot 4: no such magic"),
    ],
)
def test_a_reader_that_reads_otherwise_is_named(
    tmp_path: Path, spoil: Callable[[list[Any]], Outcome], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        compared(tmp_path, spoil)


def test_a_limit_excuses_its_own_failure_alone_and_must_hold(tmp_path: Path) -> None:
    limit = Limit("pretender", "the last", "it is shy", "magic", lambda snapshot: snapshot.id == 4)
    shy: Callable[[list[Any]], Outcome] = lambda rows: PeerError("pretender", "no such magic")  # noqa: E731
    assert compared(tmp_path / "a", shy, limit).limits == {limit: 2}
    with pytest.raises(AssertionError, match="the last should fail with 'magic'"):
        compared(tmp_path / "b", lambda rows: rows, limit)
    with pytest.raises(AssertionError, match="another"):
        compared(tmp_path / "c", lambda rows: PeerError("pretender", "another"), limit)


def test_a_limit_may_be_one_of_other_rows(tmp_path: Path) -> None:
    limit = Limit(
        "pretender", "the last", "it is forgetful", "rows missing", lambda snapshot: snapshot.id == 4
    )
    assert compared(tmp_path / "a", lambda rows: rows[1:], limit).limits == {limit: 2}
    with pytest.raises(AssertionError, match="the last should fail with 'rows missing'"):
        compared(tmp_path / "b", lambda rows: rows, limit)


def test_the_kinds_of_containers_are_told_apart() -> None:
    path = VECTORS / "containers" / "table"
    table = Table.open(path)
    kinds = [Snapshot(path, id, table).container_kinds for id in (4, 6, 8)]
    assert kinds == [{"array"}, {"bitmap"}, {"run"}]


# ---------------------------------------------------------------------------------- peers


def test_a_peer_that_dies_or_says_nothing_is_an_error_and_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("model_tests.interop.peers.TIMEOUT_SECONDS", 1)
    program = "import sys\nfor line in sys.stdin:\n  {}"
    for code, message in (("sys.exit('gone')", "gone"), ("pass", "no answer within 1 s")):
        peer = Peer("p", Start((sys.executable, "-c", program.format(code)), os.environ))
        for _ in range(2):
            with pytest.raises(PeerError, match=message):
                peer.ask("hello")
        peer.stop()


def test_a_peer_that_cannot_be_set_up_fails_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*message: str) -> None:
        raise SetupError("no network")

    monkeypatch.setenv("PKTABLE_INTEROP", str(tmp_path / "new"))
    monkeypatch.setattr(environments, "_run", refuse)
    assert command.main(["quick"]) == 1
    printed = capsys.readouterr().out
    assert f"{JVM}: cannot be set up: no network" in printed
    assert f"{NEWER_JVM}: absent, and left out: " in printed


def test_an_unknown_profile_is_the_callers_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["fast"]) == 2
    assert "expected one of: small, quick, deep; found fast" in capsys.readouterr().err


def test_a_failing_history_is_made_small_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directions, "SHRINKING_SECONDS", 0)
    bench, played = directions.Bench(tmp_path, {}), []

    def fail(history: History, readers: Sequence[str], tally: Tally) -> None:
        played.append(history)
        raise AssertionError(f"wrong in {len(history.steps)} steps")

    monkeypatch.setattr(bench, "check", fail)
    drawn = histories([Actor(OURS)], [OURS], EVERYTHING, bitmap64=True)
    result = bench.run("all fail", drawn, [], count=10, first=1)
    assert len(played) == 1
    assert result.failure == (f"AssertionError: wrong in {len(played[0].steps)} steps", played[0])
