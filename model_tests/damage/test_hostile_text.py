"""Text of a table is printed or quoted, and never obeyed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import Table
from pktable.cli.output import json_text
from pktable.cli.process import run
from pktable.cli.progress import tell
from pktable.store.file_io import LocalFileIO
from pktable.store.guard import GuardedStore, guarded
from pktable_spec.covers import covers

CONTROL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
HOSTILE_NAMES = ("a`; DROP TABLE x; --", "a'b", 'a"b', "a\\", "a.b", "${a}", "{0}", "a\nb", "%s", CONTROL)


@pytest.fixture(scope="module")
def odd_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "table"
    columns = {"k": "INT", **dict.fromkeys(HOSTILE_NAMES, "STRING")}
    table = Table.create(path, columns, primary_key=["k"], options={"deletion-vectors.enabled": "true"})
    for value in HOSTILE_NAMES[:2]:
        rows = {"k": pa.array(range(3), pa.int32()), **{name: [value] * 3 for name in HOSTILE_NAMES}}
        table.upsert(pa.table(rows))
    return path


@covers("SAFE-4")
@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_the_command_line_spells_control_characters_out(
    odd_names: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table.open(odd_names)
    rows = {"k": pa.array([9], pa.int32()), **{name: [CONTROL] for name in HOSTILE_NAMES}}
    table.upsert(pa.table(rows))
    for command in (["read"], ["files"], ["history"], ["count"]):
        assert run([*command, str(odd_names), "--format", output]) == 0
    run(["read", str(odd_names), "--where", f"`{CONTROL}` = 1 = nosuch"])
    run(["read", str(odd_names), "--tag", CONTROL])
    run(["check", str(odd_names)])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "owned" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    if output == "jsonl":
        line = next(one for one in captured.out.splitlines() if '"k": 9' in one)
        assert json.loads(line)[CONTROL] == CONTROL


@covers("SAFE-4")
def test_a_finding_with_control_characters_is_spelled_out(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path / "p=a/bucket-0" / CONTROL).write_bytes(b"")
    assert run(["check", str(path)]) == 0
    text = capsys.readouterr().out
    assert "owned" in text
    assert "\x1b" not in text
    assert "\x9b" not in text


@covers("SAFE-4")
def test_a_table_for_people_cuts_a_long_text_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "x" * 3_000_000  # to fold it would take seconds for each megabyte, and more for each that follows
    name = "n" * 100_000
    table = Table.create(
        tmp_path / "t", {"k": "INT", name: "STRING", "w": "ARRAY<STRING>"}, primary_key=["k"]
    )
    table.upsert([{"k": 1, name: long, "w": ["y" * 1000]}, {"k": 2, name: "x" * 1000, "w": None}])
    began = time.monotonic()
    assert run(["read", str(tmp_path / "t")]) == 0
    assert time.monotonic() - began < 5
    text = capsys.readouterr().out
    assert "2 values of more than 1000 characters cut at …; jsonl and csv print all of them" in text
    assert (text.count("x"), text.count("y")) == (1000 + 1000, 998)
    assert "…" in text
    run(["read", str(tmp_path / "t"), "--format", "csv"])
    assert long in capsys.readouterr().out


@covers("SAFE-4")
def test_a_note_with_control_characters_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"{CONTROL}: é\ttab\nline")
    assert capsys.readouterr().err == ("\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e: é\ttab\nline\n")


def test_json_with_controls_spelled_out_is_the_same_json() -> None:
    assert json.loads(json_text({CONTROL: "é 🦀"})) == {CONTROL: "é 🦀"}
    assert "é 🦀" in json_text("é 🦀")


@pytest.mark.versions
@covers("SAFE-4", "RD-6")
@pytest.mark.spark
def test_spark_takes_no_name_or_value_of_a_table_for_sql(odd_names: Path) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    table = Table.open(odd_names, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    expected = Table.open(odd_names).to_arrow().sort_by("k").to_pylist()
    assert table.to_arrow().sort_by("k").to_pylist() == expected
    for name in HOSTILE_NAMES:
        quoted = "`" + name.replace("`", "``") + "`"
        where = f"{quoted} = 'a\\'b' AND k < 3"
        assert table.to_arrow(where=where).num_rows == Table.open(odd_names).to_arrow(where=where).num_rows


@covers("SAFE-4")
def test_nothing_in_a_table_is_unpickled(path: Path) -> None:
    """Reading imports no unpickler of stored bytes: a program that replaces it by a failure reads all the same."""
    program = (
        "import pickle, sys\n"
        "from pktable import Table\n"
        "def no(*a, **k): raise SystemExit('unpickled')\n"
        "pickle.loads = pickle.load = pickle.Unpickler = no\n"
        "t = Table.open(sys.argv[1]); t.to_arrow(); t.to_arrow(fresh=True); t.check(); print('read')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert done.stdout.strip() == "read", done.stderr


def test_a_guarded_store_is_guarded_once(path: Path) -> None:
    store = guarded(LocalFileIO(), str(path))
    assert guarded(store, str(path)) is store
    assert isinstance(Table.open(path).catalog.context.store, GuardedStore)
