"""The command line's frame: the group of commands, the options they share, and how they open a table.

To start fast it imports neither Arrow nor Spark; a command imports what it needs when it runs. The commands of
`LATE` import much before they can be declared, so they are listed by a line here and declared at their first use.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import typer
from pktable_spec.errors import InvalidRequestError
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import pktable
from pktable.cli.output import Format
from pktable.cli.progress import be_quiet

if TYPE_CHECKING:
    from pktable.catalog.catalog import Catalog
    from pktable.table import Table

Function = TypeVar("Function", bound=Callable[..., Any])

CHECKS: Final = "pktable.cli.checks"
LATE: Final[Mapping[str, tuple[str, str]]] = {
    "check": (CHECKS, "Report what breaks a rule in a table, with its clause."),
    "clause": ("pktable.cli.specification", "Print clauses: what they say, why, and what covers them."),
    "conform": ("pktable.cli.conform", "Judge an implementation in any language by its runner."),
    "dump": ("pktable.cli.dump", "Show a file of metadata, vectors or logs by its fields."),
    "verify": (CHECKS, "Run the verification suite, in a clone of the repository."),
    "replay-git": (CHECKS, "Replay a git history into a table and compare them."),
}
"""Commands by name: the module that declares each, and how the list of commands describes it."""

HUDI_COMMANDS: Final = "pktable_hudi.commands"
"""The module that runs commands on tables of Hudi's. It is imported by name: its package is above this one."""
HUDI_DUMP: Final = "pktable_hudi.dump"
"""The module that shows log files, which is imported by name, too."""
OF_HUDI: Final = frozenset({"instant", "ordering", "read_optimized", "retain_commits", "retain_versions"})
"""The options that only tables of Hudi's have."""

OWN_PROCESS: Final = "own process"
"""Key of the context's object where the process runs nothing but the command."""

NOISE: Final = re.compile(r" <(?:bool|float|int|path|str)>")
MILLIS: Final = re.compile(r"-?[0-9]{1,18}")  # longer ones are no time that any table can hold


Branch = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="A branch of the table instead of the main one."),
]


class Command(TyperCommand):
    """A command that leaves pandas out where it has the process to itself. Its help names no Python types."""

    def get_help(self, ctx: Any) -> str:
        return _without_noise(super().get_help(ctx))

    def invoke(self, ctx: Any) -> Any:
        if OWN_PROCESS in ctx.find_root().obj and not ctx.params.get("spark"):
            _leave_pandas_out()
        return super().invoke(ctx)


