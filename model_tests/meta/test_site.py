"""The pages that the site makes: each clause has one, and whatever they name is there. Sphinx is not asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pktable_conform import typed
from pktable_conform.archive import Archive
from pktable_spec.clauses import requirements

from docs.site import api, clause_pages, playground, scoreboard, tree
from docs.site.evidence import ROOT, Evidence, gathered
from docs.site.playground import TALES
from model_tests.conform.findings import FINDINGS
from model_tests.conform.record import Run, digest_of_fixtures
from model_tests.examples.histories import frames

Gathered = tuple[dict[str, Evidence], list[Run]]


@pytest.fixture(scope="module")
def found() -> Gathered:
    return gathered()


@pytest.fixture(scope="module")
def made(found: Gathered) -> dict[str, str]:
    evidence, runs = found
    return {
        **clause_pages.pages(evidence, runs, ROOT / "spec/clauses"),
        scoreboard.PATH: scoreboard.page(evidence, runs),
        playground.PATH: playground.page(),
        **api.pages(),
    }


def test_every_clause_in_force_has_a_page_with_its_requirement(made: dict[str, str], found: Gathered) -> None:
    for id, sentence in requirements().items():
        page = made.get(f"clauses/{id}.md")
        assert (page is None) == (id not in found[0]), id
        assert page is None or f"> {sentence}" in page, id


def test_what_bears_on_a_clause_is_on_its_page(made: dict[str, str]) -> None:
    page = made["clauses/DVF-5.md"]
    assert "| vector-crc | negative |" in page
    assert re.search(r"\| paimon-jvm 1\.4\.2 \| .*\*\*fails\*\* .*vector-crc", page)
    assert re.search(r"\| pktable \S+ \| passes \d+ \|", page)
    page = made["clauses/DV-6.md"]
    assert "| C12 an upsert deletes nothing | two live records of one key | `KeysAreLiveOnce` |" in page
    assert re.search(r"\| \w+ \| a replaced row is not deleted \|", page)
    assert "`refusal_agrees`" in page


def test_whatever_pages_name_is_there(made: dict[str, str], found: Gathered) -> None:
    for one in found[0].values():
        for test in one.tests:
            lines = (ROOT / test.path).read_text("utf-8").splitlines()
            assert re.search(rf"(def|class) {test.name}\b", "\n".join(lines[test.line - 1 :]))
    texts = {path.relative_to(ROOT).as_posix() for pattern in tree.TEXTS for path in ROOT.glob(pattern)}
    targets = {target for page in made.values() for target in re.findall(r"\]\(/([^)#]+)", page)}
    assert sorted(targets - texts - made.keys()) == []
    named = {target for page in made.values() for target in re.findall(r'href="(clauses/[^"]+)\.html"', page)}
    assert sorted(f"{target}.md" for target in named if f"{target}.md" not in made) == []


def test_runs_on_record_are_of_cases_that_there_are(found: Gathered) -> None:
    archive = Archive()
    known = {case.name for case in archive.cases} | archive.histories.keys() | dict(typed.histories()).keys()
    assert {run.name for run in found[1]} >= {"pktable", "plain reader", "paimon-jvm", "pypaimon"}
    for run in found[1]:
        if run.digest == digest_of_fixtures():
            assert {case for _, case in run.outcomes} <= known, run.title
            assert all(set(one.clauses) <= requirements().keys() for one in run.outcomes.values())


def test_a_failure_counts_against_the_clauses_that_its_check_names(found: Gathered) -> None:
    evidence, runs = found
    board = {run.title: scoreboard.cell(run, evidence["DVF-5"]) for run in runs}
    assert {cell[0] for title, cell in board.items() if title.startswith(("pktable", "plain"))} == {"✓"}
    assert board["paimon-jvm 0.9.0"][0] == "✗"
    run = next(run for run in runs if run.name == "paimon-jvm")
    assert run.of_clause("DV-1", ["vector-crc"]) == (["vector-crc"], [], [])


def test_the_playground_is_what_the_oracle_does() -> None:
    seen = {tale.title: list(frames(tale)) for tale in TALES}
    upsert = seen["An upsert and a delete become deleted positions"]
    assert upsert[2].default != upsert[2].fresh
    assert upsert[3].changed == ("f1: position 2 is deleted", "f2 moves to level 1")
    assert upsert[-1].default == ("1 a", "2 b", "3 C", "4 d", "6 f")
    refused = next(frame for frame in seen["Two compactions meet"] if frame.title == "B tries to commit")
    assert refused.changed == ("the commit is refused by CMT-7",)
    assert "CMT-7" in refused.clauses


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("see DV-6, CMT-8.", "see [DV-6](/clauses/DV-6.md), CMT-8."),
        ("`DV-6` and [DV-6](x.md)", "`DV-6` and [DV-6](x.md)"),
        ("# On DV-6\nDV-6", "# On DV-6\n[DV-6](/clauses/DV-6.md)"),
        ("```\nDV-6\n```\n", "```\nDV-6\n```\n"),
        ("UDV-6", "UDV-6"),
    ],
)
def test_the_id_of_a_clause_becomes_a_link(text: str, linked: str) -> None:
    assert tree.with_clauses(text, frozenset({"DV-6"})) == linked
    assert tree.with_clauses("DV-6", frozenset({"DV-6"}), "clauses/DV-6.md") == "DV-6"


def test_a_tree_has_all_texts_and_what_they_link_to(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "tree"
    (root / "docs/site").mkdir(parents=True)
    (root / "README.md").write_text("[d](docs/a.md#one) [f](docs) [c](docs/code.py) [w](https://x.org)")
    (root / "docs/a.md").write_text("# One\n[up](../README.md) ![p](p.svg)")
    (root / "docs/code.py").write_text("code")
    (root / "docs/p.svg").write_text("picture")
    tree.build(root, folder, {"made.md": "DV-6"}, ["DV-6"])
    front = (folder / "index.md").read_text()
    assert front.startswith("[d](/docs/a.md#one) f [c](/docs/code.py) [w](https://x.org)")
    assert "Guides </docs/README>" in front
    assert (folder / "docs/a.md").read_text() == "# One\n[up](/index.md) ![p](/docs/p.svg)"
    assert (folder / "made.md").read_text() == "[DV-6](/clauses/DV-6.md)"
    assert (folder / "docs/code.py").exists()
    assert (folder / "docs/p.svg").exists()


def test_the_scoreboard_has_each_finding_with_who_shows_it(made: dict[str, str]) -> None:
    page = made[scoreboard.PATH]
    (part,) = [one for one in page.split("\n### ") if one.startswith("The CRC-32 of a deletion vector")]
    assert "Minimal case: `vector-bit`. Clauses: [DVF-5](/clauses/DVF-5.md)" in part
    assert "| vector-bit | paimon-jvm 0.9.0" in part
    assert "smallest history" not in part
    assert "Not looked into yet" not in page
    assert page.count("\n### ") == len(FINDINGS)
