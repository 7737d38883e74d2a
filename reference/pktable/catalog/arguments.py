"""Check arguments of public methods that Python would take in silence, whatever they are."""

from __future__ import annotations

import numpy as np
from pktable_spec.errors import InvalidRequestError


def expect_flag(name: str, value: object) -> None:
    """Raise InvalidRequestError unless ``value`` is a boolean: to Python, the text "no" is true."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidRequestError(f"{name}: expected True or False, found {value!r}")
