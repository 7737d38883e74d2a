"""The settings of a Hudi table: read from ``.hoodie/hoodie.properties``, and refused if their meaning is missing here.

The **merge mode** decides which of two records of a key wins. By *event time* it is the one with the greater value in
the ordering field, of equal ones the later one. By *commit time* it is the later one. Tables before version 8 name a
Java class instead, and two of those classes mean the same as the two modes.

Clauses: LOG-18, LOG-28, LOG-29, LOG-81.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from pktable.store.file_io import FileIO
from pktable_spec.errors import InvalidRequestError, NotATableError, UnsupportedOptionError

from pktable_hudi.format.names import DIRECTORY, PROPERTIES
from pktable_hudi.format.properties import decode_properties

Kind = TypeVar("Kind")

VERSIONS: Final = (6, 8, 9)
FIRST_WITH_COMPLETION_TIMES: Final = 8

EVENT_TIME, COMMIT_TIME = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
MODE: Final = "hoodie.record.merge.mode"
PAYLOAD: Final = "hoodie.compaction.payload.class"
STRATEGY: Final = "hoodie.record.merge.strategy.id"
ORDERING: Final = ("hoodie.table.ordering.fields", "hoodie.table.precombine.field")
_PAYLOADS: Final = "org.apache.hudi.common.model."
MODE_OF_PAYLOAD: Final[Mapping[str, str]] = {
    f"{_PAYLOADS}DefaultHoodieRecordPayload": EVENT_TIME,
    f"{_PAYLOADS}EventTimeAvroPayload": EVENT_TIME,
    f"{_PAYLOADS}OverwriteWithLatestAvroPayload": COMMIT_TIME,
}
MODE_OF_STRATEGY: Final[Mapping[str, str]] = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": COMMIT_TIME,
}

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "hoodie.table.type": ("MERGE_ON_READ", "COPY_ON_WRITE"),
    "hoodie.table.base.file.format": ("PARQUET",),
    "hoodie.populate.meta.fields": ("true",),
    "hoodie.datasource.write.drop.partition.columns": ("false",),
    "hoodie.table.format": ("native",),
    "hoodie.table.log.file.format": ("HOODIE_LOG",),
    "hoodie.bootstrap.base.path": ("",),
    "hoodie.table.partial.update.mode": ("",),
    "hoodie.table.meta.fields.exclude.list": ("",),
}
"""The values of settings that are implemented. The first is what a missing setting means."""

REFUSED_PREFIX: Final = "hoodie.record.merge.property."


@dataclass(frozen=True)
class HudiSettings:
    """The settings that reading depends on.

    ``ordering_field``: None if records are ordered by commit time. ``timeline``, ``history``: directories below the
    table. ``created_with``: the Avro schema that the table was created with, empty if it is not recorded.
    """

    name: str
    version: int
    is_merge_on_read: bool
    ordering_field: str | None
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    timeline: str
    history: str
    created_with: str

    @property
    def has_completion_times(self) -> bool:
        """Whether the timeline says when each action was completed, and log files name their own commit."""
        return self.version >= FIRST_WITH_COMPLETION_TIMES


def read_settings(store: FileIO, root: str) -> HudiSettings:
    """Return the settings of the table at ``root``.

    Raises NotATableError, CorruptFileError, UnsupportedOptionError. Clauses: LOG-18.
    """
    return _settings_of(_properties(store, root))


def _properties(store: FileIO, root: str) -> Mapping[str, str]:
    path = f"{root}/{PROPERTIES}"
    try:
        return decode_properties(store.read(path), at=path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotATableError(root, "none", PROPERTIES) from None


def _settings_of(given: Mapping[str, str]) -> HudiSettings:
    for option, values in REQUIRED.items():
        if (found := given.get(option) or values[0]).lower() not in [value.lower() for value in values]:
            raise UnsupportedOptionError(option, found, " or ".join(values) or "no value")
    for option, value in given.items():
        if option.startswith(REFUSED_PREFIX) and value:
            raise UnsupportedOptionError(option, value, "no value")
    version = _version(given)
    below = f"{DIRECTORY}/{given.get('hoodie.timeline.path') or 'timeline'}"
    return HudiSettings(
        name=given.get("hoodie.table.name", ""),
        version=version,
        is_merge_on_read=(given.get("hoodie.table.type") or "MERGE_ON_READ").upper() == "MERGE_ON_READ",
        ordering_field=_ordering_field(given, version),
        key_fields=_names(given.get("hoodie.table.recordkey.fields")),
        partition_fields=_names(given.get("hoodie.table.partition.fields")),
        timeline=below if version >= FIRST_WITH_COMPLETION_TIMES else DIRECTORY,
        history=f"{below}/{given.get('hoodie.timeline.history.path') or 'history'}",
        created_with=given.get("hoodie.table.create.schema", ""),
    )


def properties_as_opened(store: FileIO, root: str, settings: HudiSettings) -> Mapping[str, str]:
    """Return the properties of the table at ``root``, which was opened with ``settings``.

    Raises NotATableError and InvalidRequestError if the table was dropped or replaced since then, CorruptFileError,
    UnsupportedOptionError. Clauses: LOG-81.
    """
    try:
        given = _properties(store, root)
    except NotATableError:
        raise NotATableError(root, "none; the table was dropped or renamed after it was opened") from None
    if _settings_of(given) != settings:
        raise InvalidRequestError(
            f"{root}: another table has taken its place since it was opened ({root}/{PROPERTIES} differs); "
            "open it again"
        )
    return given


def _version(given: Mapping[str, str]) -> int:
    text = given.get("hoodie.table.version", "")
    if text not in map(str, VERSIONS):
        raise UnsupportedOptionError("hoodie.table.version", text, " or ".join(map(str, VERSIONS)))
    return int(text)


def _ordering_field(given: Mapping[str, str], version: int) -> str | None:
    """Return the field that orders the records of a key, None if their commits do. Clauses: LOG-28, LOG-29."""
    fields = next((found for one in ORDERING if (found := _names(given.get(one)))), ())
    if _mode(given, version) == COMMIT_TIME or not fields:
        return None
    if len(fields) > 1:
        raise UnsupportedOptionError(ORDERING[0], ",".join(fields), "one ordering field")
    return fields[0]


def _mode(given: Mapping[str, str], version: int) -> str:
    """Return the merge mode. Raises UnsupportedOptionError for one of the user's own."""
    mode, payload, strategy = given.get(MODE), given.get(PAYLOAD), given.get(STRATEGY)
    if mode:
        if mode not in (EVENT_TIME, COMMIT_TIME):
            raise UnsupportedOptionError(MODE, mode, f"{EVENT_TIME} or {COMMIT_TIME}")
        return mode
    if payload:
        if payload not in MODE_OF_PAYLOAD:
            raise UnsupportedOptionError(PAYLOAD, payload, " or ".join(MODE_OF_PAYLOAD))
        return MODE_OF_PAYLOAD[payload]
    if strategy:
        if strategy not in MODE_OF_STRATEGY:
            raise UnsupportedOptionError(STRATEGY, strategy, " or ".join(MODE_OF_STRATEGY))
        return MODE_OF_STRATEGY[strategy]
    return EVENT_TIME if version >= FIRST_WITH_COMPLETION_TIMES else COMMIT_TIME


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def expect_instant(instant: str) -> str:
    """Return ``instant`` if it is one. Raises InvalidRequestError."""
    if (
        not isinstance(instant, str)
        or not instant.isascii()
        or not instant.isdigit()
        or len(instant) not in (14, 17)
    ):
        raise InvalidRequestError(f"instant: expected yyyyMMddHHmmss or yyyyMMddHHmmssSSS, found {instant!r}")
    return instant


def expect_kind(name: str, kind: type[Kind], value: object) -> Kind:
    """Return ``value`` if it is of the class ``kind``. Raises InvalidRequestError."""
    if isinstance(value, kind):
        return value
    raise InvalidRequestError(f"{name}: expected {kind.__name__}(…), found {value!r}")
