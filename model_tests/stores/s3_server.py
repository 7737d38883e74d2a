"""An S3 server in this process: moto's, behind a door that counts requests and can make them fail.

Real S3 decides a conditional put atomically. Moto looks first and puts afterwards, in a thread for each request, so the
door lets one request in at a time. That makes moto's answer to two racing puts the one that S3 gives.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

import pytest

ACCESS_KEY: Final = "AKIAPKTABLETESTS"
BUCKET: Final = "warehouse"

Environ = dict[str, Any]
Answer = Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the server saw it. ``path``: bucket and key. ``condition``: its If-None-Match, None if absent."""

    method: str
    path: str
    query: str
    condition: str | None

    @property
    def what(self) -> str:
        """Return what was asked for, in a word."""
        names = parse_qs(self.query, keep_blank_values=True)
        if "list-type" in names:
            return "LIST"
        if "uploads" in names or "uploadId" in names:
            return "MULTIPART"
        return "DELETE" if "delete" in names else self.method


class Server:
    """A running server with one empty bucket, `BUCKET`. It accepts the one access key, `ACCESS_KEY`.

    ``fault``: asked about each request; returns a status to answer with instead of what S3 would answer.
    ``before``: whether the fault keeps the request from being carried out; otherwise only its answer is lost.
    ``ignores_conditions``: puts overwrite, whatever they are conditional on.
    ``delay``: seconds before each answer, as on the way to a real store. ``spans``: when each request began and ended.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):  # type: ignore[misc]
            protocol_version = "HTTP/1.1"

            def log(self, type: str, message: str, *args: Any) -> None:
                """Say nothing."""

        self._moto: Any = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.fault: Callable[[Request], int | None] = lambda request: None
        self.before = True
        self.ignores_conditions = False
        self.delay = 0.0
        self.spans: list[tuple[float, float]] = []
        self._server: Any = make_server("127.0.0.1", 0, self._app, threaded=True, request_handler=Quiet)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.options = {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": "secret",
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "allow_http": "true",
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def client(self) -> Any:
        """Return a client of another make than the one under test."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of the objects below ``prefix``."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def fill(self, prefix: str, count: int) -> None:
        """Put empty objects below ``prefix``, without a request for each."""
        from moto.s3.models import s3_backends

        for number in range(count):
            s3_backends["123456789012"]["aws"].put_object(BUCKET, f"{prefix}/{number}", b"")

    @contextlib.contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """Count the requests made inside the block, by what they ask for."""
        start = len(self.requests)
        counts: Counter[str] = Counter()
        yield counts
        counts.update(request.what for request in self.requests[start:])

    @contextlib.contextmanager
    def faulty(self, fault: Callable[[Request], int | None], *, before: bool = True) -> Iterator[None]:
        """Let ``fault`` answer inside the block."""
        self.fault, self.before = fault, before
        try:
            yield
        finally:
            self.fault, self.before = lambda request: None, True

    def _app(self, environ: Environ, start_response: Callable[..., Any]) -> Answer:
        request = Request(
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            environ.get("QUERY_STRING", ""),
            environ.get("HTTP_IF_NONE_MATCH"),
        )
        began = time.monotonic()
        time.sleep(self.delay)
        try:
            return self._answer(request, environ, start_response)
        finally:
            self.spans.append((began, time.monotonic()))

    def _answer(self, request: Request, environ: Environ, start_response: Callable[..., Any]) -> Answer:
        with self._lock:
            self.requests.append(request)
            status = self.fault(request)
            if f"Credential={ACCESS_KEY}/" not in environ.get("HTTP_AUTHORIZATION", ""):
                status = 403
            if status is not None and (self.before or status == 403):
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                return _failed(environ, start_response, status)
            if self.ignores_conditions:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            answer = list(self._moto(environ, (lambda *_, **__: None) if status else start_response))
        return answer if status is None else _failed(environ, start_response, status)


def _failed(environ: Environ, start_response: Callable[..., Any], status: int) -> Answer:
    """Answer as S3 does where it refuses."""
    code, message = {
        403: ("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
        503: ("SlowDown", "Please reduce your request rate."),
        501: ("NotImplemented", "A header you provided implies functionality that is not implemented."),
    }.get(status, ("InternalError", "We encountered an internal error. Please try again."))
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    start_response(f"{status} {code}", headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Start a server with its bucket; skip the test if moto or obstore is not installed."""
    for needed in ("obstore", "moto.moto_server.werkzeug_app", "flask_cors"):
        pytest.importorskip(needed, reason="object stores are tested with pktable[dev] installed")
    server = Server()
    try:
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        server.close()
