"""The history of a timeline: the actions that have left it, found by their instants.

Only the files are read whose names say that they may have an instant.

Clauses: LOG-22, LOG-70, LOG-71.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa
from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError

from pktable_hudi.format.history_files import (
    COMPLETION,
    INSTANT,
    MANIFEST,
    METADATA,
    VERSION_FILE,
    HistoryFile,
    decode_history,
    decode_manifest,
    manifests,
)

TRIES: Final = 3
"""How often the manifest is looked for: others replace it, and remove old ones."""


@dataclass
class History:
    """The history in ``directory``, as it is when it is asked first."""

    store: FileIO
    directory: str
    _loaded: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def files(self) -> list[HistoryFile]:
        """The files, in the order of their instants; none if there is no history. Raises CorruptFileError."""
        return latest_manifest(self.store, self.directory)[1]

    def completion_of(self, instant: str) -> str | None:
        """Return when an action was completed, None if the history does not have it. Raises CorruptFileError."""
        for one in self.files:
            if one.first <= instant <= one.last and (found := self._completions(one).get(instant)):
                return found
        return None

    def metadata_of(self, instant: str) -> bytes | None:
        """Return the metadata of an action, None if the history does not have it. Raises CorruptFileError."""
        for one in self.files:
            if one.first <= instant <= one.last:
                table = self._table(one, (INSTANT, METADATA))
                found = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
                if instant in found:
                    return found[instant] or b""
        return None

    def covers(self, instant: str) -> bool:
        """Return whether actions of this instant, if there were any, have left the timeline."""
        return bool(self.files) and self.files[0].first <= instant <= max(one.last for one in self.files)

    def _completions(self, file: HistoryFile) -> dict[str, str]:
        if file.name not in self._loaded:
            columns = self._table(file, (INSTANT, COMPLETION)).columns
            pairs = zip(*(column.to_pylist() for column in columns), strict=True)
            self._loaded[file.name] = {instant: completion or instant for instant, completion in pairs}
        return self._loaded[file.name]

    def _table(self, file: HistoryFile, columns: Sequence[str]) -> pa.Table:
        path = f"{self.directory}/{file.name}"
        try:
            with self.store.open(path) as source:
                return decode_history(source, columns, at=path).select(list(columns))
        except FileNotFoundError:
            raise CorruptFileError("history", at=path, expected="a file", found="none") from None


def latest_manifest(store: FileIO, directory: str) -> tuple[int, list[HistoryFile]]:
    """Return the number and the files of the latest manifest, 0 and none without a history.

    A dead writer of Hudi leaves a damaged manifest that ``_version_`` does not name.
    Raises CorruptFileError. Clauses: LOG-71.
    """
    for _ in range(TRIES):
        numbers = manifests(store.list_names(directory))
        if not numbers:
            return 0, []
        try:
            try:
                return numbers[-1], _manifest(store, directory, numbers[-1])
            except CorruptFileError:
                named = store.read(f"{directory}/{VERSION_FILE}").decode("ascii", "replace").strip()
                if named == str(numbers[-1]) or not named.isdigit():
                    raise
                return numbers[-1], _manifest(store, directory, int(named))
        except FileNotFoundError:  # a newer one has come since the listing
            continue
    raise CorruptFileError("manifest of the history", at=directory, expected="a file", found="none")


def _manifest(store: FileIO, directory: str, number: int) -> list[HistoryFile]:
    path = f"{directory}/{MANIFEST}{number}"
    return decode_manifest(store.read(path), at=path)
