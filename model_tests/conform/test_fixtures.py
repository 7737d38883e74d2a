"""The archive that is shipped is the one that is made, and another one is refused by name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pktable_conform.archive import INDEX, SCHEMA, Archive, Read
from pktable_conform.runner import FEATURES
from pktable_spec.clauses import clauses
from pktable_spec.errors import InvalidRequestError
from pktable_spec.trace import FORCES, defined

from model_tests.conform.engine_tables import SETS, SKETCHES
from model_tests.conform.fixtures import STORED, as_zip, made, unpacked
from model_tests.conform.unnamed import FAMILIES, UNNAMED
from model_tests.engines.naive import STEPS

ROOT = Path(__file__).parents[2]
READ: Mapping[str, Any] = {
    "arguments": {
        "snapshot": 1,
        "tag": "t",
        "timestamp": 1,
        "branch": "b",
        "fresh": True,
        "columns": ["k"],
        "limit": 1,
        "where": [["k", "=", "1"]],
        "changes": [0, 1],
    },
    "features": ["tags"],
    "answers": [{"rows": [["1"]], "limit": 1}, {"row_count": 1, "sha256": "0" * 64}, {"refused": "why"}],
}
CASE: Mapping[str, Any] = {
    "name": "n",
    "kind": "open",
    "what": "w",
    "clauses": ["RD-1"],
    "features": ["keys"],
    "base": "b",
    "changed": {"a": "b"},
    "removed": ["c"],
    "reads": [READ],
}
OPERATION: Mapping[str, Any] = {
    "do": "write",
    "changes": [["+I", [1]]],
    "write_only": True,
    "full": True,
    "columns": ["k"],
    "limit": 1,
    "where": [["k", "=", 1]],
}
WHOLE: Mapping[str, Any] = {
    "format": 1,
    "version": "6",
    "made_with": {"pyarrow": "25"},
    "cases": [CASE],
    "histories": {"h": {"table": "int", "options": {"bucket": "1"}, "operations": [OPERATION]}},
}
"""An index with each field that there may be."""
NEEDED = {
    *("format", "version", "made_with", "cases", "histories", "table", "options", "operations", "do", "rows"),
    *("name", "kind", "what", "clauses", "base", "reads", "answers", "row_count", "sha256", "refused"),
}
"""Fields without which an index is none; a case has features, too."""


def spoiled(value: Any) -> Iterator[Any]:
    """Yield a JSON value with one thing wrong: a number where none is, a field more, a field that is needed missing."""
    yield 1.5
    if isinstance(value, Mapping):
        yield {**value, "unknown": 1.5}
        for name, one in value.items():
            if name in NEEDED or (name == "features" and "base" in value):
                yield {other: value[other] for other in value if other != name}
            yield from ({**value, name: wrong} for wrong in spoiled(one))
    elif isinstance(value, list):
        yield [*value, 1.5]
        for at, one in enumerate(value):
            yield from ([*value[:at], wrong, *value[at + 1 :]] for wrong in spoiled(one))


def test_the_archive_is_as_it_is_made() -> None:
    stored, files = unpacked(STORED), made()
    if Archive().made_with != {"pyarrow": pa.__version__}:  # which writes other bytes for the same rows
        stored, files = (dict.fromkeys(some, b"") for some in (stored, files))
    assert [name for name in {*stored, *files} if stored.get(name) != files.get(name)] == []


def test_unions_of_sets_are_those_of_other_code() -> None:
    cases = {case.name: case for case in Archive().cases}
    for name, records, functions in (
        ("functions-of-bitmaps", SETS, ("rbm32", "rbm64")),
        ("functions-of-sketches", SKETCHES, ("theta_sketch",)),
    ):
        found: dict[int, list[Any]] = {}
        for key, *values in records:
            united = found.setdefault(key, [None] * len(functions))
            for at, (function, value) in enumerate(zip(functions, values, strict=True)):
                united[at] = STEPS[function](united[at], value, True)
        rows = [
            [str(key), *(None if one is None else one.hex() for one in united)]
            for key, united in found.items()
        ]
        assert cases[name].reads[0].takes(rows)


def test_the_index_is_as_its_schema_says_and_another_is_not() -> None:
    files = unpacked(STORED)
    schema, index = json.loads(files[SCHEMA]), json.loads(files[INDEX])
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema)
    assert not list(valid.iter_errors(index))
    assert valid.is_valid(WHOLE)
    assert [one for one in spoiled(WHOLE) if valid.is_valid(one)] == []
    arguments: tuple[Mapping[str, Any], ...] = (
        *({"columns": []}, {"columns": ["k", "k"]}, {"limit": -1}, {"changes": [1]}, {"changes": [0, 1, 2]}),
        *({"where": [["k", "="]]}, {"where": [["k", "=", "1", "2"]]}, {"where": [["k", "=", None]]}),
    )
    operations: tuple[Mapping[str, Any], ...] = (
        *({"columns": []}, {"columns": ["k", "k"]}, {"limit": -1}, {"changes": [["+I"]]}),
        *({"changes": [["+I", [1], [1]]]}, {"where": [["k", "="]]}, {"where": [["k", "=", 1, 1]]}),
    )
    reads = (
        *({**READ, "arguments": one} for one in arguments),
        {"answers": []},
        {"answers": [{"rows": [], "limit": -1}]},
        {"answers": [{"row_count": 1, "sha256": "0"}]},
    )
    cases = ({**CASE, "clauses": []}, {**CASE, "clauses": ["RD"]}, {**CASE, "reads": []})
    history = WHOLE["histories"]["h"]
    wrong = (
        *({**WHOLE, "cases": [{**CASE, "reads": [one]}]} for one in reads),
        *({**WHOLE, "cases": [one]} for one in cases),
        *(
            {**WHOLE, "histories": {"h": {**history, "operations": [{**OPERATION, **one}]}}}
            for one in operations
        ),
    )
    assert [one for one in wrong if valid.is_valid(one)] == []
    assert {one for case in Archive().cases for one in case.features} <= FEATURES.keys()


def test_every_clause_of_a_case_is_in_force() -> None:
    force = defined(ROOT).force
    cited = {clause for case in Archive().cases for clause in case.clauses}
    assert [clause for clause in cited if force.get(clause) not in ("must", "should", "may")] == []


def test_every_clause_on_bytes_and_reads_is_named_by_a_case_or_has_a_reason() -> None:
    named = {clause for case in Archive().cases for clause in case.clauses}
    known = {id for id, one in clauses().items() if id.partition("-")[0] in FAMILIES and one.force in FORCES}
    assert sorted(known - named - UNNAMED.keys()) == []
    assert sorted(UNNAMED.keys() & named) == []
    assert sorted(UNNAMED.keys() - known) == []


def test_an_archive_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "fixtures.zip"
    for content, what in (
        ({INDEX: json.dumps({"format": 2}).encode()}, "expected fixtures of format 1, found 2"),
        ({INDEX: b'{"format": 1}'}, "expected the field 'version', found none"),
        ({}, "expected an archive of fixtures, found .*index.json"),
    ):
        path.write_bytes(as_zip(content))
        with pytest.raises(InvalidRequestError, match=what):
            Archive(path)
    path.write_bytes(b"no zip")
    with pytest.raises(InvalidRequestError, match="expected an archive of fixtures"):
        Archive(path)


def test_a_case_leaves_its_folder_alone(tmp_path: Path) -> None:
    files = unpacked(STORED)
    index = json.loads(files[INDEX])
    index["cases"][0]["changed"] = {"../outside": "tables/pairs/schema/schema-0"}
    path = tmp_path / "fixtures.zip"
    path.write_bytes(as_zip({**files, INDEX: json.dumps(index).encode()}))
    archive = Archive(path)
    with pytest.raises(InvalidRequestError, match="expected a relative path"):
        archive.unpack(archive.cases[0], tmp_path / "table")
    assert not (tmp_path / "outside").exists()


def test_a_case_without_its_table_is_refused(tmp_path: Path) -> None:
    files = unpacked(STORED)
    index = json.loads(files[INDEX])
    index["cases"][0]["base"] = "nothing"
    path = tmp_path / "fixtures.zip"
    path.write_bytes(as_zip({**files, INDEX: json.dumps(index).encode()}))
    archive = Archive(path)
    with pytest.raises(InvalidRequestError, match="expected the table nothing, found none"):
        archive.unpack(archive.cases[0], tmp_path / "table")


def test_rows_are_compared_as_multisets_and_by_their_hash() -> None:
    two = Read({}, (), ({"rows": [["1", None], ["1", None]]},))
    assert two.takes([["1", None], ["1", None]])
    assert not two.takes([["1", None]])
    some = Read({}, (), ({"rows": [["1"], ["2"]], "limit": 1},))
    assert some.takes([["2"]])
    assert not some.takes([["3"]])
    assert not some.takes([])
    hashed = next(r for c in Archive().cases for r in c.reads if "sha256" in r.answers[0])
    assert not hashed.takes([["1"]])


def test_a_zip_does_not_depend_on_when_it_is_made(tmp_path: Path) -> None:
    assert as_zip({"a": b"b"}) == as_zip({"a": b"b"})
    (tmp_path / "a.zip").write_bytes(as_zip({"a": b"b"}))
    with zipfile.ZipFile(tmp_path / "a.zip") as found:
        assert found.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)
