"""Set the peers up, in directories of their own where caches go (`kept`), and say how each is started.

Everything comes from PyPI by pip: pypaimon 0.2.0 ships Paimon 0.9 as a jar, and the pyspark that pktable
depends on anyway ships the Hadoop classes that Paimon wants. A newer Paimon comes from Maven where `mvn`
is to be had; it is an addition, and the one peer that may be absent. pypaimon has an environment with all
that it depends on; the other Python peers need a part of that, and are put before it.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from model_tests.interop.kept import kept

HERE: Final = Path(__file__).parent
TREE: Final = HERE.parents[1]
JAVA_SOURCE: Final = HERE / "Peer.java"
NEWER_JAVA_SOURCE: Final = HERE / "AppendPeer.java"

JVM: Final = "paimon-jvm 0.9.0"
NEWER_JVM: Final = "paimon-jvm 1.4.2"
LEFT_OUT: Final = frozenset({"META-8", "DVF-13"})
"""The clauses on what Paimon 0.9 does not write, of which a check has a note."""
PYPAIMON: Final = "pypaimon 2.1.0"
OLDER_PYPAIMON: Final = "pypaimon 2.0.0"
RUST: Final = "pypaimon-rust 0.4.0"
HUDI_SPARK: Final = "hudi-spark 1.2.0"
HUDI_RUST: Final = "hudi-rs 0.5.0"
JVMS: Final = (JVM, NEWER_JVM)
OPTIONAL: Final = frozenset({NEWER_JVM})

CONNECTOR: Final = "paimon-spark-3.5"
NEWEST: Final = "RELEASE"
OLDER_SPARK: Final = "pyspark==3.5.9"
SPARK_JARS: Final = "PKTABLE_PAIMON_SPARK_JARS"
PAIMON: Final = ("org.apache.paimon", "paimon-bundle")
OLDEST_JAVA: Final = ("-source", "17", "-target", "17")
"""The oldest Java that may run what is compiled."""
PYTHON: Final = (str(sys.implementation.cache_tag), sysconfig.get_platform())
"""The Python that packages are for."""


@dataclass(frozen=True)
class Start:
    """How a peer's process is started."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


class SetupError(Exception):
    """A peer cannot be set up; the message says why."""


def set_up(names: list[str]) -> tuple[dict[str, Start], dict[str, str]]:
    """Return how each peer is started, and for each that cannot be set up the reason, in a line."""
    with ThreadPoolExecutor(len(names)) as threads:
        found = dict(zip(names, threads.map(_set_up_one, names), strict=True))
    starts = {name: one for name, one in found.items() if isinstance(one, Start)}
    return starts, {name: one for name, one in found.items() if isinstance(one, str)}


def _set_up_one(name: str) -> Start | str:
    product, version = name.split()
    try:
        return SETUPS[product](version)
    except (SetupError, OSError) as error:
        return " ".join(str(error).split())


def _jvm(version: str) -> Start:
    # The better compiler takes more time than its code saves in a few minutes.
    options = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    source = JAVA_SOURCE if version == JVM.split()[1] else NEWER_JAVA_SOURCE
    return _java_program(version, source, *options)


def jvm_program(source: Path, *options: str, peer: str = JVM) -> Start:
    """Return how a Java program, which may call `Peer`, is started with the Paimon of a peer. Raises SetupError."""
    return _java_program(peer.split()[1], source, *options)


def _java_program(version: str, source: Path, *options: str) -> Start:
    jar = _jar_from_pypi(version) if version == JVM.split()[1] else _from_maven(*PAIMON, version)
    sources = sorted({source, JAVA_SOURCE})  # what Peer does, others may call

    def compile_to(classes: Path) -> None:
        _run(
            _tool("java"),
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",  # Debian's JRE has the module, not the program javac
            "-nowarn",
            "-Xlint:-options",
            *OLDEST_JAVA,
            "-cp",
            str(jar),
            "-d",
            str(classes),
            *map(str, sources),
        )

    made_of = [jar.name, *OLDEST_JAVA, *(one.read_text("utf-8") for one in sources)]
    classes = kept(f"classes-{source.stem}-{version}", made_of, compile_to)
    path = os.pathsep.join(map(str, (classes, jar, *_hadoop_jars())))
    return Start(
        (_tool("java"), *options, "-cp", path, source.stem),
        {**os.environ, "LC_ALL": "C.UTF-8"},
    )


def _jar_from_pypi(version: str) -> Path:
    return _only(_alone("pypaimon==0.2.0"), f"pypaimon/jars/*{version}.jar")


def _from_maven(group: str, artifact: str, version: str) -> Path:
    get = ("dependency:get", f"-Dartifact={group}:{artifact}:{version}", "-Dtransitive=false")
    # Maven is asked for the newest release once in a month.
    made_of = [version, dt.date.today().isoformat()[:7]] if version == NEWEST else [version]
    repository = kept(
        artifact, made_of, lambda folder: _run(_tool("mvn"), "-q", "-B", *get, f"-Dmaven.repo.local={folder}")
    )
    return _only(repository, f"{group.replace('.', '/')}/{artifact}/*/*.jar")


