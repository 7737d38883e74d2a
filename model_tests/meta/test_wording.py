"""The texts keep to the glossary, and every clause is one requirement; and the checker sees what does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model_tests.meta.wording import (
    CLEAN,
    FORMED,
    GLOSSARY,
    ROOT,
    Clause,
    banned_words,
    clauses,
    defects,
    files_of,
    glossary,
    unclear,
)

CLAUSE_FILES = sorted((ROOT / "spec/clauses").glob("*.md"))


@pytest.mark.parametrize("place", CLEAN)
def test_a_clean_text_has_no_banned_word(place: str) -> None:
    files = files_of(ROOT / place)
    assert files
    assert [line for file in files for line in banned_words(file, str(file.relative_to(ROOT)))] == []


@pytest.mark.parametrize("place", FORMED)
def test_no_sentence_has_to_be_read_twice(place: str) -> None:
    files = files_of(ROOT / place)
    assert files
    assert [line for file in files for line in unclear(file, str(file.relative_to(ROOT)))] == []


@pytest.mark.parametrize("file", CLAUSE_FILES, ids=lambda file: file.stem)
def test_every_clause_is_one_requirement_and_its_explanation(file: Path) -> None:
    text = file.read_text("utf-8")
    found = clauses(text)
    assert len(found) == len(re.findall(r"^[A-Z]+-\d+ \((?:must|should|may)\)$", text, flags=re.M))
    assert [line for clause in found for line in defects(clause)] == []


def test_the_glossary_defines_each_term_once_in_one_sentence() -> None:
    terms = glossary((ROOT / GLOSSARY).read_text("utf-8"))
    assert len(terms) > 30
    names = [term.lower() for term, _ in terms]
    assert [name for name in names if names.count(name) > 1] == []
    for term, meaning in terms:
        assert re.fullmatch(r"[^.]+(?:\.\d[^.]*)*\.", meaning), (
            f"{term}: expected one sentence, found {meaning}"
        )


def test_the_clauses_use_every_term_of_the_glossary() -> None:
    text = " ".join(
        clause.text for file in CLAUSE_FILES for clause in clauses(file.read_text("utf-8"))
    ).lower()
    unused = [
        term
        for term, _ in glossary((ROOT / GLOSSARY).read_text("utf-8"))
        if not re.search(rf"\b{re.escape(term.lower())}(?:s|es|ed|d)?\b", text)
    ]
    assert unused == []


# ------------------------------------------------------------- the checker itself


def found_in(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return [
        line.partition(": ")[2].partition(": use")[0].partition(": begin")[0]
        for line in banned_words(path, name)
    ]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The write is planned anew.", "anew"),
        ("The reader is told the size.", "told"),
        ("The rows are at\nhand.", "at hand"),
        ("It lets go of a snapshot.", "lets go of"),
        ("It reads the latest snapshot of then.", "of then"),
        ("A plain read merges nothing.", "plain read"),
        ("A DV read merges nothing.", "DV read"),
        ("The index of\nvectors is written.", "index of vectors"),
        ("Two vector indexes are merged.", "vector indexes"),
        ("A row is marked in its vector.", "marked"),
        ("Marks are merged.", "Marks"),
        ("An unmarked row stays.", "unmarked"),
        ("A file lies beside it.", "beside"),
        ("Meanwhile others commit.", "Meanwhile"),
        ("The changes are absorbed.", "absorbed"),
        ("What is missing is damage.", "What is missing is damage."),
        ("It ends. Whoever made it removes it.", "Whoever made it removes it."),
    ],
)
def test_a_banned_word_is_found_wherever_prose_is(tmp_path: Path, sentence: str, found: str) -> None:
    expected = [repr(found)]
    assert found_in(tmp_path, "text.md", f"# Title\n\n{sentence}\n") == expected
    assert found_in(tmp_path, "module.py", f'"""{sentence}"""\n') == expected
    assert (
        found_in(tmp_path, "module.py", f'def f():\n    """Do it.\n\n    {sentence}\n    """\n') == expected
    )
    assert (
        found_in(tmp_path, "module.py", f"x = 1  # {sentence}\n".replace("\n", "\n# ", sentence.count("\n")))
        == expected
    )
    assert found_in(tmp_path, "module.py", f"raise ValueError({sentence!r})\n") == expected
    assert found_in(tmp_path, "Module.tla", f"(* {sentence} *)\nEXTENDS Integers\n") == expected
    comment = f"X == 1  \\* {sentence}\n".replace("\n", "\n\\* ", sentence.count("\n"))
    assert found_in(tmp_path, "Module.tla", comment) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "It adds a check mark, a question mark and quotation marks.",
        "Use `pytest.mark.spark` and ``mark(told)``.",
        "Besides, the sync marker is foretold in Markdown.",
        "What is missing? That is asked at handover.",
        "Let it go often; it reads the index.",
        "See [the page](https://example.org/anew/told).",
    ],
)
def test_words_that_only_look_banned_are_not_found(tmp_path: Path, sentence: str) -> None:
    assert found_in(tmp_path, "text.md", sentence) == []
    assert found_in(tmp_path, "module.py", f'"""{sentence}"""\n') == []


def test_names_in_code_are_no_prose(tmp_path: Path) -> None:
    code = (
        'import pytest\n\n@pytest.mark.spark\ndef told(marked, beside="anew"):\n    return marked["told"]\n'
    )
    assert found_in(tmp_path, "module.py", code) == []
    module = 'Marks(b) == {mark \\in b.vectors : Told(mark)} \\* the `mark` of a file\nTold == "beside"\n'
    assert found_in(tmp_path, "Module.tla", module) == []
    assert found_in(tmp_path, "text.md", "```\ntold anew\n```\n\n# What is told\n") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("It keeps " + "this and " * 22 + "that.", "at most 45 words, found 47"),
        ("It reads the file that has the row which the vector that it loads deletes.", "at most 2 of"),
        ("It reads, where nothing is,\nthat which is there.", "at most 2 of"),
    ],
)
def test_a_sentence_that_has_to_be_read_twice_is_found(tmp_path: Path, text: str, why: str) -> None:
    for name, content in (("a.md", f"# A\n\nShort. {text}\n"), ("a.py", f'"""Short. {text}"""\n')):
        (tmp_path / name).write_text(content, "utf-8")
        assert [why in line for line in unclear(tmp_path / name, name)] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "It keeps " + "this and " * 21 + "that.",
        "It reads the file that has the row. The row is one which a vector that it loads deletes.",
        "* It reads what\n* that which\n* that which it has.",
        "It reads the file that has the row which it wants (that is, the row that it was given).",
        "The words that, which and who",
        "| that | which | that it was |\n| --- | --- | --- |\n| who | that | whose |.",
    ],
)
def test_sentences_that_are_clear_are_not_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text(f"{text}\n", "utf-8")
    assert list(unclear(tmp_path / "a.md", "a.md")) == []


def test_a_finding_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "text.md").write_text("# Title\n\nOne line.\nTwo lines, the second\nplanned anew.\n", "utf-8")
    (line,) = banned_words(tmp_path / "text.md", "text.md")
    assert line == "text.md:5: 'anew': use instead: again; re-planned, renumbered, re-read"


@pytest.mark.parametrize(
    ("force", "text", "why"),
    [
        ("must", "A write commits twice.", "MUST once"),
        ("must", "A write MUST commit and MUST NOT fail.", "MUST once"),
        ("must", "A write SHOULD commit.", "MUST once"),
        ("should", "A write MUST commit.", "SHOULD once"),
        ("may", "A write must commit.", "MAY once"),
        ("must", "A write MUST commit; it removes nothing.", "semicolon"),
        ("must", "Where it fails, a write MUST stop.", "begins with its subject"),
        ("must", "A write MUST commit. It must stop.", "only the first sentence requires"),
        ("must", "A write MUST commit. It MAY stop.", "only the first sentence requires"),
        ("must", "A write MUST commit" + " and commit" * 30 + ".", "at most 45 words"),
        ("must", "A write MUST commit." + " It ends." * 5, "at most 4 sentences"),
        ("must", "A write MUST commit", "full stop"),
    ],
)
def test_a_clause_that_is_not_one_requirement_is_found(force: str, text: str, why: str) -> None:
    assert any(why in line for line in defects(Clause("XX-1", force, text)))


def test_a_clause_that_is_one_requirement_has_no_defect() -> None:
    sound = "A `write` (which; MAY be staged) MUST NOT fail. Paimon may fail."
    assert list(defects(Clause("XX-1", "must", "A write MUST NOT fail. Paimon may fail."))) == []
    assert clauses(f"XX-1 (must)\n: {sound}\n\nXX-2 (withdrawn)\n: Gone.\n") == [
        Clause("XX-1", "must", sound)
    ]
