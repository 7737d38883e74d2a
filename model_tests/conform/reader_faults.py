"""Faults of readers: changes of `plain_reader` of a line each, with the case of the archive that tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pktable_conform.runner import Refused, RunnerError, Supports

SOURCE: Final = Path(__file__).with_name("plain_reader.py")


@dataclass(frozen=True)
class Fault:
    """A reader in which ``old`` is ``new``. ``case``: of the archive, that it fails."""

    name: str
    case: str
    old: str
    new: str

    def source(self) -> str:
        """Return the source of the faulty reader."""
        sound = SOURCE.read_text("utf-8")
        assert sound.count(self.old) == 1, (
            f"{self.name}: expected {self.old!r} once, found {sound.count(self.old)}"
        )
        return sound.replace(self.old, self.new)


class InProcess:
    """A reader of some source as a `Runner`, without a process."""

    def __init__(self, source: str) -> None:
        module = ModuleType("reader_under_test")
        exec(compile(source, str(SOURCE), "exec"), module.__dict__)
        self._program = module.__dict__["Program"]()

    def supports(self) -> Supports:
        found = self.ask("supports")
        return Supports(found["name"], frozenset(found["commands"]), frozenset(found["features"]))

    def ask(self, do: str, **fields: object) -> Any:
        answer: Mapping[str, Any] = self._program.answer({"do": do, **fields})
        if "refused" in answer:
            raise Refused(answer["refused"])
        if "ok" not in answer:
            raise RunnerError(str(answer))
        return answer["ok"]


FAULTS: Final = (
    Fault("the CRC-32 is not verified", "vector-crc", "expect(zlib.crc32(body) ==", "(zlib.crc32(body) =="),
    Fault(
        "the cardinality is not verified",
        "vector-cardinality",
        'expect(one.get("_CARDINALITY") in',
        '(one.get("_CARDINALITY") in',
    ),
    Fault(
        "the length of 32 bits is not verified",
        "vector-length",
        "    if magic == MAGIC_32:\n        expect(size == length, ",
        "    if magic == MAGIC_32:\n        expect(True, ",
    ),
    Fault(
        "the magic of 64 bits is not verified", "vector-64-magic", "expect(magic == MAGIC_64", "expect(True"
    ),
    Fault("the version byte is not verified", "index-version", "expect(data[0] == 1", "expect(True"),
    Fault(
        "vectors are found by the name of the file alone",
        "same-names",
        "deleted.get((partition, bucket, name), ())",
        "{one[2]: positions for one, positions in deleted.items()}.get(name, ())",
    ),
    Fault(
        "vectors are found without the bucket",
        "same-names-in-buckets",
        "deleted.get((partition, bucket, name), ())",
        "{(one[0], one[2]): positions for one, positions in deleted.items()}.get((partition, name), ())",
    ),
    Fault(
        "a file is the same at every level",
        "upgraded-file",
        'entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])',
        'entry["_BUCKET"], 1, file["_FILE_NAME"])',
    ),
    Fault("level 0 is read", "level-zero", "not fresh and level == 0 and not older", "False"),
    Fault("columns are found by name", "changed-schema", 'names.get(field["id"])', 'field["name"]'),
    Fault(
        "the key of a bitmap is ignored",
        "vector-beyond-32-bits",
        "{key << 32 | position for",
        "{position for",
    ),
    Fault("paths are not escaped", "partitions", "c in SPECIAL else c", "c in '' else c"),
    Fault(
        "retractions are rows",
        "row-kinds",
        "row in newest if is_add]",
        "row in newest]",
    ),
    Fault(
        "retractions at greater levels are rows",
        "live-retractions",
        "older or kind not in ADDS for",
        "older for",
    ),
    Fault("+U is no row", "row-kinds", "ADDS = (0, 2)", "ADDS = (0,)"),
    Fault("the oldest record wins", "row-kinds", "max(records, key", "min(records, key"),
    Fault(
        "the last record read wins among equals",
        "equal-numbers",
        "max(records, key=lambda one: one[1])",
        "max(reversed([*records]), key=lambda one: one[1][0])",
    ),
    *(
        Fault(
            f"a merge goes through {what}",
            case,
            "(tuple(ordinal(row[at]) for at in key), (sequence",
            f"(tuple({order} for x in (row[at] for at in key)), (sequence",
        )
        for what, case, order in (
            ("integers by their text", "merged-keys", "str(x) if type(x) is int else x"),
            ("integers as floats", "merged-keys", "float(x) if type(x) is int else x"),
            ("strings by UTF-16", "merged-keys", "x.encode('utf-16-be') if type(x) is str else x"),
            ("strings without case", "merged-keys", "x.lower() if type(x) is str else x"),
            ("signed bytes", "merged-keys", "[b ^ 128 for b in x] if type(x) is bytes else x"),
            ("decimals by their text", "merged-keys", "str(x) if type(x) is decimal.Decimal else x"),
            ("decimals as floats", "merged-keys", "float(x) if type(x) is decimal.Decimal else x"),
            ("times by milliseconds", "merged-keys", "x // 10**6 if type(x) is int and x > 2**60 else x"),
            ("zeros that are equal", "merged-keys-of-floats", "ordinal(x + 0.0)"),
            ("a NaN before all others", "merged-keys-of-floats", "-math.inf if x != x else ordinal(x)"),
            ("numbers below zero backwards", "merged-keys-of-floats", "struct.pack('>d', x)"),
        )
    ),
    Fault(
        "a file under an expired id is a snapshot",
        "strays",
        'if number <= fence["expired"]:',
        "if False:",
    ),
    Fault(
        "a file whose writer knew no rollback is a snapshot",
        "strays",
        'found["pktable.fence"] < one for',
        'found["pktable.fence"] < 0 for',
    ),
    Fault(
        "a file whose writer says nothing of fences is a snapshot",
        "strays",
        'return any(one["ended"]',
        'return False and any(one["ended"]',
    ),
    Fault(
        "no file above the target of a rollback is a snapshot",
        "strays",
        'if "pktable.fence" in found:\n            return any(',
        'if "pktable.fence" in found:\n            return bool(above) or any(',
    ),
    Fault("times are those of strays, too", "strays", "if not self.has_ended(n)]", "]"),
    Fault(
        "the latest schema says that there are no vectors",
        "switched-off",
        "has_vectors = self.has_vectors(of_snapshot)",
        "has_vectors = self.has_vectors(self.latest)",
    ),
    Fault(
        "positions count within a row group",
        "larger-files",
        "for position, row in enumerate(rows) if position not in gone]",
        "for position, row in enumerate(rows) if position % 50000 not in gone]",
    ),
    Fault(
        "a bitmap ends after its first container",
        "larger-files",
        "set(BitMap.deserialize(body[4:]))",
        "set(BitMap.deserialize(body[4:]) & BitMap(range(2**16)))",
    ),
    Fault("the delta is not read", "pairs", 'for which in ("base", "delta"):', 'for which in ("base",):'),
    Fault(
        "the latest schema says whether there are vectors",
        "switched-on",
        "has_vectors = self.has_vectors(of_snapshot)",
        "has_vectors = self.has_vectors(self.latest)\n        self.has_vectors = lambda _: True",
    ),
    Fault(
        "level 0 is skipped that was written before there were vectors",
        "switched-on",
        "older = has_vectors and not self.has_vectors(",
        "older = False and (",
    ),
    Fault(
        "options are those of the snapshot",
        "merged-on-read-later",
        'options, key = self.latest["options"], schema["primaryKeys"]',
        'options, key = of_snapshot["options"], schema["primaryKeys"]',
    ),
    Fault(
        "deleted files stay",
        "merged-manifests",
        "live.pop(key, None) is not None",
        "live.get(key) is not None",
    ),
    Fault(
        "only null is the default partition",
        "partitions",
        "if text is None or not text.strip():",
        "if text is None:",
    ),
    Fault("the sizes of files are not looked at", "index-size", "size in (None, len(data))", "True"),
    Fault(
        "the number of rows is not looked at",
        "data-rows",
        'expect(table.num_rows == file["_ROW_COUNT"]',
        "expect(True",
    ),
    Fault("bytes may be left over", "index-longer", "expect(at == len(data)", "expect(True"),
    Fault(
        "a snapshot of any version is read", "snapshot-version", 'expect(found["version"] == 3', "expect(True"
    ),
    Fault(
        "the checksums of pages are not verified",
        "data-page",
        "page_checksum_verification=True",
        "page_checksum_verification=False",
    ),
    Fault("a file has two vectors", "vector-twice", "expect(key not in found, ", "expect(True, "),
    Fault(
        "an entry that takes an index file away adds it",
        "index-kind",
        'expect(entry["_KIND"] == 0, f"index manifest',
        'expect(True, f"index manifest',
    ),
    Fault(
        "hash indexes are vectors",
        "dynamic-buckets",
        'if entry["_INDEX_TYPE"] != "DELETION_VECTORS":',
        "if False:",
    ),
    Fault("unknown fields are ignored", "manifest-field", "expect(value in (None, []), ", "expect(True, "),
    Fault(
        "unknown options are ignored",
        "option-unknown",
        "expect(not name.startswith(OF_ROWS) or name in KNOWN",
        "expect(True",
    ),
    Fault("the type of a key may change", "key-type", 'same or field["name"] not in', "True or field not in"),
    Fault(
        "a table without snapshots is empty",
        "snapshot-all-missing",
        'expect(not (self.own / "snapshot/LATEST").exists()',
        "expect(True",
    ),
    Fault(
        "the greatest number is the latest",
        "number-too-great",
        "if text.isdigit() and int(text) < 2**63 - 1]",
        "if text.isdigit()]",
    ),
    Fault(
        "snapshots are in the order of their names", "without-hints", "max(known, ", "max(known, key=str, "
    ),
    Fault(
        "a time is before its own snapshot",
        "without-hints",
        "if times[number] <= request",
        "if times[number] < request",
    ),
    Fault(
        "the times of snapshots never go back",
        "without-hints",
        'known = [number for number in known if times[number] <= request["timestamp"]]',
        'known = [*itertools.takewhile(lambda one: times[one] <= request["timestamp"], known)]',
    ),
    Fault("rows that wait are read", "waiting-rows", "if bucket == -2:", "if False:"),
    Fault(
        "vectors are looked for in one place",
        "vectors-by-data",
        '== "true"\n        beside =',
        '== "yes"\n        beside =',
    ),
    Fault(
        "data files are looked for in one place",
        "data-elsewhere",
        '.get("data-file.path-directory", "")',
        '.get("no-such-option", "")',
    ),
    Fault(
        "a branch has the schema of the table",
        "branches",
        'as_json(self.own / f"schema/',
        'as_json(self.root / f"schema/',
    ),
    Fault(
        "wide decimals are as narrow ones",
        "partitions-of-every-form",
        "digits[0] > 18 else",
        "digits[0] > 38 else",
    ),
    Fault("a time has no nanoseconds", "partitions-of-every-form", "(0 if compact else first)", "0"),
    Fault(
        "names of directories are the older ones",
        "partitions-of-newer-names",
        '.get("partition.legacy-name") != "false"',
        '.get("partition.legacy-name") != "no"',
    ),
)
