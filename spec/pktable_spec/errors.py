"""The three kinds of failure.

* `InvalidRequestError`: the caller made a mistake.
* `CorruptFileError`: stored bytes are damaged.
* `CommitConflictError`: another writer changed what a commit was based on. `CommitUnknownError`: it could not
  be found out whether a commit succeeded.

A condition that cannot occur is an ``assert``. Every message is one line that says what is wrong, where, and what was
expected instead; the same facts are attributes of the error.
"""

from __future__ import annotations


class PkTableError(Exception):
    """The base of all errors that pktable raises deliberately."""


class InvalidRequestError(PkTableError):
    """The caller asked for something that cannot be done. Nothing was written."""


class UnsupportedOptionError(InvalidRequestError):
    """A table option, or a value of one, whose meaning is not implemented.

    ``closest``: the known option whose name is most like that of an unknown one. Clauses: TBL-9.
    """

    def __init__(self, option: str, value: str, expected: str, closest: str | None = None) -> None:
        advice = f"expected {expected}" if closest is None else f"did you mean {closest}?"
        super().__init__(f"option {option}={value!r} is not supported: {advice}")
        self.option, self.value, self.expected, self.closest = option, value, expected, closest

    # Parsed options hold such errors, and are sent to Spark's workers.
    def __reduce__(self) -> tuple[object, ...]:
        return UnsupportedOptionError, (self.option, self.value, self.expected, self.closest)


class NotATableError(InvalidRequestError):
    """There is no table at the path. ``found``: what is there instead."""

    def __init__(self, path: str, found: str) -> None:
        super().__init__(f"{path}: expected a table directory with schema/schema-<N>, found {found}")
        self.path, self.found = path, found


class SnapshotNotFoundError(InvalidRequestError):
    """The requested snapshot does not exist, or has expired. ``retained``: the ids that exist, as text."""

    def __init__(self, asked: str, retained: str) -> None:
        super().__init__(f"{asked} does not exist or has expired; retained: {retained}")
        self.asked, self.retained = asked, retained


class CorruptFileError(PkTableError):
    """Stored bytes violate the format. No rows of the damaged file were returned.

    ``what``: the field or part that is damaged, ``at``: the path of the file.
    """

    def __init__(self, what: str, *, at: str, expected: object, found: object) -> None:
        super().__init__(f"{at}: {what}: expected {expected}, found {found}")
        self.what, self.at, self.expected, self.found = what, at, expected, found

    def __reduce__(self) -> tuple[object, ...]:  # the error is sent back by Spark's workers
        return _corrupt, (self.what, self.at, self.expected, self.found)


def _corrupt(what: str, at: str, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(what, at=at, expected=expected, found=found)


class CommitConflictError(PkTableError):
    """Another commit changed what this one was based on. Nothing of this commit is visible; read again and retry.

    ``snapshot``: the id of the latest snapshot when the conflict was found.
    """

    def __init__(self, what: str, snapshot: int) -> None:
        super().__init__(f"{what} (latest snapshot: {snapshot}); read again and retry")
        self.what, self.snapshot = what, snapshot

    def __reduce__(self) -> tuple[object, ...]:
        return CommitConflictError, (self.what, self.snapshot)


class CommitUnknownError(PkTableError):
    """It could not be found out whether a commit succeeded. Nothing was removed.

    ``path``: the snapshot file that was put, ``snapshot``: its id. The commit may also become visible later.
    Clauses: CMT-38.
    """

    def __init__(self, path: str, snapshot: int) -> None:
        super().__init__(
            f"{path}: it could not be found out whether this commit succeeded; nothing was removed; "
            "read the table before you write the same rows again"
        )
        self.path, self.snapshot = path, snapshot

    def __reduce__(self) -> tuple[object, ...]:
        return CommitUnknownError, (self.path, self.snapshot)
