"""Fuzz every decoder, guided by coverage: ``python -m model_tests.damage.fuzz [SECONDS [-seed=N]]``.

A decoder takes bytes that anyone may have written. Whatever they are, it returns or raises CorruptFileError; it
neither hangs nor takes memory without bound. atheris (libFuzzer) draws the bytes, beginning with those of real
files. Checksums are made right and blocks are not compressed, so that the bytes reach the code behind them. The first
byte of an input chooses the target.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pktable_spec.errors import CorruptFileError

HAS_ATHERIS: Final = importlib.util.find_spec("atheris") is not None
FUZZES: Final = HAS_ATHERIS and __name__ == "__main__"
"""Whether the modules of pktable are to say which of their branches run. That makes them slow."""

if HAS_ATHERIS:
    import atheris

with atheris.instrument_imports(include=["pktable", "pktable_hudi"]) if FUZZES else contextlib.nullcontext():
    from model_tests.damage.fuzz_seeds import seeds
    from model_tests.damage.fuzz_targets import TARGETS

SECONDS: Final = 60
LONGEST_INPUT: Final = 1 << 13
MOST_MEMORY_MB: Final = 2048
SLOWEST_SECONDS: Final = 10


def run_one(data: bytes) -> None:
    """Give an input to its target; what is no CorruptFileError passes."""
    if not data:
        return
    target = list(TARGETS.values())[data[0] % len(TARGETS)]
    with contextlib.suppress(CorruptFileError):
        target(data[1:])


def main(arguments: Sequence[str]) -> int:
    """Fuzz for some seconds in a process of its own; return 0 if nothing was found, 1 otherwise, 2 without atheris."""
    if not HAS_ATHERIS:
        print(
            "fuzz: expected atheris, found none; pip install atheris (Linux, Python 3.10 to 3.13)",
            file=sys.stderr,
        )
        return 2
    if arguments and arguments[0] == "--here":
        atheris.Setup([sys.argv[0], *arguments[1:]], run_one)
        atheris.Fuzz()
    seconds = int(arguments[0]) if arguments else SECONDS
    with tempfile.TemporaryDirectory(prefix="pktable-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        names = list(TARGETS)
        for number, (name, data) in enumerate(seeds()):
            (corpus / f"seed-{number}").write_bytes(bytes([names.index(name)]) + data)
        done = subprocess.run(
            [
                sys.executable, "-m", "model_tests.damage.fuzz", "--here", str(corpus),
                f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", f"-rss_limit_mb={MOST_MEMORY_MB}",
                f"-timeout={SLOWEST_SECONDS}", "-print_final_stats=1", f"-artifact_prefix={folder}/", *arguments[1:],
            ],
            capture_output=True,
            text=True,
            errors="replace",
        )  # fmt: skip
        statistics = [line for line in done.stderr.splitlines() if "stat::" in line]
        print("\n".join(statistics[:4]))
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-4000:])
            for path in sorted(Path(folder).glob("*-*")):
                if path.is_file():
                    data = path.read_bytes()
                    print(f"input of target {names[data[0] % len(names)]!r}: {data[1:].hex()}")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
