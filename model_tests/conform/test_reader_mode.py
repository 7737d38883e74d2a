"""The reader mode tells sound readers from faulty ones."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pktable.cli import run
from pktable.cli.conform import OnDisk
from pktable_conform.archive import NEGATIVE, POSITIVE, Archive, Case
from pktable_conform.reading import ReadFailed, read_case
from pktable_conform.runner import Supports, Unsupported
from pktable_spec.covers import covers

from model_tests.conform.__main__ import node_reader
from model_tests.conform.pktable_runner import Program
from model_tests.conform.reader_faults import FAULTS, SOURCE, Fault, InProcess
from model_tests.interop.environments import SetupError

ARCHIVE = Archive()
CASES = {case.name: case for case in ARCHIVE.cases}
PLAIN = f"{sys.executable} {SOURCE}"


def fails(source: str, case: Case) -> ReadFailed | None:
    try:
        read_case(InProcess(source), ARCHIVE, case)  # type: ignore[arg-type]
    except ReadFailed as failure:
        return failure
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_reader_fails_the_case_that_is_there_for_it(fault: Fault) -> None:
    failure = fails(fault.source(), CASES[fault.case])
    assert failure is not None
    assert failure.clauses == CASES[fault.case].clauses


@covers(
    "DVF-1",
    "DVF-2",
    "DVF-3",
    "DVF-4",
    "DVF-5",
    "DVF-8",
    "DV-2",
    "DV-16",
    "RD-1",
    "RD-4",
    "RD-5",
    "RD-11",
    "RD-19",
)
@covers("RD-22", "RD-28", "LSM-4", "CMT-4", "META-15", "META-31")
def test_a_reader_that_is_not_pktable_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conform", "--runner", PLAIN, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    without = {"first-row", "partial-update", "aggregation", "sequence fields", "avro", "nested"}
    without |= {"variant", "files of some columns"}
    others = [name for name, case in CASES.items() if set(case.features) & without]
    assert report["counts"] == {"PASS": len(CASES) - len(others), "UNSUPPORTED": len(others)}
    assert [one["case"] for one in report["outcomes"] if one["status"] == "UNSUPPORTED"] == others


@covers(
    "META-4", "META-16", "META-31", "META-33", "META-42", "META-47", "META-80", "META-81", "META-83", "MRG-19"
)
@covers("BRN-1", "CHG-11", "CHG-12", "CHG-13", "CHG-18", "RD-13", "RD-17", "RD-21")
@covers("MRG-9", "MRG-12", "MRG-13", "MRG-14", "MRG-15", "MRG-16", "MRG-17", "MRG-20", "MRG-27", "MRG-32")
@covers("APP-23", "META-23", "META-78", "MRG-33", "RD-31")
def test_a_reader_in_javascript_passes(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        runner = node_reader()
    except SetupError as reason:
        pytest.skip(f"the reader for Node is not set up: {reason}")
    assert run(["conform", "--runner", runner, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    others = [name for name, case in CASES.items() if {"orc", "bitmaps", "sketches"} & set(case.features)]
    assert report["counts"] == {"PASS": len(CASES) - len(others), "UNSUPPORTED": len(others)}


def test_pktable_passes_as_a_reader() -> None:
    class Runner(InProcess):
        def __init__(self) -> None:
            self._program = Program()

    runner: Any = Runner()
    for case in CASES.values():
        assert read_case(runner, ARCHIVE, case) == ""


def test_a_row_that_differs_is_shown_where_the_archive_has_a_hash_alone() -> None:
    class Loses(InProcess):
        def __init__(self) -> None:
            self._program = Program()

        def ask(self, do: str, **fields: object) -> Any:
            answer = super().ask(do, **fields)
            return {"rows": sorted(answer["rows"])[1:]} if do == "read" else answer

    with pytest.raises(ReadFailed, match=r"missing \[\('8000', '6'\)\], surplus \[\]"):
        read_case(Loses(), ARCHIVE, CASES["containers"], OnDisk().rows)  # type: ignore[arg-type]


def test_a_case_of_which_no_read_is_supported_is_unsupported_by_what_the_reads_need() -> None:
    class Runner(InProcess):
        def __init__(self) -> None:
            self._program = Program()

        def supports(self) -> Supports:
            found = super().supports()
            return replace(found, features=found.features - needed)

    runner: Any = Runner()
    some = next(one for one in CASES.values() if any(read.features for read in one.reads))
    case = replace(some, reads=tuple(read for read in some.reads if read.features))
    needed = {feature for read in case.reads for feature in read.features}
    assert not needed & set(case.features)
    with pytest.raises(Unsupported, match=f"^{', '.join(sorted(needed))}$"):
        read_case(runner, ARCHIVE, case)


def test_a_faulty_reader_is_told_of_with_its_smallest_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = FAULTS[0]
    (tmp_path / "faulty.py").write_text(fault.source(), "utf-8")
    runner = ["--runner", f"{sys.executable} {tmp_path / 'faulty.py'}"]
    kept = tmp_path / "kept"
    code = run(["conform", *runner, "--case", fault.case, "--case", "pairs", "--keep", str(kept)])
    assert code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["PASS", "reader", "pairs"]
    assert lines[1].endswith("vector-crc: damage_is_refused [DVF-5, RD-11]")
    assert lines[3].endswith(str(kept / "reader-vector-crc.json"))
    found = json.loads((kept / "reader-vector-crc.json").read_text())
    assert found["answers"] == [{"refused": "the CRC-32 of a vector is another"}]


def test_the_archive_has_a_damage_of_each_thing_that_a_reader_verifies() -> None:
    damaged = {name.partition("-")[0] for name, case in CASES.items() if case.kind == NEGATIVE}
    assert damaged == {
        "vector",
        "index",
        "manifest",
        "data",
        "snapshot",
        "schema",
        "engine",
        "option",
        "key",
        "map",
        "variant",
    }
    assert all(case.clauses for case in CASES.values())
    assert sum(case.kind == POSITIVE for case in CASES.values()) > 30
