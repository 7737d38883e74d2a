"""Every kind of damage is found, and nothing else is: a small table is damaged in one way, and shows one finding."""

from __future__ import annotations

import pytest
from pktable.check.findings import NOTE, Finding
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.check.layout_damages import LAYOUT
from model_tests.check.metadata_damages import METADATA
from model_tests.check.row_damages import ROWS
from model_tests.check.sample import (
    DEEPEST,
    Damages,
    levels,
    stray,
)
from model_tests.damage.table_damage import Surgeon


def kinds(found: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.clause, finding.what) for finding in found}


UNREFERENCED: Damages = {
    "a data file": (stray("p=a/bucket-0/data-stray-0.parquet"), {("CMT-12", "data file")}),
    "a data file of a partition without rows": (
        stray("p=b/bucket-3/data-stray-0.parquet"),
        {("CMT-12", "data file")},
    ),
    "a manifest": (stray("manifest/manifest-stray-0"), {("CMT-12", "manifest")}),
    "an index file": (stray("index/index-stray-0"), {("CMT-12", "index file")}),
    "an unfinished snapshot": (stray("snapshot/.snapshot-8.1234.tmp"), {("CMT-12", "file")}),
}

ALL = {**METADATA, **LAYOUT, **ROWS, **UNREFERENCED}

NOTES = {"CMT-12", "DV-4", "DVF-13", "META-10"}
"""The clauses whose violation harms no read."""
NOTED = {("META-2", "timeMillis"), ("META-7", "missing key columns"), ("META-8", "Parquet field ids")}
"""Of other clauses, what harms no read."""


@covers(
    "BKT-19", "CMT-1", "CMT-4", "CMT-5", "CMT-6", "CMT-12", "CMT-15", "CMP-10", "DV-2", "DV-3", "DV-4", "DV-5",
    "DV-11", "DV-12", "DVF-1", "DVF-5", "DVF-8", "DVF-13", "LSM-1", "LSM-2", "LSM-3", "LSM-6", "LSM-7", "META-1",
    "META-2", "META-5", "META-6", "META-7", "META-8", "META-10", "META-11", "META-12", "META-14", "RD-11",
    "TBL-2", "TBL-3", "TBL-4", "DV-16", "DVF-9",
)  # fmt: skip
@pytest.mark.parametrize("name", ALL)
def test_a_damage_is_found_and_nothing_else(surgeon: Surgeon, name: str) -> None:
    damage, expected = ALL[name]
    files = levels(surgeon)
    damage(surgeon)
    found = check(surgeon.root).findings
    named = {
        (clause, what.replace("{0}", files[0]).replace("{5}", files[DEEPEST])) for clause, what in expected
    }
    assert kinds(found) == named, "\n".join(map(str, found))
    notes = {(clause, what) for clause, what in named if clause in NOTES} | NOTED
    assert all((finding.severity == NOTE) == ((finding.clause, finding.what) in notes) for finding in found)
