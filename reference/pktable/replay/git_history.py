"""Read a git repository's first-parent history as a stream of changes, and its trees for comparison.

1. Every commit is compared with its first parent, and the oldest commit with an empty tree. Thus the history of a
   shallow clone begins with its whole oldest tree.
2. A rename is a delete and an add. A submodule is an entry of mode 160000; its blob is a commit and has no size.
3. A path that is not UTF-8 cannot be a STRING. It is written as ``raw:`` and its bytes, those outside ASCII as
   ``\\xNN``. A path that begins with ``raw:`` is written so, too, which keeps all paths distinct.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pktable_spec.errors import InvalidRequestError

RAW: Final = "raw:"
KINDS: Final = {"A": "+I", "M": "+U", "T": "+U", "D": "-D"}
SUBMODULE: Final = "160000"
CHUNK_BYTES: Final = 1 << 20
DIFF_OPTIONS: Final = (
    *("--stdin", "--always", "-r", "--root", "--raw", "-z"),
    *("--no-abbrev", "--no-renames", "--ignore-submodules=none"),
)

Entry = tuple[str, str]
"""The mode and the blob of a path."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """A change of a path by a commit: +I, +U or -D, and the new entry, None for a delete."""

    kind: str
    path: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, and the changes since its first parent. ``time``: in seconds since the epoch."""

    name: str
    time: int
    changes: tuple[PathChange, ...]


class GitHistory:
    """The first-parent history of ``HEAD``, oldest commit first.

    Raises InvalidRequestError if git is not installed, or there is no repository or no commit.
    """

    def __init__(self, repository: str | os.PathLike[str]) -> None:
        self._repository = Path(repository)
        self.shallow = self._run("rev-parse", "--is-shallow-repository").strip() == b"true"
        listing = self._run(
            "rev-list", "--first-parent", "--reverse", "--parents", "--timestamp", "HEAD", "--"
        )
        self._commits = [line.split() for line in listing.decode("ascii").splitlines()]

    @property
    def commit_count(self) -> int:
        """The number of commits."""
        return len(self._commits)

    def commits(self) -> Iterator[Commit]:
        """Yield every commit with its changes. Raises InvalidRequestError if git ends early."""
        # For a line "commit parent", diff-tree compares with that parent only, also for a merge.
        pairs = "".join(" ".join(names[1:3]) + "\n" for names in self._commits)
        with tempfile.TemporaryFile() as asked:
            asked.write(pairs.encode("ascii"))
            asked.seek(0)
            command = self._command("diff-tree", *DIFF_OPTIONS)
            with subprocess.Popen(
                command, stdin=asked, stdout=subprocess.PIPE, env=_environment()
            ) as process:
                assert process.stdout is not None
                parts = _parts(process.stdout)
                header, whole = next(parts, b""), True
                for time, name, *_ in self._commits:
                    whole = header.decode("ascii") == name
                    if not whole:
                        break
                    changes, header = _changes(parts)
                    yield Commit(name, int(time), changes)
        if process.returncode or header or not whole:
            raise InvalidRequestError(
                f"{self._repository}: git diff-tree did not return every commit of the history"
            )

    def tree(self, commit: str) -> Mapping[str, Entry]:
        """Return the entry of every path of a commit, as git lists them."""
        found = {}
        for part in self._run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            entry, _, path = part.partition(b"\t")
            mode, _, blob = entry.decode("ascii").split(" ")
            found[path_text(path)] = (mode, blob)
        return found

    def sizes(self, entries: Collection[Entry]) -> Mapping[str, int]:
        """Return the sizes in bytes of the blobs that the repository has."""
        blobs = sorted({blob for mode, blob in entries if mode != SUBMODULE})
        if not blobs:
            return {}
        asked = "".join(f"{blob}\n" for blob in blobs).encode("ascii")
        answers = self._run("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", stdin=asked)
        pairs = (line.split(" ") for line in answers.decode("ascii").splitlines())
        return {blob: int(size) for blob, size in pairs if size.isdigit()}

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "-C", str(self._repository), "--no-replace-objects", *arguments]

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        command = self._command(*arguments)
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=_environment())
        except FileNotFoundError:
            raise InvalidRequestError("git is not on PATH; install git") from None
        if done.returncode:
            reason = (
                done.stderr.decode("utf-8", "replace").strip().partition("\n")[0] or "git gives no reason"
            )
            raise InvalidRequestError(
                f"{self._repository}: expected a git repository with a commit: {reason}"
            )
        return done.stdout


def _environment() -> dict[str, str]:
    """Return the environment without the variables of a git hook, which name another repository."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    return {**kept, "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


def path_text(path: bytes) -> str:
    """Return a path as text. Different paths give different texts."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = RAW
    if not text.startswith(RAW):
        return text
    return RAW + path.replace(b"\\", b"\\\\").decode("ascii", "backslashreplace")


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the parts that end with a NUL."""
    rest = b""
    while chunk := stream.read(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def _changes(parts: Iterator[bytes]) -> tuple[tuple[PathChange, ...], bytes]:
    """Return the changes up to the next part that is not a change, and that part, empty at the end."""
    changes: list[PathChange] = []
    for part in parts:
        if not part.startswith(b":"):
            return tuple(changes), part
        _, mode, _, blob, status = part.decode("ascii").split(" ")
        kind = KINDS[status[0]]
        changes.append(PathChange(kind, path_text(next(parts)), None if kind == "-D" else (mode, blob)))
    return tuple(changes), b""
