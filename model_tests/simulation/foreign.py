"""What others do to a table, who do it as Paimon does: with the files alone, and with no fence."""

from __future__ import annotations

from pktable.format.metadata.snapshot import decode_snapshot
from pktable.format.paths import BRANCH, EARLIEST, LATEST, SNAPSHOT, TablePaths, numbered
from pktable.store.file_io import FileIO

from model_tests.simulation.store import ActorStore, Work, World
from model_tests.simulation.tables import PATHS


def expire(store: FileIO) -> None:
    """Remove snapshot files, the oldest first, by no fence. The files that they name stay."""
    ids = _ids(store.list_names(PATHS.snapshots))
    for one in ids[:-1]:
        store.delete(PATHS.snapshot(one))
    store.write(PATHS.hint(EARLIEST), str(ids[-1]).encode())


def roll_back(store: ActorStore) -> None:
    """Remove the files of the two latest snapshots, the latest first, and their tags, by no fence.

    Nobody else goes on meanwhile.
    """

    def remove(world: World, by: Work) -> None:
        names = [path.rpartition("/")[2] for path in world.files if path.startswith(PATHS.snapshots + "/")]
        ids = _ids(names)
        kept = ids[:1] + ids[1:-2]
        for one in reversed(ids[len(kept) :]):
            world.delete(PATHS.snapshot(one), by)
        tags = {path: data for path, data in world.files.items() if path.startswith(PATHS.tags + "/")}
        for path, data in tags.items():
            if decode_snapshot(data, at=path).id > kept[-1]:
                world.delete(path, by)
        world.write(PATHS.hint(LATEST), str(kept[-1]).encode(), by)

    store.at_once(PATHS.snapshots, remove)


def make_branch(store: ActorStore, tag: str) -> None:
    """Make a branch from a tag, of the same name: copies of the tag, of its snapshot, and of the schema."""
    data = store.read(PATHS.tag(tag))
    branch = PATHS.of_branch(tag)
    store.write(branch.tag(tag), data)
    store.write(branch.snapshot(decode_snapshot(data, at=branch.tag(tag)).id), data)
    store.write(branch.schema(0), store.read(PATHS.schema(0)))


def drop_branch(store: ActorStore) -> None:
    """Remove the files of the first branch, if there is one."""
    for name in store.list_names(PATHS.branches)[:1]:
        branch: TablePaths = PATHS.of_branch(name.removeprefix(BRANCH))
        for directory in (branch.schemas, branch.snapshots, branch.tags):
            for file in store.list_names(directory):
                store.delete(f"{directory}/{file}")


def _ids(names: list[str]) -> list[int]:
    return sorted(one for name in names if (one := numbered(name, SNAPSHOT)) is not None)
