"""Tables of histories on an S3 server, whose files are looked at through another client than the tested one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pktable_spec.interface import OpenTable, Shape

from model_tests.backends.tables import PaimonTable
from model_tests.stores.s3_server import BUCKET, Server


class S3Table(PaimonTable):
    """A `pktable.Table` at ``uri``, a URI in `BUCKET`."""

    def __init__(self, server: Server, shape: Shape, options: Mapping[str, str], uri: str) -> None:
        self._client = server.client()
        super().__init__(shape, options, uri, storage_options=server.options)

    def close(self) -> None:
        """Leave the objects where they are: they go with the server."""

    def _stored_bytes(self, path: str) -> bytes:
        found: bytes = self._client.get_object(Bucket=BUCKET, Key=_key(path))["Body"].read()
        return found

    def _store_bytes(self, path: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=_key(path), Body=data)


def tables_on(server: Server, root: str) -> OpenTable:
    """Return what opens new tables below ``root``."""
    numbers = itertools.count()

    def open_table(shape: Shape, options: Mapping[str, str]) -> S3Table:
        return S3Table(server, shape, options, f"{root}/table-{next(numbers)}")

    return open_table


def _key(uri: str) -> str:
    return uri.removeprefix(f"s3://{BUCKET}/")
