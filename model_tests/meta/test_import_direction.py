"""Who may import whom, read from the source. The oracle must not know the implementation it judges."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHARED = ("pktable_spec.vocabulary", "pktable_spec.options", "pktable_spec.errors")

# The layers, lowest first: a package imports those in lines above its own, and itself.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("pktable.format", "pktable.store", "pktable.replay.git_history"),
    ("pktable.ingest.columns",),
    ("pktable.predicate", "pktable.ingest.changes", "pktable.lsm"),
    ("pktable.predicate",),
    ("pktable.bucket",),
    ("pktable.catalog",),
    ("pktable.check",),
    ("pktable.run.local", "pktable.staging", "pktable.run.spark"),
    ("pktable.table",),
    ("pktable.replay.replay",),
    ("pktable.cli",),
)

# Folder or file: what it may not import, by prefix.
BANNED: dict[str, tuple[str, ...]] = {
    "reference/pktable": (
        "pktable_spec.model",
        "pktable_spec.interface",
        "model_tests",
        "hypothesis",
        "pytest",
    ),
    "model_tests": ("spec", "reference"),
}


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and dotted name of every import, at any depth but under ``if TYPE_CHECKING``."""
    tree = ast.parse(source)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                (node.lineno, "." * node.level + f"{node.module}.{alias.name}") for alias in node.names
            )


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", BANNED)
def test_no_folder_imports_what_it_must_not_know(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        for line, name in imports(path.read_text("utf-8"))
        if within(name, BANNED[folder])
    ]
    assert wrong == []


def test_the_specification_is_standard_library_only() -> None:
    allowed = (*sys.stdlib_module_names, "pktable_spec")
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("spec/pktable_spec")
        for line, name in imports(path.read_text("utf-8"))
        if not within(name, allowed)
    ]
    assert wrong == []


def test_imports_of_the_reference_point_one_way() -> None:
    rank = {package: at for at, layer in enumerate(LAYERS) for package in layer}
    wrong = []
    for path in modules("reference/pktable"):
        own = layer_of(".".join(path.relative_to(ROOT / "reference").with_suffix("").parts))
        assert own or path.name == "__init__.py", f"{path.relative_to(ROOT)} is in no layer"
        for line, name in imports(path.read_text("utf-8")):
            other = layer_of(name)
            if own and other and own != other and rank[other] > rank[own]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert wrong == []


def test_only_the_spark_folder_imports_pyspark() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("reference/pktable")
        if "spark" not in path.relative_to(ROOT / "reference/pktable").parts
        for line, name in imports(path.read_text("utf-8"))
        if within(name, ("pyspark", "py4j"))
    ]
    assert wrong == []


def test_the_reference_takes_of_the_specification_words_and_errors_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("reference/pktable")
        for line, name in imports(path.read_text("utf-8"))
        if within(name, ("pktable_spec",)) and not within(name, SHARED)
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ["spec/pktable_spec", "reference/pktable", "model_tests", "benchmarks"])
def test_every_import_is_absolute(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        for line, name in imports(path.read_text("utf-8"))
        if name.startswith(".")
    ]
    assert wrong == []


def layer_of(module: str) -> str | None:
    """Return the package of `LAYERS` that a dotted name belongs to."""
    return next((package for layer in LAYERS for package in layer if within(module, (package,))), None)


def test_an_import_is_seen_wherever_it_stands() -> None:
    source = (
        "def f():\n    from a.b import c\nimport d, e.f\nfrom . import g\nif TYPE_CHECKING:\n    import h\n"
    )
    assert sorted(imports(source)) == [(2, "a.b.c"), (3, "d"), (3, "e.f"), (4, ".None.g")]
    assert within("pktable.format.metadata.schema", ("pktable.format",))
    assert not within("pktable.formats", ("pktable.format",))
