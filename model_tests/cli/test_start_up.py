"""How the command line starts: what it imports, how it is interrupted, what it lists without importing."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pktable
import pyarrow as pa
import pytest
from pktable import Table
from pktable.cli import run

from model_tests.cli.test_cli import process

SLOW = ("numpy", "pandas", "pyarrow", "pyspark", "rich", "sqlglot")
KERNELS = (
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pyarrow.orc",
    "pyarrow.parquet",
)
ON_TABLES = (
    *(
        "alter",
        "archive",
        "branch",
        "changes",
        "check",
        "clean",
        "compact",
        "consumer",
        "count",
        "create",
        "delete",
        "describe",
        "expire",
        "expire-partitions",
        "expire-tags",
        "files",
    ),
    *("history", "read", "rescale", "rollback", "tag", "update", "write"),
)
COMMANDS = (*ON_TABLES, "clause", "conform", "dump", "ls", "options", "replay-git", "sql", "verify")

# Runs a command as `pktable.cli.main` does, and then prints the modules that are loaded.
SPY = """
import json, sys
from pktable.cli.process import run
code = run(sys.argv[1:], own_process=True)
print(json.dumps(sorted(sys.modules)))
sys.exit(code)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    options = {"deletion-vectors.enabled": "true"}
    table = Table.create(tmp_path / "table", "id INT, s STRING", primary_key=["id"], options=options)
    for text in "ab":
        table.upsert(pa.table({"id": pa.array([1, 2], pa.int32()), "s": [text, text]}))
    return tmp_path / "table"


def loaded(*arguments: object) -> set[str]:
    """Return the modules that a command loads in a process of its own."""
    running = process(*arguments, program=("-c", SPY))
    out, err = running.communicate()
    assert running.returncode == 0, err
    return set(json.loads(out.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["read", "--help"], ["write", "--help"], ["expire", "-h"]]
)
def test_help_and_version_load_no_slow_library(arguments: Sequence[str]) -> None:
    assert loaded(*arguments) & set(SLOW) == set()


def test_history_and_files_load_nothing_that_reads_or_writes_rows(table: Path) -> None:
    for command in ("history", "files"):
        modules = loaded(command, table, "--format", "jsonl")
        assert "pyarrow" in modules
        assert modules & {"pandas", "pyspark", "rich", "sqlglot", "pktable.table", *KERNELS} == set()


def test_no_command_of_this_process_loads_pandas_or_spark(table: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,s\n3,c\n")
    for arguments in (
        ["create", tmp_path / "other", "--columns", "id INT", "--primary-key", "id"],
        ["write", table, tmp_path / "rows.csv"],
        ["read", table],
        ["count", table],
        ["compact", table, "--full"],
        ["check", table],
        ["expire", table, "--retain-last", "1"],
    ):
        assert loaded(*arguments) & {"pandas", "pyspark", "sqlglot"} == set()


def test_only_a_condition_loads_the_parser_of_conditions(table: Path) -> None:
    assert "sqlglot" in loaded("read", table, "--where", "id = 1")


def test_the_package_loads_arrow_with_its_table_class() -> None:
    program = (
        "import sys, pktable; print('pyarrow' in sys.modules); pktable.Table; print('pyarrow' in sys.modules)"
    )
    assert process(program=("-c", program)).communicate()[0].split() == [b"False", b"True"]


def test_the_package_has_the_names_it_promises_and_no_others() -> None:
    assert set(pktable.__all__) <= set(dir(pktable))
    assert all(getattr(pktable, name) for name in pktable.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Tabel'"):
        pktable.Tabel  # type: ignore[attr-defined]  # noqa: B018


# Interrupts

# Interrupts the process when it imports the module named first.
INTERRUPTED = """
import os, signal, sys
class Interrupting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == interrupting:
            os.kill(os.getpid(), signal.SIGINT)
interrupting = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupting)
"""
START = "from pktable.cli import main; main()"

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="no signals")


@on_posix
@pytest.mark.parametrize(
    "module", ["typer", "pktable.cli.commands", "pyarrow", "numpy", "pktable.inspect", "rich.table"]
)
def test_an_interrupt_while_a_module_is_imported_is_one_line(table: Path, module: str) -> None:
    running = process(module, "files", table, program=("-c", INTERRUPTED + START))
    out, err = running.communicate()
    assert (running.returncode, out, err) == (130, b"", b"pktable: interrupted\n")


@on_posix
def test_the_module_is_interrupted_as_the_command_is(table: Path, tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    roots = (Path(module.__file__ or "").parents[1] for module in (pktable, sys.modules["pktable_spec"]))
    paths = os.pathsep.join(map(str, (tmp_path, *roots)))
    running = process("count", table, program=("-m", "pktable"), PYTHONPATH=paths)
    out, err = running.communicate()
    assert (running.returncode, out, err) == (130, b"", b"pktable: interrupted\n")
    assert process("count", table, program=("-m", "pktable")).communicate() == (b"2\n", b"")


@on_posix
def test_an_interrupt_that_is_to_be_ignored_is_ignored(table: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    running = process("typer", "count", table, program=("-c", INTERRUPTED + ignoring + START))
    assert running.communicate() == (b"2\n", b"")


def test_an_interrupt_of_a_command_is_one_line(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "count", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    assert run(["count", str(table)]) == 130
    assert capsys.readouterr().err == "pktable: interrupted\n"


# Help


def test_the_list_of_commands_is_whole_and_no_line_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in lines} == set(COMMANDS)
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_names_options_and_no_python_types(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"<\w+>|TEXT|INTEGER|BOOLEAN", out.replace("--comment TEXT", "")) == []
    assert "Usage: pktable" in out


@pytest.mark.parametrize("command", ON_TABLES)
def test_every_command_on_a_table_has_the_common_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert [option for option in ("--format", "--storage-option", "--quiet") if option not in out] == []


def test_a_wrong_option_points_to_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["count", "t", "--nosuch"]) == 2
    assert capsys.readouterr().err.endswith("(see pktable count --help)\n")
    assert run(["nosuch"]) == 2
    assert capsys.readouterr().err.endswith("(see pktable --help)\n")


def test_a_command_that_is_loaded_late_has_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help"]) == 0
    assert "--metadata-only" in capsys.readouterr().out


def test_a_mistyped_command_names_a_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chekc"]) == 2
    assert "Did you mean 'check'" in capsys.readouterr().err


# Completion


def completed(words: str) -> set[str]:
    shell = {"_PKTABLE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    running = process(**shell)
    out, err = running.communicate()
    assert (running.returncode, err) == (0, b"")
    return set(out.decode().split())


def test_commands_and_options_are_completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"compact", "count"} <= completed("pktable co")
    assert completed("pktable re") == {"read", "replay-git", "rescale"}
    assert "--metadata-only" in completed("pktable check --m")
    monkeypatch.setattr(
        "shellingham.detect_shell", lambda *_: ("bash", "/bin/bash")
    )  # wherever tests are started
    assert run(["--show-completion", "bash"]) == 0
    assert "_PKTABLE_COMPLETE" in capsys.readouterr().out
