"""A repository's history becomes a table that equals git's trees at every commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.cli import run
from pktable.replay import Entry, GitHistory, StoredStream, Summary, create_table, path_text, replay
from pktable.table import Table
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

from model_tests.backends.spark_session import spark_session

BODY = "one\ntwo\nthree\n" * 20


class Repository:
    """A git repository that a test fills, independent of this machine's configuration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        who = {
            f"GIT_{role}_{what}": "someone@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        return done.stdout.strip()

    def write(self, **files: str | None) -> None:
        """Write files, or with None remove them, and commit."""
        for name, body in files.items():
            self.put(name.encode(), body)
        self.commit()

    def put(self, name: bytes, body: str | None) -> None:
        path = os.path.join(os.fsencode(self.path), name)
        if body is None:
            os.remove(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_text(body)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "a commit")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A history with everything in it: edits, deletes, renames, merges, modes, links, strange names."""
    made = Repository(tmp_path / "repository")
    made.write(a=BODY, b="b", c="c")
    made.write(a=BODY + "more", b=None)
    made.write()
    made.git("mv", "a", "renamed")
    made.commit()
    made.git("checkout", "-q", "-b", "side")
    made.write(side="1")
    made.write(side="2", c=None)
    made.git("checkout", "-q", "main")
    made.write(d="d")
    made.git("merge", "-q", "--no-ff", "-m", "a merge", "side")
    (made.path / "d").chmod(0o755)
    made.commit()
    (made.path / "link").symlink_to("d")
    for name in (
        b"with space",
        "ünï/cödé".encode(),
        b'quo"te',
        b"tab\t\nline",
        b"raw:x",
        b"latin-\xe9",
        b":colon",
    ):
        made.put(name, "x")
    made.commit()
    (made.path / "d").unlink()
    (made.path / "d").symlink_to("link")
    made.commit()
    made.git("update-index", "--add", "--cacheinfo", f"160000,{made.git('rev-parse', 'HEAD')},module")
    made.git("commit", "-q", "-m", "a submodule")
    return made


def rows_of(table: Table) -> dict[str, tuple[Any, ...]]:
    rows = table.to_arrow(columns=["path", "mode", "blob", "size", "commit"]).to_pylist()
    return {row["path"]: tuple(row.values())[1:] for row in rows}


def replayed(repository: Repository, place: Path, **arguments: Any) -> tuple[Table, Summary]:
    table = create_table(place / "table")
    return table, replay(GitHistory(repository.path), table, **arguments)


@covers("TBL-7", "CMT-15")
def test_every_commit_reads_as_git_lists_it(repository: Repository, tmp_path: Path) -> None:
    table, summary = replayed(repository, tmp_path)
    assert summary.mismatches == 0
    assert (
        summary.commits
        == summary.snapshots_compared
        == int(repository.git("rev-list", "--first-parent", "--count", "HEAD"))
    )
    found = rows_of(table)
    assert len(found) == summary.rows
    assert found["renamed"][0] == "100644"
    assert found["renamed"][2] == len(BODY + "more")
    assert found["d"][0] == found["link"][0] == "120000"
    assert found["module"][0] == "160000"
    assert found["module"][2] is None
    assert found["side"][1] == repository.git("rev-parse", "HEAD:side")
    assert {
        "with space",
        "ünï/cödé",
        'quo"te',
        "tab\t\nline",
        "raw:raw:x",
        "raw:latin-\\xe9",
        ":colon",
    } <= set(found)
    assert {"a", "b", "c", "raw:x"} & set(found) == set()


def test_a_merge_is_compared_with_its_first_parent_only(repository: Repository, tmp_path: Path) -> None:
    commits = list(GitHistory(repository.path).commits())
    merge = next(one for one in commits if one.name == repository.git("rev-list", "--merges", "HEAD"))
    assert {(change.kind, change.path) for change in merge.changes} == {("+I", "side"), ("-D", "c")}


def test_batches_may_hold_many_commits(repository: Repository, tmp_path: Path) -> None:
    _, summary = replayed(repository, tmp_path, batches=3)
    assert summary.mismatches == 0
    assert summary.snapshots_compared == 3


def test_a_shallow_clone_begins_with_its_whole_oldest_tree(repository: Repository, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth", "2", repository.path.as_uri(), str(clone))
    history = GitHistory(clone)
    assert history.shallow
    summary = replay(history, create_table(tmp_path / "table"))
    assert (summary.commits, summary.mismatches) == (2, 0)
    assert summary.rows == len(GitHistory(repository.path).tree("HEAD"))


class Liar(GitHistory):
    """A history that tells a tree that is not so."""

    def tree(self, commit: str) -> Mapping[str, Entry]:
        return {**super().tree(commit), "nosuch": ("100644", "0" * 40)}


def test_what_differs_is_counted_and_named(repository: Repository, tmp_path: Path) -> None:
    summary = replay(Liar(repository.path), create_table(tmp_path / "table"), batches=2)
    assert summary.mismatches == 4  # two snapshots, each read plain and fresh
    assert summary.first is not None
    assert summary.first.endswith("nosuch")


@given(a=st.binary(max_size=6), b=st.binary(max_size=6))
@settings(max_examples=300)
def test_no_two_paths_have_one_name(a: bytes, b: bytes) -> None:
    for prefix in (b"", b"raw:"):
        assert (path_text(prefix + a) == path_text(prefix + b)) == (a == b)
    assert path_text(b"raw:" + a) != path_text(a)
    path_text(a).encode("utf-8")


@pytest.mark.parametrize("kind", ["nothing", "no repository", "no commit"])
def test_a_place_without_a_history_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "no repository":
        place.mkdir()
    if kind == "no commit":
        Repository(place)
    with pytest.raises(InvalidRequestError, match="expected a git repository with a commit"):
        GitHistory(place)


def test_a_machine_without_git_is_told_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequestError, match="git is not on PATH; install git"):
        GitHistory(tmp_path)


@pytest.mark.parametrize("commit", ["HEAD", "HEAD~1", "HEAD~2"])
def test_a_history_that_loses_a_commit_is_not_replayed(tmp_path: Path, commit: str) -> None:
    """Of a commit that it cannot find, git diff-tree says nothing, and goes on."""
    repository = Repository(tmp_path / "repository")
    for body in "123":
        repository.write(a=body)
    history, name = GitHistory(repository.path), repository.git("rev-parse", commit)
    (repository.path / ".git" / "objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(InvalidRequestError, match="git diff-tree did not return every commit of the history"):
        list(history.commits())


# A stored stream

STREAM = {
    "commit": ["c1", "c1", "c2", "c3", "c3"],
    "committed_at": [1, 1, 2, 3, 3],
    "kind": ["A", "A", "M", "D", "A"],
    "path": ["a", "b", "a", "b", "c"],
    "mode": ["100644", "100644", "100755", None, "120000"],
    "blob": ["1", "2", "3", None, "4"],
}


@pytest.mark.parametrize("batches", [1, 2, 40])
def test_a_stored_stream_ends_as_its_fold(tmp_path: Path, batches: int) -> None:
    pq.write_table(pa.table(STREAM), tmp_path / "stream.parquet")
    history = StoredStream(tmp_path / "stream.parquet")
    assert history.tree("c2") == {"a": ("100755", "3"), "b": ("100644", "2")}
    table = create_table(tmp_path / "table")
    summary = replay(history, table, batches=batches)
    assert (summary.commits, summary.changes, summary.rows, summary.mismatches) == (3, 5, 2, 0)
    assert rows_of(table) == {"a": ("100755", "3", None, "c2"), "c": ("120000", "4", None, "c3")}


@pytest.mark.parametrize(("column", "values"), [("kind", ["A", "A", "M", "D", "?"]), ("blob", None)])
def test_a_stream_of_another_shape_is_refused(tmp_path: Path, column: str, values: list[str] | None) -> None:
    stream = {name: found for name, found in {**STREAM, column: values}.items() if found is not None}
    pq.write_table(pa.table(stream), tmp_path / "stream.parquet")
    with pytest.raises(InvalidRequestError, match=column):
        StoredStream(tmp_path / "stream.parquet")


def test_a_stream_that_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no Parquet")
    for name in ("text", "nothing"):
        with pytest.raises(InvalidRequestError, match=f"{name}: not a readable Parquet file: "):
            StoredStream(tmp_path / name)


# The command


def test_the_command_tells_what_it_compared(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay-git", str(repository.path), str(tmp_path / "table"), "--local"]) == 0
    assert "0 mismatches" in capsys.readouterr().out
    assert run(["replay-git", str(repository.path), str(tmp_path / "table"), "--local"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_takes_a_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table(STREAM), tmp_path / "stream.parquet")
    arguments = ["--stream", str(tmp_path / "stream.parquet"), str(tmp_path / "table"), "--local"]
    assert run(["replay-git", *arguments]) == 0
    assert "3 commits, 5 changes" in capsys.readouterr().out
    assert run(["replay-git", str(tmp_path)]) == 2


@pytest.mark.spark
def test_spark_replays_the_same(repository: Repository, tmp_path: Path) -> None:
    table = create_table(tmp_path / "spark", spark=spark_session())
    summary = replay(GitHistory(repository.path), table, batches=3)
    assert summary.mismatches == 0
    assert rows_of(table) == rows_of(replayed(repository, tmp_path, batches=3)[0])
