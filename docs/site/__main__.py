"""``python -m docs.site [FOLDER]``: build the site in FOLDER, ``build/site`` by default; ``make docs`` does this.

Any warning of Sphinx is an error. Exit codes: 0 built, 1 not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from docs.site import api, clause_pages, playground, scoreboard, tree
from docs.site.evidence import ROOT, gathered


def pages() -> tuple[dict[str, str], list[str]]:
    """Return the pages that are made by their paths, and the ids of the clauses that have one."""
    evidence, runs = gathered()
    made = {
        **clause_pages.pages(evidence, runs, ROOT / "spec/clauses"),
        scoreboard.PATH: scoreboard.page(evidence, runs),
        playground.PATH: playground.page(),
        **api.pages(),
    }
    return made, list(evidence)


def main(arguments: Sequence[str]) -> int:
    """Build the site, and return the exit code."""
    from sphinx.cmd.build import main as sphinx  # by its extra, without which pages are tested

    folder = Path(arguments[0] if arguments else "build/site").absolute()
    made, ids = pages()
    source = ROOT / ".sphinx"
    tree.build(ROOT, source, made, ids)
    config = Path(__file__).parent
    doctrees = folder.with_name("doctrees")
    places = ["-c", str(config), "-d", str(doctrees), str(source), str(folder)]
    built = sphinx(["-W", "--keep-going", "-q", "-j", "auto", *places])
    if not built:
        print(f"the site is at {folder / 'index.html'}")
    return int(bool(built))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
