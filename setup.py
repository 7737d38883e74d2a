"""Build what ``pyproject.toml`` says, and put the clauses, with the places that cite them, into the wheel."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent.absolute()
sys.path.insert(0, str(ROOT / "spec"))


class BuildWithClauses(build_py):
    """A build after which the specification has its clauses as data. An editable install reads the repository."""

    def run(self) -> None:
        super().run()
        if not getattr(self, "editable_mode", False):
            from pktable_spec.clauses import as_json, of_repository

            found = of_repository(ROOT)
            assert found, f"expected clauses in {ROOT / 'spec/clauses'}, found none"
            Path(self.build_lib, "pktable_spec/clauses.json").write_text(as_json(found), encoding="utf-8")


setup(cmdclass={"build_py": BuildWithClauses})
