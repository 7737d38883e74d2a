"""Make the archive of fixtures. ``python -m model_tests.conform.fixtures`` writes it, ``--check`` compares.

Names and times are counted, so that the same code makes the same bytes. Paimon wrote the tables of
`model_tests/vectors`, and pktable writes the tables of `MODULES` and `special_tables`.
Damaged ones are copies of these with one file changed; `damaged` has them.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable_conform import archive, covering
from pktable_conform.archive import INDEX, NEGATIVE, OPEN, POSITIVE, SCHEMA, stated
from pktable_spec.errors import InvalidRequestError

from model_tests import corpus
from model_tests.conform import (
    damaged,
    engine_tables,
    inserts_alone,
    newer_tables,
    run_tables,
    snapshot_tables,
    tables,
)
from model_tests.conform.damages import Damage
from model_tests.conform.special_tables import SPECIAL
from model_tests.conform.tables import Made
from model_tests.interop.plain import rows_of
from model_tests.real_data import VECTORS

VERSION: Final = "6"
MODULES: Final = (tables, engine_tables, newer_tables, run_tables, snapshot_tables)
STORED: Final = Path(archive.__file__).parent / archive.SHIPPED
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file holds
PORTABLE: Final = {"write", "compact", "reopen", "read"}


@dataclass
class Making:
    """An archive that is being made: the cases of its index, and its files by name."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def add_table(self, name: str, root: Path) -> None:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self.files[f"tables/{name}/{path.relative_to(root).as_posix()}"] = path.read_bytes()

    def add(self, name: str, kind: str, what: str, clauses: Sequence[str], **fields: Any) -> None:
        found = {"name": name, "kind": kind, "what": what, "clauses": list(clauses), **fields}
        self.cases.append({key: value for key, value in found.items() if value or key == "features"})

    def index(self) -> dict[str, Any]:
        return {
            "format": archive.FORMAT,
            "version": VERSION,
            "made_with": {"pyarrow": pa.__version__},
            "cases": self.cases,
            "histories": dict(histories()),
        }


def made() -> dict[str, bytes]:
    """Return the files of the archive by name, the index first."""
    making = Making()
    of_paimon(making)
    with tempfile.TemporaryDirectory(prefix="pktable-fixtures-") as folder:
        for one in (*(one for module in MODULES for one in module.TABLES), *SPECIAL):
            root = Path(folder) / one.name
            with tables.counted():
                one.make(root)
            making.add_table(one.name, root)
            making.add(
                one.name,
                POSITIVE,
                one.what,
                one.clauses,
                features=list(one.features),
                base=one.name,
                reads=list(reads_of(Table.open(root), one)),
            )
        for damage in (*damaged.DAMAGES, *damaged.HARMLESS):
            add_damaged(making, damage, Path(folder))
    index = json.dumps(making.index(), ensure_ascii=False, indent=1).encode()
    return {INDEX: index, SCHEMA: STORED.with_name(SCHEMA).read_bytes(), **making.files}


def of_paimon(making: Making) -> None:
    """Add the vectors that Paimon wrote, with the rows that it reads."""
    for path in sorted(VECTORS.glob("*/case.json")):
        case = json.loads(path.read_text("utf-8"))
        making.add_table(case["name"], path.parent / "table")
        reads: list[dict[str, Any]] = [{"answers": [case["latest"]]}]
        for kind, feature in (("snapshot", "snapshots"), ("tag", "tags")):
            for name, rows in case[f"{kind}s"].items():
                arguments = {kind: int(name) if kind == "snapshot" else name}
                reads.append({"arguments": arguments, "features": [feature], "answers": [rows]})
        making.add(
            case["name"],
            POSITIVE,
            f"{case['what']} (written by {case['written_by']})",
            case["clauses"],
            features=features_of(case["script"]),
            base=case["name"],
            reads=reads,
        )


