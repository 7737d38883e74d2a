"""A column that an aggregate function folds: its name and type, and the options of the function."""

from __future__ import annotations

from dataclasses import dataclass

from pktable.format.types import DataType


@dataclass(frozen=True, slots=True)
class Column:
    """A column to aggregate.

    ``delimiter``: the text that joins the values of ``listagg``. ``distinct``: whether ``collect`` keeps one of equal
    elements. ``nested_key``: the fields of the rows of ``nested_update`` that identify them; of rows without a key
    all are kept. ``limit``: the number of rows up to which ``nested_update`` adds some, None for any number.
    """

    name: str
    type: DataType
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    limit: int | None = None
