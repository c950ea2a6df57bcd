"""ObjectStore on local files and in memory, and what it makes of failures."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    StagingError,
    StoreUnavailableError,
)
from airflow_provider_binlog.sources.binlog_files import reach_plainly
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.contract.object_store import ObjectStoreCases
from tests.support.stores import open_store


class TestLocalFiles(ObjectStoreCases):
    """The contract, on files."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return open_store(f"file://{tmp_path}/root")


class TestMemory(ObjectStoreCases):
    """The contract, in memory."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        return open_store(f"memory://{uuid4().hex}/root")


def test_a_trailing_slash_of_the_root_does_not_matter(tmp_path: Path) -> None:
    ObjectStore(fsspec.filesystem("file"), f"{tmp_path}/").write("key", b"x")

    assert (tmp_path / "key").read_bytes() == b"x"


@pytest.mark.parametrize("method", ["write", "create"])
def test_a_local_write_that_fails_midway_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def full(path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    store = open_store(f"file://{tmp_path}")
    monkeypatch.setattr(Path, "write_bytes", full)

    with pytest.raises(StoreUnavailableError, match=r"No space.*|key=m/1"):
        getattr(store, method)("m/1", b"data")
    assert store.list("m") == []
    assert list((tmp_path / "m").iterdir()) == []


def test_a_process_that_dies_midway_leaves_nothing_that_is_listed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        store = open_store(f"file://{tmp_path}")
        os.link = lambda *_: os._exit(0)
        store.create("m/1", b"data")
    os.waitpid(child, 0)

    assert len(list((tmp_path / "m").iterdir())) == 1
    assert open_store(f"file://{tmp_path}").list("m") == []


def test_a_file_system_without_hard_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)

    with pytest.raises(StagingError, match="hard links") as caught:
        open_store(f"file://{tmp_path}").create("m/1", b"data")
    assert not caught.value.retryable


class _ClientError(Exception):
    """A failed request, as the clients of stores raise it."""


class _NoCredentialsError(Exception):
    """As botocore's."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (PermissionError("Forbidden"), StagingError),
        (_NoCredentialsError("Unable to locate credentials"), StagingError),
        (OSError(errno.EINVAL, "The specified bucket is not valid"), StagingError),
        (IsADirectoryError(errno.EISDIR, "a folder"), StagingError),
        (OSError(errno.EBUSY, "Reduce your request rate"), StoreUnavailableError),
        (OSError(errno.EREMOTEIO, "Internal error"), StoreUnavailableError),
        (OSError("without a number"), StoreUnavailableError),
        (ConnectionResetError(errno.ECONNRESET, "reset by peer"), StoreUnavailableError),
        (TimeoutError(), StoreUnavailableError),
        (_ClientError("cannot connect to endpoint"), StoreUnavailableError),
    ],
)
@pytest.mark.parametrize("method", ["read", "write", "create", "list", "size"])
def test_failures_are_classified(
    raised: Exception, expected: type[BinlogError], method: str
) -> None:
    class Failing:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: object, **__: object) -> None:
                if name != "invalidate_cache":
                    raise raised

            return fail

    store = ObjectStore(Failing(), "bucket/root")
    arguments = (b"data",) if method in {"write", "create"} else ()

    with pytest.raises(StagingError, match="key=m/1") as caught:
        getattr(store, method)("m/1", *arguments)
    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("method", ["write", "create"])
def test_a_write_without_a_bucket_names_the_bucket(method: str) -> None:
    class Bucketless:
        def pipe_file(self, *_: object, **__: object) -> None:
            raise FileNotFoundError("The specified bucket does not exist")

    with pytest.raises(StagingError, match=r"bucket does not exist.*key=m/1"):
        getattr(ObjectStore(Bucketless(), "bucket/root"), method)("m/1", b"")


def test_a_folder_that_cannot_be_created_is_named() -> None:
    with pytest.raises(StagingError, match=r"folder cannot be created.*key=m/1.*/proc/nothing"):
        ObjectStore(fsspec.filesystem("file"), "/proc/nothing").write("m/1", b"")


def test_a_mistake_in_a_program_is_not_a_failure_of_the_store() -> None:
    with pytest.raises(AttributeError):
        ObjectStore(None, "root").read("key")


@pytest.mark.parametrize("uri", ["nosuch://bucket/x", "gs://bucket/x"])
def test_an_unknown_scheme_or_a_missing_package_is_named(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=f"location={uri}"):
        reach_plainly(uri)
