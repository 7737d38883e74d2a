"""Drawn schedules of partitioned tables with options that other histories leave alone, compared with plain Python.

The schedules ask for rows, and for what such an option decides: where files lie, in which bucket rows are, what
statistics manifests hold, who compacts level 0 and what default reads see of it, which changes are recorded, and how
many of them outlive their snapshots.
"""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.paths import CHANGELOG, numbered
from pktable.format.types import Field
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.seeded import drawn_options, play_at_random

PARTITIONS: Final[Mapping[str, Sequence[Any]]] = {
    "STRING": ("x", "", " ", "a=b/c", "100%"),
    "INT": (-1, 0, 7),
    "BOOLEAN": (False, True),
    "DATE": (dt.date(1969, 12, 31), dt.date(2024, 2, 29)),
    "TIME(3)": (dt.time(0), dt.time(23, 59, 59, 999000)),
}
"""Values of the partition column by its type."""
TIMES: Final = {dt.time(0): ("0", "00:00:00.0"), dt.time(23, 59, 59, 999000): ("86399999", "23:59:59.999")}
"""Values of TIME(3) in the name of a directory: with legacy names, and without."""
ESCAPED: Final = "=/%:"
EPOCH: Final = dt.date(1970, 1, 1)
KEYS: Final = 5
TEXTS: Final = ("", "a", "abc", "abd", "b" * 20, "\U0001f600" * 3, None)
BYTES: Final = 3_000  # of a value that does not compress
STEPS: Final = 9
TINY: Final = 4 << 10
"""Bytes in memory of a run that is not compressed."""
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "bucket": ("1", "2", "3"),
    "bucket-key": ("", "k"),
    "partition.default-name": ("", "nobody"),
    "partition.legacy-name": ("true", "false"),
    "data-file.path-directory": ("", "", "data/files"),
    "index-file-in-data-file-dir": ("false", "true"),
    "deletion-vectors.enabled": ("true", "true", "false"),
    "deletion-vectors.bitmap64": ("false", "true"),
    "deletion-vectors.merge-on-read": ("false", "false", "true"),
    "lookup-wait": ("true", "true", "false"),
    "write-only": ("false", "false", "true"),
    "num-sorted-run.compaction-trigger": ("2", "3"),
    "num-levels": ("", "4"),
    "compaction.delete-ratio-threshold": ("", "0.3"),
    "target-file-size": ("128 mb", "4 kb"),
    "file.block-size": ("128 mb", "4 kb"),
    "file.compression.zstd-level": ("", "9"),
    "metadata.stats-mode": ("truncate(16)", "truncate(2)", "full", "none"),
    "manifest.merge-min-count": ("30", "2"),
    "changelog-file.stats-mode": ("", "none", "truncate(2)"),
    "changelog-producer": ("none", "input", "lookup", "lookup", "full-compaction"),
    "changelog-producer.row-deduplicate": ("false", "true"),
    "changelog-producer.row-deduplicate-ignore-fields": ("", "s"),
    "changelog.num-retained.max": ("", "6"),
    "changelog.num-retained.min": ("", "3"),
    "changelog.time-retained": ("", "1 ms", "1 d"),
}
PRODUCER: Final = "changelog-producer"
IGNORED: Final = "changelog-producer.row-deduplicate-ignore-fields"
LATER: Final = 3_600_000
"""Milliseconds from a commit to the expiry: more than the shortest time that changes are kept."""

Row = dict[str, Any]
Key = tuple[Any, int]


