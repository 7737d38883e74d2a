"""The four kinds of failure.

* `InvalidRequestError`: the caller made a mistake.
* `CorruptFileError`: stored bytes are damaged.
* `CommitConflictError`: another writer changed what a commit was based on. `CommitUnknownError`: it could not
  be found out whether a commit succeeded. `CompactionFailedError`: rows are committed, and not compacted.
* `StorageError`: the store failed, for example because the disk is full.

A condition that cannot occur is an ``assert``. Every message is one line that says what is wrong, where, and what was
expected instead; the same facts are attributes of the error.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final


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
    """There is no table at the path. ``found``: what is there instead. ``expected``: the file that a table has."""

    def __init__(self, path: str, found: str, expected: str = "schema/schema-<N>") -> None:
        super().__init__(f"{path}: expected a table directory with {expected}, found {found}")
        self.path, self.found = path, found


class SnapshotNotFoundError(InvalidRequestError):
    """The requested snapshot does not exist, or has expired. ``retained``: the ids that exist, as text."""

    def __init__(self, asked: str, retained: str) -> None:
        super().__init__(f"{asked} does not exist or has expired; retained: {retained}")
        self.asked, self.retained = asked, retained


class OutsideTableError(InvalidRequestError):
    """A table leads out of its directory, to a place that the caller has not allowed. Nothing there was touched.

    ``leads_to``: that place, by a link at ``link`` or, if that is None, by an external path.
    """

    def __init__(self, root: str, leads_to: str, link: str | None = None) -> None:
        where = "an external path" if link is None else f"the link {link}"
        super().__init__(
            f"{root}: {where} leads out of the table, to {leads_to}; "
            "if you trust the table, name a directory above that in external_roots"
        )
        self.root, self.leads_to, self.link = root, leads_to, link

    def __reduce__(self) -> tuple[object, ...]:
        return OutsideTableError, (self.root, self.leads_to, self.link)


class CorruptFileError(PkTableError):
    """Stored bytes violate the format. No rows of the damaged file were returned.

    ``what``: the field or part that is damaged, ``at``: the path of the file.
    """

    def __init__(self, what: str, *, at: str, expected: object, found: object) -> None:
        super().__init__(f"{at}: {what}: expected {brief(expected)}, found {brief(found)}")
        self.what, self.at, self.expected, self.found = what, at, expected, found

    def __reduce__(self) -> tuple[object, ...]:  # the error is sent back by Spark's workers
        return _corrupt, (self.what, self.at, self.expected, self.found)


def _corrupt(what: str, at: str, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(what, at=at, expected=expected, found=found)


LONGEST_SHOWN: Final = 500


def brief(fact: object) -> str:
    """Return a fact as text for a message. It may come from a file of someone else, and be of any length."""
    text = str(fact)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text)} characters)"


class CommitConflictError(PkTableError):
    """Other writers changed what a commit was based on, in every attempt. Nothing of that commit is visible.

    ``snapshot``: the id of the latest snapshot when the conflict was found. ``remedy``: what the caller can do.
    """

    def __init__(self, what: str, snapshot: int, remedy: str = "read again and retry") -> None:
        super().__init__(f"{what} (latest snapshot: {snapshot}); {remedy}")
        self.what, self.snapshot, self.remedy = what, snapshot, remedy

    def __reduce__(self) -> tuple[object, ...]:
        return CommitConflictError, (self.what, self.snapshot, self.remedy)


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


class CompactionFailedError(PkTableError):
    """The rows of a write are committed, and its compaction failed for a reason that is none of the others.

    ``snapshot``: the id of the snapshot that has the rows. The cause is what failed. Clauses: CMT-69.
    """

    def __init__(self, what: str, snapshot: int) -> None:
        super().__init__(f"{what} (snapshot: {snapshot})")
        self.what, self.snapshot = what, snapshot

    def __reduce__(self) -> tuple[object, ...]:
        return CompactionFailedError, (self.what, self.snapshot)


REMEDIES: Final[Mapping[int | None, str]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space there and try again"),
    errno.EFBIG: "raise the limit of a file's size (ulimit -f) and try again",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "give this user access to it and try again"),
    errno.EROFS: "mount it for writing, or use another directory",
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n) or close some, and try again"
    ),
    errno.ENAMETOOLONG: "use a shorter path or shorter partition values",
}
"""The remedy for a failure of the store, by its number."""


class StorageError(PkTableError, OSError):
    """The store failed: it is full, read-only or not permitted, or a disk or the network is broken.

    It is neither the caller's mistake nor damage: the table is as it was before, or as it is after the operation.

    ``action``: what was tried, ``filename``: on which file, ``errno``: the number of the failure, None if the store
    gives none, ``strerror``: the store's words. ``remedy``: what the caller can do. Clauses: SAFE-5.
    """

    def __init__(
        self, action: str, path: str, number: int | None, reason: str, remedy: str | None = None
    ) -> None:
        self.remedy = remedy or REMEDIES.get(number, "look at the store and try again")
        super().__init__(f"{path}: cannot {action}: {reason}; {self.remedy}")
        self.action, self.filename, self.errno, self.strerror = action, path, number, reason

    def with_remedy(self, remedy: str) -> StorageError:
        """Return this error with another remedy, by one who knows what was committed before the store failed."""
        return StorageError(self.action, str(self.filename), self.errno, str(self.strerror), remedy)

    def __str__(self) -> str:  # that of OSError would be made of number, reason and file name alone
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        return StorageError, (self.action, self.filename, self.errno, self.strerror, self.remedy)
