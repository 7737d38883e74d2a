"""Drawn histories of append tables: every snapshot means what the oracle says, and every step is one of its steps."""

from __future__ import annotations

import pytest
from pktable_spec.covers import covers

from model_tests.append.machine import TABLES, draw
from model_tests.seeded import cases, seed_for


@covers("APP-1", "APP-12", "APP-13", "APP-15", "APP-16", "APP-17", "APP-18", "APP-21", "APP-31")
@covers("APP-24", "APP-25", "APP-32")
@covers("DV-4", "DV-5", "DV-11", "STM-1", "STM-7")
@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_drawn_histories_are_those_of_the_oracle(options: dict[str, str]) -> None:
    seed = seed_for(1)
    print(f"seed {seed}")
    draw(options, cases(5), seed)
