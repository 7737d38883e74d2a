"""The options of the data source: which there are, what each is for, and what they ask for.

Spark hands over the keys in lower case, and among them some of its own. Any other key is refused, with the list of
those that there are: an option that is spelled wrongly must not read another snapshot in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pktable_spec.errors import InvalidRequestError, NotATableError, SnapshotNotFoundError
from pktable_spec.options import option_named

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pktable.catalog.catalog import Catalog
    from pktable.context import TableContext
    from pktable.table import Table

READ, WRITE, READ_STREAM, WRITE_STREAM = "read", "write", "readStream", "writeStream"

SPARKS: Final = frozenset(
    {"path", "paths", "owner", "location", "provider", "external", "checkpointlocation", "queryname"}
)
KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "scan.mode": (READ, READ_STREAM),
    "scan.snapshot-id": (READ, READ_STREAM),
    "scan.tag-name": (READ,),
    "scan.timestamp-millis": (READ, READ_STREAM),
    "incremental-between": (READ,),
    "read.changelog": (READ, READ_STREAM),
    "filter": (READ, READ_STREAM),
    "fresh": (READ,),
    "ignoreOptions": (READ, READ_STREAM),
    "branch": (READ, READ_STREAM, WRITE, WRITE_STREAM),
    "failOnDataLoss": (READ_STREAM,),
    "maxSnapshotsPerTrigger": (READ_STREAM,),
    "row-kind-column": (WRITE, WRITE_STREAM),
    "commit-user": (WRITE, WRITE_STREAM),
    "commit-identifier": (WRITE,),
    "partitionOverwriteMode": (WRITE,),
    "primary-key": (WRITE, WRITE_STREAM),
    "partition": (WRITE, WRITE_STREAM),
}
"""The uses of each option. A write has the options of tables, too, for a table that it makes."""

MODE_OF: Final[Mapping[str, str]] = {
    "scan.snapshot-id": "from-snapshot",
    "scan.tag-name": "from-snapshot",
    "scan.timestamp-millis": "from-timestamp",
    "incremental-between": "incremental",
}
"""The options for where a read begins, and the ``scan.mode`` that each implies."""

LATEST, LATEST_FULL = "latest", "latest-full"
FROM_SNAPSHOT, FROM_SNAPSHOT_FULL = "from-snapshot", "from-snapshot-full"
FROM_TIMESTAMP, INCREMENTAL = "from-timestamp", "incremental"
MODES: Final = (LATEST_FULL, LATEST, FROM_SNAPSHOT, FROM_SNAPSHOT_FULL, FROM_TIMESTAMP, INCREMENTAL)


@dataclass(frozen=True)
class Options:
    """The options of one use of the data source. ``values``: by key in lower case. They pickle."""

    values: Mapping[str, str]

    @classmethod
    def given(cls, options: Mapping[str, str], *uses: str) -> Options:
        """Return the options. Raises InvalidRequestError for one that none of ``uses`` has."""
        values = {key.lower(): value for key, value in options.items()}
        known = [name for name, of in KNOWN.items() if set(of) & set(uses)]
        found = cls(values)
        of_tables = found.of_table.keys() if {WRITE, WRITE_STREAM} & set(uses) else set()
        unknown = sorted(values.keys() - SPARKS - {name.lower() for name in known} - of_tables)
        if unknown:
            raise InvalidRequestError(
                f"option {', '.join(unknown)}: not an option of {uses[0]}; there are {', '.join(known)}"
            )
        return found

    @property
    def of_table(self) -> dict[str, str]:
        """The options of tables, for one that a write makes."""
        others = SPARKS | {name.lower() for name in KNOWN}
        return {
            name: text
            for name, text in self.values.items()
            if name not in others and option_named(name) is not None
        }

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def number(self, name: str, least: int) -> int | None:
        """Return an integer. Raises InvalidRequestError unless it is one, and not below ``least``."""
        text = self.text(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise InvalidRequestError(f"option {name}: expected an integer from {least} on, found {text!r}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise InvalidRequestError(f"option {name}: expected true or false, found {text!r}")
        return text.lower() == "true"

    @property
    def mode(self) -> str:
        """The ``scan.mode``, or the one that another option implies. Raises InvalidRequestError if they differ."""
        given = [name for name in MODE_OF if self.text(name) is not None]
        if len(given) > 1:
            raise InvalidRequestError(f"options {' and '.join(given)}: expected one of them")
        implied = MODE_OF[given[0]] if given else LATEST_FULL
        mode = self.text("scan.mode") or "default"
        if mode == "default":
            return implied
        if mode not in MODES:
            raise InvalidRequestError(
                f"option scan.mode: expected one of default, {', '.join(MODES)}, found {mode!r}"
            )
        if mode.removesuffix("-full") != implied.removesuffix("-full"):
            needed = [name for name, of in MODE_OF.items() if of == mode.removesuffix("-full")]
            wants = f"needs {' or '.join(needed)}" if needed else "needs no other option"
            found = f", found {given[0]}" if given else ""
            raise InvalidRequestError(f"option scan.mode={mode}: {wants}{found}")
        return mode

    @property
    def as_of(self) -> dict[str, Any]:
        """The snapshot to read, as keywords of `Table.scan`."""
        return {
            "snapshot": self.number("scan.snapshot-id", 1),
            "tag": self.text("scan.tag-name"),
            "timestamp": self.number("scan.timestamp-millis", 0),
        }

    @property
    def between(self) -> tuple[int | str, int | str]:
        """Start and end of ``incremental-between``: ids of snapshots, or tags. Raises InvalidRequestError."""
        text = self.text("incremental-between") or ""
        ends = [one.strip() for one in text.split(",")]
        if len(ends) != 2 or not all(ends):
            raise InvalidRequestError(
                f"option incremental-between: expected two ids or tags, such as 3,7, found {text!r}"
            )
        start, end = (int(one) if one.isdecimal() else one for one in ends)
        return start, end

    def open_table(self) -> Table:
        """Open the table, or its branch. Raises as `Table.open`. Clauses: BRN-1, TBL-35."""
        from pktable.table import Table  # late: Spark makes many processes that open none

        ignored = [name.strip() for name in (self.text("ignoreOptions") or "").split(",") if name.strip()]
        return Table.open(self.path, ignore_options=ignored, branch=self.text("branch"))

    def context(self, catalog: Catalog) -> TableContext:
        """Return the table under the schema that a DataFrame has; the latest one if the snapshot to read is not there.

        Raises InvalidRequestError, CorruptFileError. Clauses: RD-14.
        """
        from pktable.catalog.as_of import AsOf

        try:
            if self.mode == INCREMENTAL:
                return catalog.read_changes(*self.between, lambda parts, context: context)
            return catalog.read_as_of(AsOf.given(**self.as_of), lambda state, context: context)
        except SnapshotNotFoundError:
            return catalog.context

    def open_or_make(self, columns: StructType) -> tuple[Table, bool]:
        """Open the table of a write, or make it of ``columns`` if there is none; return it, and whether it was made.

        Raises InvalidRequestError if there is none and the key is not given, or the table there is another one.
        Clauses: WH-23.
        """
        from pyspark.sql.types import StructField, StructType

        from pktable.table import Table

        key, partition = self.text("primary-key"), self.text("partition")
        try:
            table = self.open_table()
        except NotATableError:
            if key is None:
                raise InvalidRequestError(
                    f"{self.path}: expected a table, found none; to make one of the DataFrame's columns, give the "
                    "option primary-key (columns with commas, or '' for an append table), partition, options of tables"
                ) from None
            made = StructType([StructField(one.name, one.dataType) for one in columns])
            names = [_names(key), _names(partition)]
            Table.create(self.path, made, primary_key=names[0], partition_by=names[1], options=self.of_table)
            return self.open_table(), True
        wanted = {
            "primary-key": (key and _names(key), list(table.schema.primary_keys)),
            "partition": (partition and _names(partition), list(table.schema.partition_keys)),
        } | {name: (text, table.options.get(name)) for name, text in self.of_table.items()}
        for name, (asked, found) in wanted.items():
            if asked is not None and asked != "" and asked != found:
                raise InvalidRequestError(
                    f"option {name}: expected that of the table, which is there already, {found!r}, found {asked!r}"
                )
        return table, False

    @property
    def path(self) -> str:
        """The table's path. Raises InvalidRequestError if there is none."""
        path = self.text("path")
        if not path:
            raise InvalidRequestError(
                "path: expected the directory or URI of a table, found none; give it to load or save. Of a table in "
                "its catalog Spark does not tell the path: use CREATE TEMPORARY VIEW v USING pktable OPTIONS (path '…')"
            )
        return path


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
