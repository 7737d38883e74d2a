"""Build the names of a table's files and directories. No other module of this package spells them.

A table directory holds ``schema/``, ``snapshot/``, ``tag/``, ``changelog/``, ``manifest/``, ``index/``, ``branch/``,
``consumer/`` and the data files, below partition directories, in ``bucket-N/``. It also holds ``fence/`` and
``staged/``, which Paimon does not have and leaves alone. A branch has schemas, snapshots, tags,
changelogs and consumers of its own in ``branch/branch-NAME/``; manifests, DV index files and data files are shared with
the main branch. ``claim`` is a file of branches that were made by us, see `catalog.branches`; Paimon has none.

The directory of a partition has its values as text, with special characters percent-encoded.

Clauses: BRN-1, BRN-3, META-1, META-2, META-9, META-31, META-49, META-50, META-59, META-81, CMT-13.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import NANOS_PER, TIMESTAMPS, DataType, Field, Value, java_time

DEFAULT_PARTITION: Final = "__DEFAULT_PARTITION__"
ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | frozenset(map(chr, range(32)))
"""Characters of a partition value that are percent-encoded in a path."""

SPACES_THAT_COUNT: Final = "\x85\u00a0\u2007\u202f"
"""Characters that are white space in Python and not in Java: a partition value of these is not blank."""


def partition_path(
    values: Sequence[Value],
    fields: Sequence[Field],
    *,
    legacy_names: bool = True,
    default_name: str = DEFAULT_PARTITION,
) -> str:
    """Return the directory of a partition, such as ``dt=2024-01-01/region=eu``; an empty text without partition keys.

    ``legacy_names``: the option ``partition.legacy-name``, by default true, under which a DATE is written
    as its number of days and a TIME as its milliseconds. ``default_name``: the name of null and blank values.
    Raises InvalidRequestError for a type or a time that cannot name a directory. Clauses: META-9, META-31, META-81.
    """
    return "/".join(
        f"{escaped(field.name)}={escaped(_spelled(value, field.type, legacy_names) or default_name)}"
        for value, field in zip(values, fields, strict=True)
    )


def escaped(text: str) -> str:
    """Return ``text`` as a part of a path, special characters percent-encoded. Clauses: META-31."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in text)


def _spelled(value: Value, t: DataType, legacy_names: bool) -> str:
    """Return a partition value as text, an empty one if it is null or blank."""
    if value is None:
        return ""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = value
    elif isinstance(value, Decimal):
        text = f"{value:f}"
    elif t.root == "DATE" and not legacy_names:
        assert isinstance(value, int)
        text = _after_epoch(days=value).date().isoformat()
    elif t.root == "TIME" and not legacy_names:
        assert isinstance(value, int)
        text = java_time(value, t.precision or 0)
    elif t.root in TIMESTAMPS:
        assert isinstance(value, int)
        text = _timestamp(value, t, legacy_names)
    elif isinstance(value, int):
        text = str(value)
    else:
        raise InvalidRequestError(
            f"a column of type {t} cannot be a partition key: its values cannot name a directory"
        )
    return "" if _is_blank(text) else text


def _is_blank(text: str) -> bool:
    return not text or (text.isspace() and not any(char in SPACES_THAT_COUNT for char in text))


def _timestamp(nanos: int, t: DataType, legacy_names: bool) -> str:
    """Return a timestamp as Java writes it: ISO with T, or with a space and at least ``precision`` digits."""
    seconds, nanos = divmod(nanos, NANOS_PER["s"])
    moment = _after_epoch(seconds=seconds)
    digits = f"{nanos:09d}"
    if not legacy_names:
        assert t.precision is not None
        fraction = digits[: t.precision] + digits[t.precision :].rstrip("0")
        return moment.isoformat(sep=" ") + ("." + fraction if fraction else "")
    # LocalDateTime.toString: seconds only if there are any, fractions in groups of three.
    if nanos:
        while digits.endswith("000"):
            digits = digits[:-3]
        return f"{moment.isoformat()}.{digits}"
    return moment.isoformat(timespec="seconds" if moment.second else "minutes")


def _after_epoch(*, days: int = 0, seconds: int = 0) -> datetime.datetime:
    try:
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(days=days, seconds=seconds)
    except OverflowError:
        value = f"{days} days" if days else f"{seconds} seconds"
        raise InvalidRequestError(f"partition value {value} after 1970: the year is not 1 to 9999") from None


SCHEMA: Final = "schema-"
SNAPSHOT: Final = "snapshot-"
TAG: Final = "tag-"
CHANGELOG: Final = "changelog-"
BRANCH: Final = "branch-"
MAIN_BRANCH: Final = "main"
OF_BRANCH: Final = "$branch_"
"""The part between a table's name and that of a branch, as in ``t$branch_b``."""
BUCKET: Final = "bucket-"
FENCE: Final = "fence-"
REMOVED: Final = "removed-"
CONSUMER: Final = "consumer-"
MANIFEST: Final = "manifest"
MANIFEST_LIST: Final = "manifest-list"
INDEX_MANIFEST: Final = "index-manifest"
LATEST, EARLIEST = "LATEST", "EARLIEST"
JSON_DIRECTORIES: Final = frozenset({"schema", "snapshot", "tag", "changelog", "fence"})
"""The names of the directories whose files are JSON, or a hint."""

TEMPORARY_SUFFIX: Final = ".tmp"
HUDI_PROPERTIES: Final = ".hoodie/hoodie.properties"
"""The file by which a table of Apache Hudi is known. Another package reads such tables."""

GREATEST: Final = (1 << 63) - 2
"""The greatest number in a name, so that the number after it has 64 bits as well."""

