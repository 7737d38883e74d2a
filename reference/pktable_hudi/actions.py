"""Begin, end and take back actions on the timeline, so that of two writers at the same time at most one is complete.

A store gives one atomic operation: it creates a file only if it is absent. Hudi's own writers rely on a lock instead.
With the one operation we do without:

1. **Begin.** A writer claims an instant by creating its requested file. Then it lists the timeline, and ends every
   other write that is not complete. Only then it looks at the table. Of two writers that overlap, the one that claimed
   later sees the other one's claim; so one of them is ended before it is complete, or is complete before the other
   looks.
2. **End.** A write is ended by a *decision*, a file of its instant that is created only if it is absent. It says that
   the write is complete, with the content of its completed file, or that it is rolled back. Its own writer and all
   others try to create it; the first one decides. Any process that finds a write decided and not finished finishes it.
3. **Roll back.** The files of the write are deleted before its timeline files, under a rollback on the timeline. A
   rollback that died is finished by the next writer.

The subtle case is a writer that was taken for dead. Its decision comes too late, so nobody sees its rows. It deletes
the files that it wrote after it was rolled back.

A decision that a write is complete is deleted once its completed file is there. Who comes too late for it, and creates
the opposite decision, finds the completed file. A decision that a write is rolled back is deleted once the instant is
earlier than all of the timeline. Its writer may come too late for it, too: it finds that its requested file is gone.

The plan of a compaction is claimed and decided like a write, so that no write is complete before the plan that the plan
does not have. Its execution is decided by another file, and disturbs no write. So is that of a clean.

An action that is complete may leave the timeline for the history. Who comes too late for it, and finds neither its
completed file nor its requested file, looks there.

Clauses: LOG-49 to LOG-53, LOG-72, LOG-75, LOG-78.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO, puts_may_be_late
from pktable_spec.errors import CommitConflictError, CommitUnknownError, CorruptFileError, InvalidRequestError

from pktable_hudi.format.names import DIRECTORY, InstantName, timeline_file
from pktable_hudi.format.timeline_files import decode_rollback_plan
from pktable_hudi.format.timeline_writing import encode_rollback, encode_rollback_plan
from pktable_hudi.history import History
from pktable_hudi.markers import remove_markers
from pktable_hudi.slices import groups_of, partitions
from pktable_hudi.timeline import CLEAN

DELTA_COMMIT, COMPACTION, ROLLBACK, COMMIT = "deltacommit", "compaction", "rollback", "commit"
HARMLESS: Final = (DELTA_COMMIT, COMPACTION, ROLLBACK, CLEAN)
"""The actions that may be pending when a write begins."""

REQUESTED, INFLIGHT = "requested", "inflight"
DECISIONS: Final = f"{DIRECTORY}/.pktable"
FORM: Final = "%Y%m%d%H%M%S"


class OutrunError(Exception):
    """Another writer was faster; begin again with a later instant."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How a claim ended: with the timeline file ``name`` of ``content``, or rolled back if ``name`` is None."""

    name: str | None
    content: bytes = b""

    def encode(self) -> bytes:
        stored = {"name": self.name, "content": base64.b64encode(self.content).decode()}
        return json.dumps(stored, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes, *, at: str) -> Decision:
        """Raises CorruptFileError."""
        try:
            stored = json.loads(data)
            name, content = stored["name"], base64.b64decode(stored["content"], validate=True)
            if name is not None and timeline_file(name) is None:
                raise ValueError(f"a timeline file {name!r}")
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError("decision", at=at, expected="how a write ended", found=error) from None
        return cls(name, content)


ROLLED_BACK: Final = Decision(None)


class Standing(Enum):
    """How far an action is: not ended; complete or a plan; neither, so it was rolled back or given up."""

    OPEN = "open"
    SETTLED = "settled"
    GONE = "gone"


