"""A second merge engine, owned by the tests: the maximum of a column. See spec/tla/MaxEngine.tla.

``+I`` raises the row of its key to its own if its value is greater, ``+U`` sets it, and a retraction removes it. The
subtle case: a retraction and a later ``+I`` that are folded before what is older is read become ``+U``, which says that
what is older no longer counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from pktable.merge.grouping import Flags, Indices, Window, is_add
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND, RowKind

from model_tests.oracle.max_engine import NAME


@dataclass(frozen=True)
class MaxOfColumn:
    """The `MergeEngine`; ``column`` holds strings; null is less than any."""

    column: str
    name: str = NAME
    lookup: Literal["position", "values", "presence"] = "values"
    ignores: frozenset[RowKind] = frozenset()
    folds_retractions: bool = True
    deletes: bool = True
    updates: bool = True

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        return [*columns, *(() if self.column in columns else (self.column,))]

    def expect_any_order(self) -> None:
        """Do nothing: no table of it has a ``sequence.field``."""

    def settled(self, window: Window) -> Sequence[str]:
        return ()

    def fold(self, window: Window) -> Maxima:
        kinds = window.records.column(VALUE_KIND).to_numpy()
        values = window.records.column(self.column).to_pylist()
        ranks = [(value is not None, value or "") for value in values]
        chosen, folded = [], []
        for records in np.split(window.order, window.starts[1:]) if len(window.starts) else []:
            hiding = max((at for at, row in enumerate(records) if kinds[row] != RowKind.INSERT), default=-1)
            counting = [row for row in records[max(hiding, 0) :] if kinds[row] & 1 == 0]
            newest = records[-1]
            # Of equal values the newest, so that its other columns are shown.
            best = max(reversed(counting), key=lambda row: ranks[row], default=newest)
            chosen.append(best)
            kind = kinds[newest] if not counting else RowKind.INSERT if hiding < 0 else RowKind.UPDATE_AFTER
            folded.append(int(kind))
        return Maxima(window, np.array(chosen, np.int64), np.array(folded, np.int8))


@dataclass(frozen=True)
class Maxima:
    """The `Folded` of the engine: the greatest record of each key, with the newest sequence number."""

    window: Window
    chosen: Indices
    kinds: np.typing.NDArray[np.int8]

    def adds(self) -> Flags:
        found: Flags = (self.kinds & 1) == 0
        return found

    def rows(self, chosen: Flags | None = None) -> pa.Table:
        records = self.window.records
        sequences = records.column(SEQUENCE_NUMBER).to_numpy()[self.window.newest]
        folded = records.take(pa.array(self.chosen))
        for name, values in ((SEQUENCE_NUMBER, sequences), (VALUE_KIND, self.kinds)):
            at = folded.column_names.index(name)
            folded = folded.set_column(
                at, folded.schema.field(name), pa.array(values, folded.schema.field(name).type)
            )
        assert is_add(folded).tolist() == self.adds().tolist()
        return folded if chosen is None else folded.filter(pa.array(chosen))

    def places(self, chosen: Flags) -> tuple[pa.Table, Indices]:
        return self.rows(), np.flatnonzero(chosen)
