"""Manifest files: read with a cache, written, merged when there are many small ones.

A manifest's name is never used twice, so what was read under a name stays true. Files are remembered by their bytes
too, for the whole process: a table that is opened again and again reads each of them, and decodes none twice. Which
entries remain of them is not found out twice either.

The manifests of a table name most files twice: where a file was added, and where it was removed. The others are live.
The kind and the identity of an entry are known without making it, so those of large manifests are made when somebody
asks for them.

Clauses: CMT-4, CMT-5, META-3, META-12, META-22, META-23, RD-24.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from pktable_spec.errors import CorruptFileError
from pktable_spec.options import TableOptions

from pktable.format import paths
from pktable.format.binary_row import decode_row, encode_row
from pktable.format.metadata.manifest import (
    ADD,
    DELETE,
    IDENTITY,
    MANIFEST,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    decode_index_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from pktable.format.metadata.record_columns import ColumnarValues, uncollected
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.paths import TablePaths
from pktable.store.file_io import FileIO
from pktable.store.guard import guarded
from pktable.store.requests import Cache, together

Identity: TypeAlias = tuple[object, ...]
"""The value of `ManifestEntry.identity`."""

Part: TypeAlias = list[ManifestEntry] | ColumnarValues[ManifestEntry]
Place: TypeAlias = tuple[Part, int]
"""Where an entry is: a part of a manifest, and its number there."""


class ManifestEntries(Iterable[ManifestEntry]):
    """The entries of a manifest, in order. They are made all at once, or chosen by their places."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[ManifestEntry]:
        return iter(self._all)

    def places(self) -> Iterator[tuple[int, Identity, Place]]:
        """Yield the kind, the identity and the place of each entry. Clauses: CMT-4."""
        for part in self._parts:
            identities = zip(*(_attribute(part, name) for name in IDENTITY), strict=True)
            here = [(part, number) for number in range(len(part))]
            yield from zip(_attribute(part, "kind"), identities, here, strict=True)

    def external_paths(self) -> Iterator[str]:
        """Yield the paths of files that do not lie in their bucket's directory."""
        for part in self._parts:
            yield from filter(None, _attribute(part, "file.external_path"))

    @cached_property
    def _all(self) -> list[ManifestEntry]:
        return [entry for part in self._parts for entry in (part if isinstance(part, list) else part.made())]


def made(places: Mapping[Identity, Place]) -> dict[Identity, ManifestEntry]:
    """Return the entries at ``places``, in the same order."""
    parts: dict[int, tuple[Part, list[int]]] = {}
    for part, number in places.values():
        parts.setdefault(id(part), (part, []))[1].append(number)
    entries = {key: iter(_chosen(part, numbers)) for key, (part, numbers) in parts.items()}
    return {identity: next(entries[id(part)]) for identity, (part, _) in places.items()}


def decode_entries(data: bytes, at: str, *, size: int | None = None) -> ManifestEntries:
    """Return the entries of a manifest. ``size``: of the file, as the manifest list says. Raises CorruptFileError."""
    return ManifestEntries(*MANIFEST.parts(data, at, size))


def _attribute(part: Part, name: str) -> Sequence[Any]:
    if isinstance(part, ColumnarValues):
        return part.attribute(name)
    return list(map(attrgetter(name), part))


def _chosen(part: Part, numbers: Sequence[int]) -> list[ManifestEntry]:
    return [part[number] for number in numbers] if isinstance(part, list) else part.made(numbers)


DECODED_BYTES: Final = 2 << 20  # those of some 80,000 entries
FOLDED_ENTRIES: Final = 50_000
FOLD_ENTRIES: Final = 100
"""As many as what is remembered of a fold besides its entries."""
MOST_GONE: Final = 10_000
LATER_MANIFESTS: Final = 32
"""A known fold is looked for that lacks so many manifests at most."""
HELD_BYTES: Final = 32 << 20
"""Files of a commit that are written at the same time."""
_DECODED: Final = Cache(DECODED_BYTES)  # by function, bytes and expected size
_FOLDED: Final = Cache(FOLDED_ENTRIES)  # by what was decoded


class MissingManifestError(CorruptFileError):
    """A manifest is missing: damage, unless every snapshot and tag that named it has been removed concurrently."""


