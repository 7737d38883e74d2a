"""The pages of examples are as they are made, and every clause of their families has one, or a reason."""

from __future__ import annotations

import struct
import zlib

import pytest
from pktable_spec.clauses import clauses, requirements
from pktable_spec.covers import covers
from pktable_spec.trace import FORCES

from model_tests.examples.compaction import compactions
from model_tests.examples.of_bytes import Fixture, index_fields
from model_tests.examples.pages import FAMILIES, FOLDER, WITHOUT, examples, of_clauses, texts


def test_the_pages_are_as_they_are_made() -> None:
    stored = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    assert stored == texts()


def test_every_clause_of_a_family_has_an_example_or_a_reason() -> None:
    known = {id for id, one in clauses().items() if id.partition("-")[0] in FAMILIES and one.force in FORCES}
    found = of_clauses()
    assert sorted(found.keys() - requirements().keys()) == []
    assert sorted(known - found.keys() - WITHOUT.keys()) == []
    assert sorted(WITHOUT.keys() & found.keys()) == []
    assert sorted(WITHOUT.keys() - known) == []


def test_titles_are_unique() -> None:
    titles = [one.title for page in examples().values() for one in page]
    assert len(set(titles)) == len(titles)


@covers("CMP-7", "CMP-25", "CMP-28", "DV-17")
def test_examples_show_what_they_say() -> None:
    shown = {clause: one.text for one in compactions() for clause in one.clauses}
    assert "| 2 | f4 |" in shown["CMP-7"].partition("A full compaction:")[2]
    assert "f1 is gone" in shown["CMP-25"]
    assert "f3 is gone; f6 is new at level 2" in shown["CMP-28"]
    (upgraded,) = of_clauses()["DV-17"]
    assert "f5 moves to level 3" in upgraded.text
    assert "| 3 | f5 | 4: 5 b, ~~5: 6 b~~ |" in upgraded.text


@covers("DVF-1", "DVF-2")
def test_bytes_that_are_not_as_the_clauses_say_are_no_example() -> None:
    fixture = Fixture("pairs")
    (entry,) = fixture.index()
    data = fixture.files[f"index/{entry['_FILE_NAME']}"]
    fields = list(index_fields(data))
    assert b"".join(field.data for field in fields) == data
    assert fields[-1].data == struct.pack(">I", zlib.crc32(data[5:-4]))
    for at in (0, len(data) - 1):
        wrong = bytearray(data)
        wrong[at] ^= 1
        with pytest.raises(AssertionError):
            list(index_fields(bytes(wrong)))
