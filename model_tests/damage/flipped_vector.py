"""What readers do when a bit of a stored deletion vector flips: ours refuses, the peers return wrong rows.

``python -m model_tests.damage.flipped_vector PYTHON`` (of an environment with pypaimon), or with ``--jvm CLASSPATH``
the Paimon JVM, driven by a class ``Drv`` on that path that takes a warehouse and a script of commands.

A table of ten rows has a vector that deletes keys 3 and 5. One bit of the bitmap in the index file is flipped, so
that it says 2 and 5; its length, its magic and its CRC-32 stay. The CRC no longer fits, and only a reader that
computes it can know: DVF-5. A peer that does not brings key 3 back and loses key 2, and says nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pktable import CorruptFileError, Table

ROWS: Final = 10
DELETED: Final = (3, 5)
FLIPPED: Final = (2, 5)
BACK: Final = list(set(range(ROWS)) - set(FLIPPED))

PYPAIMON: Final = """
import json, sys
from importlib.metadata import version
from pypaimon import CatalogFactory
table = CatalogFactory.create({"warehouse": sys.argv[1]}).get_table("d.t")
builder = table.new_read_builder()
rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
print(json.dumps({"version": version("pypaimon"), "keys": sorted(rows.column("k").to_pylist())}))
"""

ReadKeys = Callable[[Path], tuple[str, list[int]]]
"""Reads the keys of table d.t of a warehouse; says also who it is."""


@dataclass(frozen=True)
class Proof:
    """What a peer and our reader returned. ``ours``: the message of our error."""

    peer: str
    before: list[int]
    after: list[int]
    ours: str

    @property
    def peer_was_misled(self) -> bool:
        return self.after == BACK

    def __str__(self) -> str:
        return (
            f"{self.peer}\n  the vector whole:  keys {self.before}\n  one bit flipped:   keys {self.after}\n"
            f"  ours:              {self.ours}"
        )


def prove(read_keys: ReadKeys) -> Proof:
    """Flip the bit, and ask the peer and our reader. Raises AssertionError if ours is misled, or nothing was right."""
    with tempfile.TemporaryDirectory(prefix="pktable-") as folder:
        warehouse = Path(folder)
        path = warehouse / "d.db/t"
        index = _table_with_a_vector(path)
        whole = [key for key in range(ROWS) if key not in DELETED]
        peer, before = read_keys(warehouse)
        assert before == whole, f"{peer} reads {before} of the whole table"
        data = index.read_bytes()
        old, new = (b"".join(one.to_bytes(2, "little") for one in some) for some in (DELETED, FLIPPED))
        assert data.count(old) == 1, "the bitmap is an array of 16-bit numbers"
        index.write_bytes(data.replace(old, new))
        _, after = read_keys(warehouse)
        try:
            found = Table.open(path).to_arrow().column("k").to_pylist()
        except CorruptFileError as error:
            return Proof(peer, before, after, str(error).replace(str(path), "t"))
        raise AssertionError(f"our reader returned {sorted(found)}")


def _table_with_a_vector(path: Path) -> Path:
    """Make the table; return its one index file."""
    table = Table.create(
        path,
        "k INT, v STRING",
        primary_key=["k"],
        options={"deletion-vectors.enabled": "true", "bucket": "1"},
    )
    keys = pa.array(range(ROWS), pa.int32())
    table.upsert(pa.table({"k": keys, "v": [f"long enough to be kept apart {key}" for key in range(ROWS)]}))
    table.delete(pa.table({"k": pa.array(DELETED, pa.int32())}))
    (index,) = path.glob("index/*")
    return index


def pypaimon(python: str) -> ReadKeys:
    """Return the reader of pypaimon in the environment of an interpreter."""

    def read(warehouse: Path) -> tuple[str, list[int]]:
        told = _told([python, "-c", PYPAIMON, str(warehouse)])
        answer = json.loads(told.splitlines()[-1])
        return f"pypaimon {answer['version']}", answer["keys"]

    return read


def jvm(classpath: str) -> ReadKeys:
    """Return the reader of the Paimon JVM, by its driver class."""

    def read(warehouse: Path) -> tuple[str, list[int]]:
        script = warehouse / "script"
        script.write_text("read d.t\n")
        told = _told(["java", "-cp", classpath, "Drv", warehouse.as_uri(), str(script)])
        return "Paimon JVM", sorted(int(key) for key in re.findall(r"\+[IU]\[(\d+),", told))

    return read


def _told(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    """Print the proof; return 0 if the peer was misled and we were not, 1 if the peer was not."""
    if len(arguments) == 2 and arguments[0] == "--jvm":
        proof = prove(jvm(arguments[1]))
    elif len(arguments) == 1:
        proof = prove(pypaimon(arguments[0]))
    else:
        print("flipped_vector: expected PYTHON, or --jvm CLASSPATH", file=sys.stderr)
        return 2
    print(proof)
    return 0 if proof.peer_was_misled else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
