"""The columns of a table in the forms that `pktable` takes: SQL text, dicts, Arrow, and a Spark StructType."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pktable_spec.interface import Shape

ARROW: Final = {"INT": pa.int32(), "STRING": pa.string()}


class Exported:
    """Nothing but the protocol that Arrow schemas are exchanged by."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()


def _arrow(shape: Shape) -> pa.Schema:
    return pa.schema({name: ARROW[kind] for name, kind in shape.columns})


def _spark(shape: Shape) -> Any:
    from pyspark.sql import types as st

    kinds, struct = {"INT": st.IntegerType(), "STRING": st.StringType()}, st.StructType()
    for name, kind in shape.columns:
        struct.add(name, kinds[kind], metadata={"comment": f"the column '{name}'"})
    return struct


FORMS: Final[tuple[Callable[[Shape], Any], ...]] = (
    lambda shape: ", ".join(f"{name} {kind}" for name, kind in shape.columns),
    lambda shape: dict(shape.columns),
    lambda shape: {field.name: field.type for field in _arrow(shape)},
    _arrow,
    lambda shape: Exported(_arrow(shape)),
    _spark,
)


def defined(shape: Shape, options: Mapping[str, str]) -> Any:
    """Return the columns of a table, in a form that depends on its shape and options; types of text alone as text."""
    if not {kind for _, kind in shape.columns} <= ARROW.keys():
        return FORMS[0](shape)
    drawn = zlib.crc32(repr((shape.name, sorted(options.items()))).encode())
    return FORMS[drawn % len(FORMS)](shape)
