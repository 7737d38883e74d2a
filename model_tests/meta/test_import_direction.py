"""Who may import whom, read from the source.

Each gate is a function of a source tree that returns what is wrong with it. It runs on this repository, where
it must find nothing, and on small trees with one planted fault, where it must find that.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HOUSES = ("reference/pktable", "reference/pktable_hudi")
"""The packages of the reference."""

ENTRIES = ("reference/pktable/__init__.py", "reference/pktable/cli/app.py")
"""The modules of `pktable` that name modules of `pktable_hudi`, to import them when there is a table of Hudi's."""

SHARED = ("pktable_spec.vocabulary", "pktable_spec.options", "pktable_spec.errors", "pktable_spec.clauses")

LAYERS: tuple[str, ...] = tuple(
    re.findall(
        r"^\| `(pktable(?:\.\w+|_hudi))` \|", (ROOT / "reference" / "README.md").read_text("utf-8"), re.M
    )
)
"""The packages of the reference, lowest first: one may import those above it in this list, and itself."""

_UNKNOWN = ("pktable_spec.model", "pktable_spec.interface", "model_tests", "hypothesis", "pytest")
BANNED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(HOUSES, _UNKNOWN),
    "model_tests": ("spec", "reference"),
}
"""Folder: what it may not import, by prefix."""


