"""Find words that the glossary has another word for, and clauses that are not one plain requirement.

1. `passages` takes the prose out of a file: of Markdown the text without code, of Python the docstrings, the
   comments, and the string literals that contain a space, of TLA+ the comments. Names in code are not prose.
2. `banned_words` looks in that prose for the words of `BANNED`, each with the word to use instead.
3. `clauses` reads the clauses, and `defects` says what keeps one from being a single sentence with MUST, SHOULD or MAY
   that begins with its subject.
4. `unclear` looks in prose for sentences that are too long, or have too many relative clauses.
5. `glossary` reads the table of terms in ``spec/clauses/00-conventions.md``.

``python -m model_tests.meta.wording PATH…`` lists the banned words and the unclear sentences below any paths, also
those not in `CLEAN` or `FORMED` yet.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

SPECIFICATION: Final = (
    *(
        "__init__",
        "covers",
        "errors",
        "harmless_options",
        "interface",
        "option_table",
        "option_values",
        "options",
    ),
    *("options_page", "trace", "vocabulary"),
)

REFERENCE: Final = (
    "bucket",
    "catalog",
    "change_scan.py",
    "check",
    "cli",
    "context.py",
    "datafile",
    "format",
    "ingest",
    "inspect.py",
    "kinds",
    "lsm",
    "merge",
    "predicate",
    "replay.py",
    "retry.py",
    "run",
    "scan.py",
    "staged.py",
    "staged_write.py",
    "staging.py",
    "store",
    "table.py",
    "table_reads.py",
    "table_upkeep.py",
    "table_writes.py",
)
TESTS: Final = (
    *(
        "README.md",
        "backends",
        "check",
        "cli",
        "corpus",
        "damage",
        "examples",
        "format",
        "histories",
        "hudi",
        "interop",
        "mutants",
    ),
    *(
        "oracle",
        "predicate",
        "processes",
        "refinement",
        "replay",
        "seams",
        "table",
        "tlc",
        "vectors",
        "verify",
    ),
)

CLEAN: Final = (
    "spec/clauses",
    "spec/examples",
    "spec/README.md",
    "spec/options.md",
    "spec/tla",
    "spec/pktable_spec/model/merge.py",
    *(f"spec/pktable_spec/{name}.py" for name in SPECIFICATION),
    "README.md",
    "CHANGES.md",
    "docs",
    *(f"reference/pktable/{name}" for name in REFERENCE),
    "reference/pktable_hudi",
    *(f"model_tests/{name}" for name in TESTS),
    "model_tests/tlc/test_types.py",
)
"""Folders and files without a banned word. Add one when it is clean; take none away."""

FORMED: Final = (
    "README.md",
    "CHANGES.md",
    "CONTRIBUTING.md",
    "docs",
    "reference",
    "spec/clauses",
    "spec/README.md",
    "spec/tla",
    *(f"spec/pktable_spec/{name}.py" for name in SPECIFICATION),
)
"""Folders and files whose sentences are short and simple enough. Add one when it is so; take none away."""

GLOSSARY: Final = "spec/clauses/00-conventions.md"


@dataclass(frozen=True)
class Banned:
    """A pattern of words, the words to use instead, and the folders in which it is allowed all the same."""

    pattern: str
    instead: str
    allowed: tuple[str, ...] = ()


BANNED: Final = (
    Banned(r"anew", "again; re-planned, renumbered, re-read"),
    Banned(r"told", "reported, given; 'told apart' is 'distinguished'"),
    Banned(r"at hand", "cached"),
    Banned(r"(?:let|lets|letting) go of", "remove, expire, release"),
    Banned(r"of then", "at that time"),
    Banned(r"beside", "next to; in addition to"),
    Banned(r"meanwhile", "in the meantime, concurrently"),
    Banned(r"plain(?:ly)? reads?|reads? plainly|DV reads?", "default read"),
    Banned(r"ind(?:ex|exes|ices) of vectors|vector ind(?:ex|exes|ices)", "DV index file"),
    Banned(
        r"(?<!check\s)(?<!question\s)(?<!quotation\s)(?<!\.)(?:un)?mark(?:s|ed|ing)?",
        "delete, deleted positions",
    ),
    Banned(
        r"(?:un)?absorb(?:s|ed|ing)?", "visible after compaction", ("spec/tla", "spec/pktable_spec/model")
    ),
)

SENTENCE_START: Final = re.compile(r"(?:^|(?<=[.!?:] )|(?<=[.!?:]\n))(?:What|Of which|Whoever)\b[^.?!]*[.!]")
"""A sentence whose subject is a clause; a question is none."""


@dataclass(frozen=True)
class Passage:
    """Prose from one place of a file; line breaks are those of the file."""

    line: int
    text: str


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a Markdown, TLA+ or Python file. Raises SyntaxError for Python that is none."""
    source = path.read_text("utf-8")
    yield from {".md": _of_markdown, ".tla": _of_tla}.get(path.suffix, _of_python)(source)


