"""The reference of the API: a page for each public class, from its docstrings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

CLASSES: Final[Mapping[str, Sequence[str]]] = {
    "Table": ("pktable.Table",),
    "Warehouse": ("pktable.Warehouse",),
    "HudiTable": ("pktable.HudiTable",),
}
FUNCTIONS: Final = ("pktable.session",)
INTERFACE: Final = "pktable_spec.interface"
ERRORS: Final = "pktable_spec.errors"


def pages() -> dict[str, str]:
    """Return the pages by their paths."""
    found = {f"api/{title}.md": _page(title, "autoclass", names) for title, names in CLASSES.items()}
    found["api/functions.md"] = _page("Functions", "autofunction", FUNCTIONS)
    found["api/commits.md"] = _page("Ids of commits", "autoclass", ("pktable.CommitId",))
    found["api/errors.md"] = _page("Errors", "automodule", (ERRORS,))
    found["api/interface.md"] = _page(
        "The interface of an implementation under test", "automodule", (INTERFACE,)
    )
    entries = "\n".join(("functions", *CLASSES, "commits", "errors", "interface"))
    found["api/index.md"] = (
        "# API\n\nThe public names of `pktable`, and what an implementation under test has to have.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"
    )
    return found


def _page(title: str, directive: str, names: Sequence[str]) -> str:
    members = "" if directive == "autofunction" else "   :members:\n"
    if directive == "autoclass":
        members += "   :inherited-members:\n"
    blocks = "\n\n".join(f".. {directive}:: {name}\n{members}" for name in names)
    return f"# {title}\n\n```{{eval-rst}}\n{blocks}\n```\n"
