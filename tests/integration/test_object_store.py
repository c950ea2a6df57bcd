"""ObjectStore on a real S3 server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from airflow_provider_binlog.errors import ConflictError, StagingError, StoreUnavailableError
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.contract.object_store import ObjectStoreCases
from tests.services.s3 import S3Server
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.s3

BUCKET = "lake"
MULTIPART_BYTES = 120 << 20
"""s3fs sends this much in parts."""


@pytest.fixture(scope="module")
def own_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that nobody else uses."""
    server = S3Server.create(tmp_path_factory.mktemp("s3"))
    server.start()
    server.create_bucket(BUCKET)
    yield server
    server.stop()


@pytest.fixture
def store(own_s3: S3Server) -> ObjectStore:
    """An empty store."""
    return store_at(own_s3, f"s3://{BUCKET}/{uuid4().hex}")


def store_at(server: S3Server, uri: str, **changed: str) -> ObjectStore:
    """Return a store on the server."""
    options = {
        "key": server.access_key,
        "secret": server.secret_key,
        "endpoint_url": server.endpoint,
    }
    return open_store(uri, **(options | changed))


class TestS3(ObjectStoreCases):
    """The contract, on S3."""


def test_a_large_object_is_there_whole(store: ObjectStore) -> None:
    data = bytes(MULTIPART_BYTES)
    store.write("m/1", data)
    store.create("m/2", data)

    assert store.size("m/1") == store.size("m/2") == MULTIPART_BYTES
    assert store.list("m") == ["1", "2"]


def test_a_large_create_refuses_a_taken_key(store: ObjectStore) -> None:
    store.write("key", b"first")

    with pytest.raises(ConflictError):
        store.create("key", bytes(MULTIPART_BYTES))
    assert store.read("key") == b"first"


def test_another_writer_is_seen(own_s3: S3Server) -> None:
    uri = f"s3://{BUCKET}/{uuid4().hex}"
    one, other = store_at(own_s3, uri), store_at(own_s3, uri, skip_instance_cache=True)  # type: ignore[arg-type]
    one.write("m/1", b"1")
    assert other.list("m") == ["1"]
    assert other.size("m/1") == 1

    one.write("m/1", b"twelve")
    one.write("m/2", b"")

    assert other.list("m") == ["1", "2"]
    assert other.size("m/1") == 6


@pytest.mark.fault("store-denied", stores="s3")
def test_a_wrong_secret_is_not_tried_again(own_s3: S3Server) -> None:
    store = store_at(own_s3, f"s3://{BUCKET}/x", secret="wrong")

    with pytest.raises(StagingError, match="denies access") as caught:
        store.write("key", b"")
    assert not caught.value.retryable


def test_a_missing_bucket_is_named(own_s3: S3Server) -> None:
    with pytest.raises(StagingError, match="bucket does not exist"):
        store_at(own_s3, "s3://no-such-bucket/x").create("key", b"")


@pytest.mark.fault("store-down", stores="s3")
def test_a_store_that_is_down_may_come_back(
    own_s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    store = store_at(own_s3, f"s3://{BUCKET}/x", endpoint_url="http://127.0.0.1:1")

    with pytest.raises(StoreUnavailableError) as caught:
        store.read("key")
    assert caught.value.retryable
