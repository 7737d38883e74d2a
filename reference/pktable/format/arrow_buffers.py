"""The values of Arrow arrays as they lie in memory, for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def stored_values(values: Any, kind: Any, per_row: int = 1) -> Any:
    """Return what is stored of an array of values of a fixed size, without copying: whatever it is where they are null.

    ``kind``: the NumPy type, of which each value is ``per_row``. The buffer can be longer than the values, and of a
    size that is no multiple of theirs: Arrow shares buffers of nulls among types.
    """
    size = np.dtype(kind).itemsize * per_row
    return np.frombuffer(values.buffers()[1], kind, len(values) * per_row, values.offset * size)
