"""Random mutation: each operator makes a real change, draws repeat, and what is recorded still fits the code."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from model_tests.mutants import equivalents, random_run
from model_tests.mutants.executed import Clean, parts_that_execute
from model_tests.mutants.mutations import OPERATORS, Mutation, mutations, sampled
from model_tests.mutants.random_report import page, so_far
from model_tests.mutants.random_run import (
    AREAS,
    Area,
    CleanBuildError,
    Verdict,
    Worker,
    draw,
    expect_no_stale_equivalent,
    units,
)
from model_tests.mutants.records import Records
from model_tests.mutants.trial import ROOT, Bench, Trial, Wanted, Work, work_of_tests

SOURCE = '''
"""A module with one place for each operator."""

MANY = 1 << 20
PAIR = (-1, True)

def first(rows: list[int], limit: int = 3) -> int | None:
    """Return 0."""
    assert limit > 0, "for the reader"
    if not rows or (limit < 2 and rows):
        raise ValueError(f"{limit + 1} rows: {len(rows) > 1}")
    while limit:
        limit -= 1
        if rows[0] == limit:
            break
    print("é", rows)
    found = [row for row in rows if row]
    return min(found) + (1 if found else limit)
'''


def found(source: str = SOURCE) -> tuple[Mutation, ...]:
    return mutations("a.py", source)


def changes(operator: str) -> set[str]:
    return {mutation.change for mutation in found() if mutation.operator == operator}


def test_every_operator_has_its_place_in_the_module() -> None:
    assert {mutation.operator for mutation in found()} == OPERATORS.keys()


def test_every_mutation_compiles_and_changes_one_place() -> None:
    before = ast.dump(ast.parse(SOURCE))
    for mutation in found():
        changed = mutation.applied(SOURCE)
        compile(changed, "a.py", "exec")
        assert ast.dump(ast.parse(changed)) != before, mutation
        assert changed.encode()[: mutation.start] == SOURCE.encode()[: mutation.start]
        assert (
            changed.encode()[mutation.start + len(mutation.after.encode()) :]
            == SOURCE.encode()[mutation.end :]
        )


def test_operators_change_what_they_say() -> None:
    assert changes("comparison") == {
        *("limit < 2 -> (limit <= 2)", "limit < 2 -> (limit >= 2)", "rows[0] == limit -> (rows[0] != limit)")
    }
    assert changes("and/or") >= {"limit < 2 and rows -> (limit < 2 or rows)"}
    assert changes("operand dropped") >= {"limit < 2 and rows -> rows", "limit < 2 and rows -> (limit < 2)"}
    assert changes("negation dropped") == {"not rows -> rows", "-1 -> 1"}
    assert changes("arithmetic") >= {"1 << 20 -> (1 >> 20)"}
    assert changes("constant") >= {"True -> False", "3 -> 4", "3 -> 2"}
    assert changes("min/max, any/all") == {"min -> max"}
    assert changes("one branch") == {"1 if found else limit -> 1", "1 if found else limit -> limit"}
    assert changes("filter dropped") == {"[row for row in rows if row] -> [row for row in rows]"}
    assert changes("statement dropped") == {
        *('print("é", rows) -> pass', "limit -= 1 -> pass", "break -> pass")
    }
    assert len(changes("raise dropped")) == 1
    assert any(change.endswith("-> return None") for change in changes("returned value"))
    assert changes("condition") >= {"limit -> False", "rows[0] == limit -> True"}


def test_a_change_within_a_class_compiles() -> None:
    source = "class A:\n    @property\n    def b(self) -> int:\n        return 1 + 2\n\n    c = 3 < 4\n"
    within = mutations("a.py", source)
    assert {one.line for one in within} == {4, 6}
    for one in within:
        compile(one.applied(source), "a.py", "exec")


def test_annotations_docstrings_assertions_and_messages_stay() -> None:
    lines = {mutation.line for mutation in found()}
    texts = SOURCE.splitlines()
    for line in lines:
        assert not texts[line - 1].strip().startswith(('"""', "assert")), texts[line - 1]
    assert not any(
        "limit + 1" in mutation.before for mutation in found() if mutation.operator == "arithmetic"
    )
    assert mutations("a.py", "def f(a: 'int | None' = None, b: int | str = '') -> int | None: ...") == ()
    assert mutations("a.py", "if TYPE_CHECKING:\n    f(1)\n") == ()
    assert [one.operator for one in mutations("a.py", "zip(a, b, strict=True)")] == ["statement dropped"]


def test_a_seed_draws_the_same_and_a_greater_number_draws_more() -> None:
    every = found()
    few, more = sampled(every, 3, seed=1), sampled(every, 6, seed=1)
    assert few == sampled(every[::-1], 3, seed=1) == more[:3]
    assert len({mutation.line for mutation in more}) == 6
    assert len({tuple(sampled(every, 3, seed)) for seed in range(10)}) > 1


