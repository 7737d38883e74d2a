"""pktable as a runner of the conformance kit, reader and writer. ``python -m model_tests.conform.pktable_runner``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pktable import Table
from pktable_conform.judge.history import row_kind
from pktable_conform.remote import NUMBERS
from pktable_conform.runner import COMMANDS, FEATURES, FORMATS, PROTOCOL, TYPES
from pktable_spec.errors import PkTableError
from pktable_spec.interface import BucketId, Change, FileInfo, Scalar, Shape, VectorInfo

from model_tests.backends.tables import PaimonTable
from model_tests.conform.tables import read


class Program:
    """The table that is open: one that was there, or a new one of a history, which ``make`` makes."""

    def __init__(self, make: Callable[[Shape, Mapping[str, str], Path], Any] = PaimonTable) -> None:
        self._make = make
        self._stored: Table | None = None
        self._new: Any = None
        self._shape = Shape("", (), ())

    def supports(self, request: Mapping[str, Any]) -> object:
        features = [name for name in FEATURES if name != "sketches" or find_spec("datasketches")]
        names = {"commands": list(COMMANDS), "features": features}
        writes = {one: list(TYPES) for one in FORMATS}
        return {"protocol": PROTOCOL, "name": "pktable", **names, "writes": writes}

    def open(self, request: Mapping[str, Any]) -> None:
        self._stored, self._new = Table.open(request["table"]), None

    def create(self, request: Mapping[str, Any]) -> None:
        self._stored = None
        columns = tuple((name, type) for name, type in request["columns"])
        keys = tuple(request["primary_key"]), tuple(request["partition_keys"])
        self._shape = Shape("t", columns, *keys)
        self._new = self._make(self._shape, request["options"], Path(request["table"]))

    def read(self, request: Mapping[str, Any]) -> object:
        table = self._new.table if self._new is not None else self._stored
        assert table is not None
        arguments = {name: value for name, value in request.items() if name not in ("id", "do")}
        return {"rows": read(table, arguments)}

    def write(self, request: Mapping[str, Any]) -> None:
        types = [type.split()[0] for _, type in self._shape.columns]
        changes = [Change(row_kind(kind), tuple(map(_value, row, types))) for kind, row in request["changes"]]
        self._table.write(changes, write_only=request["write_only"])

    def compact(self, request: Mapping[str, Any]) -> None:
        self._table.compact(full=request["full"])

    def reopen(self, request: Mapping[str, Any]) -> None:
        self._table.reopen()

    def snapshots(self, request: Mapping[str, Any]) -> object:
        return [{"id": one.id, "kind": one.kind} for one in self._table.snapshots()]

    def files(self, request: Mapping[str, Any]) -> object:
        return [_file(one) for one in self._table.files(request["snapshot"])]

    def vectors(self, request: Mapping[str, Any]) -> object:
        return [_vector(one) for one in self._table.vectors(request["snapshot"])]

    @property
    def _table(self) -> Any:
        assert self._new is not None
        return self._new

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Return the answer to a request."""
        try:
            return {"ok": getattr(self, request["do"])(request)}
        except PkTableError as refusal:
            return {"refused": str(refusal)}


def _value(text: str | None, type: str) -> Scalar:
    return text if text is None or type not in NUMBERS else int(text)


def _file(info: FileInfo) -> dict[str, object]:
    """Return what is known of a file as the protocol spells it."""
    return {
        **_bucket(info.bucket),
        "name": info.name,
        "level": info.level,
        "row_count": info.row_count,
        "min_key": _texts(info.min_key),
        "max_key": _texts(info.max_key),
        "min_sequence": info.min_sequence,
        "max_sequence": info.max_sequence,
        "retraction_count": info.retraction_count,
        "size": info.size,
        "created": info.created,
    }


def _vector(info: VectorInfo) -> dict[str, object]:
    names = {"index_file": info.index_file, "data_file": info.data_file}
    return {**_bucket(info.bucket), **names, "positions": sorted(info.positions)}


def _bucket(bucket: BucketId) -> dict[str, object]:
    return {"partition": _texts(bucket[0]), "bucket": bucket[1]}


def _texts(values: tuple[Scalar, ...]) -> list[str | None]:
    return [value if value is None else str(value) for value in values]


def answer_requests(answer: Callable[[Mapping[str, Any]], Mapping[str, object]]) -> None:
    """Answer the requests on standard input, until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], **answer(request)}), flush=True)


if __name__ == "__main__":
    answer_requests(Program().answer)
