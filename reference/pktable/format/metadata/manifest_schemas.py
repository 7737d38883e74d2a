"""The Avro schemas that manifests are written with, names and order exactly as Paimon 2.0 has them.

Clauses: META-3.
"""

from __future__ import annotations

from typing import Any, Final

from pktable.format.avro import RecordSchema

NAMESPACE: Final = "org.apache.paimon.avro.generated"


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": f"record_{name}", "fields": list(fields)}


def _top(*fields: dict[str, Any]) -> RecordSchema:
    return RecordSchema({"type": "record", "name": "record", "namespace": NAMESPACE, "fields": list(fields)})


def _stats(name: str) -> dict[str, Any]:
    return _record(
        name,
        _field("_MIN_VALUES", "bytes"),
        _field("_MAX_VALUES", "bytes"),
        _optional("_NULL_COUNTS", _array(["null", "long"])),
    )


MANIFEST_LIST: Final = _top(
    _field("_VERSION", "int"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_NUM_ADDED_FILES", "long"),
    _field("_NUM_DELETED_FILES", "long"),
    _field("_PARTITION_STATS", _stats("_PARTITION_STATS")),
    _field("_SCHEMA_ID", "long"),
    _optional("_MIN_BUCKET", "int"),
    _optional("_MAX_BUCKET", "int"),
    _optional("_MIN_LEVEL", "int"),
    _optional("_MAX_LEVEL", "int"),
    _optional("_MIN_ROW_ID", "long"),
    _optional("_MAX_ROW_ID", "long"),
)

_DATA_FILE: Final = _record(
    "_FILE",
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _field("_MIN_KEY", "bytes"),
    _field("_MAX_KEY", "bytes"),
    _field("_KEY_STATS", _stats("_FILE__KEY_STATS")),
    _field("_VALUE_STATS", _stats("_FILE__VALUE_STATS")),
    _field("_MIN_SEQUENCE_NUMBER", "long"),
    _field("_MAX_SEQUENCE_NUMBER", "long"),
    _field("_SCHEMA_ID", "long"),
    _field("_LEVEL", "int"),
    _field("_EXTRA_FILES", _array("string")),
    _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    _optional("_DELETE_ROW_COUNT", "long"),
    _optional("_EMBEDDED_FILE_INDEX", "bytes"),
    _optional("_FILE_SOURCE", "int"),
    _optional("_VALUE_STATS_COLS", _array("string")),
    _optional("_EXTERNAL_PATH", "string"),
    _optional("_FIRST_ROW_ID", "long"),
    _optional("_WRITE_COLS", _array("string")),
)

DATA_FILE: Final = RecordSchema(_DATA_FILE)
"""The last field of an entry of a manifest."""

MANIFEST: Final = _top(
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_TOTAL_BUCKETS", "int"),
    _field("_FILE", _DATA_FILE),
)

_VECTOR_RANGE: Final = _record(
    "_DELETIONS_VECTORS_RANGES",
    _field("f0", "string"),
    _field("f1", "int"),
    _field("f2", "int"),
    _optional("_CARDINALITY", "long"),
)

_GLOBAL_INDEX: Final = _record(
    "_GLOBAL_INDEX",
    _field("_ROW_RANGE_START", "long"),
    _field("_ROW_RANGE_END", "long"),
    _field("_INDEX_FIELD_ID", "int"),
    _optional("_EXTRA_FIELD_IDS", _array("int")),
    _optional("_INDEX_META", "bytes"),
    _optional("_SOURCE_META", "bytes"),
)

INDEX_MANIFEST: Final = _top(
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_INDEX_TYPE", "string"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _optional("_DELETIONS_VECTORS_RANGES", _array(["null", _VECTOR_RANGE])),
    _optional("_EXTERNAL_PATH", "string"),
    _optional("_GLOBAL_INDEX", _GLOBAL_INDEX),
)
