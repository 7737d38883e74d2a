"""A test that runs on Spark, or with several versions of it, is found by the text of its file."""

from __future__ import annotations

from model_tests.meta.wording import ROOT
from model_tests.side_by_side import marked_files


def test_no_marker_comes_from_a_module_that_is_no_test() -> None:
    marked = [f"mark.{marker}" for marker in ("spark", "versions")]
    others = {path for path in (ROOT / "model_tests").rglob("*.py") if not path.name.startswith("test_")}
    assert not [path for path in others if any(one in path.read_text("utf-8") for one in marked)]
    assert marked_files("spark")
    assert marked_files("versions")
