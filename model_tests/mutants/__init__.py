"""Bugs that table formats have had, put into `pktable` one at a time, to measure the harness.

`MUTANTS` is all of them, in the order of their ids. ``python -m model_tests.mutants`` measures how soon drawn
histories kill each; `model_tests.mutants.stored` holds a small history that kills it, replayed by tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from model_tests.mutants import codecs, commits, kernel, ordering, reading
from model_tests.mutants.registry import Mutant

_ORDER = "MSCO"


def _place(mutant: Mutant) -> tuple[int, int, str]:
    number = re.findall(r"\d+", mutant.id)[0]
    return _ORDER.index(mutant.id[0]), int(number), mutant.id


MUTANTS: Mapping[str, Mutant] = {
    mutant.id: mutant
    for mutant in sorted(
        (*kernel.MUTANTS, *commits.MUTANTS, *codecs.MUTANTS, *reading.MUTANTS, *ordering.MUTANTS), key=_place
    )
}
