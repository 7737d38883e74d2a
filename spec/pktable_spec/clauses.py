"""The clauses as values: what each says, and the places that cite it.

A wheel has them in ``clauses.json``, which `setup.py` makes when it is built. In the repository they are read from
``spec/clauses`` and the sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

from pktable_spec.errors import InvalidRequestError

STORED: Final = Path(__file__).with_name("clauses.json")
REPOSITORY: Final = Path(__file__).parents[2]
HEAD: Final = re.compile(r"^(?:(?P<id>[A-Z]+-\d+) \((?P<force>[^)]*)\)|(?P<mark>#+) (?P<heading>.*))$", re.M)
SENTENCE: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`\"(])")


@dataclass(frozen=True)
class Clause:
    """A clause: its id and force, the headings above it, the requirement, and the sentences that explain it.

    ``places``: the files that cite it, by kind: tla, model, reference, tests.
    """

    id: str
    force: str
    topic: str
    sentence: str
    why: str
    places: Mapping[str, tuple[str, ...]]


@cache
def clauses() -> Mapping[str, Clause]:
    """Return all clauses by id, in order."""
    if not STORED.exists():
        return of_repository(REPOSITORY)
    found = json.loads(STORED.read_text("utf-8"))
    return {
        one["id"]: Clause(**{**one, "places": {kind: tuple(at) for kind, at in one["places"].items()}})
        for one in found
    }


def clause(id: str) -> Clause:
    """Return a clause. Raises InvalidRequestError, which names those that are spelled alike."""
    known = clauses()
    found = known.get(id.strip().upper())
    if found is None:
        like = ", ".join(get_close_matches(id.upper(), known, 3)) or "DV-6"
        raise InvalidRequestError(f"expected the id of a clause, such as {like}; found {id!r}")
    return found


@cache
def requirements() -> Mapping[str, str]:
    """Return the requirement of each clause by its id, which is faster than all of `clauses`."""
    if STORED.exists():
        return {id: one.sentence for id, one in clauses().items()}
    return {one.id: one.sentence for one in _of_texts(REPOSITORY)}


def of_repository(root: Path) -> dict[str, Clause]:
    """Return the clauses of the repository at ``root``, and the places in it that cite them."""
    from pktable_spec.trace import trace  # which needs the sources, as a wheel does not have them

    cited = trace(root).cited
    return {
        one.id: replace(one, places={kind: _files(at) for kind, at in sorted(cited[one.id].items())})
        for one in _of_texts(root)
    }


def _of_texts(root: Path) -> Iterator[Clause]:
    """Yield the clauses of the repository at ``root``, without places."""
    for path in sorted((root / "spec/clauses").glob("*.md")):
        yield from _of_file(path.read_text("utf-8"))


def as_json(found: Mapping[str, Clause]) -> str:
    """Return clauses as the text of ``clauses.json``."""
    return json.dumps([asdict(one) for one in found.values()], ensure_ascii=False, indent=0)


def _files(places: set[str]) -> tuple[str, ...]:
    return tuple(sorted({place.partition(":")[0] for place in places}))


def _of_file(text: str) -> Iterator[Clause]:
    """Yield the clauses of a file. A clause goes on to the next one or to the next heading."""
    headings: dict[int, str] = {}
    found = list(HEAD.finditer(text))
    for here, following in zip(found, [*found[1:], None], strict=True):
        if here["mark"]:
            headings = {depth: name for depth, name in headings.items() if depth < len(here["mark"])}
            headings[len(here["mark"])] = here["heading"]
            continue
        body = text[here.end() : following.start() if following else len(text)].strip().removeprefix(": ")
        first, _, tables = body.partition("\n\n")
        sentence, *why = SENTENCE.split(" ".join(first.split()), maxsplit=1)
        explained = "\n\n".join(part for part in (*why, tables.strip()) if part)
        topic = ": ".join(headings.values())
        yield Clause(here["id"], here["force"], topic, sentence, explained, {})
