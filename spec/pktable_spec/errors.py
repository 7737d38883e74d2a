"""The three kinds of failure, never mixed.

The caller's input is an `InvalidRequestError`; bytes that are damaged are a `CorruptFileError`;
another writer is a `CommitConflictError`. What cannot happen is an ``assert``. Every message is one
line that says what was expected, what was found and where; the facts are attributes too.
"""

from __future__ import annotations


class PkTableError(Exception):
    """The base of every error this project raises on purpose."""


class InvalidRequestError(PkTableError):
    """The caller asked for something that cannot be done; nothing was written."""


class UnsupportedOptionError(InvalidRequestError):
    """A table option, or a value of one, whose meaning is not implemented. Clauses: TBL-9."""

    def __init__(self, option: str, value: str, expected: str) -> None:
        super().__init__(f"option {option}={value!r} is not supported: expected {expected}")
        self.option, self.value, self.expected = option, value, expected

    def __reduce__(
        self,
    ) -> tuple[object, ...]:  # options cross process boundaries, with what they do not allow
        return UnsupportedOptionError, (self.option, self.value, self.expected)


class NotATableError(InvalidRequestError):
    """The path holds no table."""

    def __init__(self, path: str, found: str) -> None:
        super().__init__(f"{path}: expected a table directory with schema/schema-<N>, found {found}")
        self.path, self.found = path, found


class SnapshotNotFoundError(InvalidRequestError):
    """The snapshot asked for does not exist, or has expired."""

    def __init__(self, asked: str, retained: str) -> None:
        super().__init__(f"{asked} does not exist or has expired; retained: {retained}")
        self.asked, self.retained = asked, retained


class CorruptFileError(PkTableError):
    """Stored bytes are not what the format says they are. No rows were returned from them."""

    def __init__(self, what: str, *, at: str, expected: object, found: object) -> None:
        super().__init__(f"{at}: {what}: expected {expected}, found {found}")
        self.what, self.at, self.expected, self.found = what, at, expected, found

    def __reduce__(self) -> tuple[object, ...]:  # crosses process boundaries, from Spark workers too
        return _corrupt, (self.what, self.at, self.expected, self.found)


def _corrupt(what: str, at: str, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(what, at=at, expected=expected, found=found)


class CommitConflictError(PkTableError):
    """Another commit changed what this one was based on. Nothing of it is visible; read again and retry."""

    def __init__(self, what: str, snapshot: int) -> None:
        super().__init__(f"{what} (latest snapshot: {snapshot}); read again and retry")
        self.what, self.snapshot = what, snapshot

    def __reduce__(self) -> tuple[object, ...]:
        return CommitConflictError, (self.what, self.snapshot)