class Manifests:
    """The directory ``manifest/`` of a table."""

    def __init__(self, store: FileIO, paths: TablePaths, schema: TableSchema, options: TableOptions) -> None:
        self._store, self._paths = guarded(store, paths.root), paths
        self._schema, self._options = schema, options
        self._partition_types = [field.type for field in schema.partition_fields]
        self._lists = Cache(512)
        self._entries = Cache(512)
        self._indexes = Cache(256)

    def read_list(self, name: str, size: int | None = None) -> Sequence[ManifestFileMeta]:
        return self._lists.get(name, lambda: self._decoded(decode_manifest_list, name, size))

    def read(self, meta: ManifestFileMeta) -> ManifestEntries:
        """Return the entries of a manifest. Raises OutsideTableError if a file lies where the caller allows none."""

        def load() -> ManifestEntries:
            entries: ManifestEntries = self._decoded(decode_entries, meta.file_name, meta.file_size)
            self._expect_allowed(entries.external_paths())
            return entries

        return self._entries.get(meta.file_name, load)

    def read_index(self, name: str) -> Sequence[IndexManifestEntry]:
        """Return the entries of an index manifest. Raises OutsideTableError as `read` does."""

        def load() -> Sequence[IndexManifestEntry]:
            entries: Sequence[IndexManifestEntry] = self._decoded(decode_index_manifest, name, None)
            self._expect_allowed(entry.external_path for entry in entries)
            return entries

        return self._indexes.get(name, load)

    def _expect_allowed(self, external_paths: Iterable[str | None]) -> None:
        # Before anything is done with the entries: an expiry, for one, deletes the files that they name.
        for path in filter(None, external_paths):
            self._store.expect_allowed(path)

    def show_two_commits(self) -> bool:
        """Return whether two manifest lists name one manifest, as only a commit on top of another one does.

        Lists that cannot be read count as empty. False if they may be those of another branch. Clauses: CMT-51.
        """
        seen: set[str] = set()
        for name in self._store.list_names(self._paths.manifests):
            if not name.startswith(paths.MANIFEST_LIST):
                continue
            try:
                named = {meta.file_name for meta in self.read_list(name)}
            except CorruptFileError:
                continue
            if seen & named:
                return self._paths.branch is None and not self._store.list_names(self._paths.branches)
            seen |= named
        return False

    def _decoded(self, decode: Callable[..., Any], name: str, size: int | None) -> Any:
        """Return what ``decode`` makes of a file. ``size``: of the file, where it is known."""
        path = self._paths.manifest(name)
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            raise MissingManifestError("manifest", at=path, expected="a file", found="none") from None

        def load() -> Any:
            return decode(data, path, size=size)

        return _DECODED.get((decode, data, size), load, lambda _: len(data))

    def writer(self) -> ManifestWriter:
        return ManifestWriter(self)

    def fold(self, metas: Sequence[ManifestFileMeta]) -> Mapping[Identity, ManifestEntry]:
        """Return the entries that remain of ``metas`` by identity: live files, and DELETEs without their ADD.

        Only these are made of large manifests. If it is known what remains of the first of them, as after commits of
        others, that is not found out again. Clauses: CMT-4, RD-24.
        """
        manifests = tuple(together(self._store, [partial(self.read, meta) for meta in metas]))

        def load() -> Fold:
            with uncollected():
                for count in range(len(metas) - 1, max(0, len(metas) - 1 - LATER_MANIFESTS), -1):
                    before = _FOLDED.find(manifests[:count])
                    if before is not None and before.gone is not None:
                        return self._folded(before, metas[count:])
                return self._folded(Fold(), metas)

        found: Fold = _FOLDED.get(manifests, load, lambda fold: fold.weight)
        return found.entries

    def _folded(self, before: Fold, metas: Iterable[ManifestFileMeta]) -> Fold:
        """Return the fold of the manifests of ``before``, and of ``metas`` after them."""
        assert before.gone is not None
        adds: dict[Identity, Place] = {}
        deletes: dict[Identity, Place] = {}
        for meta in metas:
            for kind, identity, place in self.read(meta).places():
                known, known_before = (adds, before.adds) if kind == ADD else (deletes, before.deletes)
                if identity in known or identity in known_before or identity in before.gone:
                    raise CorruptFileError(
                        "manifest entry",
                        at=self._paths.manifest(meta.file_name),
                        expected="each file added and deleted once",
                        found=f"{made({identity: place})[identity].file.file_name} twice",
                    )
                known[identity] = place
        gone = [one for one in deletes if one in adds or one in before.adds]
        gone += [one for one in adds if one in before.deletes]
        for identity in gone:
            adds.pop(identity, None)
            deletes.pop(identity, None)
        return before.with_more(made(adds), made(deletes), gone)


