"""A cache holds what was used last, up to a weight."""

from __future__ import annotations

import pytest
from pktable.store.requests import Cache


def none_there() -> str:
    raise LookupError("it is loaded")


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    cache = Cache(2)
    assert cache.get("a", lambda: "aa") == "aa"
    assert cache.get("b", lambda: "bb") == "bb"
    assert cache.get("a", none_there) == "aa"
    assert cache.get("c", lambda: "cc") == "cc"
    assert cache.get("a", none_there) == "aa"
    with pytest.raises(LookupError):
        cache.get("b", none_there)


def test_values_weigh_together_no_more_than_the_cache_holds() -> None:
    cache = Cache(10)
    cache.get("a", lambda: "aaaa", len)
    cache.get("b", lambda: "bbbbbb", len)
    assert cache.get("a", none_there) == "aaaa"
    cache.put("c", "c")  # weighs 1, so that the one that was used longest ago must go
    assert (cache.get("a", none_there), cache.get("c", none_there)) == ("aaaa", "c")
    with pytest.raises(LookupError):
        cache.get("b", none_there)


def test_a_value_that_is_put_again_weighs_once() -> None:
    cache = Cache(10)
    cache.put("other", "other", 5)
    for weight in (3, 5, 5):
        cache.put("a", "a", weight)
    assert (cache.get("a", none_there), cache.get("other", none_there)) == ("a", "other")


def test_a_value_that_weighs_too_much_is_returned_and_not_kept() -> None:
    cache = Cache(3)
    cache.put("a", "a")
    assert cache.get("long", lambda: "long", len) == "long"
    for name in ("long", "a"):
        with pytest.raises(LookupError):
            cache.get(name, none_there)
    assert cache.get("b", lambda: "b") == "b"
    assert cache.get("b", none_there) == "b"