def test_each_module_that_tests_without_spark_execute_is_of_one_area() -> None:
    files = [path.relative_to(ROOT).as_posix() for area in AREAS for path in area.modules()]
    assert len(files) == len(set(files))
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "reference").rglob("pktable*/**/*.py")}
    left = {"/".join(path.split("/")[1:3]) for path in modules - set(files)} - {"pktable/__main__.py"}
    assert left == {
        *("pktable/cli", "pktable/replay.py", "pktable/run", "pktable/spark_sql", "pktable_hudi/spark")
    }
    assert {path for path in modules - set(files) if path.startswith("reference/pktable/run/")} == {
        path for path in modules if path.startswith("reference/pktable/run/spark/")
    }
    assert "spec/pktable_spec/model/mechanism.py" in files
    for area in AREAS:
        assert all((ROOT / path).exists() for path in (*area.paths, *area.tests, *area.without)), area


def test_each_area_is_drawn_from_in_turn_and_a_greater_number_draws_more() -> None:
    areas = [area for area in AREAS if area.name in ("lsm", "staging", "kinds")]
    few, more = draw(3, seed=1, areas=areas), draw(9, seed=1, areas=areas)
    assert {area.name for area, _ in few} == {area.name for area in areas}
    assert more[:3] == few != draw(3, seed=2, areas=areas)


def test_no_recorded_equivalent_is_stale() -> None:
    expect_no_stale_equivalent()


def test_a_recorded_equivalent_follows_its_line_and_is_stale_when_the_line_changes() -> None:
    one = found()[0]
    reasons = {equivalents.name_of(one): "nobody looks"}
    assert equivalents.stale(reasons, found()) == []
    assert equivalents.stale(reasons, found("\n\n" + SOURCE)) == []
    assert equivalents.stale(
        reasons, found(SOURCE.replace(one.text, one.text + "  # now otherwise"))
    ) == list(reasons)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([{"module": "a.py", "line": "x", "change": "a -> b", "why": " "}], "needs a reason"),
        ([{"module": "a.py", "line": "x", "change": "a -> b", "why": "y"}] * 2, "recorded twice"),
    ],
)
def test_an_equivalent_needs_one_reason(tmp_path: Path, entries: object, problem: str) -> None:
    path = tmp_path / "equivalents.json"
    path.write_text(json.dumps(entries))
    with pytest.raises(ValueError, match=problem):
        equivalents.load(path)


def test_a_trial_sees_the_changed_module_ends_a_hang_and_leaves_the_copy_as_it_was(tmp_path: Path) -> None:
    module = "reference/pktable/lsm/bucket.py"
    good = (ROOT / module).read_text("utf-8")
    bench = Bench(tmp_path)

    def work(begin: Callable[[str], None], wanted: Wanted) -> str | None:
        changed = importlib.import_module("pktable.lsm.bucket")
        mark: str | None = getattr(changed, "FOUND", None)
        return mark and f"{mark}, {Path(str(changed.__file__)).parents[3].name}"

    assert bench.trial(module, None, work, 60).killed_by is None
    assert bench.trial(module, good + "\nFOUND = 'changed'\n", work, 60).killed_by == "changed, tree"
    hung = bench.trial(module, good + "\nwhile True: pass\n", work, 2)
    assert (hung.killed_by or "").startswith("time limit: not done after 2 s of computing")
    asleep = bench.trial(module, good + "\nimport time; time.sleep(60)\n", work, 0.3)
    assert (asleep.killed_by or "").startswith("time limit")
    assert (
        bench.trial(module, good + "\n1 / 0\n", work, 60).killed_by == "ZeroDivisionError: division by zero"
    )
    assert bench.trial(module, None, work, 60).killed_by is None
    assert (bench.root / module).read_text("utf-8") == good


def test_the_tests_of_a_trial_name_the_first_that_fails_but_for_want_of_time(tmp_path: Path) -> None:
    module, work = "spec/pktable_spec/model/buckets.py", work_of_tests(["model_tests/oracle/test_buckets.py"])
    bench = Bench(tmp_path)
    assert bench.trial(module, None, work, 120).killed_by is None
    good = (ROOT / module).read_text("utf-8")
    killed = bench.trial(module, good.replace("def bucket_of", "def no_bucket_of"), work, 120).killed_by
    assert "model_tests/oracle/test_buckets.py" in (killed or "")
    late = tmp_path / "test_late.py"
    late.write_text(
        "from model_tests.patience import TooSlowError\ndef test_late():\n    raise TooSlowError\n"
    )
    assert bench.trial(module, None, work_of_tests([str(late)]), 120).killed_by is None


def test_the_page_counts_equivalents_apart_and_names_the_survivors() -> None:
    dead, alive = Trial("reads_agree: missing", 1.0), Trial(None, 1.0)
    by_line = sampled(found(), 5, seed=1)
    verdicts = [
        Verdict("lsm", by_line[0], dead),
        Verdict("lsm", by_line[1], alive, dead),
        Verdict("lsm", by_line[2], alive, alive),
        Verdict("oracle", by_line[3], equivalent="nobody looks"),
        Verdict("lsm", by_line[4], alive, more=dead),
    ]
    text = page(verdicts, number=5, seed=1, areas=["lsm"], commit="abc", seconds=9)
    assert "| lsm | 4 | 0 | 1 of 4, 25 % | 2 of 4, 50 % | 3 of 4, 75 % | 1 |" in text
    assert "| all | 5 | 1 | 1 of 4, 25 % | 2 of 4, 50 % | 3 of 4, 75 % | 1 |" in text
    assert f"{by_line[4].change}`, by of 100 more, reads_agree: missing" in text
    survivors = text.partition("## Survivors of histories and tests")[2].partition("##")[0]
    assert survivors.count("* `a.py:") == 1
    assert by_line[2].change in survivors
    assert so_far(verdicts) == "1 by histories, 2 with more of them, 3 in all, of 4"