class Commands(TyperGroup):
    """The group of all commands, those of `LATE` included."""

    def get_help(self, ctx: Any) -> str:
        return _without_noise(super().get_help(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*(name for name in super().list_commands(ctx) if name not in LATE), *LATE]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None and cmd_name in LATE:
            command.short_help = LATE[cmd_name][1]  # the same whether it is declared yet or not
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that ``args`` begin with, declared if it was not."""
        if args and args[0] in LATE:
            import_module(LATE[args[0]][0])
            self.commands[args[0]] = get_command(app).commands[args[0]]  # type: ignore[attr-defined]
        return super().resolve_command(ctx, args)


class App(typer.Typer):
    """An application whose commands are a `Command` each. Those on the path of a table take ``--branch``."""

    def command(
        self, name: str | None = None, *, branches: bool = True, **settings: Any
    ) -> Callable[[Function], Function]:
        """Declare a command. Where a table is Hudi's, the command of that name in `HUDI_COMMANDS` runs instead.

        ``branches``: whether the table may be a branch of one.
        """
        declare: Callable[[Function], Function] = super().command(name, **{"cls": Command, **settings})

        def declared(function: Function) -> Function:
            takes_path = "path" in inspect.signature(function).parameters
            made = _of_branch(function) if takes_path and branches else function
            declare(_of_any_table(name or function.__name__, made))
            return function

        return declared


app = App(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it needs no library, and no box breaks its lines
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _of_any_table(name: str, function: Function) -> Function:
    """Return a command that does what ``function`` does, or for a table of Hudi's what its package does.

    Raises InvalidRequestError for an option that only tables of Hudi's have, and a table that is none.
    """
    parameters = inspect.signature(function).parameters
    if "path" not in parameters:
        return function

    @wraps(function)
    def command(**given: Any) -> Any:
        asked = {one: value for one, value in given.items() if value not in (parameters[one].default, [])}
        if given["hudi"] if "hudi" in given else _is_hudi(given["path"], given["storage"]):
            return import_module(HUDI_COMMANDS).run(name, asked)
        if refused := [option_of(one) for one in asked if one in OF_HUDI]:
            raise InvalidRequestError(f"{', '.join(refused)}: not for this table, which is not Hudi's")
        return function(**given)

    return cast(Function, command)


def option_of(parameter: str) -> str:
    """Return the option that gives a parameter."""
    return f"--{parameter.replace('_', '-')}"


def _of_branch(command: Function) -> Function:
    """Return a command that has the option ``--branch`` besides, and spells it as part of the path. Clauses: BRN-3."""

    @wraps(command)
    def on_branch(*, path: str, branch: str | None, **others: Any) -> Any:
        if branch is not None:
            from pktable.catalog.branch_names import branch_of_name
            from pktable.format.paths import of_branch

            branch_of_name(branch)  # before it becomes part of the path
            path = of_branch(path, branch)
        return command(path=path, **others)

    added = inspect.Parameter("branch", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Branch)
    parameters = [*inspect.signature(command, eval_str=True).parameters.values(), added]
    on_branch.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    on_branch.__annotations__ = {one.name: one.annotation for one in parameters}
    return cast(Function, on_branch)


def _leave_pandas_out() -> None:
    """Keep Arrow from importing pandas, as it does at the first array, only to see whether it was given a Series.

    Arrow looks for pandas once, so others can still import it. Spark needs an Arrow that knows pandas.
    """
    import pyarrow as pa

    sys.meta_path.insert(0, _WithoutPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_WithoutPandas)


class _WithoutPandas(MetaPathFinder):
    """A finder, to be asked first, of an environment that has no pandas."""

    @staticmethod
    def find_spec(fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def _without_noise(text: str) -> str:
    return NOISE.sub(lambda found: " " * len(found[0]), text)


def _late() -> None:
    raise AssertionError("`Commands.resolve_command` puts the real command here")


for _name, (_, _line) in LATE.items():
    app.command(_name, short_help=_line)(_late)


# The options that commands share


def _named_path(path: str) -> str:
    if not path.strip():  # an unset variable of a script, never the directory it happens to run in
        raise InvalidRequestError(f"PATH: expected the directory or URI of a table, found {path!r}")
    return path


def _version(asked: bool) -> None:
    if asked:
        print(f"pktable {pktable.__version__}")
        raise typer.Exit


def _quieted(asked: bool) -> bool:
    if asked:
        be_quiet()
    return asked


TablePath = Annotated[
    str, typer.Argument(metavar="PATH", help="Directory or URI of the table.", callback=_named_path)
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="Setting of the object store, such as region=eu-west-1; repeatable. Secrets belong in the environment.",
    ),
]
IgnoredOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore-option",
        metavar="NAME",
        help="Read although the table has this option, on which you know no row depends; repeatable.",
    ),
]
OnSpark = Annotated[bool, typer.Option("--spark/--local", help="Work on Spark, or in this process.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot", metavar="N", help="As of this snapshot.")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Fresh read: include rows that are not compacted yet (level 0).")
]
Where = Annotated[str, typer.Option("--where", metavar="SQL", help="Condition on rows, in Spark's SQL.")]
Names = Annotated[str, typer.Option(metavar="A,B", help="Column names, comma-separated.")]
Output = Annotated[Format, typer.Option("--format", help="For people, or one object a line, or CSV.")]
InstantTime = Annotated[
    str | None, typer.Option("--instant", metavar="T", help="As of this instant of a Hudi table.")
]
ReadOptimized = Annotated[
    bool, typer.Option("--read-optimized", help="Base files of a Hudi table only, without its log files.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", callback=_quieted, help="No notes and no progress: results and errors only."
    ),
]


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Primary-key lake tables with deletion vectors, in Apache Paimon's format."""


def names(text: str) -> list[str]:
    """Return the names of a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(option: str, given: Sequence[str], form: str = "NAME=VALUE") -> dict[str, str]:
    """Return what ``option`` was given, each a name, ``=`` and a value. Raises InvalidRequestError."""
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name.strip():
            raise InvalidRequestError(f"{option} {one!r}: expected {form}")
        found[name.strip()] = value.strip()
    return found


def storage_options(given: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of the object store as `Table.open` takes them. Raises InvalidRequestError."""
    return pairs("--storage-option", given or (), "KEY=VALUE")


def moment(option: str, text: str | None) -> int | None:
    """Return milliseconds since 1970, from their digits or ISO text; ``option``: who gave it.

    Raises InvalidRequestError.
    """
    if text is None or MILLIS.fullmatch(text):
        return None if text is None else int(text)
    from pktable.catalog.as_of import millis_of

    try:
        return millis_of(text)
    except InvalidRequestError:
        raise InvalidRequestError(
            f"{option}: expected ISO text such as 2024-05-01T12:00:00 or milliseconds since 1970, found {text!r}"
        ) from None


# Opening


def open_table(
    path: str,
    on_spark: bool = False,
    *,
    storage: Sequence[str] | None = None,
    ignored: Sequence[str] | None = None,
) -> Table:
    """Open a table, on a Spark session if asked. Raises InvalidRequestError, and then has not started Spark.

    ``ignored``: the options that reads are not to refuse. Clauses: TBL-35.
    """
    from pktable.table import Table

    opened = partial(
        Table.open,
        path,
        storage_options=storage_options(storage),
        external_roots=external_roots(),
        ignore_options=ignored or (),
    )
    table = opened()
    return opened(spark=spark_session()) if on_spark else table


def open_catalog(path: str, *, storage: Sequence[str] | None = None) -> Catalog:
    """Open the metadata of a table, which is faster than all of it. Raises InvalidRequestError."""
    from pktable.catalog.catalog import Catalog
    from pktable.catalog.schemas import find_table

    store, paths, schemas = find_table(
        path, storage_options=storage_options(storage), external_roots=external_roots()
    )
    # Who opens a catalog alone commits nothing, and needs no clock.
    return Catalog(store, paths.root, schemas, clock=lambda: 0, branch=paths.branch)


def _is_hudi(path: str, storage: Sequence[str] | None) -> bool:
    """Return whether a table of Apache Hudi lies at ``path``. Raises InvalidRequestError."""
    from pktable.catalog.schemas import find_store
    from pktable.format.paths import HUDI_PROPERTIES

    options, roots = storage_options(storage), external_roots()
    store, root = find_store(path, storage_options=options, external_roots=roots)
    return store.exists(f"{root}/{HUDI_PROPERTIES}")


def external_roots() -> list[str]:
    """Return the directories outside of a table that it may use, which the user names in the environment."""
    return names(os.environ.get("PKTABLE_EXTERNAL_ROOTS", ""))


def spark_session() -> Any:
    """Connect to the server that SPARK_REMOTE names, or start Spark here. Raises InvalidRequestError without Java."""
    from pktable.run.spark import session

    return session.spark_session()
