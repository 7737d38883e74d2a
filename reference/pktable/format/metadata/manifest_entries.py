"""The entries of manifests, of which those of large ones are made when somebody asks for them.

The manifests of a table name most files twice: where a file was added, and where it was removed. The others are live.
The kind and the identity of an entry are known without making it.

Clauses: CMT-4, META-3, META-22, META-23.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

from pktable.format.metadata.manifest import IDENTITY, MANIFEST, ManifestEntry
from pktable.format.metadata.record_columns import ColumnarValues

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
