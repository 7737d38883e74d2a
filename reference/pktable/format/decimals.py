"""Decimals in Arrow, rounded as SQL rounds them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

WIDEST: Final = 76
"""Digits that a decimal of Arrow has at most."""


def half_up(values: Any, scale: int, wanted: int) -> Any:
    """Return decimals of ``scale``, an array or an expression, rounded half up to ``wanted``, in the widest type.

    Rounding can add a digit, for which the type of ``values`` may have no room: Arrow then gives 0.
    """
    return pc.round(values.cast(pa.decimal256(WIDEST, scale)), wanted, "half_towards_infinity")