def _hadoop_jars() -> list[Path]:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    wanted = (
        "hadoop-client-api-*.jar",
        "hadoop-client-runtime-*.jar",
        "slf4j-api-*.jar",
        "commons-logging-*.jar",
    )
    return [jar for pattern in wanted for jar in jars.glob(pattern)]


def paimon_spark(jars: str | None) -> tuple[Start, str]:
    """Return how a Python with Paimon's Spark connector is started, and which connector that is. Raises SetupError.

    ``jars``: of a connector for Spark 3.5, separated by commas; None for the newest that Maven Central serves. The
    process finds them in the variable `SPARK_JARS`.
    """
    spark = _older_spark()
    if jars is None:
        jars = str(_from_maven("org.apache.paimon", CONNECTOR, NEWEST))
    start = Start((sys.executable,), {**spark, SPARK_JARS: jars})
    return start, ", ".join(Path(jar).stem for jar in jars.split(","))


def _pypaimon(version: str) -> Start:
    if version != PYPAIMON.split()[1]:
        return _python_peer("pypaimon_peer", _alone(f"pypaimon=={version}"))
    return _python_peer("pypaimon_peer")


def _rust(version: str) -> Start:
    return _python_peer("rust_peer", _alone(f"pypaimon-rust=={version}"))


def _python_peer(module: str, *before: Path) -> Start:
    path = os.pathsep.join(map(str, (*before, TREE, TREE / "spec", TREE / "reference")))
    return Start(
        (_python_of_pypaimon(), "-m", f"model_tests.interop.{module}"), {**os.environ, "PYTHONPATH": path}
    )


def _python_of_pypaimon() -> str:
    requirement = PYPAIMON.replace(" ", "==")

    def install(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", str(folder))
        _pip(requirement, python=str(folder / "bin" / "python"))

    name = f"environment-{PYPAIMON.replace(' ', '-')}"
    return str(kept(name, [requirement, *PYTHON, sys.base_prefix], install) / "bin" / "python")


def _hudi_spark(version: str) -> Start:
    jar = _from_maven("org.apache.hudi", "hudi-spark3.5-bundle_2.12", version)
    return Start(
        (sys.executable, "-m", "model_tests.hudi.spark_peer", str(jar)), {**_older_spark(), "TZ": "UTC"}
    )


def _older_spark() -> dict[str, str]:
    """Return the variables of a process that imports the pyspark which peers on Spark are made for."""
    spark = kept(
        OLDER_SPARK.replace("==", "-"),
        [OLDER_SPARK, *PYTHON],
        lambda folder: _pip("--target", str(folder), OLDER_SPARK),
    )
    path = os.pathsep.join(map(str, (spark, TREE)))
    return {**os.environ, "PYTHONPATH": path, "SPARK_HOME": str(spark / "pyspark")}


def _hudi_rust(version: str) -> Start:
    path = os.pathsep.join(map(str, (_alone(f"hudi=={version}"), TREE)))
    return Start((sys.executable, "-m", "model_tests.hudi.rust_peer"), {**os.environ, "PYTHONPATH": path})


def node_program(folder: Path) -> Start:
    """Return how `runner.mjs` of a folder is started, with the packages of its lock file. Raises SetupError.

    The packages come from npm, and the program is copied to them.
    """
    npm, node = _tool("npm"), _tool("node")
    sources = sorted(path for path in folder.iterdir() if path.suffix in (".mjs", ".json"))

    def install(place: Path) -> None:
        for source in sources:
            shutil.copy(source, place)
        _run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(place))

    made_of = [text for source in sources for text in (source.name, source.read_text("utf-8"))]
    place = kept(f"node-{folder.name}", made_of, install)
    return Start((node, str(place / "runner.mjs")), os.environ)


SETUPS: Final[Mapping[str, Callable[[str], Start]]] = {
    "paimon-jvm": _jvm,
    "pypaimon": _pypaimon,
    "pypaimon-rust": _rust,
    "hudi-spark": _hudi_spark,
    "hudi-rs": _hudi_rust,
}


def _alone(requirement: str) -> Path:
    """Return a directory with a package, and nothing that it depends on."""
    return kept(
        requirement.replace("==", "-"),
        [requirement, "--no-deps", *PYTHON],
        lambda folder: _pip("--no-deps", "--target", str(folder), requirement),
    )


def _pip(*arguments: str, python: str = sys.executable) -> None:
    _run(python, "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", *arguments)


def _tool(name: str) -> str:
    """Return the path of a tool; one of JAVA_HOME goes first where that is set. Raises SetupError."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which(name)
    if found is None:
        raise SetupError(f"expected {name} on PATH, found none")
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last_lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-6:]
        what = shlex.join([Path(command[0]).name, *command[1:]])
        raise SetupError(f"{what} failed with {done.returncode}: {' / '.join(last_lines)}")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise SetupError(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]
