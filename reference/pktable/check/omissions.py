"""Note what the data files of a bucket lack that a writer must write, though a read does without it.

Paimon 0.9 writes no field ids, and its option `data-file.thin-mode` leaves the columns of the key out. So a lack is a
note, one per bucket and kind of lack. An id that is there and wrong is an error: a reader finds another column by it.

Clauses: META-7, META-8, META-10.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pktable.check.findings import NOTE, Findings, counted
from pktable.context import TableContext
from pktable.datafile.columns import file_schema
from pktable.datafile.readers import ParquetRows, StoredRows

FIELD_ID: Final = b"PARQUET:field_id"
THIN: Final = "data-file.thin-mode"
EXPECTED: Final = {
    "META-7": ("missing key columns", "a `_KEY_` column for each column of the key"),
    "META-8": ("Parquet field ids", "those of the schema"),
    "META-10": ("page checksums", "one in each page"),
}
"""By clause: what may be lacking, and what a writer must write."""


@dataclass
class Omissions:
    """The lacks of the files of a bucket: `look` at each file, then `report`."""

    findings: Findings
    _lacking: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def look(self, context: TableContext, stored: StoredRows, path: str, snapshots: tuple[int, ...]) -> None:
        """Look at an open file at ``path``. ``context``: under its schema. Raises errors of the library."""
        thin = any(schema.options.get(THIN, "").lower() == "true" for schema in context.schemas.values())
        lacking = {"META-7": not thin and not {*context.key_columns} <= {*stored.names}}
        if isinstance(stored, ParquetRows):
            found = {one.name: (one.metadata or {}).get(FIELD_ID) for one in stored.schema}
            lacking["META-8"] = not any(found.values())
            lacking["META-10"] = not stored.first_page_has_checksum()
            self._expect_ids(context, found, path, snapshots)
        for clause in (clause for clause, lacks in lacking.items() if lacks):
            self._lacking.setdefault(clause, {})[path] = [*snapshots]

    def report(self, directory: str) -> None:
        """Add a note per kind of lack. ``directory``: of the bucket."""
        for clause, files in self._lacking.items():
            what, expected = EXPECTED[clause]
            first = min(path.rpartition("/")[2] for path in files)
            self.findings.add(
                clause,
                what,
                directory,
                expected=expected,
                found=f"none in {counted(len(files), 'data file')}, such as {first}",
                snapshots={one for ids in files.values() for one in ids},
                severity=NOTE,
            )

    def _expect_ids(
        self,
        context: TableContext,
        found: dict[str, bytes | None],
        path: str,
        snapshots: tuple[int, ...],
    ) -> None:
        """Expect the ids that are there to be those of the schema. Clauses: META-8."""
        for one in file_schema(context.schema):
            stated, expected = found.get(one.name), one.metadata[FIELD_ID]
            if stated not in (None, expected):
                self.findings.add(
                    "META-8",
                    f"Parquet field id of {one.name}",
                    path,
                    expected=expected.decode(),
                    found=stated.decode(),
                    snapshots=snapshots,
                )