def draw(number: int, seed: int) -> None:
    """Play some drawn schedules. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random) -> None:
    """Do one schedule on a new table."""
    options = consistent(drawn_options(drawn, OPTIONS))
    with tempfile.TemporaryDirectory() as folder:
        many = ManyOptions(folder + "/t", options, drawn)
        many.begin()
        for _ in range(STEPS):
            many.step()
            many.compare()
        many.expire()
        many.compare()
        many.is_sound()


def consistent(options: Mapping[str, str]) -> dict[str, str]:
    """Return options without those that are refused together with others."""
    found = dict(options)
    if found["deletion-vectors.enabled"] == "true" and found[PRODUCER] == "full-compaction":
        found[PRODUCER] = "lookup"
    if found[PRODUCER] not in ("lookup", "full-compaction"):
        del found["changelog-producer.row-deduplicate"]
    if found.get("changelog-producer.row-deduplicate") != "true":
        found.pop(IGNORED, None)
    least, most = (found.get(f"changelog.num-retained.{one}") for one in ("min", "max"))
    assert least is None or most is None or int(least) <= int(most), "both are drawn so"
    return found


class ManyOptions:
    """A table, and the rows it must have. ``options``: those that it was created with."""

    def __init__(self, path: str, options: Mapping[str, str], drawn: random.Random) -> None:
        self._options, self._drawn = options, drawn
        self._kind = drawn.choice(sorted(PARTITIONS))
        self._partitions = drawn.sample(PARTITIONS[self._kind], 2)
        self._table = Table.create(
            path,
            {"p": self._kind, "k": "INT", "s": "STRING", "b": "BYTES"},
            primary_key=["p", "k"],
            partition_by=["p"],
            options=options,
        )
        self._rows: dict[Key, Row] = {}
        self._changed: dict[Key, Row] = {}
        self._read_up_to = 0
        self._vectors = options["deletion-vectors.enabled"] == "true"
        self._leaves = options["write-only"] == "true" or (
            options["lookup-wait"] == "false" and (self._vectors or options[PRODUCER] == "lookup")
        )

    def step(self) -> None:
        """Write, delete or compact, or go on with a new handle."""
        form = self._drawn.randrange(10)
        if form < 7:
            self._write(self._some_keys(), deletes=form == 6)
        elif form < 9:
            self._table.compact(full=form == 8)
        else:
            self._table = Table.open(self._table.path)

    def begin(self) -> None:
        """Write large rows of most keys to the greatest level, so that what follows is merged without them."""
        self._write({(p, k) for p in self._partitions for k in range(KEYS - 1)}, size=BYTES)
        context = self._table.catalog.context
        for bucket, files in self._table.catalog.state().files.items():
            run_is_compressed([Path(context.data_path(context.place(*bucket), file)) for file in files])
        self._table.compact(full=True)
        self.compare()

    def _some_keys(self) -> set[Key]:
        count = self._drawn.randint(1, 4)
        return {(self._drawn.choice(self._partitions), self._drawn.randrange(KEYS)) for _ in range(count)}

    def _write(self, keys: Set[Key], *, deletes: bool = False, size: int = 9) -> None:
        rows = [
            {"p": p, "k": k, "s": self._drawn.choice(TEXTS), "b": self._drawn.randbytes(size)}
            for p, k in sorted(keys)
        ]
        schema = self._table.schema.arrow_schema
        given = pa.Table.from_pylist(rows, schema)
        before = self._levels()
        if deletes:
            self._table.delete(given.select(["p", "k"]))
            for key in keys:
                self._rows.pop(key, None)
        else:
            self._table.upsert(given)
            self._rows |= {(row["p"], row["k"]): row for row in rows}
        level_zero_is_compacted_by(self._levels()[0] - before[0], self._options, leaves=self._leaves)

    def _levels(self) -> Counter[int]:
        return Counter(file.level for file in self._live())

    def _live(self) -> list[DataFileMeta]:
        return [file for files in self._table.catalog.state().files.values() for file in files]

    def compare(self) -> None:
        """Compare what is read, and look where files lie."""
        table, expected = self._table, list(self._rows.values())
        rows_agree(table.to_arrow(fresh=True).to_pylist(), expected, "fresh")
        sees_all = not self._vectors or self._options["deletion-vectors.merge-on-read"] == "true"
        if sees_all or not self._levels()[0]:
            rows_agree(table.to_arrow().to_pylist(), expected, "default")
        chosen = self._drawn.choice(self._partitions)
        where = f"p = {_literal(chosen)}"
        some = [row for row in expected if row["p"] == chosen]
        rows_agree(table.to_arrow(fresh=True, where=where).to_pylist(), some, where)
        self._look_at_files()
        for file in self._live():
            values = table.inspect.records(file.file_name).column("s").to_pylist()
            statistics_are_as_told(file, values, table.schema.fields, self._options["metadata.stats-mode"])
        self._compare_changes()

    def _look_at_files(self) -> None:
        """Compare the places of files with what the options say."""
        table, root = self._table, Path(self._table.path)
        data = root / self._options.get("data-file.path-directory", "")
        buckets: dict[int, set[int]] = {}
        for split in table.scan(fresh=True).splits():
            rows = [row for part in split.read() for row in part.to_pylist()]
            for row in rows:
                buckets.setdefault(row["k"], set()).add(split.bucket)
            values = {row["p"] for row in rows}
            for path in map(Path, split.paths):
                lies_where_options_say(path, [self._directory(data, p, split.bucket) for p in values])
        if self._options.get("bucket-key") == "k":
            same_keys_are_in_one_bucket(buckets)
        names = [one["index_file"] for one in table.inspect.vectors().to_pylist()]
        beside = self._options["index-file-in-data-file-dir"] == "true"
        for name in set(names):
            places = [path.parent for path in root.rglob(name)]
            index_lies_where_options_say(name, places, root / "index", data, beside=beside)

    def _directory(self, data: Path, value: Any, bucket: int) -> Path:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        legacy = self._options["partition.legacy-name"] == "true"
        if isinstance(value, dt.date):
            text = str((value - EPOCH).days) if legacy else value.isoformat()
        elif isinstance(value, dt.time):
            text = TIMES[value][0 if legacy else 1]
        text = "".join(f"%{ord(one):02X}" if one in ESCAPED else one for one in text)
        default = self._options.get("partition.default-name", "__DEFAULT_PARTITION__")
        return data / f"p={text if text.strip() else default}" / f"bucket-{bucket}"

    def _compare_changes(self) -> None:
        """Apply the changes since the last time: they give the rows, where all have been recorded."""
        table, options = self._table, self._options
        last = table.catalog.state().id
        if options[PRODUCER] in ("none", "input") or last == self._read_up_to:
            return
        found = table.changes(self._read_up_to, last).to_pylist()
        self._read_up_to = last
        if options.get("changelog-producer.row-deduplicate") == "true":
            no_row_is_replaced_by_an_equal_one(found, options.get(IGNORED))
        for row in found:
            kind, key = row.pop("_row_kind"), (row["p"], row["k"])
            if kind in ("+I", "+U"):
                self._changed[key] = row
            else:
                self._changed.pop(key, None)
        greatest = table.catalog.context.options.max_level
        levels = self._levels()
        recorded = not levels[0] if options[PRODUCER] == "lookup" else set(levels) <= {greatest}
        if recorded:
            left_out = options.get(IGNORED)
            rows_agree(
                [{**row, left_out: None} if left_out else row for row in self._changed.values()],
                [{**row, left_out: None} if left_out else row for row in self._rows.values()],
                "changes",
            )

    @check
    @covers("META-11")
    def is_sound(self) -> None:
        """The checker finds nothing."""
        findings = [str(one) for one in self._table.check().findings]
        if findings:
            fail(f"{findings}")

    def expire(self) -> None:
        """Let all but one snapshot expire, an hour later, and count the changelogs that are kept."""
        snapshots = self._table.snapshots()
        if not snapshots:
            return
        self._table.catalog.expiry.expire(
            retain_last=1, older_than=None, now_millis=snapshots[-1].time_millis + LATER
        )
        names = [path.name for path in Path(self._table.path, "changelog").glob("*")]
        kept = sorted(number for name in names if (number := numbered(name, CHANGELOG)) is not None)
        changelogs_are_kept(kept, snapshots[-1].id, self._options)


def _literal(value: Any) -> str:
    if isinstance(value, dt.time):
        return f"TIME '{value}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return str(value).lower() if isinstance(value, bool) else f"{value!r}"


@check
@covers("RD-1", "RD-2", "RD-15", "META-9", "CHG-5")
def rows_agree(found: Sequence[Row], expected: Sequence[Row], what: str) -> None:
    """Compare rows with those of a dict."""
    one, other = (Counter(str(row) for row in rows) for rows in (found, expected))
    if one != other:
        fail(f"{what}: missing {sorted(other - one)}, too many {sorted(one - other)}")


@check
@covers("CMP-17", "TBL-9")
def level_zero_is_compacted_by(more: int, options: Mapping[str, str], *, leaves: bool) -> None:
    """A write leaves its files at level 0 if an option says so, and none where default reads skip them otherwise."""
    skips = options["deletion-vectors.enabled"] == "true" or options[PRODUCER] == "lookup"
    if (leaves and more < 1) or (not leaves and skips and more > 0):
        fail(f"a write left {more} more files at level 0")


@check
@covers("META-9", "META-31")
def lies_where_options_say(path: Path, directories: Sequence[Path]) -> None:
    """A data file lies in the directory of its partition and bucket."""
    if (directories and path.parent not in directories) or not path.exists():
        fail(f"{path.name} lies in {path.parent}, expected {list(map(str, directories))}")


@check
@covers("META-32")
def run_is_compressed(paths: Sequence[Path]) -> None:
    """Files of a run that are not all of it are compressed, and so is one that is not tiny."""
    for path in paths:
        footer = pq.read_metadata(path)
        codecs = {footer.row_group(0).column(at).compression for at in range(footer.num_columns)}
        tiny = len(paths) == 1 and pq.read_table(path, partitioning=None).nbytes <= TINY
        if codecs != {"UNCOMPRESSED" if tiny else "ZSTD"}:
            fail(f"{path.name}, {len(paths)} files: {codecs}")


@check
@covers("DVF-1")
def index_lies_where_options_say(
    name: str, places: Sequence[Path], index: Path, data: Path, *, beside: bool
) -> None:
    """A DV index file lies in ``index``, or next to the data files of its bucket."""
    right = len(places) == 1 and (places[0].is_relative_to(data) and places[0] != index) == beside
    if not right or (not beside and places[0] != index):
        fail(f"{name} lies in {list(map(str, places))}")


@check
@covers("TBL-5")
def same_keys_are_in_one_bucket(buckets: Mapping[int, set[int]]) -> None:
    """Rows whose bucket keys are equal are in the same bucket of each partition."""
    wrong = {key: found for key, found in buckets.items() if len(found) > 1}
    if wrong:
        fail(f"buckets of equal keys: {wrong}")


@check
@covers("META-6", "META-27")
def statistics_are_as_told(
    file: DataFileMeta, values: Sequence[str | None], fields: Sequence[Field], mode: str
) -> None:
    """The bounds of a column of text hold all of its values, and are as long as the option says."""
    if mode == "none":
        if file.value_stats_cols != ():
            fail(f"{file.file_name} has statistics of {file.value_stats_cols}")
        return
    limit = None if mode == "full" else int(mode.removeprefix("truncate(").removesuffix(")"))
    at = [field.name for field in fields].index("s")
    types = [field.type for field in fields]
    stats = file.value_stats
    low, high = (decode_row(row, types, at="")[at] for row in (stats.min_values, stats.max_values))
    known = [value for value in values if value is not None]
    nulls = stats.null_counts[at] if stats.null_counts else None
    least = min(known)[:limit] if known else None
    greatest = max(known, default=None)
    exact = greatest is None or limit is None or len(greatest) <= limit
    right = high == greatest if exact else high > greatest and len(high) <= (limit or 0)
    if low != least or not right or nulls != values.count(None):
        fail(f"{mode}: values {values} are reported as {low!r} to {high!r}, {nulls} nulls")


@check
@covers("CHG-8")
def no_row_is_replaced_by_an_equal_one(found: Sequence[Row], ignored: str | None) -> None:
    """A -U and the +U that follows it differ in a column that counts."""
    for before, after in pairwise(found):
        if (before["_row_kind"], after["_row_kind"]) == ("-U", "+U"):
            names = before.keys() - {"_row_kind", ignored}
            if all(before[name] == after[name] for name in names):
                fail(f"{before} is followed by {after}")


@check
@covers("CHG-17", "CHG-22")
def changelogs_are_kept(kept: Sequence[int], last: int, options: Mapping[str, str]) -> None:
    """So many of the newest snapshots and changelogs are kept as the options say."""
    least, most = (options.get(f"changelog.num-retained.{one}") for one in ("min", "max"))
    time = options.get("changelog.time-retained")
    number = 0
    if time == "1 d":
        number = last
    elif time == "1 ms":
        number = int(least or 1)
    elif least or most:
        number = int(most or least or 0)
    number = min(number, int(most)) if most else number
    expected = list(range(max(1, last - number + 1), last))
    if kept != expected:
        fail(f"changelogs {list(kept)} of {last} are kept, expected {expected}")
