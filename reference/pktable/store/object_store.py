"""Tables on object stores (S3, Google Cloud Storage, Azure Blob Storage), through the client `obstore`.

Paths are whole URIs, such as ``s3://bucket/warehouse/cities``, of one bucket or container. Nothing in them is
percent-encoded: the key of an object is spelled as Paimon spells it.

A commit needs one thing of a store: creating an object only if it is absent. Stores do that by a condition on the put
(``If-None-Match: *``). Some stores ignore the condition and overwrite. So the first conditional put of a process to a
bucket is preceded by a probe, and a store that fails it is refused.

The client reports most failures as one kind of error. The rest is in its text: the status, the body of the answer, or
the cause of a failed connection. `os_error` reads them from there.

Clauses: CMT-19.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError

from pktable.retry import RetryPolicy, retry
from pktable.store.file_info import FileInfo
from pktable.store.object_files import ObjectSink, ObjectSource, readable

STATUS: Final = re.compile(r"status code: (\d{3}) ?([^:]*)")
CODE: Final = re.compile(r"<Code>([^<]*)</Code>")
MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")
CAUSE: Final = re.compile(r'message: "([^"]+)"')
HTTP_KIND: Final = re.compile(r"HttpError \{\s*kind: (\w+)")

NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
NO_CREDENTIALS: Final = ("/latest/api/token", "computeMetadata", "metadata/identity", "MissingCredentials")
BUSY: Final = (429, 503)
UNABLE: Final = (501,)
"""The status of a store that does not know what it was asked for."""


class BusyError(OSError):
    """The store did nothing, because it has too much to do. The same request may be sent again."""


def os_error(error: Exception, uri: str, *, put: bool = False) -> Exception:
    """Return what is raised for an error of the client in a request for ``uri``.

    ``put``: the request was a conditional put. An object that exists is then FileExistsError, a store without such puts
    InvalidRequestError, and one that is busy BusyError.
    """
    kind, text = type(error).__name__, str(error)
    status = int(found[1]) if (found := STATUS.search(text)) else None
    if any(word in text for word in NO_BUCKET):
        bucket = "/".join(uri.split("/")[:3])
        return InvalidRequestError(f"{bucket}: the bucket does not exist; create it, or correct the name")
    if put and kind in ("AlreadyExistsError", "PreconditionError"):
        return FileExistsError(errno.EEXIST, "the object exists", uri)
    if put and (kind in ("NotImplementedError", "NotSupportedError") or status in UNABLE):
        return InvalidRequestError(
            f"{uri}: the store cannot create an object only if it is absent, so two writers could overwrite each "
            f"other's commits; tables there can be read, not written: use a store with conditional puts"
        )
    if kind in ("ValueError", "InvalidPathError"):
        return InvalidRequestError(f"{uri}: {_first_line(text)}")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such object", uri)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        return PermissionError(errno.EACCES, f"access denied ({_answer(text, status)})", uri)
    if put and status in BUSY:
        return BusyError(errno.EBUSY, f"the store is busy ({_answer(text, status)})", uri)
    return _failure(text, status, uri)


def refused(error: Exception, base: str) -> InvalidRequestError:
    """Return what is raised for an error of the client about the settings of a store."""
    if type(error).__name__ == "UnknownConfigurationKeyError":
        name = found[1] if (found := re.search(r"key: '([^']*)'", str(error))) else "?"
        return InvalidRequestError(
            f"{base}: there is no storage option {name}; the names are those of obstore, such as "
            f"aws_access_key_id, aws_secret_access_key, endpoint, region, allow_http"
        )
    return InvalidRequestError(f"{base}: storage options: {_first_line(str(error))}")


def _failure(text: str, status: int | None, uri: str) -> OSError:
    """Return the error for a request that the store did not answer, or not as it should."""
    if any(word in text for word in NO_CREDENTIALS):
        return PermissionError(
            errno.EACCES,
            "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or those of the store), give "
            "them as storage options, or give skip_signature=true for a public bucket",
            uri,
        )
    if status is not None:
        return OSError(errno.EIO, f"the store failed ({_answer(text, status)})", uri)
    if "HTTP error: builder error" in text:
        return ConnectionError(
            errno.EPROTO,
            "the endpoint cannot be reached this way; one that begins with http:// needs the storage option "
            "allow_http=true",
            uri,
        )
    cause = found[1] if (found := CAUSE.search(text)) else _first_line(text)
    kind = found[1] if (found := HTTP_KIND.search(text)) else ""
    if kind == "Timeout" or "timed out" in text:
        return TimeoutError(errno.ETIMEDOUT, f"the store did not answer in time ({cause})", uri)
    if kind:
        return ConnectionError(errno.ECONNABORTED, f"the store cannot be reached ({cause})", uri)
    return OSError(errno.EIO, cause, uri)


def _answer(text: str, status: int | None) -> str:
    """Return what the store said in its answer."""
    parts = [f"{status}"] if status else []
    parts += [found[1] for pattern in (CODE, MESSAGE) if (found := pattern.search(text))]
    return ": ".join(" ".join(part.split()) for part in parts) or _first_line(text)


def _first_line(text: str) -> str:
    return " ".join(text.partition("\n\nDebug source")[0].split()) or "no reason given"


S3, GCS, AZURE = "S3", "GCS", "Azure"

KINDS: Final[Mapping[str, str]] = {
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "gs": GCS,
    "gcs": GCS,
    "az": AZURE,
    "azure": AZURE,
    "adl": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}
"""The kind of store by the scheme of its URIs."""

URI: Final = re.compile(r"([a-z0-9]+)://([^/]+)(?:/(.*))?", re.S)

RETRIES: Final[Mapping[str, Any]] = {
    "max_retries": 6,
    "retry_timeout": timedelta(minutes=1),
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
}
NO_RETRIES: Final[Mapping[str, Any]] = {"max_retries": 0}

WHILE_BUSY: Final = RetryPolicy(attempts=8, first_wait=0.1, longest_wait=5.0)
"""How often a conditional put is sent again if the store has said that it did nothing."""

Options = tuple[tuple[str, str], ...]


def is_object_uri(uri: str) -> bool:
    """Return whether ``uri`` names something in a store that this module reaches."""
    return kind_of_store(uri) is not None


def kind_of_store(uri: str) -> str | None:
    """Return the kind of store that ``uri`` names, None if it is not an object store."""
    scheme, separator, _ = uri.partition("://")
    return KINDS.get(scheme.lower()) if separator else None


class ObjectStoreIO:
    """One bucket or container as a `FileIO`; ``uri``: any URI in it.

    ``storage_options``: settings by the names that obstore gives them, such as ``aws_access_key_id``, ``endpoint``,
    ``region``, ``allow_http``. Settings of the environment (``AWS_ACCESS_KEY_ID``, …) hold where they are absent. The
    object pickles, and the options, with any secret among them, are part of the pickle.

    Errors of the store: FileNotFoundError, PermissionError, ConnectionError, TimeoutError and other OSErrors, each with
    the URI of the object as its ``filename``. Requests that may be repeated are repeated for up to a minute.

    There are no directories: one is listed if an object lies below it. Raises InvalidRequestError for an option that
    the store does not have, and if obstore is not installed.
    """

    late_puts = True
    """A put that ended in an error may still be under way, and be carried out later."""
    requests_at_once = 16
    """More would gain little, and a store answers to bursts that it is busy."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        scheme, authority, _ = _parts(uri)
        self.storage_options: Options = tuple(sorted(dict(storage_options or {}).items()))
        self._kind, self._authority = KINDS[scheme], authority
        self.base = f"{scheme}://{authority}"
        # Wrong options are refused here, not at the first request.
        _client(self.base, self._kind, self._authority, self.storage_options, True)

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectStoreIO, (self.base, dict(self.storage_options))

    def __repr__(self) -> str:
        return f"<ObjectStoreIO {self.base}>"  # without the options, which may be secrets

    def holds(self, uri: str) -> bool:
        """Return whether ``uri`` lies in this bucket."""
        found = URI.fullmatch(uri)
        return found is not None and KINDS.get(found[1]) == self._kind and found[2] == self._authority

    def beside(self, uri: str) -> ObjectStoreIO:
        """Return the store of ``uri``: this one, or one with the same options if it is of the same kind."""
        if self.holds(uri):
            return self
        return ObjectStoreIO(uri, dict(self.storage_options) if kind_of_store(uri) == self._kind else None)

    def read(self, path: str) -> bytes:
        with _errors(path):
            data: bytes = _obstore().get(self._store, self._key(path)).bytes().to_bytes()
            return data

    def open(self, path: str) -> Any:
        with _errors(path):
            return readable(ObjectSource(self._store, self._key(path), lambda: _errors(path)))

    def create(self, path: str) -> Any:
        """Return a binary sink. The object appears whole when the sink is closed, never a part of it.

        `abort`, an exception that leaves the sink's ``with``, and forgetting the sink discard what was written.
        """
        return ObjectSink(self._store, self._key(path), lambda: _errors(path))

    def write(self, path: str, data: bytes) -> None:
        with _errors(path):
            _obstore().put(self._store, self._key(path), bytes(data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create ``path`` with ``data`` at once, or return False because it exists.

        The request is sent again only if the store has answered that it did nothing (429 and 503). After any other
        failure, an answer that was lost among them, the object may exist and be ours: an OSError is raised, and the
        caller must read the object back to learn whether it was created. A caller that must know whether an existing
        object is its own compares the contents after False as well: a proxy may have repeated the request.

        Raises InvalidRequestError if the store does not honour the condition, found by a probe at the first conditional
        put of this process to the bucket. Clauses: CMT-19.
        """
        self._require_conditions(path)
        return self._put_new(path, data)

    def list_names(self, directory: str) -> list[str]:
        with _errors(directory):
            below = self._key(directory) if _parts(directory)[2] else None
            found = _obstore().list_with_delimiter(self._store, below)
        paths = [*(one["path"] for one in found["objects"]), *found["common_prefixes"]]
        return sorted({path.rstrip("/").rpartition("/")[2] for path in paths})

    def list_files(self, directory: str) -> list[FileInfo]:
        with _errors(directory):
            below = self._key(directory) if _parts(directory)[2] else None
            found = _obstore().list_with_delimiter(self._store, below)
        return [
            FileInfo(
                one["path"].rpartition("/")[2], one["size"], int(one["last_modified"].timestamp() * 1000)
            )
            for one in found["objects"]
        ]

    def exists(self, path: str) -> bool:
        """Return whether there is an object ``path``. A directory is none."""
        if not _parts(path)[2]:
            return False
        try:
            with _errors(path):
                _obstore().head(self._store, self._key(path))
        except FileNotFoundError:
            return False
        return True

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), _errors(path):
            _obstore().delete(self._store, self._key(path))

    @property
    def _store(self) -> Any:
        return self._connect(retried=True)

    def _connect(self, *, retried: bool) -> Any:
        _expect_own_threads(self.base)
        return _client(self.base, self._kind, self._authority, self.storage_options, retried)

    def _key(self, path: str) -> str:
        _, authority, key = _parts(path)
        assert authority == self._authority, (path, self.base)
        if not key or any(part in ("", ".", "..") for part in key.split("/")):
            raise InvalidRequestError(
                f"{path}: expected a bucket and a path in it, without empty parts, '.' and '..'"
            )
        return key

    def _put_new(self, path: str, data: bytes) -> bool:
        client = self._connect(retried=False)

        def attempt() -> bool:
            try:
                with _errors(path, put=True):
                    _obstore().put(client, self._key(path), data, mode="create", use_multipart=False)
            except FileExistsError:
                return False
            return True

        return retry(attempt, on=BusyError, policy=WHILE_BUSY)

    def _require_conditions(self, path: str) -> None:
        """Raise InvalidRequestError unless the store refuses to create an object that exists.

        Takes three requests, once for a bucket in a process. Clauses: CMT-19.
        """
        known = (self.base, self.storage_options)
        if known in _PROBED:
            return
        probe = f"{path.rpartition('/')[0]}/.{uuid.uuid4()}.probe.tmp"
        try:
            # A proxy may have sent the first put twice, and then that is the one that the store refuses.
            honoured = not (self._put_new(probe, b"probe") and self._put_new(probe, b"probe again"))
        finally:
            with contextlib.suppress(OSError):
                self.delete(probe)
        if not honoured:
            raise InvalidRequestError(
                f"{self.base}: the store ignores the condition of a put (If-None-Match: *), so two writers could "
                f"overwrite each other's commits; tables there can be read, not written: use a store that honours it"
            )
        _PROBED.add(known)


_PROBED: set[tuple[str, Options]] = set()
"""The buckets, with their options, that have passed the probe in this process."""


def _parts(uri: str) -> tuple[str, str, str]:
    """Return scheme, bucket and key of a URI. Raises InvalidRequestError if it names no bucket."""
    found = URI.fullmatch(uri)
    if found is None or found[1] not in KINDS:
        raise InvalidRequestError(f"{uri}: expected a URI such as s3://bucket/path")
    return found[1], found[2], (found[3] or "").rstrip("/")


@contextlib.contextmanager
def _errors(uri: str, *, put: bool = False) -> Iterator[None]:
    """Turn an error of the client into one of this package or of Python, with ``uri`` in it."""
    try:
        yield
    except InvalidRequestError:
        raise
    except Exception as error:
        raise os_error(error, uri, put=put) from None  # a page of Rust adds nothing to it


def _obstore() -> Any:
    """Return the client library. Raises InvalidRequestError if it is not installed."""
    try:
        import obstore
    except ModuleNotFoundError:
        raise InvalidRequestError(
            "object stores are reached through obstore, which is not installed; "
            "install it with: pip install 'pktable[object-store]'"
        ) from None
    return obstore


_user: int | None = None
"""The process that has made requests, whose threads wait for their answers."""


def _expect_own_threads(base: str) -> None:
    """Raise InvalidRequestError in a process that was forked after a request, whose requests would wait for ever."""
    global _user
    if _user is None:
        _user = os.getpid()
    if _user != os.getpid():
        raise InvalidRequestError(
            f"{base}: this process was forked after the store was used, and lacks the threads of its client; "
            "start processes by multiprocessing.get_context('spawn') or 'forkserver'"
        )


@lru_cache(64)
def _client(base: str, kind: str, authority: str, options: Options, retried: bool) -> Any:
    """Return a client of a bucket; the last few are kept, with their connections."""
    _obstore()
    from obstore import store

    config = dict(options)
    container, _, host = authority.partition("@")
    if kind == AZURE and host:
        config.setdefault("account_name", host.partition(".")[0])
    make = {S3: store.S3Store, GCS: store.GCSStore, AZURE: store.AzureStore}[kind]
    try:
        return make(container, config=config, retry_config=RETRIES if retried else NO_RETRIES)
    except Exception as error:
        raise refused(error, base) from None
