"""Bugs that table formats have had, put into `pktable` one at a time, to measure the harness.

`MUTANTS` is all of them, in the order of their ids. ``python -m model_tests.mutants`` measures how soon drawn
histories kill each; `model_tests.mutants.stored` holds a small history that kills it, replayed by tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from model_tests.mutants import buckets, changelogs, changing, codecs, commits, kernel, ordering, reading
from model_tests.mutants.registry import Mutant

_ORDER = "MSCDOTLKB"


def _place(mutant: Mutant) -> tuple[int, int, str]:
    number = re.findall(r"\d+", mutant.id)[0]
    return _ORDER.index(mutant.id[0]), int(number), mutant.id


_MODULES = (kernel, commits, codecs, reading, ordering, changing, changelogs, buckets)
_ALL = [mutant for module in _MODULES for mutant in module.MUTANTS]
MUTANTS: Mapping[str, Mutant] = {mutant.id: mutant for mutant in sorted(_ALL, key=_place)}