def _of_markdown(source: str) -> Iterator[Passage]:
    """Yield the paragraphs, code blanked out, headings left out."""
    source = re.sub(r"^```.*?^```", _blank, source, flags=re.M | re.S)
    source = re.sub(r"^#.*$", _blank, _without_code(source), flags=re.M)
    yield from _paragraphs(1, source)


def _of_tla(source: str) -> Iterator[Passage]:
    """Yield the comments, everything else blanked out; lines of ``\\*`` that follow each other are one text."""
    comments = "|".join((r"\(\*.*?\*\)", r"\\\*[^\n]*"))
    kept = re.sub(rf"({comments})|[^\n]", lambda found: found[1] or " ", source, flags=re.S)
    yield from _paragraphs(1, _without_code(re.sub(r"\\\*|\(\*|\*\)", "  ", kept)))


def _of_python(source: str) -> Iterator[Passage]:
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings:
                yield from _paragraphs(node.lineno, _without_code(node.value))
            elif " " in node.value.strip():
                yield Passage(node.lineno, _without_code(node.value))
    yield from _comments(source)


def _comments(source: str) -> Iterator[Passage]:
    """Yield the comments; those on lines that follow each other are one text."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield Passage(last - len(block) + 1, _without_code("\n".join(block)))
                block = []
            block.append(token.string.lstrip("#: "))
            last = token.start[0]
    if block:
        yield Passage(last - len(block) + 1, _without_code("\n".join(block)))


def _paragraphs(line: int, text: str) -> Iterator[Passage]:
    for part in re.finditer(r"(?:^.*\S.*\n?)+", text, flags=re.M):
        lines = [one.strip() for one in part[0].rstrip("\n").split("\n")]
        yield Passage(line + text[: part.start()].count("\n"), "\n".join(lines))


def _without_code(text: str) -> str:
    return re.sub(r"``[^`]+``|`[^`\n]+`|\]\([^)\s]*\)|<?https?://\S+", _blank, text)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "_", found[0])


def banned_words(path: Path, name: str) -> Iterator[str]:
    """Yield a line of text for each banned word in the file ``path``, which is called ``name`` in messages."""
    for passage in passages(path):
        for banned in BANNED:
            if any(name.startswith(folder) for folder in banned.allowed):
                continue
            pattern = r"\b(?:" + banned.pattern.replace(" ", r"\s+") + r")\b"
            for found in re.finditer(pattern, passage.text, flags=re.I):
                line = passage.line + passage.text[: found.start()].count("\n")
                yield f"{name}:{line}: {' '.join(found[0].split())!r}: use instead: {banned.instead}"
        for found in SENTENCE_START.finditer(passage.text):
            line = passage.line + passage.text[: found.start()].count("\n")
            start = " ".join(found[0].split()[:5])
            yield f"{name}:{line}: {start!r}: begin the sentence with its subject"


SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n(?=(?:\*|-|\d+\.|\|) )")
"""The space between two sentences, list items or rows of a table."""
RELATIVE: Final = re.compile(r"\b(?:that|where|which|who|whom|whose)\b")
MOST_RELATIVE: Final = 2


def unclear(path: Path, name: str) -> Iterator[str]:
    """Yield a line of text for each sentence of ``path`` that has to be read twice; ``name``: for messages.

    Text in parentheses and rows of tables are left out.
    """
    for passage in passages(path):
        if not re.search(r"[.!?:]$", passage.text):
            continue  # a heading, a name or a part of a message
        for sentence in SENTENCE_END.split(re.sub(r"\([^()]*\)", "", passage.text)):
            words = re.findall(r"\S*\w\S*", sentence)
            relatives = len(RELATIVE.findall(sentence))
            at = f"{name}:{passage.line}: {' '.join(words[:5])!r}"
            if sentence.startswith("|"):
                continue
            if len(words) > LONGEST:
                yield f"{at}: at most {LONGEST} words, found {len(words)}"
            if relatives > MOST_RELATIVE:
                yield f"{at}: at most {MOST_RELATIVE} of that, which, who and where, found {relatives}"


def files_of(path: Path) -> list[Path]:
    """Return the Markdown, TLA+ and Python files at or below ``path``, sorted."""
    if path.is_file():
        return [path]
    return sorted(found for found in path.rglob("*") if found.suffix in (".md", ".py", ".tla"))


# ------------------------------------------------------------------ clauses

CLAUSE: Final = re.compile(r"^(?P<id>[A-Z]+-\d+) \((?P<force>[^)]*)\)\n: (?P<text>.*)$", re.M)
VERB: Final = {"must": "MUST", "should": "SHOULD", "may": "MAY"}
LONGEST: Final = 45
"""Words of a sentence, those in parentheses not counted; of a requirement those in code neither."""

MOST_EXPLANATIONS: Final = 4
NO_SUBJECT: Final = (
    *(
        "after",
        "as",
        "at",
        "because",
        "before",
        "by",
        "during",
        "for",
        "from",
        "if",
        "in",
        "of",
        "on",
        "once",
    ),
    *(
        "since",
        "that",
        "to",
        "under",
        "until",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "whoever",
    ),
    *("with", "without"),
)
"""Words that a sentence with its subject first does not begin with."""


@dataclass(frozen=True)
class Clause:
    """A clause in force, as ``spec/clauses`` has it."""

    id: str
    force: str
    text: str


def clauses(text: str) -> list[Clause]:
    """Return the clauses of one file, without those withdrawn."""
    found = [Clause(*one.group("id", "force", "text")) for one in CLAUSE.finditer(text)]
    return [clause for clause in found if clause.force in VERB]


def defects(clause: Clause) -> Iterator[str]:
    """Yield why ``clause`` is not one requirement with its explanation."""
    requirement, *explanations = re.split(r"(?<=\.) (?=[A-Z`])", clause.text)
    verb = VERB[clause.force]
    verbs = re.findall(r"\b(?:MUST|SHOULD|MAY|SHALL)\b", requirement)
    if verbs != [verb]:
        yield f"{clause.id}: the first sentence has {verb} once and no other such word, found {verbs}"
    if ";" in requirement:
        yield f"{clause.id}: a requirement with a semicolon is two"
    if requirement.split()[0].lower() in NO_SUBJECT:
        yield f"{clause.id}: the first sentence begins with its subject, found {requirement.split()[0]!r}"
    words = re.sub(r"\([^()]*\)|`[^`]*`", "", requirement).split()
    if len(words) > LONGEST:
        yield f"{clause.id}: a requirement has at most {LONGEST} words, found {len(words)}"
    if len(explanations) > MOST_EXPLANATIONS:
        yield f"{clause.id}: at most {MOST_EXPLANATIONS} sentences explain, found {len(explanations)}"
    stray = re.findall(r"\b(?:MUST|SHOULD|MAY|SHALL|must|should|shall)\b", " ".join(explanations))
    stray += re.findall(r"\b(?:must|should|shall)\b", requirement)
    if stray:
        yield f"{clause.id}: only the first sentence requires, found {stray}"
    if not clause.text.endswith("."):
        yield f"{clause.id}: a clause ends with a full stop"


# ----------------------------------------------------------------- glossary


def glossary(text: str) -> list[tuple[str, str]]:
    """Return the terms of the glossary and their meanings, in order."""
    return re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", text, flags=re.M)


def main() -> int:
    """Print what is to be reworded in the files given, or in all that are clean; return 1 if there is anything."""
    given = [Path(one).resolve() for one in sys.argv[1:]]
    found = [
        line
        for looks, places in ((banned_words, CLEAN), (unclear, FORMED))
        for path in given or [ROOT / one for one in places]
        for file in files_of(path)
        for line in looks(file, str(file.relative_to(ROOT)))
    ]
    print("\n".join([*found, f"{len(found)} places"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