def features_of(script: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the features that a reader of the table of a script needs."""
    options = script[0]["options"]
    has_vectors = options["deletion-vectors.enabled"] == "true"
    found = ["append" if not script[0]["primary_key"] else "keys" if has_vectors else "merge on read"]
    changed = [change for command in script for change in command.get("changes", ())]
    if "bitmap64" in str(options) or "bitmap64" in str(changed):
        found.append("vectors of 64 bits")
    if any(change[0] != "set option" for change in changed):
        found.append("evolution")
    if "manifest.format" in options:
        found += ["manifest formats", *(["orc"] if options["manifest.format"] == "orc" else [])]
    return found


FEATURE_OF: Final = {"snapshot": "snapshots", "tag": "tags", "branch": "branches", "timestamp": "times"}
"""What an argument of a read needs, if that has another name."""


def reads_of(table: Table, one: Made) -> Iterator[dict[str, Any]]:
    """Yield reads of the latest snapshot, of each snapshot by id, and those that are asked for."""
    snapshots = table.snapshots() if one.by_id else []
    everything: list[Mapping[str, Any]] = [{}, *({"snapshot": each.id} for each in snapshots)]
    for arguments in (each for each in (*everything, *one.asked) if each not in one.refused):
        limit = arguments.get("limit")
        rows = tables.read(table, {name: value for name, value in arguments.items() if name != "limit"})
        yield _read(arguments, tables.answers(rows, limit))
    for arguments in one.refused:
        try:
            tables.read(table, arguments)
        except InvalidRequestError as refusal:
            yield _read(arguments, [{"refused": str(refusal).partition("; ")[0]}])
        else:
            raise AssertionError(f"{one.name}: {arguments} is not refused")


def _read(arguments: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    features = [FEATURE_OF.get(name, name) for name in arguments]
    fields = {"arguments": dict(arguments), "features": features, "answers": list(answers)}
    return {name: value for name, value in fields.items() if value}


def add_damaged(making: Making, damage: Damage, folder: Path) -> None:
    """Add a table with one damage: the files in which it differs from the sound one."""
    before = {name: data for name, data in making.files.items() if name.startswith(f"tables/{damage.base}/")}
    root = folder / "damaged" / damage.name
    start = len(f"tables/{damage.base}/")
    for name, data in before.items():
        path = root / name[start:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    latest = stated(rows_of(Table.open(root).to_arrow()))
    damage.do(root)
    after = {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    changed = {
        name: f"changed/{damage.name}/{name}"
        for name, data in sorted(after.items())
        if before.get(f"tables/{damage.base}/{name}") != data
    }
    for name, member in changed.items():
        making.files[member] = after[name]
    refusal = {"refused": damage.what}
    kind = POSITIVE if damage.harmless else OPEN if damage.may_be_read else NEGATIVE
    answers = {POSITIVE: [latest], OPEN: [refusal, latest], NEGATIVE: [refusal]}
    making.add(
        damage.name,
        kind,
        damage.what,
        damage.clauses,
        features=list(damage.features),
        base=damage.base,
        changed=changed,
        removed=sorted(name[start:] for name in before if name[start:] not in after),
        reads=[{"answers": answers[kind]}],
    )


def histories() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the stored histories that a writer of the protocol can do whole, and the ones that are made."""
    for name in corpus.names():
        history = corpus.load(name)
        if {one.do for one in history.operations} <= PORTABLE:
            yield name, json.loads(history.to_json())
    for name, history in (*inserts_alone.histories(), *covering.histories()):
        yield name, json.loads(history.to_json())


def as_zip(files: Mapping[str, bytes]) -> bytes:
    """Return files as an archive that depends on nothing else."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, data in files.items():
            out.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpacked(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as found:
        return {name: found.read(name) for name in found.namelist()}


def main(arguments: Sequence[str]) -> int:
    """Write the archive, or with ``--check`` compare it; return 1 if it is not as it is made."""
    files = made()
    if "--check" in arguments:
        before = unpacked(STORED)
        differing = sorted(n for n in {*files, *before} if files.get(n) != before.get(n))
        print("\n".join(differing) or f"{len(files)} files are as they are made")
        return 1 if differing else 0
    STORED.write_bytes(as_zip(files))
    print(
        f"{len(json.loads(files[INDEX])['cases'])} cases, {len(files)} files, {STORED.stat().st_size:,} bytes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