NAMED_BUCKETS: Final = {-2: "postpone"}
"""Buckets whose directory is not called by their number."""
WAITING: Final = f"/bucket-{NAMED_BUCKETS[-2]}"
"""The end of the directory of rows that wait for a bucket."""


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The paths of one table. ``root``: the table directory; ``branch``: None for the main branch."""

    root: str
    branch: str | None = None

    @property
    def branch_root(self) -> str:
        """The directory that holds the branch's own schemas, snapshots and tags."""
        return self.root if self.branch is None else f"{self.branches}/{BRANCH}{self.branch}"

    def of_branch(self, name: str | None) -> TablePaths:
        """Return the paths of another branch of the same table."""
        return TablePaths(self.root, name)

    @property
    def claim(self) -> str:
        """The file whose creator makes the branch, or removes one of another writer."""
        return f"{self.branch_root}/claim"

    @property
    def branches(self) -> str:
        return f"{self.root}/branch"

    @property
    def removed_branches(self) -> str:
        """The file that a branch leaves whose table had no snapshots when it was removed. Clauses: CMT-51."""
        return f"{self.branches}/removed"

    @property
    def schemas(self) -> str:
        return f"{self.branch_root}/schema"

    @property
    def snapshots(self) -> str:
        return f"{self.branch_root}/snapshot"

    @property
    def tags(self) -> str:
        return f"{self.branch_root}/tag"

    @property
    def changelogs(self) -> str:
        return f"{self.branch_root}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """Return the path of the copy of an expired snapshot whose changelog is still kept."""
        return f"{self.changelogs}/{CHANGELOG}{snapshot_id}"

    @property
    def consumers(self) -> str:
        return f"{self.branch_root}/consumer"

    def consumer(self, name: str) -> str:
        return f"{self.consumers}/{CONSUMER}{name}"

    @property
    def fences(self) -> str:
        return f"{self.branch_root}/fence"

    @property
    def manifests(self) -> str:
        return f"{self.root}/manifest"

    @property
    def indexes(self) -> str:
        return f"{self.root}/index"

    @property
    def staged(self) -> str:
        """The directory of rows on their way to a commit, which no snapshot refers to. Clauses: CMT-67."""
        return f"{self.root}/staged"

    def staged_rows(self, name: str) -> str:
        return f"{self.staged}/{name}"

    def schema(self, schema_id: int) -> str:
        return f"{self.schemas}/{SCHEMA}{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshots}/{SNAPSHOT}{snapshot_id}"

    def hint(self, name: str) -> str:
        """Return the path of a hint file, `LATEST` or `EARLIEST`."""
        return f"{self.snapshots}/{name}"

    def tag(self, name: str) -> str:
        return f"{self.tags}/{TAG}{name}"

    def fence(self, number: int) -> str:
        return f"{self.fences}/{FENCE}{number}"

    def removal(self, snapshot_id: int, delta_manifest_list: str) -> str:
        """Return the path of the file whose creator removes a snapshot that was rolled back."""
        return f"{self.fences}/{REMOVED}{snapshot_id}-{delta_manifest_list}"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, a manifest list or an index manifest."""
        return f"{self.manifests}/{name}"

    def bucket(self, data_directory: str, partition: str, bucket: int) -> str:
        """Return the directory of a bucket.

        ``data_directory``: relative to the table, empty for the table directory itself. ``partition``: as
        `partition_path` spells it, empty for a table without partitions.
        """
        name = f"{BUCKET}{NAMED_BUCKETS.get(bucket, bucket)}"
        return "/".join(part for part in (self.root, data_directory, partition, name) if part)


def of_branch(path: str, branch: str) -> str:
    """Return how a branch of the table at ``path`` is spelled as a path. Clauses: BRN-3."""
    return f"{path.rstrip('/')}{OF_BRANCH}{branch}"


def split_branch(path: str) -> tuple[str, str | None]:
    """Return the path of the table that ``path`` names, and the branch if it names one. Clauses: BRN-3."""
    table, found, branch = path.rstrip("/").rpartition(OF_BRANCH)
    return (table, branch) if found and "/" not in branch else (path, None)


def data_file(directory: str, token: str, number: int, format: str) -> str:
    """Return the path of a new data file in a bucket directory, which ends as its format says.

    ``token``: unique to the piece of work. Clauses: META-17.
    """
    if directory.endswith(WAITING):
        # Paimon compacts the files of a writer in their order, and finds the writer in their name.
        token = f"-u-{token}-s-0-w-{token}"
    return f"{directory}/data-{token}-{number}.{format}"


def changelog_file(directory: str, token: str, number: int, format: str) -> str:
    """Return the path of a new changelog file in a bucket directory."""
    return f"{directory}/{CHANGELOG}{token}-{number}.{format}"


def index_file(directory: str, token: str, number: int) -> str:
    """Return the path of a new DV index file."""
    return f"{directory}/index-{token}-{number}"


def numbered(name: str, prefix: str) -> int | None:
    """Return the number in a name such as ``snapshot-7``, None if it is not made of the prefix and a number.

    A number of more than 64 bits is none: no writer can put the one that follows it. Clauses: META-57.
    """
    digits = name.removeprefix(prefix)
    return number_of(digits) if digits != name else None


def number_of(digits: str) -> int | None:
    """Return the number from 0 to `GREATEST` that ``digits`` are, None if they are none. Clauses: META-57."""
    if not digits.isdecimal() or not digits.isascii() or len(digits) > len(str(GREATEST)):
        return None
    number = int(digits)
    return number if number <= GREATEST else None


def id_of_removal(name: str) -> int | None:
    """Return the id of the snapshot whose remover the file ``name`` tells (`TablePaths.removal`), None if none."""
    return numbered("-".join(name.split("-", 2)[:2]), REMOVED)
