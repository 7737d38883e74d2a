"""Errors of the object-store client as errors of Python: one line, with the object's URI and the remedy.

The client reports most failures as one kind of error, and the rest in its text: the status, the body of the answer,
or the cause of a failed connection. This module reads them from there.
"""

from __future__ import annotations

import errno
import re
from typing import Final

from pktable_spec.errors import InvalidRequestError

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
