"""What clauses claim of Paimon, each tried on the Java releases that there are: does it do as the clause asks of us?

A claim says "same" or "differs" of each release, and a run fails if a release does something else: then the clause is
to be reworded, and the claim with it. `UNTRIED` has the clauses whose claims no command of the peers can show, with the
reason. `test_interop` expects every clause that names Paimon in one of both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import fastavro
import pyarrow as pa
from pktable import Table, Warehouse
from pktable.format.types import parse_type
from pktable_spec.errors import InvalidRequestError, PkTableError

from model_tests.interop.environments import JVM, NEWER_JVM
from model_tests.interop.histories import VECTORS
from model_tests.interop.peers import Peer, PeerError
from model_tests.interop.plain import rows_of

SAME: Final = "same"
DIFFERS: Final = "differs"
Shows: TypeAlias = Callable[[Peer, Path], bool]
"""Returns whether a peer does as the clause asks of us. The folder is an empty one."""
NONE: Final[Mapping[str, str]] = MappingProxyType({})
COLUMNS: Final[Mapping[str, str]] = {"k": "INT", "v": "STRING"}
SUMS: Final[Mapping[str, str]] = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


@dataclass(frozen=True)
class Claim:
    """A claim of a clause. ``older``, ``newer``: whether 0.9.0 and 1.4.2 do as the clause asks of us."""

    clause: str
    what: str
    older: str
    newer: str
    shows: Shows

    def of(self, peer: str) -> str:
        """Return what is known of a peer."""
        return {JVM: self.older, NEWER_JVM: self.newer}[peer]

    def failure(self, peer: Peer, folder: Path) -> str | None:
        """Return what is wrong with the claim, or None. ``folder``: an empty one."""
        expected = self.of(peer.name)
        try:
            found = SAME if self.shows(peer, folder) else DIFFERS
        except (PeerError, PkTableError, AssertionError) as error:
            return f"{self.clause}, {self.what}: expected {expected!r}, found {error}"
        return (
            None
            if found == expected
            else f"{self.clause}, {self.what}: expected {expected!r}, found {found!r}"
        )


class Played:
    """A table of a peer, or of ours, in a folder."""

    def __init__(
        self,
        peer: Peer,
        folder: Path,
        columns: Mapping[str, str] = COLUMNS,
        *,
        ours: bool = False,
        keys: Sequence[str] = ("k",),
        options: Mapping[str, str] = NONE,
    ) -> None:
        self.peer, self.path = peer, folder / "w.db" / "t"
        options = {name: value for name, value in {"bucket": "1", **options}.items() if value}
        if ours:
            text = ", ".join(f"{name} {type}" for name, type in columns.items())
            Table.create(self.path, text, primary_key=list(keys) or None, options=options)
            return
        self.ask(
            "create",
            columns=[
                [name, f"{type} NOT NULL" if name in keys else parse_type(type).to_json()]
                for name, type in columns.items()
            ],
            primary_key=list(keys),
            partition_by=[],
            options=options,
        )

    @property
    def table(self) -> Table:
        return Table.open(self.path)

    def ask(self, do: str, **arguments: object) -> Any:
        return self.peer.ask(do, table=str(self.path), **arguments)

    def write(self, *rows: Sequence[str | None], do: str = "write", **arguments: object) -> Played:
        """Write rows; each begins with its kind, or with a key, if it is an insert."""
        symbols = ("+I", "-D", "-U", "+U")
        self.ask(do, rows=[row if row[0] in symbols else ("+I", *row) for row in rows], **arguments)
        return self

    def full(self) -> Played:
        self.ask("compact", full=True)
        return self

    def rows(self, **arguments: object) -> list[list[str | None]]:
        return sorted(self.ask("read latest", **arguments), key=str)

    def accepts(self, do: str, **arguments: object) -> bool:
        """Return whether the peer carries a command out."""
        try:
            self.ask(do, **arguments)
        except PeerError:
            return False
        return True


def refuses(
    *rows: Sequence[str],
    columns: Mapping[str, str] = COLUMNS,
    keys: Sequence[str] = ("k",),
    options: Mapping[str, str] = NONE,
) -> Shows:
    """Return what shows whether a peer refuses to make or to write a table that we refuse to make."""

    def shows(peer: Peer, folder: Path) -> bool:
        try:
            Played(peer, folder / "ours", columns, ours=True, keys=keys, options=options)
        except InvalidRequestError:
            pass
        else:
            raise AssertionError("we make it")
        try:
            Played(peer, folder / "theirs", columns, keys=keys, options=options).write(*rows)
        except PeerError:
            return True
        return False

    return shows


# ------------------------------------------------------------------ tables and warehouses


def _refuses_narrower_types(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, {"k": "INT", "v": "BIGINT"})
    return not played.accepts("alter", changes=[["change type", "v", "INT"]])


def _refuses_option(name: str, value: str, options: Mapping[str, str] = NONE) -> Shows:
    def shows(peer: Peer, folder: Path) -> bool:
        played = Played(peer, folder, {"k": "INT", "v": "INT"}, options=options).write(("1", "1"))
        return not played.accepts("alter", changes=[["set option", name, value]])

    return shows


def _finds_our_tables(peer: Peer, folder: Path) -> bool:
    warehouse = Warehouse(folder)
    warehouse.create_database("d")
    warehouse.create_table("d.t", "k INT, v STRING", primary_key="k")
    return bool(peer.ask("tables", table=str(folder), database="d") == ["t"])


def _has_columns_of(name: str) -> Shows:
    def shows(peer: Peer, folder: Path) -> bool:
        warehouse = Warehouse(folder)
        warehouse.create_database("d")
        warehouse.create_table("d.t", "k INT, v STRING", primary_key="k", options={"bucket": "1"})
        ours = warehouse.table("d.t").metadata(name).schema.names
        try:
            return bool(peer.ask("columns", table=str(folder), database="d", name=f"t${name}") == ours)
        except PeerError:
            return False

    return shows


# ------------------------------------------------------------------ merging


def _keeps_no_row_of_retractions(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, {"k": "INT", "v": "INT"}, options=SUMS)
    for _ in range(2):
        played.write(("-D", "1", "1"))
    return played.full().rows() == []


def _leaves_a_first_array_whole(peer: Peer, folder: Path) -> bool:
    rows = "ARRAY<ROW<a INT>>"
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "nested_update",
        "fields.v.count-limit": "2",
    }
    played = Played(peer, folder, {"k": "INT", "v": rows}, options=options)
    for values in ([["1"], ["2"], ["3"]], [["4"]]):
        played.write(("1", json.dumps(values)), write_only=True)
    ((_, found),) = played.full().rows()
    return len(json.loads(str(found))) == 3


def _counts_every_name_of_ignore_delete(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, options={"partial-update.ignore-delete": "true"})
    return played.write(("1", "a")).write(("-D", "1", "a")).full().rows() == [["1", "a"]]


def _remembers_deletions(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, {"k": "INT", "v": "INT"}, options={"sequence.field": "v"})
    played.write(("1", "1")).write(("-D", "1", "5")).full()
    return played.write(("1", "3")).full().rows() == []


# ------------------------------------------------------------------ writes and compactions


def _overwrites_in_one_step(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, options={VECTORS: "true"}).write(("1", "a"))
    played.write(("2", "b"), do="overwrite")
    ids = [one.id for one in played.table.snapshots() if one.commit_kind == "OVERWRITE"]
    return bool(played.ask("read")[str(ids[-1])]["ok"] == [["2", "b"]])


def _rewrites_what_has_vectors(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, options={VECTORS: "true", "target-file-size": "1 kb"})
    played.write(*((str(key), "a") for key in range(2000))).full()
    played.write(("-D", "5", "a")).full()
    return bool(played.table.inspect.vectors().num_rows == 0)


def _drops_vectors_of_files_that_go(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, options={VECTORS: "true", "num-sorted-run.compaction-trigger": "5"})
    played.write(*((str(key), "a") for key in range(9))).full()
    played.write(("-D", "5", "a")).full()
    table = played.table
    live = {one["file_name"] for one in table.inspect.files().to_pylist()}
    manifest = table.snapshots()[-1].index_manifest
    if manifest is None:
        return True
    with (played.path / "manifest" / manifest).open("rb") as file:
        ranges = [one for entry in fastavro.reader(file) for one in entry["_DELETIONS_VECTORS_RANGES"]]
    return {one["f0"] for one in ranges} <= live


def _merges_what_was_there_before_vectors(peer: Peer, folder: Path) -> bool:
    options = {"num-sorted-run.compaction-trigger": "2", "compaction.size-ratio": "0", VECTORS: "false"}
    played = Played(peer, folder, options=options)
    played.write(*((str(key), "a") for key in range(2000))).full()
    for value in "bc":
        played.write(("1", value))
    levels = {one["level"] for one in played.table.inspect.files().to_pylist()}
    assert len(levels - {0}) > 1, f"levels {levels}"
    _set_option(played, VECTORS, "true")
    return [row for row in played.rows() if row[0] == "1"] == [["1", "c"]]


def _set_option(played: Played, name: str, value: str) -> None:
    """Put a schema with another option, as an older release may have done."""
    newest = max((played.path / "schema").iterdir(), key=lambda path: int(path.name.partition("-")[2]))
    schema = json.loads(newest.read_text())
    schema["id"] += 1
    schema["options"][name] = value
    schema.pop("pktable.crc32", None)
    newest.with_name(f"schema-{schema['id']}").write_text(json.dumps(schema))


def _orders_by_commits(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder).write(("0", "a"))
    played.write(("1", "staged first"), do="stage")
    played.write(("2", "b"), ("1", "staged last"))
    played.ask("commit")
    return ["1", "staged first"] in played.rows()


def _refuses_files_of_another_number_of_buckets(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder).write(("0", "a"))
    played.write(("1", "b"), do="stage")
    played.ask("alter", changes=[["set option", "bucket", "2"]])
    played.write(("0", "c"), do="overwrite")
    return not played.accepts("commit")


def _gives_a_number_of_buckets(peer: Peer, folder: Path) -> bool:
    return bool(Played(peer, folder, options={"bucket": ""}).ask("bucket mode") != "HASH_DYNAMIC")


# ------------------------------------------------------------------ changes


def _streams_level_0(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, ours=True, options={VECTORS: "true"})
    played.table.upsert(pa.table({"k": [1], "v": ["a"]}))
    return bool(played.ask("changes")["1"]["ok"] == [["+I", "1", "a"]])


def _refuses_changes_of_an_overwrite(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, options={"changelog-producer": "input"}).write(("1", "a"))
    played.write(("2", "b"), do="overwrite")
    return not played.accepts("changes")


# ------------------------------------------------------------------ snapshots, tags and branches


def _keeps_what_branches_need(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder).write(("1", "a"), write_only=True)
    played.ask("tag", name="x", snapshot=1)
    played.ask("branch", name="b", tag="x")
    played.write(("2", "b")).full()
    played.write(("3", "c"))
    played.ask("expire", retain=1)
    played.ask("delete tag", name="x")
    try:
        return played.rows(on="b") == [["1", "a"]]
    except PeerError:
        return False


def _looks_at_consumers_in_a_rollback(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder)
    for value in "abc":
        played.write(("1", value), write_only=True)
    (played.path / "consumer").mkdir()
    (played.path / "consumer" / "consumer-reader").write_text('{"nextSnapshot": 4}')
    return not played.accepts("roll back", snapshot=1)


def _expires_as_options_say(peer: Peer, folder: Path) -> bool:
    played = Played(
        peer, folder, options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    )
    for value in "abcde":
        played.write(("1", value))
    return len(played.table.snapshots()) == 2


def _leaves_old_consumers(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder, options={"consumer.expiration-time": "1 h"}).write(("1", "a"))
    consumer = played.path / "consumer" / "consumer-reader"
    consumer.parent.mkdir()
    consumer.write_text('{"nextSnapshot": 1}')
    os.utime(consumer, (0, 0))
    played.write(("1", "b"))
    return consumer.exists()


def _refuses_branches_with_a_slash(peer: Peer, folder: Path) -> bool:
    played = _with_tag(peer, folder)
    return not played.accepts("branch", name="a/b", tag="x") or "a/b" in played.ask("branches")


def _refuses_to_lose_commits(peer: Peer, folder: Path) -> bool:
    played = _with_tag(peer, folder)
    played.ask("branch", name="b", tag="x")
    played.write(("2", "of the branch"), on="b")
    played.write(("3", "of the table"))
    return not played.accepts("fast forward", name="b") or ["3", "of the table"] in played.rows()


def _with_tag(peer: Peer, folder: Path) -> Played:
    played = Played(peer, folder).write(("1", "a"))
    played.ask("tag", name="x", snapshot=1)
    return played


# ------------------------------------------------------------------ bytes


def _reads_its_times(peer: Peer, folder: Path) -> bool:
    """Whether a peer reads a time before 1970 that is no whole milliseconds, and that it has written itself."""
    played = Played(peer, folder, {"k": "INT", "v": "TIMESTAMP(9)"})
    played.write(("1", "-1000001"), write_only=True)
    (ours,) = played.table.to_arrow(fresh=True)["v"].cast(pa.int64()).to_pylist()
    assert ours == -1_000_001, ours
    try:
        return played.rows() == [["1", "-1000001"]]
    except PeerError:
        return False


def _converts(old: str, new: str, value: str) -> Shows:
    def shows(peer: Peer, folder: Path) -> bool:
        played = Played(peer, folder, {"k": "INT", "v": old}).write(("1", value)).full()
        played.ask("alter", changes=[["change type", "v", new]])
        return played.rows() == [list(row) for row in rows_of(played.table.to_arrow())]

    return shows


def _ignores_ours(peer: Peer, folder: Path) -> bool:
    """Whether a peer reads and writes a table with fences, our fields of snapshots and checksums."""
    options = {"full-compaction.delta-commits": "3", VECTORS: "true"}
    played = Played(peer, folder, ours=True, options=options)
    for value in "abc":
        played.table.upsert(pa.table({"k": [1], "v": [value]}))
    played.table.expire_snapshots(retain_last=1)
    assert (played.path / "fence").is_dir()
    before = played.rows()
    return before == [["1", "c"]] and played.write(("2", "d")).full().rows() == [["1", "c"], ["2", "d"]]


def _stays_in_the_table(peer: Peer, folder: Path) -> bool:
    played = Played(peer, folder).write(("1", "a"))
    elsewhere = folder / "elsewhere"
    (played.path / "bucket-0").rename(elsewhere)
    (played.path / "bucket-0").symlink_to(elsewhere)
    return not played.accepts("read latest")


_GROUP: Final[Mapping[str, str]] = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "v",
    "fields.v.aggregate-function": "listagg",
}
CLAIMS: Final = (
    Claim("TBL-41", "a narrower type is refused", DIFFERS, DIFFERS, _refuses_narrower_types),
    Claim(
        "TBL-43", "another order of records is refused", SAME, DIFFERS, _refuses_option("sequence.field", "v")
    ),
    Claim(
        "TBL-43",
        "another function is refused",
        DIFFERS,
        DIFFERS,
        _refuses_option("fields.v.aggregate-function", "max", options=SUMS),
    ),
    Claim("WH-1", "a warehouse of ours has its tables", SAME, SAME, _finds_our_tables),
    *(
        Claim("WH-9", f"columns of {name}", older, newer, _has_columns_of(name))
        for name, older, newer in (
            ("snapshots", DIFFERS, SAME),
            ("schemas", SAME, SAME),
            ("options", SAME, SAME),
            ("tags", SAME, SAME),
            ("files", DIFFERS, SAME),
            ("manifests", DIFFERS, SAME),
            ("branches", DIFFERS, SAME),
            ("consumers", SAME, SAME),
            ("partitions", DIFFERS, SAME),
            ("buckets", DIFFERS, SAME),
            ("audit_log", SAME, SAME),
        )
    ),
    Claim("MRG-16", "retractions alone make no row", DIFFERS, DIFFERS, _keeps_no_row_of_retractions),
    Claim(
        "MRG-11",
        "a function whose order counts is refused in a sequence group",
        DIFFERS,
        DIFFERS,
        refuses(("1", "a", "1"), columns={**COLUMNS, "g": "INT"}, options=_GROUP),
    ),
    Claim("MRG-26", "any name of ignore-delete counts", SAME, SAME, _counts_every_name_of_ignore_delete),
    Claim("MRG-34", "count-limit leaves the first array whole", DIFFERS, SAME, _leaves_a_first_array_whole),
    Claim(
        "MRG-35",
        "count-limit is refused with a nested key",
        DIFFERS,
        DIFFERS,
        refuses(
            ("1", '[["1"]]'),
            columns={"k": "INT", "v": "ARRAY<ROW<a INT>>"},
            options={
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "nested_update",
                "fields.v.nested-key": "a",
                "fields.v.count-limit": "2",
            },
        ),
    ),
    Claim(
        "MRG-28",
        "there is no function count",
        SAME,
        SAME,
        refuses(
            ("1", "1"),
            columns={"k": "INT", "v": "INT"},
            options={**SUMS, "fields.v.aggregate-function": "count"},
        ),
    ),
    Claim("MRG-21", "a late record loses to a deletion", DIFFERS, DIFFERS, _remembers_deletions),
    Claim(
        "MRG-23",
        "a nested sequence field is refused",
        DIFFERS,
        DIFFERS,
        refuses(("1", '["1"]'), columns={"k": "INT", "v": "ROW<a INT>"}, options={"sequence.field": "v"}),
    ),
    Claim(
        "MRG-24",
        "listagg is refused with a sequence field",
        DIFFERS,
        DIFFERS,
        refuses(
            ("1", "a", "1"),
            columns={**COLUMNS, "s": "INT"},
            options={
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "listagg",
                "sequence.field": "s",
            },
        ),
    ),
    Claim(
        "MRG-24",
        "first-row is refused with a sequence field",
        SAME,
        SAME,
        refuses(
            ("1", "1"),
            columns={"k": "INT", "v": "INT"},
            options={"merge-engine": "first-row", "sequence.field": "v"},
        ),
    ),
    Claim("STM-11", "an overwrite shows no state between", DIFFERS, DIFFERS, _overwrites_in_one_step),
    Claim(
        "CMP-31",
        "full-compaction.delta-commits is refused with the producer lookup",
        DIFFERS,
        DIFFERS,
        refuses(("1", "a"), options={"full-compaction.delta-commits": "1", "changelog-producer": "lookup"}),
    ),
    Claim(
        "CMP-31",
        "full-compaction.delta-commits is refused for an append table",
        SAME,
        SAME,
        refuses(("1", "a"), keys=(), options={"bucket": "-1", "full-compaction.delta-commits": "1"}),
    ),
    Claim(
        "CMP-25",
        "a full compaction rewrites a file with a vector",
        DIFFERS,
        DIFFERS,
        _rewrites_what_has_vectors,
    ),
    Claim("DV-19", "vectors of files that go are dropped", SAME, DIFFERS, _drops_vectors_of_files_that_go),
    Claim(
        "DV-15",
        "a read merges what vectors do not cover",
        DIFFERS,
        DIFFERS,
        _merges_what_was_there_before_vectors,
    ),
    Claim("CMT-10", "the write that commits later wins", DIFFERS, DIFFERS, _orders_by_commits),
    Claim(
        "BKT-19",
        "a write that was staged under another number is refused",
        DIFFERS,
        DIFFERS,
        _refuses_files_of_another_number_of_buckets,
    ),
    Claim(
        "BKT-1",
        "a table has dynamic buckets only if it is asked for",
        DIFFERS,
        DIFFERS,
        _gives_a_number_of_buckets,
    ),
    Claim("CHG-11", "a stream reads level 0", SAME, SAME, _streams_level_0),
    Claim(
        "CHG-12", "changes over an overwrite are refused", DIFFERS, DIFFERS, _refuses_changes_of_an_overwrite
    ),
    Claim("CMT-34", "an expiry keeps what branches need", DIFFERS, DIFFERS, _keeps_what_branches_need),
    Claim("CMT-63", "a commit expires what options ask for", SAME, SAME, _expires_as_options_say),
    Claim("CMT-64", "the file of a consumer that is old stays", DIFFERS, DIFFERS, _leaves_old_consumers),
    Claim("CMT-60", "a rollback looks at consumers", DIFFERS, DIFFERS, _looks_at_consumers_in_a_rollback),
    Claim(
        "BRN-3",
        "a branch whose name has a slash is refused",
        DIFFERS,
        DIFFERS,
        _refuses_branches_with_a_slash,
    ),
    Claim("BRN-11", "a fast-forward loses no commits", DIFFERS, DIFFERS, _refuses_to_lose_commits),
    Claim("META-47", "times before 1970 are read", DIFFERS, SAME, _reads_its_times),
    *(
        Claim("META-39", f"{old} as {new}", SAME, SAME, _converts(old, new, value))
        for old, new, value in (
            ("BIGINT", "INT", "4294967297"),
            ("DECIMAL(6, 2)", "DECIMAL(4, 1)", "1.25"),
            ("DECIMAL(6, 2)", "DECIMAL(3, 2)", "99.99"),
            ("STRING", "VARCHAR(2)", "abc"),
            ("STRING", "CHAR(4)", "ab"),
            ("TIMESTAMP(6)", "TIMESTAMP(3)", "1234567000"),
        )
    ),
    *(
        Claim(clause, f"tables with our {what} are read and written", SAME, SAME, _ignores_ours)
        for clause, what in (
            ("META-52", "fences"),
            ("META-53", "numbers of fences"),
            ("META-55", "counts of commits"),
            ("META-14", "checksums"),
        )
    ),
    Claim("SAFE-2", "a link out of the table is refused", DIFFERS, DIFFERS, _stays_in_the_table),
)

_CONCURRENT: Final = "it needs two compactions or statements of Paimon that run at the same time"
_SPARK: Final = "the peers have no Spark or Flink, whose commands do it"
_ASSIGNER: Final = "the peers have no assigner of dynamic buckets, which Paimon's engines bring"
UNTRIED: Final[Mapping[str, str]] = {
    "TBL-37": "the peers run in the zone of the machine",
    "WH-6": "it needs an object store",
    "WH-14": _SPARK,
    "WH-22": "`warehouse/test_paimon_script` has what Paimon-Spark 1.4.2 answers",
    "WH-15": _SPARK,
    "MRG-8": "its result depends on compactions that Paimon picks; `retraction_probes` shows it of collect and others",
    "MRG-10": "`retracting_histories` compare what Paimon takes back, and leave out what we refuse",
    "MRG-17": "the finding `late-rows-after-a-removal` of `make conform` has it of both",
    "MRG-30": "`engines/test_arrays_and_bitmaps` has what 1.4.2 writes; a compaction makes merges of its own choice",
    "MRG-31": "`engines/test_theta_sketches` has what 1.4.2 writes; no command makes a sketch",
    "STM-6": _SPARK,
    "CMP-21": "the history `steps-003` shows it, which `make conform` has 1.4.2 write",
    "CMP-29": "it says that an option is missing",
    "CMP-17": "Paimon compacts in the background, at a time of its own",
    "CMP-30": "the peers commit no checkpoints",
    "APP-6": "it is about pypaimon, whose files `append_histories` read",
    "APP-32": _SPARK,
    "APP-16": _CONCURRENT,
    "APP-18": _CONCURRENT,
    "BKT-9": _ASSIGNER,
    "BKT-10": _ASSIGNER,
    "BKT-8": _ASSIGNER,
    "BKT-23": _ASSIGNER,
    "BKT-24": _ASSIGNER,
    "BKT-26": _ASSIGNER,
    "BKT-28": _SPARK,
    "BKT-29": _ASSIGNER,
    "BKT-13": "0.9.0 has no such tables; `buckets/test_waiting` takes one of 1.4.2",
    "BKT-14": "0.9.0 has no such tables; `buckets/test_waiting` takes one of 1.4.2",
    "BKT-15": _SPARK,
    "BKT-18": _SPARK,
    "BKT-20": _SPARK,
    "CHG-6": "it needs a cache of lookups in a process that runs on",
    "CHG-17": "`kept_changelogs` compares what both keep, in turn",
    "DV-6": "no command of a peer leaves a retraction above level 0",
    "CMT-8": _CONCURRENT,
    "CMT-9": _CONCURRENT,
    "CMT-41": "it needs a committer that stops between its look and its move",
    "CMT-62": "Paimon has no fences",
    "BRN-4": "it needs a Paimon that dies while it makes a branch",
    **dict.fromkeys(
        ("META-72", "META-73"),
        "`formats` lets both releases read what is written so, and the other way round",
    ),
    "META-42": "`changed_columns` compares it with 1.4.2; 0.9.0 reads no column that has changed inside",
    "TBL-63": "no command of a peer drops a field inside of a column; `changed_columns` has a schema after it",
    **dict.fromkeys(
        ("META-78", "META-79"), "`changed_columns` compares both with 1.4.2; 0.9.0 has no VARIANT"
    ),
    "RD-31": "no command of a peer writes a part of the columns; `append/test_part_columns` has such files",
    "TBL-48": "it is about schema files of pypaimon, which the JVM reads",
    "META-3": "`vectors` makes metadata with Paimon and compares the bytes",
    "META-28": "a limit in `limits` shows it of 0.9.0, in every run",
}
"""Clauses whose claims on Paimon nothing here tries, with the reason."""
