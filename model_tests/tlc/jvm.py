"""A Java that runs TLC many times, one model after the other.

To start a Java, and to make its own classes fast, takes as long as a small model. TLC keeps its state in statics, so
each run has a class loader of its own. Python drives it through py4j, whose jar comes with pyspark: not every machine
can compile Java.

TLC leaves some megabytes behind, so a Java ends after a few runs. One that dies or does not answer fails the run that
it was doing and no other: the next run starts another.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyspark
from pktable_spec.errors import InvalidRequestError
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from model_tests.tlc.jar import java, tlc_jar
from model_tests.tlc.models import FOLDER

HEAP: Final = "1g"
MOST_RUNS: Final = 15
MOST_HEAP: Final = 500_000_000
"""A Java whose heap has become so large ends, too."""
OPTIONS: Final = (
    f"-Xmx{HEAP}",
    "-Xss16m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    f"-DTLA-Library={FOLDER}",
)

idle: list[Java] = []


def run_java(work: Callable[[Run], None], folder: Path, seconds: float) -> str:
    """Let ``work`` use the classes of TLC, and return what they print; temporary files lie in ``folder``.

    Java that fails is what is printed then. Raises InvalidRequestError where there is none.
    """
    java(), tlc_jar()
    try:
        one = idle.pop()  # at once, whoever else takes one
    except IndexError:
        one = Java()
    try:
        printed = one.run(work, folder, seconds)
    except (Py4JError, OSError) as error:
        said = f"Java failed, or took longer than {seconds:.0f} s: {error}"  # it may ask Java
        one.end()
        return said
    except BaseException:
        one.end()
        raise
    if one.is_worn:
        one.end()
    else:
        idle.append(one)
    return printed


@atexit.register
def end_all() -> None:
    """End every Java that runs nothing."""
    while idle:
        idle.pop().end()


class Java:
    """One process. It ends with this one, however that ends."""

    def __init__(self) -> None:
        jars = [*Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"), ""]
        try:
            self.port, self.token, self.process = launch_gateway(
                jarpath=str(jars[0]),  # "" is where py4j itself has put it
                javaopts=list(OPTIONS),
                java_path=java(),
                cwd=tempfile.gettempdir(),
                die_on_exit=True,
                enable_auth=True,
                return_proc=True,
            )
        except (Py4JError, OSError, ValueError) as error:
            raise InvalidRequestError(f"expected a Java that runs py4j and TLC, found {error}") from None
        self._runs, self.is_worn = 0, False

    def run(self, work: Callable[[Run], None], folder: Path, seconds: float) -> str:
        """Raises Py4JError where Java fails or does not answer in time."""
        self._runs += 1
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=self.port, auth_token=self.token, read_timeout=seconds, enable_memory_management=False
            )
        )
        try:
            run = Run(gateway, folder)
            work(run)
            self.is_worn = (
                self._runs >= MOST_RUNS or gateway.jvm.Runtime.getRuntime().totalMemory() > MOST_HEAP
            )
            return run.printed()
        finally:
            gateway.close()  # its thread in Java ends, and what TLC has kept for the thread

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


class Run:
    """One use of TLC's classes, loaded for it alone, and all that they print."""

    def __init__(self, gateway: Any, folder: Path) -> None:
        self._gateway, self._java = gateway, gateway.jvm
        self._output = self._java.java.io.ByteArrayOutputStream()
        stream = self._java.java.io.PrintStream(self._output, True)
        self._java.System.setOut(stream)
        self._java.System.setErr(stream)
        self._java.System.setProperty("java.io.tmpdir", str(folder))
        jar = self._java.java.io.File(str(tlc_jar())).toURI().toURL()
        above = self._java.ClassLoader.getPlatformClassLoader()
        self._loader = self._java.java.net.URLClassLoader(self._array(self._java.java.net.URL, [jar]), above)

    def printed(self) -> str:
        self._loader.close()
        return bytes(self._output.toByteArray()).decode("utf-8", "replace")

    def new(self, name: str) -> Any:
        """Return a new object of the class ``name``."""
        maker = self._loader.loadClass(name).getDeclaredConstructor(self._array(self._java.Class, []))
        return maker.newInstance(self._array(self._java.Object, []))

    def call(self, name: str, method: str, on: Any, *arguments: object) -> Any:
        """Call a public method, the only one of that name with so many arguments; ``on`` None if it is static."""
        methods = self._loader.loadClass(name).getMethods()
        found = next(
            one
            for one in methods
            if one.getName() == method and len(one.getParameterTypes()) == len(arguments)
        )
        return found.invoke(on, self._array(self._java.Object, arguments))

    def words(self, words: Sequence[str]) -> Any:
        return self._array(self._java.String, words)

    def _array(self, kind: Any, values: Iterable[object]) -> Any:
        values = list(values)
        array = self._gateway.new_array(kind, len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array
