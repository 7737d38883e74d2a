"""The page of options is the one that the table of options gives, and every reader can find it."""

from __future__ import annotations

import re
from pathlib import Path

from pktable_spec.option_table import OPTIONS
from pktable_spec.option_values import Effect
from pktable_spec.options_page import SECTIONS, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_generated_one() -> None:
    assert (ROOT / "spec" / "options.md").read_text("utf-8") == page(), (
        "run: python -m pktable_spec.options_page > spec/options.md"
    )


def test_the_page_lists_every_option_once() -> None:
    text = page()
    once = {option.name: 1 for option in OPTIONS}
    assert {
        option.name: text.count(f"\n| `{option.name}` |")
        + len(re.findall(rf"(?<!\| )`{re.escape(option.name)}`[,.](?!\w)", text.partition("## Ignored")[2]))
        for option in OPTIONS
    } == once
    assert set(SECTIONS) == set(Effect)


def test_a_cell_of_the_page_holds_no_bar() -> None:
    assert [
        option.name for option in OPTIONS if "|" in f"{option.default}{option.takes}{option.description}"
    ] == []


def test_the_readme_names_the_page() -> None:
    assert "spec/options.md" in (ROOT / "README.md").read_text("utf-8")
