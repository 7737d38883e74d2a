"""Write to a Hudi table: upserts and deletes as commits on its timeline.

A write goes like this:

1. The rows are checked and brought to the table's columns. Whatever is wrong with them, nothing is written.
2. An instant is claimed, and every other write that is not complete is ended (`actions`).
3. The keys are looked up, and each row is given to a file group (`placing`).
4. One file per file group is written (`group_write`).
5. The write is decided to be complete, and its completed file is written.

A write that another writer has ended in between begins again at 2. One that fails is rolled back; one whose process
dies is rolled back by the next writer.

Clauses: LOG-49 to LOG-64, LOG-74, LOG-81, LOG-85.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pktable.format.types import Field
from pktable.ingest.sources import is_spark_frame
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO
from pktable_spec.errors import CommitConflictError

from pktable_hudi.actions import Actions
from pktable_hudi.archiving import Archiver
from pktable_hudi.attempt import Attempt, FrameAttempt, RowsAttempt
from pktable_hudi.cleaning import Cleaner
from pktable_hudi.compaction import Compactor
from pktable_hudi.format.avro_schema import fields_of
from pktable_hudi.frame_write import FrameRows
from pktable_hudi.incoming import RowForm
from pktable_hudi.index_writer import DEFAULT, IndexPolicy
from pktable_hudi.matching import PLACE, Matching
from pktable_hudi.pieces import Pieces
from pktable_hudi.placing import WriteOptions
from pktable_hudi.scan import HudiScan
from pktable_hudi.settings import HudiSettings, properties_as_opened
from pktable_hudi.timeline import Timeline, load_timeline
from pktable_hudi.writable import (
    WriteSettings,
    expect_no_buckets,
    expect_texts,
    has_named_key,
    users,
    write_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENT: Final = RetryPolicy(first_wait=0.02)
"""A write takes some hundredths of a second, in which another writer should not end it."""


@dataclass(frozen=True)
class Writer:
    """Writes to the table at ``root``. ``clock``: milliseconds since 1970. ``new_id``: a new name, never the same."""

    store: FileIO
    root: str
    settings: HudiSettings
    clock: Callable[[], int]
    new_id: Callable[[], str]
    session: SparkSession | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    index: IndexPolicy = DEFAULT
    policy: RetryPolicy = PATIENT

    def upsert(self, rows: Any) -> str | None:
        """Write rows; return the instant of the commit, None if there are none.

        Raises InvalidRequestError, CommitConflictError, CommitUnknownError. Clauses: LOG-50, LOG-54, LOG-58.
        """
        return self._write(rows, deletes=False)

    def delete(self, keys: Any) -> str | None:
        """Delete the rows of ``keys``, rows of the key columns; return the instant, None if none of them is there.

        Raises as `upsert`. Clauses: LOG-62.
        """
        return self._write(keys, deletes=True)

    def delete_where(self, where: str) -> str | None:
        """Delete the rows that satisfy a condition; return the instant, None if there are none.

        Raises as `upsert`. Clauses: LOG-62, LOG-74.
        """
        settings = self._settings()
        matching = Matching(
            HudiScan(self.store, self.root, self.settings, self.session, where=where, columns=PLACE)
        )
        if not len(matching.rows().keys):  # a claim would end writes for nothing
            return None
        schema, _ = self._timeline().schema_text()
        return self._tried(RowsAttempt(self, self.actions(utc=settings.utc), schema, True, matching.rows))

    def expect_acceptable(self, rows: Any) -> None:
        """Raise InvalidRequestError where an upsert of ``rows`` would do so before it writes. Clauses: LOG-58."""
        form, _ = self._form(self._settings(), deletes=False)
        form.incoming(form.accepted(rows))

    def _settings(self) -> WriteSettings:
        """Return the settings for writing. Raises as `properties_as_opened` and `write_settings`. Clauses: LOG-81."""
        return write_settings(properties_as_opened(self.store, self.root, self.settings))

    def _form(self, settings: WriteSettings, *, deletes: bool) -> tuple[RowForm, str]:
        """Return the form that rows must have, and the schema of the table."""
        timeline = self._timeline()
        schema, at = timeline.schema_text()
        fields = users(fields_of(schema, at=at))
        expect_texts(fields, self.settings.key_fields, self.settings.partition_fields)
        named = settings.is_complex and self._has_named_keys(fields, timeline)
        return RowForm(fields, self.settings, settings.hive_style, named, deletes), schema

    def _timeline(self) -> Timeline:
        """Return the timeline of the table. Raises InvalidRequestError for a table of bucket indexes."""
        timeline = load_timeline(self.store, self.root, self.settings)
        expect_no_buckets([name for _, name in timeline.last_files()], self.root)
        return timeline

    def _has_named_keys(self, fields: Sequence[Field], timeline: Timeline) -> bool:
        """Return whether the table's rows have record keys with the name of the only key column. Clauses: LOG-85."""
        key, *others = self.settings.key_fields or ("",)
        if others or key not in {field.name for field in fields}:
            return False
        scan = HudiScan(self.store, self.root, self.settings, columns=(PLACE[0], key), limit=1)
        row = replace(scan, partitions=tuple({one for one, _ in timeline.last_files()})).to_arrow()
        return has_named_key(row if row.num_rows else scan.to_arrow(), key, self.root)

    def _write(self, rows: Any, *, deletes: bool) -> str | None:
        settings = self._settings()
        form, schema = self._form(settings, deletes=deletes)
        actions = self.actions(utc=settings.utc)
        accepted = form.accepted(rows)
        if self.session is not None and is_spark_frame(accepted):
            with FrameRows(accepted, form) as frame:
                attempt: Attempt = FrameAttempt(self, actions, schema, deletes, frame, {})
                return self._tried(attempt) if frame.count else None
        given = form.incoming(accepted)
        if not len(given.keys):
            return None
        return self._tried(RowsAttempt(self, actions, schema, deletes, lambda: given))

    def _tried(self, attempt: Attempt) -> str | None:
        return retry(attempt.run, on=CommitConflictError, policy=self.policy)

    def actions(self, *, utc: bool) -> Actions:
        """Return the writer of the timeline."""
        timeline, history = (f"{self.root}/{one}" for one in (self.settings.timeline, self.settings.history))
        return Actions(self.store, self.root, timeline, history, utc, self.clock, self.policy)

    def compactor(self) -> Compactor:
        """Return what plans and executes compactions."""
        actions = self.actions(utc=self._settings().utc)
        return Compactor(self.store, self.root, self.settings, actions, Pieces(self.session))

    def cleaner(self) -> Cleaner:
        """Return what cleans."""
        actions = self.actions(utc=self._settings().utc)
        return Cleaner(self.store, self.root, self.settings, actions)

    def archiver(self) -> Archiver:
        """Return what moves old actions into the history."""
        actions = self.actions(utc=self._settings().utc)
        return Archiver(self.store, actions)

    def roll_back(self) -> list[str]:
        """End every write that is not complete; return the instants that were rolled back. Clauses: LOG-51, LOG-53."""
        actions = self.actions(utc=self._settings().utc)
        before = set(load_timeline(self.store, self.root, self.settings).pending)
        actions.withdraw(actions.begin())
        return sorted(before - {one.instant for one in actions.names()})
