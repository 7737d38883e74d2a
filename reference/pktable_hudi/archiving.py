"""Move old actions from the timeline into the history, so that the timeline stays short.

1. **Choose.** The last N writes stay, and so does everything from the oldest pending action on, from the first replaced
   file group on, which readers must know of, and from the first savepoint on.
2. **Append.** The others go into a new Parquet file, and a new manifest names it. A manifest is created only if it is
   absent, so of two processes one appends.
3. **Forget.** What the history has is deleted from the timeline: requested files first, completed files last, oldest
   first. A process that died is made up for by the next one, which finds the same actions in the history.

Ten files of a level are merged into one of the next. Files that the last manifests do not name are deleted.

Clauses: LOG-70, LOG-71, LOG-72, LOG-75.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pktable.store.file_io import FileIO

from pktable_hudi.actions import REQUESTED, Actions
from pktable_hudi.format.history_files import (
    INSTANT,
    MANIFEST,
    VERSION_FILE,
    ArchivedAction,
    HistoryFile,
    decode_history,
    decode_manifest,
    encode_history,
    encode_manifest,
    history_file,
    history_name,
    history_table,
    manifests,
)
from pktable_hudi.format.names import InstantName
from pktable_hudi.history import History, latest_manifest
from pktable_hudi.timeline import WRITES

MERGED: Final = 10
"""How many files of a level become one of the next, as in Hudi."""
KEPT_MANIFESTS: Final = 3
STAYING: Final = ("replacecommit", "savepoint")


@dataclass(frozen=True)
class Archiver:
    """Moves actions of a timeline into its history."""

    store: FileIO
    actions: Actions

    @property
    def directory(self) -> str:
        """The directory of the history."""
        return self.actions.history

    def archive(self, kept_writes: int, fewest: int) -> int:
        """Move all but the last ``kept_writes`` writes, if that is ``fewest`` actions or more; return how many.

        Raises CorruptFileError. Clauses: LOG-70, LOG-71.
        """
        names = self.actions.names()
        number, files = latest_manifest(self.store, self.directory)
        self._say(number)
        known = History(self.store, self.directory)
        chosen = [one for one in _old(names, kept_writes) if known.completion_of(one.instant) is None]
        if len(chosen) >= fewest:
            self._append(number, files, [self._action(one, names) for one in chosen])
        return self._forget()

    def _action(self, name: InstantName, names: Sequence[InstantName]) -> ArchivedAction:
        requested = (one for one in names if one.instant == name.instant and one.state == REQUESTED)
        plan = next((self._read(one.name) for one in requested), None)
        completion = name.completion or name.instant
        return ArchivedAction(name.instant, completion, name.action, self._read(name.name) or b"", plan)

    def _read(self, name: str) -> bytes | None:
        try:
            return self.store.read(f"{self.actions.directory}/{name}")
        except FileNotFoundError:  # another process archives it
            return None

    def _append(self, number: int, files: Sequence[HistoryFile], actions: Sequence[ArchivedAction]) -> None:
        """Add a file of actions, which are in order, and merge files if there are many.

        Of the files that are merged at once no manifest tells, so they are deleted here.
        """
        added = self._written(history_table(actions), 0)
        if added is None:
            return
        kept, level, made = [*files, added], 0, {added.name}
        while len(of_level := [one for one in kept if one.level == level]) >= MERGED:
            merged = self._written(pa.concat_tables([self._table(one) for one in of_level]), level + 1)
            if merged is None:
                break
            kept = [*(one for one in kept if one.level != level), merged]
            made.add(merged.name)
            level += 1
        if self.store.put_if_absent(f"{self.directory}/{MANIFEST}{number + 1}", encode_manifest(kept)):
            self._say(number + 1)
            for name in made - {one.name for one in kept}:
                self.store.delete(f"{self.directory}/{name}")
            self._clear()

    def _written(self, table: pa.Table, level: int) -> HistoryFile | None:
        """Write a file; return None if there is another one of its name, whose actions differ.

        The next attempt has more actions, and another name.
        """
        instants = table.column(INSTANT)
        name = history_name(instants[0].as_py(), instants[-1].as_py(), level)
        path, content = f"{self.directory}/{name}", encode_history(table)
        if not self.store.put_if_absent(path, content) and self.store.read(path) != content:
            return None
        return history_file(name, len(content))

    def _table(self, file: HistoryFile) -> pa.Table:
        path = f"{self.directory}/{file.name}"
        return decode_history(pa.BufferReader(self.store.read(path)), at=path)

    def _say(self, number: int) -> None:
        """Say in a file for Hudi which manifest is the latest one. A process that says it looks again."""
        path = f"{self.directory}/{VERSION_FILE}"
        while number and not (self.store.exists(path) and self.store.read(path) == str(number).encode()):
            self.store.write(path, str(number).encode())
            number = manifests(self.store.list_names(self.directory))[-1]

    def _clear(self) -> None:
        """Delete old manifests, and the files that only they name. A file that no manifest names may get one yet."""
        numbers = manifests(self.store.list_names(self.directory))
        old, kept = numbers[:-KEPT_MANIFESTS], numbers[-KEPT_MANIFESTS:]
        for name in self._named(old) - self._named(kept):
            self.store.delete(f"{self.directory}/{name}")
        for number in old:
            self.store.delete(f"{self.directory}/{MANIFEST}{number}")

    def _named(self, numbers: Sequence[int]) -> set[str]:
        """Return the names of the files that some manifests name."""
        found: set[str] = set()
        for number in numbers:
            path = f"{self.directory}/{MANIFEST}{number}"
            with contextlib.suppress(FileNotFoundError):  # another process has deleted it
                found |= {one.name for one in decode_manifest(self.store.read(path), at=path)}
        return found

    def _forget(self) -> int:
        """Delete from the timeline what the history has; return of how many actions. Clauses: LOG-72."""
        history = History(self.store, self.directory)
        names = [one for one in self.actions.names() if history.completion_of(one.instant) is not None]
        self.actions.forget(names)
        self.actions.forget_decisions()
        return len({one.instant for one in names})


def _old(names: Sequence[InstantName], kept_writes: int) -> list[InstantName]:
    """Return the complete actions that may leave the timeline, oldest first. Clauses: LOG-70."""
    completed = {one.instant: one for one in names if not one.state}
    writes = sorted(one.instant for one in completed.values() if one.action in WRITES)
    if len(writes) <= kept_writes:
        return []
    staying = (one.instant for one in names if one.instant not in completed or one.action in STAYING)
    bound = min([writes[-kept_writes], *staying])
    return [one for instant, one in sorted(completed.items()) if instant < bound]
