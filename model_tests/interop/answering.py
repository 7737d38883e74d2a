"""The side of a Python peer: read a command a line, answer a line, live on after an error.

Runs in the environment of the peer, with the standard library alone. The output of libraries goes to
standard error, so that it is never taken for an answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

Rows = list[list["str | None"]]


def answer_commands(commands: Mapping[str, Callable[[Mapping[str, Any]], object]]) -> None:
    """Carry out commands by name until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        command = json.loads(line)
        answers.write(json.dumps(outcome(partial(_carry_out, commands, command))) + "\n")
        answers.flush()


def _carry_out(
    commands: Mapping[str, Callable[[Mapping[str, Any]], object]], command: Mapping[str, Any]
) -> object:
    return commands[command["do"]](command)


def outcome(work: Callable[[], object]) -> dict[str, object]:
    """Return ``{"ok": value}`` or ``{"error": text}`` with the chain of causes."""
    try:
        return {"ok": work()}
    except BaseException as failure:  # Rust's panics are no Exceptions
        chain: list[str] = []
        cause: BaseException | None = failure
        while cause is not None:
            chain.append(f"{type(cause).__name__}: {cause}")
            cause = cause.__cause__ or cause.__context__
        return {"error": " <- ".join(chain)}


def retained_snapshots(table: str) -> Iterable[int]:
    """Return the ids of the snapshot files of the table in the directory ``table``."""
    return sorted(
        int(path.name.removeprefix("snapshot-")) for path in Path(table).glob("snapshot/snapshot-*")
    )


METHODS = {
    "=": "equal",
    "<>": "notEqual",
    "<": "lessThan",
    "<=": "lessOrEqual",
    ">": "greaterThan",
    ">=": "greaterOrEqual",
}