def test_a_mutation_is_judged_by_what_was_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blind(*_: object) -> Work:
        def work(begin: Callable[[str], None], wanted: Wanted) -> str | None:
            begin("history")
            importlib.import_module("pktable.merge.grouping")
            return None

        return work

    monkeypatch.setattr(random_run, "work_of_histories", blind)
    tests = "model_tests/oracle/test_keys_looked_up.py"
    area = Area("merge", ("reference/pktable/merge/grouping.py",), (tests,))
    mutation = next(one for one in area.mutations() if one.before == "return found")
    records = Records(tmp_path / "kept")
    first = Worker(tmp_path, records).judge((area, mutation))
    monkeypatch.setattr(Bench, "record", None)
    again = Worker(tmp_path, records).judge((area, mutation))
    for verdict in (first, again):
        assert not verdict.killed_by_histories
        assert verdict.tests is not None
        assert tests in (verdict.tests.killed_by or "")


@pytest.mark.parametrize("fails", ["changed", "always", "never"])
def test_a_survivor_is_judged_by_more_that_is_drawn(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ("drawn one", "stored one", "drawn other")

    def of_histories(number: int, *_: object) -> Work:
        def work(begin: Callable[[str], None], wanted: Wanted) -> str | None:
            for part in parts if wanted is None else wanted:
                begin(part)
                grouping = importlib.import_module("pktable.merge.grouping")
                expected = (
                    "changed" if b"return None" in Path(grouping.__file__ or "").read_bytes() else "always"
                )
                if number == random_run.MORE and part == "drawn other" and fails in (expected, "always"):
                    return f"{part}: {number}"
            return None

        return work

    monkeypatch.setattr(random_run, "work_of_histories", of_histories)
    area = Area("merge", ("reference/pktable/merge/grouping.py",), ())
    mutation = next(one for one in area.mutations() if one.change == "return self -> return None")
    worker = Worker(tmp_path, Records(tmp_path / "kept"))
    monkeypatch.setattr(Clean, "parts", lambda *_: list(parts))
    if fails == "always":
        with pytest.raises(CleanBuildError, match="drawn other: the build without a change fails"):
            worker.judge((area, mutation), with_tests=False)
        return
    verdict = worker.judge((area, mutation), with_tests=False)
    assert verdict.more is not None
    assert verdict.more.killed_by == ("drawn other: 100" if fails == "changed" else None)
    assert not verdict.killed_by_histories
    assert verdict.killed_by_more == (fails == "changed")
    assert worker.judge((area, mutation), with_tests=False, with_more=False).more is None


def test_what_areas_have_in_common_is_recorded_once() -> None:
    tasks = draw(20, seed=1, areas=AREAS[:5])
    both = units(tasks, with_tests=True)
    assert len(set(both)) == len(both) > 20
    assert units(tasks, with_tests=False) == [("histories", "local")]


def test_a_change_of_a_line_is_judged_by_the_parts_that_execute_it(tmp_path: Path) -> None:
    module = "spec/pktable_spec/model/buckets.py"
    bench, work = Bench(tmp_path), work_of_tests(["model_tests/oracle/test_buckets.py"])
    trial, clean = bench.record(work, 120, [module])
    assert trial.killed_by is None
    lines = (ROOT / module).read_text("utf-8").splitlines()
    header = next(at for at, line in enumerate(lines, 1) if line.startswith("def bucket_of"))
    assert parts_that_execute(clean.executed, module, range(header, header + 1)) is None
    following = [
        at for at, line in enumerate(lines, 1) if at > header and line.startswith(("def ", "class ", "@"))
    ]
    inside = [
        one for one in mutations(module, "\n".join(lines)) if header < one.line < min(following, default=999)
    ]
    parts = [parts_that_execute(clean.executed, module, one.lines) for one in inside]
    assert any(parts)
    assert all(part is not None and all("test_buckets.py::" in test for test in part) for part in parts)
    assert bench.trial(module, "1 / 0", work, 120, wanted=()).killed_by is None
    tests = next(part for part in parts if part)
    assert bench.trial(module, "1 / 0", work, 120, wanted=list(tests)).killed_by is not None


def test_a_statement_is_its_lines_up_to_the_first_one_within() -> None:
    source = "if (a and\n    b < 1):\n    f(\n        2)\n"
    lines = {one.change: (one.first, one.last) for one in mutations("a.py", source)}
    assert lines["b < 1 -> (b <= 1)"] == (1, 2)
    assert lines["2 -> 3"] == (3, 4)