@cache  # every gate asks of the same modules
def imports(source: str) -> list[tuple[int, str]]:
    """Return the line and dotted name of every import, at any depth but under ``if TYPE_CHECKING``."""
    tree = ast.parse(source)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            before = "." * node.level
            found += [(node.lineno, f"{before}{node.module}.{alias.name}") for alias in node.names]
    return found


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def modules(root: Path, folder: str) -> dict[Path, str]:
    """Return the modules below a folder by path, each with its dotted name."""
    base = root / folder.partition("/")[0] if folder.startswith(("spec/", "reference/")) else root
    found = {}
    for path in sorted((root / folder).rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        found[path] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return found


def imported(root: Path, folder: str) -> Iterator[tuple[str, str, str]]:
    """Yield (place, importing module, imported name) for every import below a folder."""
    for path, module in modules(root, folder).items():
        for line, name in imports(path.read_text("utf-8")):
            yield f"{path.relative_to(root)}:{line}", module, name


def in_the_reference(root: Path) -> dict[Path, str]:
    """Return the modules of the reference by path, each with its dotted name."""
    return {path: module for house in HOUSES for path, module in modules(root, house).items()}


def imported_by_the_reference(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (place, importing module, imported name) for every import of the reference."""
    for house in HOUSES:
        yield from imported(root, house)


def layer_of(module: str) -> str | None:
    """Return the package of `LAYERS` that a dotted name belongs to."""
    return next((package for package in LAYERS if within(module, (package,))), None)


def against_the_layers(root: Path) -> list[str]:
    """Return the imports from one package of the reference to another that is not above it in `LAYERS`."""
    wrong = []
    for path, module in in_the_reference(root).items():
        if layer_of(module) is None and module != "pktable":
            wrong.append(f"{path.relative_to(root)} is in no layer")
    for at, module, name in imported_by_the_reference(root):
        own, other = layer_of(module), layer_of(name)
        if own and other and own != other and LAYERS.index(other) >= LAYERS.index(own):
            wrong.append(f"{at} imports {name}")
    return wrong


def in_circles(root: Path) -> list[str]:
    """Return the first circle of imports among the modules of the reference, at whatever depth they are written."""
    known = set(in_the_reference(root).values())
    graph: dict[str, set[str]] = {module: set() for module in known}
    for _, module, name in imported_by_the_reference(root):
        target = name if name in known else name.rpartition(".")[0]
        if target in known and target != module:
            graph[module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


def of_what_must_not_be_known(root: Path) -> list[str]:
    """Return the imports that `BANNED` forbids."""
    return [
        f"{at} imports {name}"
        for folder, banned in BANNED.items()
        for at, _, name in imported(root, folder)
        if within(name, banned)
    ]


def naming_the_tests(root: Path) -> list[str]:
    """Return the lines of the reference that name ``model_tests``, in an import, a string or a comment."""
    return [
        f"{path.relative_to(root)}:{number}"
        for path in in_the_reference(root)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "model_tests" in line
    ]


def naming_the_package_of_hudi(root: Path) -> list[str]:
    """Return the lines of `pktable` that name ``pktable_hudi``, in imports or strings, but for those of `ENTRIES`."""
    return [
        f"{path.relative_to(root)}:{number}"
        for path in modules(root, "reference/pktable")
        if str(path.relative_to(root)) not in ENTRIES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "pktable_hudi" in line
    ]


def of_libraries_in_the_specification(root: Path) -> list[str]:
    """Return the imports of the specification that are not of the standard library."""
    allowed = (*sys.stdlib_module_names, "pktable_spec")
    found = imported(root, "spec/pktable_spec")
    return [f"{at} imports {name}" for at, _, name in found if not within(name, allowed)]


def of_pyspark_elsewhere(root: Path) -> list[str]:
    """Return the imports of pyspark outside of its packages: the runner, the source, SQL, Hudi's."""
    return [
        f"{at} imports {name}"
        for at, module, name in imported_by_the_reference(root)
        if within(name, ("pyspark", "py4j"))
        and not within(
            module, ("pktable.run.spark", "pktable.spark_source", "pktable.spark_sql", "pktable_hudi.spark")
        )
    ]


def of_more_than_words_and_errors(root: Path) -> list[str]:
    """Return the imports by which the reference takes more of the specification than words, options and errors."""
    return [
        f"{at} imports {name}"
        for at, _, name in imported_by_the_reference(root)
        if within(name, ("pktable_spec",)) and not within(name, SHARED)
    ]


def relative(root: Path) -> list[str]:
    """Return the relative imports."""
    return [
        f"{at} imports {name}"
        for folder in ("spec/pktable_spec", "spec/pktable_conform", *HOUSES, "model_tests", "benchmarks")
        for at, _, name in imported(root, folder)
        if name.startswith(".")
    ]


def of_more_than_the_specification_in_the_kit(root: Path) -> list[str]:
    """Return the imports of the conformance kit that are neither of the standard library nor of the specification.

    What judges an implementation must not be made of one.
    """
    allowed = (*sys.stdlib_module_names, "pktable_spec", "pktable_conform")
    found = imported(root, "spec/pktable_conform")
    return [f"{at} imports {name}" for at, _, name in found if not within(name, allowed)]


def of_the_kit_below_the_command_line(root: Path) -> list[str]:
    """Return the imports of the conformance kit, and so of the oracle, by the reference below its command line."""
    return [
        f"{at} imports {name}"
        for at, module, name in imported(root, "reference/pktable")
        if within(name, ("pktable_conform",)) and not within(module, ("pktable.cli",))
    ]


Gate = Callable[[Path], list[str]]

FAULTS: tuple[tuple[Gate, Mapping[str, str]], ...] = (
    (against_the_layers, {"reference/pktable/format/a.py": "def f():\n    from pktable.catalog import b\n"}),
    (against_the_layers, {"reference/pktable/elsewhere.py": ""}),
    (against_the_layers, {"reference/pktable/staging.py": "import pktable.table\n"}),
    (against_the_layers, {"reference/pktable/cli/app.py": "def f():\n    import pktable_hudi.commands\n"}),
    (
        in_circles,
        {
            "reference/pktable/run/local.py": "from pktable.run.spark.runner import SparkRunner\n",
            "reference/pktable/run/spark/runner.py": "from pktable.run import local\n",
        },
    ),
    (of_what_must_not_be_known, {"reference/pktable/table.py": "import pktable_spec.model.meaning\n"}),
    (
        naming_the_tests,
        {"reference/pktable/cli/checks.py": 'importlib.import_module("model_tests.verify")\n'},
    ),
    (naming_the_package_of_hudi, {"reference/pktable/scan.py": 'import_module("pktable_hudi.scan")\n'}),
    (of_libraries_in_the_specification, {"spec/pktable_spec/trace.py": "import numpy\n"}),
    (
        of_more_than_the_specification_in_the_kit,
        {"spec/pktable_conform/runner.py": "from pktable.table import Table\n"},
    ),
    (of_the_kit_below_the_command_line, {"reference/pktable/table.py": "import pktable_conform.runner\n"}),
    (of_pyspark_elsewhere, {"reference/pktable/table.py": "def f():\n    import pyspark\n"}),
    (of_more_than_words_and_errors, {"reference/pktable/table.py": "from pktable_spec import covers\n"}),
    (relative, {"benchmarks/a.py": "from . import b\n"}),
)
GATES = tuple(dict.fromkeys(gate for gate, _ in FAULTS))


@pytest.mark.parametrize("gate", GATES)
def test_no_import_is(gate: Gate) -> None:
    assert gate(ROOT) == []


@pytest.mark.parametrize(("gate", "files"), FAULTS)
def test_a_planted_import_is_found(gate: Gate, files: Mapping[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert len(gate(tmp_path)) == 1


def test_every_layer_is_there() -> None:
    known = set(in_the_reference(ROOT).values())
    assert [layer for layer in LAYERS if layer not in known] == []


def test_an_import_is_seen_wherever_it_stands() -> None:
    source = (
        "def f():\n    from a.b import c\nimport d, e.f\nfrom . import g\nif TYPE_CHECKING:\n    import h\n"
    )
    assert sorted(imports(source)) == [(2, "a.b.c"), (3, "d"), (3, "e.f"), (4, ".None.g")]
    assert within("pktable.format.schema", ("pktable.format",))
    assert not within("pktable.formats", ("pktable.format",))