@dataclass(frozen=True)
class Fold:
    """The remains of manifests: ADDs and DELETEs by identity, and the files that have ``gone``, with one of each.

    ``gone``: None if they are too many to be kept.
    """

    adds: dict[Identity, ManifestEntry] = field(default_factory=dict)
    deletes: dict[Identity, ManifestEntry] = field(default_factory=dict)
    gone: frozenset[Identity] | None = frozenset()

    @cached_property
    def entries(self) -> Mapping[Identity, ManifestEntry]:
        return MappingProxyType({**self.adds, **self.deletes} if self.deletes else self.adds)

    @property
    def weight(self) -> int:
        return FOLD_ENTRIES + len(self.adds) + len(self.deletes) + len(self.gone or ())

    def with_more(
        self,
        adds: Mapping[Identity, ManifestEntry],
        deletes: Mapping[Identity, ManifestEntry],
        gone: Iterable[Identity],
    ) -> Fold:
        """Return the fold after further manifests. ``adds``, ``deletes``: that remain of these; ``gone``: files."""
        assert self.gone is not None
        all_gone = self.gone.union(gone)
        return Fold(
            {**{one: entry for one, entry in self.adds.items() if one not in all_gone}, **adds},
            {**{one: entry for one, entry in self.deletes.items() if one not in all_gone}, **deletes},
            all_gone if len(all_gone) <= MOST_GONE else None,
        )


class ManifestWriter:
    """Writes the metadata of one attempt to commit; ``paths`` are removed if it is not made visible.

    A file is there after `flush`. Before that it is kept in memory, as are others of `HELD_BYTES` at most.
    """

    def __init__(self, manifests: Manifests) -> None:
        self._manifests = manifests
        self._token = uuid.uuid4()
        self._count = 0
        self._held: list[tuple[str, bytes]] = []
        self.paths: list[str] = []

    def flush(self) -> None:
        """Write the files that are kept in memory."""
        store, held = self._manifests._store, self._held
        self._held = []
        together(store, [partial(store.write, path, data) for path, data in held])

    def entries(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write ``entries`` as one manifest, or several of about the target size. Clauses: META-12."""
        data = encode_manifest(entries)
        if len(data) > self._manifests._options.manifest_target_bytes * 2 and len(entries) > 1:
            middle = len(entries) // 2
            return [*self.entries(entries[:middle]), *self.entries(entries[middle:])]
        name = self._write(paths.MANIFEST, data)
        self._manifests._entries.put(name, ManifestEntries([*entries]))
        files = [entry.file for entry in entries]
        return [
            ManifestFileMeta(
                file_name=name,
                file_size=len(data),
                num_added_files=sum(entry.kind == ADD for entry in entries),
                num_deleted_files=sum(entry.kind == DELETE for entry in entries),
                partition_stats=self._partition_stats(entries),
                schema_id=self._manifests._schema.id,
                min_bucket=min(entry.bucket for entry in entries),
                max_bucket=max(entry.bucket for entry in entries),
                min_level=min(file.level for file in files),
                max_level=max(file.level for file in files),
            )
        ]

    def manifest_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list and return its name and size in bytes."""
        data = encode_manifest_list(metas)
        name = self._write(paths.MANIFEST_LIST, data)
        self._manifests._lists.put(name, tuple(metas))
        return name, len(data)

    def index(self, entries: Sequence[IndexManifestEntry]) -> str:
        data = encode_index_manifest(entries)
        name = self._write(paths.INDEX_MANIFEST, data)
        self._manifests._indexes.put(name, tuple(entries))
        return name

    def merged(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return ``metas`` with many small manifests, or many deletions, folded into fewer. Clauses: CMT-5."""
        options = self._manifests._options
        changing = [m for m in metas if m.num_deleted_files or m.file_size < options.manifest_target_bytes]
        if sum(meta.file_size for meta in changing) >= options.manifest_full_compaction_bytes:
            return self._fold(metas)
        result: list[ManifestFileMeta] = []
        group: list[ManifestFileMeta] = []
        size = 0
        for meta in metas:
            group.append(meta)
            size += meta.file_size
            if size >= options.manifest_target_bytes:
                result += self._fold(group) if len(group) > 1 else group
                group, size = [], 0
        return result + (self._fold(group) if len(group) >= options.manifest_merge_min_count else group)

    def _fold(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        remaining = list(self._manifests.fold(metas).values())
        return self.entries(remaining) if remaining else []

    def _write(self, prefix: str, data: bytes) -> str:
        name = f"{prefix}-{self._token}-{self._count}"
        self._count += 1
        path = self._manifests._paths.manifest(name)
        self.paths.append(path)
        self._held.append((path, data))
        if sum(len(one) for _, one in self._held) > HELD_BYTES:
            self.flush()
        return name

    def _partition_stats(self, entries: Sequence[ManifestEntry]) -> SimpleStats:
        types = self._manifests._partition_types
        distinct = {entry.partition for entry in entries}
        rows = [decode_row(partition, types, at=self._manifests._paths.manifests) for partition in distinct]
        columns = [[row[i] for row in rows] for i in range(len(types))]
        present = [[value for value in column if value is not None] for column in columns]
        return SimpleStats(
            encode_row([min(values, default=None) for values in present], types),
            encode_row([max(values, default=None) for values in present], types),
            tuple(
                sum(decode_row(entry.partition, types, at="")[i] is None for entry in entries)
                for i in range(len(types))
            ),
        )
