"""`ObjectStoreIO` keeps the contract of a `FileIO` on a real S3-compatible server."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import InvalidRequestError
from pktable.store.file_io import LocalFileIO, locate, open_store
from pktable.store.object_files import END_BYTES, PART_BYTES, ObjectSink
from pktable.store.object_store import ObjectStoreIO, is_object_uri
from pktable_spec.covers import covers

from model_tests.stores.s3_server import BUCKET, Request, Server

NAMES = ("plain", "dt=a%2Fb/data file.parquet", "dt=ü/x", "dt=1/y~{}[]#:", "dt=1/deep/er", "dt=1/y", "..dots")


@pytest.fixture
def store(server: Server) -> ObjectStoreIO:
    return ObjectStoreIO(f"s3://{BUCKET}", server.options)


# Files


def test_names_are_listed_as_a_local_directory_lists_them(
    store: ObjectStoreIO, server: Server, root: str, tmp_path: Path
) -> None:
    local = LocalFileIO()
    for name in NAMES:
        store.write(f"{root}/{name}", b"1")
        local.write(f"{tmp_path}/{name}", b"1")
    for directory in ("", "/dt=1", "/dt=1/deep", "/dt=a%2Fb", "/nothing", "/plain", "/dt"):
        assert sorted(store.list_names(root + directory)) == sorted(
            local.list_names(str(tmp_path) + directory)
        )
    prefix = root.removeprefix(f"s3://{BUCKET}/")
    assert {key.removeprefix(f"{prefix}/") for key in server.keys(prefix)} == set(NAMES), "keys are encoded"


def test_an_object_is_there_from_its_write_to_its_deletion(store: ObjectStoreIO, root: str) -> None:
    path = f"{root}/file"
    assert not store.exists(path)
    store.write(path, b"one")
    store.write(path, b"two")
    assert store.exists(path)
    assert store.read(path) == store.open(path).read() == b"two"
    assert not store.exists(root), "a directory is no object"
    assert not store.exists(f"s3://{BUCKET}"), "nor is a bucket"
    assert not store.exists(f"s3://{BUCKET}/")
    store.delete(path)
    store.delete(path)
    assert not store.exists(path)
    for read in (store.read, store.open):
        with pytest.raises(FileNotFoundError) as missing:
            read(path)
        assert missing.value.filename == path


def test_a_listing_of_more_than_a_page_is_whole(store: ObjectStoreIO, server: Server, root: str) -> None:
    server.fill(root.removeprefix(f"s3://{BUCKET}/"), 1001)
    assert len(store.list_names(root)) == 1001


@pytest.mark.parametrize("size", [0, 1, END_BYTES, END_BYTES + 1, 5_000_000])
def test_a_file_reads_the_same_bytes_at_any_position(store: ObjectStoreIO, root: str, size: int) -> None:
    drawn = random.Random(size)
    data, path = drawn.randbytes(size), f"{root}/file"
    store.write(path, data)
    file = store.open(path)
    assert file.size() == size
    for _ in range(40):
        start = drawn.randrange(size + 1)
        length = drawn.choice([1, 100, 70_000, 3_000_000])
        file.seek(start)
        assert file.read(length) == data[start : start + length]
        assert file.tell() == min(size, start + length)
    buffered = io.BufferedReader(store.open(path))
    assert buffered.read() == data


def test_few_requests_read_a_parquet_file(store: ObjectStoreIO, server: Server, root: str) -> None:
    drawn = random.Random(1)
    table = pa.table({name: pa.array([drawn.random() for _ in range(350_000)]) for name in "abcd"})
    with store.create(f"{root}/large.parquet") as sink:
        pq.write_table(table, sink, row_group_size=100_000)
    with server.counted() as counts:
        assert pq.ParquetFile(store.open(f"{root}/large.parquet"), pre_buffer=False).read() == table
    size = len(store.read(f"{root}/large.parquet"))
    assert 10 << 20 < size < 15 << 20
    assert counts.keys() == {"GET"}
    assert counts["GET"] <= 2 + size / (1 << 20), "less than a mebibyte a request"
    with server.counted() as counts:
        file = io.BufferedReader(store.open(f"{root}/large.parquet"), 1 << 16)
        assert sum(map(len, iter(lambda: file.read(1 << 16), b""))) == size
    assert counts == {"GET": 5}, "the end, 1, 2, 4 and 8 MiB"
    pq.write_table(table.slice(0, 100), small := io.BytesIO())
    store.write(f"{root}/small.parquet", small.getvalue())
    with server.counted() as counts:
        assert pq.read_table(store.open(f"{root}/small.parquet")).num_rows == 100
    assert counts == {"GET": 1}


# New files


def uploads(server: Server) -> list[str]:
    """Return the keys of multipart uploads that are neither completed nor aborted."""
    found = server.client().list_multipart_uploads(Bucket=BUCKET)
    return [one["Key"] for one in found.get("Uploads", ())]


@pytest.mark.parametrize("size", [0, 1000, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 5])
def test_a_sink_makes_the_object_when_it_is_closed(
    store: ObjectStoreIO, server: Server, root: str, size: int
) -> None:
    data = random.Random(size).randbytes(size)
    with server.counted() as counts:
        sink = store.create(f"{root}/file")
        for start in range(0, size, 1_000_003):
            sink.write(memoryview(data)[start : start + 1_000_003])
        assert sink.tell() == size
        assert not store.exists(f"{root}/file")
        sink.close()
        sink.close()
    assert store.read(f"{root}/file") == data
    if size < PART_BYTES:
        assert counts["PUT"] == 1
        assert counts["MULTIPART"] == 0
    else:
        assert counts["MULTIPART"] >= 3


@pytest.mark.parametrize("how", ["exception", "abort", "forgotten", "part fails", "end fails"])
def test_a_sink_that_is_not_closed_leaves_nothing(
    store: ObjectStoreIO, server: Server, root: str, how: str
) -> None:
    data = bytes(PART_BYTES)

    def failing(request: Request) -> int | None:
        is_part = "partNumber" in request.query
        return 400 if request.method != "DELETE" and is_part == (how == "part fails") else None

    def started() -> Any:
        sink = store.create(f"{root}/file")
        sink.write(data)
        sink.write(data)
        return sink

    if how == "exception":
        with pytest.raises(ZeroDivisionError), started():
            raise ZeroDivisionError
    elif how == "abort":
        started().abort()
    elif how == "forgotten":
        started()
    else:
        sink = started()
        with server.faulty(failing), pytest.raises(OSError, match=r"table/file"), contextlib.closing(sink):
            sink.write(data)
        del sink
    assert not store.exists(f"{root}/file")
    left = [uri for uri in uploads(server) if root.endswith(uri.rpartition("/")[0])]
    if how.endswith("fails") and version("obstore").startswith("0.11."):
        return  # its writer cannot be aborted once its end has failed
    assert left == []


# Conditional puts


@covers("CMT-19")
def test_of_many_puts_of_one_name_exactly_one_succeeds(store: ObjectStoreIO, root: str) -> None:
    stores = [store, pickle.loads(pickle.dumps(store)), ObjectStoreIO(root, dict(store.storage_options))]
    with ThreadPoolExecutor(6) as threads:
        for number in range(20):
            path = f"{root}/snapshot/snapshot-{number}"
            puts = [(stores[i % 3], f"writer {i}".encode()) for i in range(6)]
            won = list(threads.map(lambda put, path=path: put[0].put_if_absent(path, put[1]), puts))
            assert sum(won) == 1
            assert store.read(path) == puts[won.index(True)][1], "the winner's bytes are not there"
    assert len(store.list_names(f"{root}/snapshot")) == 20, "a probe was left behind"


@covers("CMT-19")
def test_a_store_that_ignores_the_condition_is_refused(server: Server, root: str) -> None:
    server.ignores_conditions = True
    store = ObjectStoreIO(root, {**server.options, "timeout": "31s"})  # as a store that has not been probed
    store.write(f"{root}/snapshot-1", b"theirs")
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="ignores the condition of a put") as refused:
            store.put_if_absent(f"{root}/snapshot-1", b"ours")
        assert "\n" not in str(refused.value)
    assert store.read(f"{root}/snapshot-1") == b"theirs"
    assert store.list_names(root) == ["snapshot-1"], "a probe was left behind"


@covers("CMT-19")
@pytest.mark.parametrize("how", ["the server does not know the header", "the client is told not to send it"])
def test_a_store_without_conditional_puts_is_refused(server: Server, root: str, how: str) -> None:
    options = {**server.options, "timeout": "32s"}
    if how.startswith("the client"):
        options["conditional_put"] = "disabled"
    store = ObjectStoreIO(root, options)
    with (
        server.faulty(lambda request: 501 if request.condition else None),
        pytest.raises(InvalidRequestError, match="cannot create an object only if it is absent"),
    ):
        store.put_if_absent(f"{root}/snapshot-1", b"ours")
    assert store.list_names(root) == []


@covers("CMT-19")
def test_a_store_whose_first_answer_is_lost_is_not_called_one_that_ignores_the_condition(
    server: Server, root: str
) -> None:
    store = ObjectStoreIO(root, {**server.options, "timeout": "34s"})
    answers = iter([503])
    with server.faulty(lambda request: next(answers, None), before=False):
        assert store.put_if_absent(f"{root}/1", b"")
    assert store.list_names(root) == ["1"]


def test_a_bucket_is_probed_once_in_a_process(server: Server, root: str) -> None:
    options = {**server.options, "timeout": "33s"}
    with server.counted() as first:
        assert ObjectStoreIO(root, options).put_if_absent(f"{root}/1", b"")
    with server.counted() as second:
        assert not ObjectStoreIO(root, options).put_if_absent(f"{root}/1", b"")
    assert first == {"PUT": 3, "DELETE": 1}
    assert second == {"PUT": 1}


@covers("CMT-19")
def test_a_conditional_put_whose_answer_is_lost_is_not_sent_again(
    store: ObjectStoreIO, server: Server, root: str
) -> None:
    store.put_if_absent(f"{root}/other", b"")
    path = f"{root}/snapshot-1"
    with (
        server.faulty(lambda request: 500 if request.condition else None, before=False),
        server.counted() as counts,
        pytest.raises(OSError, match="the store failed") as lost,
    ):
        store.put_if_absent(path, b"ours")
    assert counts == {"PUT": 1}
    assert lost.value.filename == path
    assert store.read(path) == b"ours"


def test_a_conditional_put_that_a_busy_store_refused_is_sent_again(
    store: ObjectStoreIO, server: Server, root: str
) -> None:
    store.put_if_absent(f"{root}/other", b"")
    refusals = iter([503, 503])
    with server.faulty(lambda request: next(refusals, None)), server.counted() as counts:
        assert store.put_if_absent(f"{root}/snapshot-1", b"ours")
    assert counts == {"PUT": 3}


def test_other_requests_are_repeated(store: ObjectStoreIO, server: Server, root: str) -> None:
    store.write(f"{root}/file", b"bytes")
    refusals = iter([500, 503])
    with server.faulty(lambda request: next(refusals, None)):
        assert store.read(f"{root}/file") == b"bytes"


# Errors


def line(error: BaseException) -> str:
    """Return the text of an error, which must be one line."""
    assert "\n" not in str(error)
    return str(error)


def test_wrong_credentials_are_refused_in_a_line(server: Server, root: str) -> None:
    store = ObjectStoreIO(root, {**server.options, "aws_access_key_id": "NOBODY"})
    path = f"{root}/file"
    for work in (
        lambda: store.read(path),
        lambda: store.open(path),
        lambda: store.exists(path),
        lambda: store.write(path, b""),
        lambda: store.delete(path),
        lambda: store.put_if_absent(path, b""),
    ):
        with pytest.raises(PermissionError, match="access denied") as denied:
            work()
        assert denied.value.filename.startswith(root)
        line(denied.value)
    with pytest.raises(PermissionError, match="InvalidAccessKeyId") as denied:
        store.list_names(root)
    line(denied.value)


def test_a_missing_bucket_is_refused_in_a_line(server: Server) -> None:
    store = ObjectStoreIO("s3://no-such-bucket", server.options)
    for work in (
        lambda: store.list_names("s3://no-such-bucket/a"),
        lambda: store.write("s3://no-such-bucket/a", b""),
        lambda: store.put_if_absent("s3://no-such-bucket/a", b""),
        lambda: store.read("s3://no-such-bucket/a"),
    ):
        with pytest.raises(
            InvalidRequestError, match=r"s3://no-such-bucket: the bucket does not exist"
        ) as error:
            work()
        line(error.value)


def test_a_server_that_is_not_there_is_refused_in_a_line(
    server: Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pktable.store.object_store.RETRIES", {"max_retries": 0})
    nowhere = ObjectStoreIO(root, {**server.options, "endpoint": "http://127.0.0.1:1"})
    with pytest.raises(ConnectionError, match="cannot be reached") as error:
        nowhere.read(f"{root}/file")
    assert error.value.filename == f"{root}/file"
    line(error.value)
    options = {name: value for name, value in server.options.items() if name != "allow_http"}
    with pytest.raises(ConnectionError, match="allow_http=true") as error:
        ObjectStoreIO(root, options).read(f"{root}/file")
    line(error.value)
    keys = ("aws_access_key_id", "aws_secret_access_key")
    keyless = {name: value for name, value in server.options.items() if name not in keys}
    with pytest.raises(PermissionError, match="no credentials found") as denied:
        ObjectStoreIO(root, {**keyless, "metadata_endpoint": "http://127.0.0.1:1"}).read(f"{root}/file")
    line(denied.value)


def test_a_store_that_does_not_answer_in_time_is_a_timeout(
    server: Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setattr("pktable.store.object_store.RETRIES", {"max_retries": 0})
    store = ObjectStoreIO(root, {**server.options, "timeout": "200ms"})
    with (
        server.faulty(lambda request: time.sleep(0.6)),
        pytest.raises(TimeoutError, match="did not answer in time"),
    ):
        store.read(f"{root}/file")


@pytest.mark.parametrize(
    "uri", ["s3://{bucket}/a//b", "s3://{bucket}/a/../b", "s3://{bucket}/./b", "s3://{bucket}"]
)
def test_a_path_that_is_no_key_is_refused(store: ObjectStoreIO, uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="expected a bucket and a path in it"):
        store.read(uri.format(bucket=BUCKET))


# Options


def test_options_that_are_not_known_are_refused(server: Server, root: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="there is no storage option nonsense"):
        open_store(root, {**server.options, "nonsense": "1"})
    with pytest.raises(InvalidRequestError, match=r"storage options: .*maybe"):
        open_store(root, {**server.options, "allow_http": "maybe"})
    with pytest.raises(InvalidRequestError, match="storage options are for object stores"):
        open_store(tmp_path, server.options)
    for uri in ("file:///tmp/run#1", "file:///tmp/run?1"):  # as Arrow reads them, both are /tmp/run
        with pytest.raises(InvalidRequestError, match="write them as %3F and %23"):
            open_store(uri)
    with pytest.raises(InvalidRequestError, match="nosuch://a/b: expected a path or a URI of a known store"):
        open_store("nosuch://a/b")


def test_the_environment_gives_what_the_options_do_not(
    server: Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.options.items():
        monkeypatch.setenv(f"AWS_{name.removeprefix('aws_')}".upper(), value)
    store = ObjectStoreIO(root, {"timeout": "34s"})
    store.write(f"{root}/file", b"found")
    assert store.read(f"{root}/file") == b"found"


def test_a_store_keeps_its_secrets_to_itself_and_its_pickle(store: ObjectStoreIO) -> None:
    assert "secret" not in repr(store)
    assert pickle.loads(pickle.dumps(store)).storage_options == store.storage_options


def test_files_elsewhere_are_read_with_the_options_of_the_table(store: ObjectStoreIO, server: Server) -> None:
    server.client().create_bucket(Bucket="elsewhere")
    for uri in ("s3://elsewhere/a/file", f"s3a://{BUCKET}/a/file"):
        other, path = locate(uri, store)
        other.write(path, b"there")
        assert other.read(path) == b"there"
    assert store.read(f"s3://{BUCKET}/a/file") == b"there"


def test_without_obstore_a_line_says_what_to_install(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(InvalidRequestError, match=r"pip install 'pktable\[object-store\]'"):
        ObjectStoreIO(root, {"region": "nowhere"})


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("gs://bucket/table", {"skip_signature": "true"}),
        ("az://container/table", {"account_name": "account", "skip_signature": "true"}),
        ("abfss://container@account.dfs.core.windows.net/table", {"skip_signature": "true"}),
        ("s3a://bucket/table", {"skip_signature": "true"}),
    ],
)
def test_every_kind_of_store_has_its_uris(server: Server, uri: str, options: dict[str, str]) -> None:
    store, root = open_store(uri, options)
    assert isinstance(store, ObjectStoreIO)
    assert root == uri
    assert store.holds(f"{uri}/file")
    assert not store.holds("s3://another/file")


def test_hadoop_and_local_paths_are_no_object_stores() -> None:
    for path in ("hdfs://host/a", "file:///a", "/a", "a", os.sep, "memory://a"):
        assert not is_object_uri(path)


def test_an_upload_that_the_store_has_forgotten_is_no_missing_object(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgotten:
        def write(self, data: bytes) -> None: ...

        def close(self) -> None:  # the client asks again if an answer is lost
            raise FileNotFoundError("no such upload")

        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setattr(obstore, "open_writer", lambda *given, **named: Forgotten())
    sink = ObjectSink(None, "t/data", contextlib.nullcontext)
    sink.write(b"x" * PART_BYTES)
    with pytest.raises(OSError, match="t/data: its bucket is gone, or the upload has ended before") as raised:
        sink.close()
    assert raised.value.errno == errno.EIO
