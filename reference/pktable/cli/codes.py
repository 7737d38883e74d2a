"""Exit codes of the command line."""

from typing import Final

FINE: Final = 0
FAILED: Final = 1  # a check failed, or stored data is damaged
MISTAKEN: Final = 2  # the caller's mistake
STORE_FAILED: Final = 3  # the disk is full, a permission was revoked, …
INTERRUPTED: Final = 130  # 128 and the number of SIGINT
