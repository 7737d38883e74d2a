"""The sources of Sphinx in one folder: the Markdown of the repository where it lies, and the pages that are made.

The front page becomes ``index.md``. An id of a clause becomes a link to its page, and a link to a file that is no page
a download of it; one to a folder leads to the README there, if it has one.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from docs.site.clause_pages import FOLDER

TEXTS: Final = (
    "*.md",
    "docs/*.md",
    *(f"{folder}/**/*.md" for folder in ("spec", "benchmarks", "model_tests", "reference")),
)
FRONT: Final = "index.md"
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^()\s]+)\)")
CODE: Final = re.compile(r"^```.*?^```|``[^`]+``|`[^`\n]+`|!?\[[^\]]*\]\([^()\s]*\)|^#[^\n]*$", re.M | re.S)

NAVIGATION: Final[Mapping[str, Sequence[str]]] = {
    FRONT: (
        "Guides <docs/README>",
        "Specification <spec/README>",
        "Scoreboard <scoreboard>",
        "Playground <playground>",
        "API <api/index>",
        "Measurements <benchmarks/README>",
        "Development <CONTRIBUTING>",
    ),
    "docs/README.md": ("docs/*", "Options of tables <spec/options>"),
    "spec/README.md": (
        "spec/clauses/*",
        "spec/examples/*",
        "spec/tla/README",
        "spec/tla/counterexamples/README",
    ),
    "benchmarks/README.md": ("benchmarks/results/*",),
    "CONTRIBUTING.md": (
        "reference/README",
        "model_tests/README",
        "model_tests/*/*",
        "model_tests/*/*/*",
        "CHANGES",
    ),
}
"""For each page those below it, in the order of the navigation."""


def build(root: Path, folder: Path, made: Mapping[str, str], ids: Iterable[str]) -> None:
    """Make ``folder`` again: all texts of the repository at ``root``, and the pages ``made`` by their paths.

    ``ids``: of the clauses that have pages.
    """
    shutil.rmtree(folder, ignore_errors=True)
    texts = {path.relative_to(root).as_posix() for pattern in TEXTS for path in root.glob(pattern)}
    known = frozenset(ids)
    for name in sorted(texts):
        text = (root / name).read_text("utf-8")
        target = renamed(name)
        _put(folder / target, finished(target, links(root, folder, name, text, texts), known))
    for name, text in made.items():
        _put(folder / name, finished(name, text, known))


def renamed(name: str) -> str:
    """Return the path of a text in the tree."""
    return FRONT if name == "README.md" else name


def finished(name: str, text: str, known: frozenset[str]) -> str:
    """Return a text with links to clauses, and with the pages below it."""
    below = NAVIGATION.get(name)
    text = with_clauses(text, known, name)
    return f"{text}\n{_toctree(name, below)}" if below else text


def _toctree(name: str, below: Sequence[str]) -> str:
    entries = "\n".join(re.sub(r"(?<=<)(?=\w)|^(?=[\w*]+/)|^(?=[A-Z]+$)", "/", entry) for entry in below)
    return f"\n```{{toctree}}\n:hidden:\n:glob:\n:maxdepth: 1\n\n{entries}\n```\n"


def with_clauses(text: str, known: frozenset[str], name: str = "") -> str:
    """Return a text in which each id of a clause is a link, but in code, links, headings and on its own page."""
    families = "|".join(sorted({id.partition("-")[0] for id in known}))
    mention = re.compile(rf"\b(?:{families})-\d+\b")

    def link(found: re.Match[str]) -> str:
        id = found[0]
        own = name == f"{FOLDER}/{id}.md"
        return f"[{id}](/{FOLDER}/{id}.md)" if id in known and not own else id

    parts, start = [], 0
    for code in CODE.finditer(text):
        parts += [mention.sub(link, text[start : code.start()]), code[0]]
        start = code.end()
    return "".join([*parts, mention.sub(link, text[start:])])


def links(root: Path, folder: Path, name: str, text: str, texts: set[str]) -> str:
    """Return a text with links inside the tree. Files that are no pages are copied into it."""

    def link(found: re.Match[str]) -> str:
        target, _, heading = found["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = PurePosixPath(os.path.normpath(PurePosixPath(name).parent / target)).as_posix()
        if (root / path).is_dir():
            path = f"{path}/README.md"
            if path not in texts:
                return found["text"]
        elif path not in texts:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, folder / path)
        end = f"#{heading}" if heading else ""
        return f"{found['image']}[{found['text']}](/{renamed(path)}{end})"

    return LINK.sub(link, text)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
