"""``python -m model_tests.interop.vectors [--check] [NAME ...]``: make again the vectors that the project ships.

Each case of `cases` becomes a folder of ``model_tests/vectors``, as its README.md says. ``--check`` makes
them elsewhere and compares what is expected of them with what is there: names of files and times differ.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from model_tests.interop.cases import CASES, Case, script_of
from model_tests.interop.environments import JVMS, TREE, set_up
from model_tests.interop.peers import Peer, running

VECTORS: Final = TREE / "model_tests" / "vectors"
MOST_ROWS: Final = 100
"""More rows than these are given by their number and digest."""


def as_stated(rows: Iterable[Sequence[str | None]]) -> dict[str, object]:
    """Return rows as a case file states them: sorted by their JSON, or if they are many, a digest of that."""
    lines = sorted(json.dumps(list(row), ensure_ascii=False, separators=(",", ":")) for row in rows)
    if len(lines) <= MOST_ROWS:
        return {"rows": [json.loads(line) for line in lines]}
    digest = hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()
    return {"row_count": len(lines), "sha256": digest}


def make(case: Case, folder: Path, peer: Peer) -> dict[str, object]:
    """Make the table of ``case`` in ``folder``; return what its case file says. Raises PeerError."""
    table = str(folder / "table")
    for command in script_of(case):
        arguments: dict[str, Any] = dict(command)
        peer.ask(arguments.pop("do"), table=table, **arguments)
    _without_litter(folder / "table")
    tags = [command["name"] for command in case.script if command["do"] == "tag"]
    snapshots: Mapping[str, Any] = peer.ask("read", table=table)
    return {
        "name": case.name,
        "what": case.what,
        "clauses": list(case.clauses),
        "written_by": f"Apache Paimon {case.writer.split()[1]} for Java",
        "made_by": f"python -m model_tests.interop.vectors {case.name}",
        "script": list(case.script),
        "snapshots": {id: as_stated(answer["ok"]) for id, answer in snapshots.items()},
        "tags": {name: as_stated(peer.ask("read tag", table=table, name=name)) for name in tags},
        "latest": as_stated(peer.ask("read latest", table=table)),
    }


def _without_litter(table: Path) -> None:
    """Remove the checksum files of Hadoop and directories that Paimon left empty."""
    for path in sorted(table.rglob("*"), reverse=True):
        if path.name.startswith(".") and path.suffix == ".crc":
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def as_text(case: Mapping[str, object]) -> str:
    """Return the text of a case file: one command and one row a line."""

    def lines(values: Iterable[object], indent: str) -> str:
        return ",\n".join(indent + json.dumps(value, ensure_ascii=False) for value in values)

    parts = []
    for name, value in case.items():
        if name == "script" and isinstance(value, list):
            parts.append(f' "script": [\n{lines(value, "  ")}\n ]')
        elif name in ("snapshots", "tags") and isinstance(value, dict):
            inner = ",\n".join(
                f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()
            )
            parts.append(f' "{name}": {{\n{inner}\n }}' if value else f' "{name}": {{}}')
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def check(peers: Mapping[str, Peer], cases: Iterable[Case]) -> list[str]:
    """Make the vectors of ``cases`` elsewhere; return what differs from those that are there."""
    wrong = []
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="pktable-vector-") as folder:
            made = json.loads(as_text(make(case, Path(folder), peers[case.writer])))
        if made != json.loads((VECTORS / case.name / "case.json").read_text()):
            wrong.append(f"{case.name}: {case.writer} makes another table of the script than the vector says")
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code: 0 fine, 1 something differs or is missing, 2 the caller's mistake."""
    names = [argument for argument in arguments if argument != "--check"]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        print(f"expected some of {', '.join(case.name for case in CASES)}; found {', '.join(unknown)}")
        return 2
    starts, missing = set_up(list(JVMS))
    for name, reason in missing.items():
        print(f"{name} cannot be set up: {reason}")
    if missing:
        return 1
    chosen = [case for case in CASES if not names or case.name in names]
    with running(starts) as peers:
        if "--check" in arguments:
            wrong = check(peers, chosen)
            print("\n".join(wrong) or f"{len(chosen)} vectors are as they are made")
            return 1 if wrong else 0
        for case in chosen:
            folder = VECTORS / case.name
            shutil.rmtree(folder, ignore_errors=True)
            made = make(case, folder, peers[case.writer])
            (folder / "case.json").write_text(as_text(made), encoding="utf-8")
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            print(f"{case.name}: {len(made['snapshots'])} snapshots, {size:,} bytes")  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
