"""Where what every checkout can use again is kept: the user's caches."""

from __future__ import annotations

import os
from pathlib import Path


def caches() -> Path:
    """Return pktable's folder of caches, which need not exist.

    A value of ``XDG_CACHE_HOME`` that is not absolute counts as none, as the XDG Base Directory Specification says.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "pktable"