@dataclass(frozen=True)
class Actions:
    """Writes to the timeline in ``directory``, whose old actions are in ``history``.

    ``clock``: milliseconds since 1970; ``utc``: the zone of instants.
    """

    store: FileIO
    root: str
    directory: str
    history: str
    utc: bool
    clock: Callable[[], int]
    policy: RetryPolicy = field(default_factory=RetryPolicy)

    def names(self) -> list[InstantName]:
        """Return the files of the timeline, by instant."""
        found = [timeline_file(name) for name in self.store.list_names(self.directory)]
        return sorted((one for one in found if one is not None), key=lambda one: one.instant)

    # Begin

    def begin(self) -> str:
        """Claim an instant for a write or a plan, and end every write that is not complete.

        Everything that is complete then is earlier. Raises InvalidRequestError for a pending action that is not ours
        to end. Clauses: LOG-49, LOG-51, LOG-53.
        """
        return retry(lambda: self._begun(DELTA_COMMIT, ends=True), on=OutrunError, policy=self.policy)

    def _begun(
        self, action: str, *, ends: bool, content: Callable[[str], bytes] = lambda instant: b""
    ) -> str:
        instant = self._next(self.names())
        requested = self._path(instant, action, REQUESTED)
        if not self.store.put_if_absent(requested, content(instant)):
            raise OutrunError
        names = self.names()
        try:
            if any(one.instant == instant and one.action != action for one in names):
                raise OutrunError
            if ends:
                self._end_others(names, instant)
                written = [one for one in self.names() if one.action == DELTA_COMMIT and not one.state]
                if any(max(one.instant, one.completion or "") >= instant for one in written):
                    raise OutrunError
        except (OutrunError, InvalidRequestError):
            self.store.delete(requested)
            raise
        return instant

    def _next(self, names: Sequence[InstantName]) -> str:
        """Return an instant after all that are there, now if the clock is after them."""
        zone = datetime.timezone.utc if self.utc else None
        now = datetime.datetime.fromtimestamp(self.clock() / 1000, zone)
        latest = max((max(one.instant, one.completion or "") for one in names), default="")
        text = _spelled(now)
        if text > latest:
            return text
        try:
            known = datetime.datetime.strptime(latest[:14], FORM)
            return _spelled(known + datetime.timedelta(milliseconds=int(latest[14:17] or 0) + 1))
        except (ValueError, OverflowError):
            raise CorruptFileError("instant", at=self.directory, expected="a time", found=latest) from None

    def _end_others(self, names: Sequence[InstantName], instant: str) -> None:
        """End every write but ``instant`` that is not complete. Clauses: LOG-51, LOG-52, LOG-53."""
        done = {one.instant for one in names if not one.state}
        pending = {(one.instant, one.action) for one in names if one.state and one.instant not in done}
        for other, action in sorted(pending):
            if action not in HARMLESS:
                raise InvalidRequestError(
                    f"{self.root}: a {action} of instant {other} is pending; finish it or roll it back with Hudi"
                )
        for other, action in sorted(pending):
            if action == ROLLBACK:
                self._finish_rollback(other)
        for other, action in sorted(pending):
            if action == DELTA_COMMIT and other != instant:
                self.end(other)

    # End

    def inflight(self, instant: str, action: str, content: bytes = b"") -> None:
        """Say that an action is being done; the files that it writes come after this."""
        self.store.write(self._path(instant, action, INFLIGHT), content)

    def withdraw(self, instant: str) -> None:
        """Give a claim up for which nothing was written."""
        self.store.delete(self._path(instant, DELTA_COMMIT, REQUESTED))

    def complete(self, instant: str, content: bytes) -> str:
        """Complete a write; return when it was completed. ``content``: of its completed file.

        Raises CommitConflictError if it was rolled back, CommitUnknownError. Clauses: LOG-50, LOG-52.
        """
        name = f"{instant}_{self._next(self.names())}.{DELTA_COMMIT}"
        self._settle(instant, DELTA_COMMIT, Decision(name, content))
        remove_markers(self.store, self.root, instant)
        return self._completion(instant)

    def plan(self, instant: str, content: bytes) -> None:
        """Turn the claim of an instant into the plan of a compaction. Raises as `complete`. Clauses: LOG-60."""
        self._settle(instant, DELTA_COMMIT, Decision(f"{instant}.{COMPACTION}.{REQUESTED}", content))

    def complete_compaction(self, instant: str, content: bytes) -> str:
        """Complete a compaction; return when it was completed, by whomever. Raises as `complete`. Clauses: LOG-61."""
        name = f"{instant}_{self._next(self.names())}.{COMMIT}"
        self._settle(instant, COMPACTION, Decision(name, content))
        return self._completion(instant)

    def begin_clean(self, plan: bytes) -> str:
        """Put the plan of a clean on the timeline; return its instant. Clauses: LOG-68."""
        return retry(
            lambda: self._begun(CLEAN, ends=False, content=lambda _: plan), on=OutrunError, policy=self.policy
        )

    def complete_clean(self, instant: str, content: bytes) -> str:
        """Complete a clean; return when it was completed, by whomever. Raises CommitUnknownError. Clauses: LOG-68."""
        name = f"{instant}_{self._next(self.names())}.{CLEAN}"
        self._settle(instant, CLEAN, Decision(name, content))
        return self._completion(instant)

    def end(self, instant: str) -> bool:
        """End a write of another process; return whether it is complete. Clauses: LOG-50, LOG-52, LOG-53, LOG-72."""
        try:
            self._settle(instant, DELTA_COMMIT, ROLLED_BACK)
        except CommitConflictError:
            self.roll_back(instant)
            return False
        return True

    def _settle(self, instant: str, action: str, ours: Decision) -> None:
        """Decide how a claim ends, and do what is decided. Raises CommitConflictError if it is rolled back."""
        won = self._decided(self._decision(instant, action), int(instant), ours)
        standing = self._standing(instant, action)
        late = standing is Standing.GONE and action == DELTA_COMMIT and won.name is not None
        if standing is Standing.SETTLED or late:  # decided before, and that decision was deleted
            self.store.delete(self._decision(instant, action))
        if standing is Standing.SETTLED:
            return
        if late or won.name is None:
            raise CommitConflictError(f"the write of instant {instant} was rolled back", int(instant))
        self.store.put_if_absent(f"{self.directory}/{won.name}", won.content)
        if won.name.endswith(f".{COMPACTION}.{REQUESTED}"):
            self.store.delete(self._path(instant, DELTA_COMMIT, REQUESTED))
        self.store.delete(self._decision(instant, action))

    def is_settled(self, instant: str, action: str) -> bool:
        """Return whether a claim is complete, also in the history, or has become the plan of a compaction.

        Clauses: LOG-72.
        """
        return self._standing(instant, action) is Standing.SETTLED

    def is_overtaken(self, instant: str) -> bool:
        """Return whether files that a write reads may be deleted: it was rolled back, or a clean has begun since."""
        is_cleaned = any(one.action == CLEAN and one.instant > instant for one in self.names())
        return is_cleaned or self._standing(instant, DELTA_COMMIT) is Standing.GONE

    def _standing(self, instant: str, action: str) -> Standing:
        """Return how far an action is. Clauses: LOG-72, LOG-78."""
        # It is looked for first: a requested file that is gone by then says that the action has been ended.
        is_open = self.store.exists(self._path(instant, action, REQUESTED))
        same = [one for one in self.names() if one.instant == instant]
        if any(not one.state or (action, one.action) == (DELTA_COMMIT, COMPACTION) for one in same):
            return Standing.SETTLED
        if is_open:
            return Standing.OPEN
        archived = History(self.store, self.history).completion_of(instant) is not None
        return Standing.SETTLED if archived else Standing.GONE

    def _completion(self, instant: str) -> str:
        found = (one.completion for one in self.names() if one.instant == instant and not one.state)
        return next(found, None) or ""

    def _decided(self, path: str, number: int, ours: Decision) -> Decision:
        """Return the decision at ``path``: ``ours`` if there was none. Raises CommitUnknownError."""
        try:
            if self.store.put_if_absent(path, ours.encode()):
                return ours
        except Exception:
            # It is unknown whether the file is there. A put may also still come, unless the store says otherwise.
            return self._found_out(path, number)
        return self._read_decision(path) or ROLLED_BACK

    def _found_out(self, path: str, number: int) -> Decision:
        try:
            known = self._read_decision(path)
            if known is None and puts_may_be_late(self.store):
                self.store.put_if_absent(path, ROLLED_BACK.encode())
                known = self._read_decision(path)
        except Exception:
            raise CommitUnknownError(path, number) from None
        return known or ROLLED_BACK

    def _read_decision(self, path: str) -> Decision | None:
        try:
            return Decision.decode(self.store.read(path), at=path)
        except FileNotFoundError:
            return None

    # Roll back

    def roll_back(self, instant: str) -> None:
        """Delete the files of a write that is decided to be rolled back, and then its timeline files.

        Clauses: LOG-53.
        """
        paths = self._files_of(instant)

        def plan(at: str) -> bytes:
            return encode_rollback_plan(instant, DELTA_COMMIT, paths)

        at = retry(
            lambda: self._begun(ROLLBACK, ends=False, content=plan),
            on=OutrunError,
            policy=self.policy,
        )
        self._finish_rollback(at)

    def _finish_rollback(self, at: str) -> None:
        path = self._path(at, ROLLBACK, REQUESTED)
        try:
            data = self.store.read(path)
        except FileNotFoundError:  # its requested file is deleted first if it is withdrawn
            return
        instant, action = decode_rollback_plan(data, at=path)
        if action != DELTA_COMMIT:
            raise InvalidRequestError(f"{path}: the rollback of a {action} is pending; finish it with Hudi")
        if self.is_settled(at, ROLLBACK):
            return
        if self.is_settled(instant, action):
            raise InvalidRequestError(
                f"{path}: the rollback of a complete write is pending; finish it with Hudi"
            )
        self.store.write(self._path(at, ROLLBACK, INFLIGHT), b"")
        paths = self.delete_files(instant)
        for state in (INFLIGHT, REQUESTED):
            self.store.delete(self._path(instant, action, state))
        name = f"{at}_{self._next(self.names())}.{ROLLBACK}"
        self._settle(at, ROLLBACK, Decision(name, encode_rollback(at, instant, action, paths)))

    def delete_files(self, instant: str) -> dict[str, list[str]]:
        """Delete the files of a write that is rolled back; return their paths by partition. Clauses: LOG-53."""
        paths = self._files_of(instant)
        for found in paths.values():
            for file in found:
                self.store.delete(file)
        remove_markers(self.store, self.root, instant)
        return paths

    def _files_of(self, instant: str) -> dict[str, list[str]]:
        """Return the paths of the files of a write, by partition."""
        found: dict[str, list[str]] = {}
        for partition in partitions(self.store, self.root):
            directory = f"{self.root}/{partition}".rstrip("/")
            groups = groups_of(self.store, self.root, partition)
            bases = [name.name for one in groups for name in one.bases.values() if name.instant == instant]
            names = bases + [name.name for one in groups for name in one.logs if name.instant == instant]
            if names:
                found[partition] = [f"{directory}/{name}" for name in names]
        return found

    def forget(self, names: Sequence[InstantName]) -> None:
        """Delete the files of complete actions that the history has: those that say an action is complete last.

        Clauses: LOG-72.
        """
        for one in sorted(names, key=lambda one: (not one.state, one.state == REQUESTED, one.instant)):
            self.store.delete(f"{self.directory}/{one.name}")

    def forget_decisions(self) -> None:
        """Delete the decisions whose instants are earlier than all of the timeline. Clauses: LOG-75."""
        first = min((one.instant for one in self.names()), default="")
        for name in self.store.list_names(f"{self.root}/{DECISIONS}"):
            if name.partition(".")[0] < first:
                self.store.delete(f"{self.root}/{DECISIONS}/{name}")

    def _path(self, instant: str, action: str, state: str) -> str:
        return f"{self.directory}/{instant}.{action}.{state}"

    def _decision(self, instant: str, action: str) -> str:
        return f"{self.root}/{DECISIONS}/{instant}.{action}"


def _spelled(time: Any) -> str:
    return f"{time.strftime(FORM)}{time.microsecond // 1000:03}"
