"""Run the tests marked `versions` with other versions of pyspark: `python -m model_tests.pyspark_versions 4.0.0 4.1.4`.

A version lies with its py4j in a folder of its own where caches go, and precedes the installed one on PYTHONPATH.
Everything else is that of this environment. Options are given to pytest.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version as installed
from pathlib import Path
from typing import Final

from model_tests.backends.spark_session import EXPECTED_VERSION
from model_tests.caches import caches
from model_tests.side_by_side import marked_files

MARKER: Final = "versions"
_PIP: Final = (
    sys.executable,
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-compile",
)
_STORED: Final = "--build-option=--compression=stored"  # pyspark is 450 MB of archives


def folder_of(version: str) -> Path:
    """Return the folder with a version of pyspark, which is installed there if need be.

    Several processes may ask at once, and any of them may be killed. Raises CalledProcessError if pip fails.
    """
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = caches() / f"pyspark-{version}-python{python}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a process that dies lets go of it
        if not folder.exists():
            print(f"installing pyspark {version} into {folder}", flush=True)
            partly = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(partly, ignore_errors=True)
            (partly / "temporary").mkdir(parents=True)
            subprocess.run(
                [*_PIP, "--target", str(partly / "packages"), f"pyspark=={version}"],
                env={**os.environ, "PIP_CONFIG_SETTINGS": _STORED, "TMPDIR": str(partly / "temporary")},
                pass_fds=[lock.fileno()],  # if this process is killed, pip goes on for a while
                check=True,
            )
            (partly / "packages").rename(folder)
            shutil.rmtree(partly)
    return folder


def environment(version: str) -> dict[str, str]:
    """Return the variables with which a process runs a version of pyspark."""
    before = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_REMOTE")}
    first = [] if version == installed("pyspark") else [str(folder_of(version))]
    paths = [*first, *filter(None, [before.get("PYTHONPATH")])]
    return {**before, EXPECTED_VERSION: version, "PYTHONPATH": os.pathsep.join(paths)}


def run(version: str, options: Sequence[str] = ()) -> int:
    """Run the tests with a version of pyspark; return the exit code of pytest."""
    variables = environment(version)
    asked = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    found = subprocess.run(asked, env=variables, capture_output=True, text=True, check=True).stdout.strip()
    if found != version:
        raise RuntimeError(f"expected pyspark {version}, found {found}")
    print(f"tests marked {MARKER}, with pyspark {version}", flush=True)
    which = ["-m", f"{MARKER} and not deep", *marked_files(MARKER)]
    return subprocess.call([sys.executable, "-m", "pytest", "-q", *options, *which], env=variables)


def main(arguments: Sequence[str]) -> int:
    versions = [one for one in arguments if not one.startswith("-")]
    options = [one for one in arguments if one.startswith("-")]
    return max([run(version, options) for version in versions])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
