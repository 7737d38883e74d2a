"""The archive of fixtures: an index, and the files of small tables whose rows are known.

`fixtures.zip` holds ``index.json`` and files. A case of the index is a table and reads of it. The table is what lies
below ``tables/BASE/`` of the archive, without the files that ``removed`` names, and with those of ``changed`` in their
place. A read has the arguments of the command ``read``, and in ``answers`` all that may come back: rows, a number of
rows with their hash, or a refusal. `docs/conform.md` has the form in full.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

from pktable_spec.errors import InvalidRequestError

FORMAT: Final = 1
INDEX: Final = "index.json"
SHIPPED: Final = "fixtures.zip"
SCHEMA: Final = "index.schema.json"
"""The JSON schema of the index, in this package and in the archive."""
POSITIVE, NEGATIVE, OPEN = "positive", "negative", "open"
MOST_ROWS: Final = 100  # that an answer gives one by one

Text: TypeAlias = "str | None"
Rows: TypeAlias = "list[list[Text]]"


@dataclass(frozen=True)
class Read:
    """A read of a case: its arguments, the features that it needs, and the answers that are right."""

    arguments: Mapping[str, Any]
    features: tuple[str, ...]
    answers: tuple[Mapping[str, Any], ...]

    @property
    def may_be_refused(self) -> bool:
        return any("refused" in answer for answer in self.answers)

    def takes(self, rows: Rows) -> bool:
        """Whether ``rows``, in any order, are one of the answers."""
        return any("refused" not in answer and _is(rows, answer) for answer in self.answers)


@dataclass(frozen=True)
class Case:
    """A table and reads of it. ``kind``: positive, negative (each read is refused) or open (several answers are right).

    ``changed``: for a file of the table the one of the archive that replaces it.
    """

    name: str
    kind: str
    what: str
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    base: str
    changed: Mapping[str, str]
    removed: tuple[str, ...]
    reads: tuple[Read, ...]


def _is(rows: Rows, answer: Mapping[str, Any]) -> bool:
    """Whether rows are those of an answer, or as many of these as its limit allows."""
    if "limit" not in answer:
        return stated(rows, answer) == answer
    found, those = (Counter(map(tuple, some)) for some in (rows, answer["rows"]))
    return found <= those and found.total() == min(answer["limit"], those.total())


def stated(rows: Rows, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return rows as an answer states them: sorted, or many of them as their number and a hash.

    ``like``: the answer whose form to take.
    """
    hashed = len(rows) > MOST_ROWS if like is None else "sha256" in like
    lines = sorted(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    if not hashed:
        return {"rows": [json.loads(line) for line in lines]}
    text = "".join(f"{line}\n" for line in lines)
    return {"row_count": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def difference(rows: Rows, answer: Mapping[str, Any]) -> str:
    """Return how rows differ from those of an answer."""
    if "rows" not in answer:
        return f"{len(rows)} rows, expected {answer['row_count']} with the SHA-256 {answer['sha256']}"
    found, expected = (Counter(map(tuple, some)) for some in (rows, answer["rows"]))
    missing, surplus = list((expected - found).elements()), list((found - expected).elements())
    return f"missing {_few(missing)}, surplus {_few(surplus)}"


def _few(rows: Sequence[tuple[Text, ...]]) -> str:
    shown = ", ".join(map(repr, rows[:3]))
    return f"[{shown}{', …' if len(rows) > 3 else ''}]" + (f" ({len(rows)} rows)" if len(rows) > 3 else "")


class Archive:
    """An archive of fixtures, by default the one that is shipped."""

    def __init__(self, path: Path | None = None) -> None:
        """Open an archive. Raises InvalidRequestError if it is none, or one of another format."""
        self._name = str(path or SHIPPED)
        try:
            self._zip = zipfile.ZipFile(path or (files("pktable_conform") / SHIPPED).open("rb"))
            index = json.loads(self._zip.read(INDEX))
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise InvalidRequestError(
                f"{self._name}: expected an archive of fixtures, found {error}"
            ) from None
        if not isinstance(index, dict) or index.get("format") != FORMAT:
            found = index.get("format") if isinstance(index, dict) else index
            raise InvalidRequestError(
                f"{self._name}: expected fixtures of format {FORMAT}, found {found!r:.80}; "
                "take the archive of this version, or the version of pktable that the archive is of"
            )
        try:
            self.version: str = index["version"]
            self.made_with: Mapping[str, str] = index["made_with"]
            self.cases = tuple(_case(one) for one in index["cases"])
            self.histories: Mapping[str, Any] = index["histories"]
        except (KeyError, TypeError) as error:
            raise InvalidRequestError(
                f"{self._name}: {INDEX}: expected the field {error}, found none"
            ) from None
        self._members: dict[str, list[str]] = {}
        for name in self._zip.namelist():
            parts = name.split("/", 2)
            if parts[0] == "tables" and len(parts) == 3:
                self._members.setdefault(parts[1], []).append(parts[2])

    def close(self) -> None:
        self._zip.close()

    def unpack(self, case: Case, folder: Path) -> None:
        """Put the table of a case into ``folder``, which is there and empty."""
        for name, data in self._table(case):
            relative = PurePosixPath(name)
            if relative.is_absolute() or ".." in relative.parts:
                raise InvalidRequestError(
                    f"{self._name}: {case.name}: expected a relative path, found {name!r}"
                )
            path = folder.joinpath(*relative.parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def _table(self, case: Case) -> Iterator[tuple[str, bytes]]:
        if case.base not in self._members:
            raise InvalidRequestError(
                f"{self._name}: {case.name}: expected the table {case.base}, found none"
            )
        for name in self._members[case.base]:
            if name not in case.removed and name not in case.changed:
                yield name, self._zip.read(f"tables/{case.base}/{name}")
        for name, member in case.changed.items():
            yield name, self._zip.read(member)


def _case(found: Mapping[str, Any]) -> Case:
    """Return a case of the index. Raises KeyError for a field that is missing."""
    reads = tuple(
        Read(one.get("arguments", {}), tuple(one.get("features", ())), tuple(one["answers"]))
        for one in found["reads"]
    )
    return Case(
        found["name"],
        found["kind"],
        found["what"],
        tuple(found["clauses"]),
        tuple(found["features"]),
        found["base"],
        found.get("changed", {}),
        tuple(found.get("removed", ())),
        reads,
    )
