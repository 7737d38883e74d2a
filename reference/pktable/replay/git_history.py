"""A git repository's first-parent history as a stream of changes, and its trees to check against.

Every commit is compared with its first parent, the first one with nothing: so the history of a shallow
clone begins with all of its oldest tree. A rename is a delete and an add. A submodule is an entry of mode
160000, whose blob is a commit and which has no size.

The subtle case is a path that is not UTF-8, which no STRING can hold: it is written as ``raw:`` and its
bytes, those beyond ASCII as ``\\xNN``; so is a path that begins with ``raw:``, so that no two paths meet.
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
"""Mode and blob of a path."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """What a commit did to a path (+I, +U or -D) and, unless it deleted it, the entry after that."""

    kind: str
    path: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit and its changes against its first parent. ``time``: seconds since the epoch."""

    name: str
    time: int
    changes: tuple[PathChange, ...]


class GitHistory:
    """The first-parent history of ``HEAD``, oldest commit first.

    Raises InvalidRequestError if there is no git, no repository or no commit.
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
        return len(self._commits)

    def commits(self) -> Iterator[Commit]:
        """Yield every commit with its changes."""
        # A line "commit parent" makes diff-tree compare with that parent only, a merge like any other.
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
                header = next(parts, b"")
                for time, name, *_ in self._commits:
                    if header.decode("ascii") != name:
                        break
                    changes, header = _changes(parts)
                    yield Commit(name, int(time), changes)
        if process.returncode or header:
            raise InvalidRequestError(
                f"{self._repository}: git diff-tree did not give every commit of the history"
            )

    def tree(self, commit: str) -> Mapping[str, Entry]:
        """Return every path of a commit and its entry, as git lists them."""
        found = {}
        for part in self._run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            entry, _, path = part.partition(b"\t")
            mode, _, blob = entry.decode("ascii").split(" ")
            found[path_text(path)] = (mode, blob)
        return found

    def sizes(self, entries: Collection[Entry]) -> Mapping[str, int]:
        """Return the sizes in bytes of those blobs that are here."""
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
            raise InvalidRequestError("git: expected it on PATH, found none; install git") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0] or "no reason given"
            raise InvalidRequestError(f"{self._repository}: expected a git repository with a commit: {said}")
        return done.stdout


def _environment() -> dict[str, str]:
    """Return the environment without what a git hook sets, which would name another repository."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    return {**kept, "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


def path_text(path: bytes) -> str:
    """Return a path as text, a different one for every path."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = RAW
    if not text.startswith(RAW):
        return text
    return RAW + path.replace(b"\\", b"\\\\").decode("ascii", "backslashreplace")


def _parts(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what stands before each NUL."""
    rest = b""
    while chunk := stream.read(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def _changes(parts: Iterator[bytes]) -> tuple[tuple[PathChange, ...], bytes]:
    """Return the changes up to the next part that is none, and that part, empty at the end."""
    changes: list[PathChange] = []
    for part in parts:
        if not part.startswith(b":"):
            return tuple(changes), part
        _, mode, _, blob, status = part.decode("ascii").split(" ")
        kind = KINDS[status[0]]
        changes.append(PathChange(kind, path_text(next(parts)), None if kind == "-D" else (mode, blob)))
    return tuple(changes), b""
