"""Binlogs found by the names of folders, files and globs, on any file system of fsspec's."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pytest

from airflow_provider_binlog.errors import (
    ConfigurationError,
    ObjectMissingError,
    StoreUnavailableError,
)
from airflow_provider_binlog.sources.binlog_files import find_files, reach_plainly
from airflow_provider_binlog.transport.files.content import open_content

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["binlog.000001.gz", "binlog.000002", "binlog.000003"]


@pytest.fixture(params=["path", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder of binlogs and an index on three kinds of file systems."""
    root = str(tmp_path) if request.param == "path" else f"{request.param}://{tmp_path}"
    for name in (*NAMES, "binlog.index"):
        with fsspec.open(f"{root}/{name}", "wb") as file:
            file.write(name.encode())
    return root


def found(locations: str | list[str]) -> tuple[list[str], tuple[str, ...]]:
    files = find_files(locations, reach_plainly)
    texts = []
    for path in files.paths:
        file = files.open(path)
        texts.append(file.read(1000).decode())
        file.close()
    return texts, files.ignored


def test_a_folder_is_the_binlogs_in_it(folder: str) -> None:
    assert found(folder) == (NAMES, ("binlog.index",))
    assert found(f"{folder}/") == (NAMES, ("binlog.index",))


def test_a_glob_is_the_binlogs_that_match(folder: str) -> None:
    assert found(f"{folder}/binlog.00000[23]") == (NAMES[1:], ())
    assert found(f"{folder}/*.gz") == (NAMES[:1], ())


def test_files_are_put_in_order(folder: str) -> None:
    assert found(f"{folder}/{NAMES[1]}") == ([NAMES[1]], ())
    assert found([f"{folder}/{name}" for name in reversed(NAMES)]) == (NAMES, ())


def test_what_is_not_there_is_named(folder: str) -> None:
    with pytest.raises(ConfigurationError, match="no binlog"):
        find_files(f"{folder}/nowhere/", reach_plainly)
    with pytest.raises(ConfigurationError, match="no binlog"):
        find_files(f"{folder}/relay.*", reach_plainly)
    missing = find_files(f"{folder}/binlog.000009", reach_plainly)
    with pytest.raises(ObjectMissingError, match="000009"):
        missing.open(missing.paths[0])


def test_one_file_in_two_folders_is_refused(folder: str) -> None:
    for name in NAMES[:2]:
        with fsspec.open(f"{folder}/older/{name}", "wb", auto_mkdir=True) as file:
            file.write(b"")

    with pytest.raises(ConfigurationError, match="two folders"):
        find_files([f"{folder}/", f"{folder}/older/"], reach_plainly)


@pytest.mark.parametrize("given", ["", [], [""]])
def test_no_location_is_refused(given: str | list[str]) -> None:
    with pytest.raises(ConfigurationError, match="by a path"):
        find_files(given, reach_plainly)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="location=nothing://here"):
        find_files("nothing://here/", reach_plainly)


def test_a_store_that_fails_may_be_asked_again(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = find_files(f"{folder}/binlog.000002", reach_plainly)
    file = files.open(files.paths[0])

    def fail(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(file, "_file", type("Broken", (), {"readinto": fail, "close": fail})())

    with pytest.raises(StoreUnavailableError) as raised:
        file.readinto(memoryview(bytearray(1)))
    assert raised.value.retryable


@pytest.mark.parametrize(("suffix", "codec"), [("", None), (".gz", "gzip"), (".zst", "zstd")])
def test_a_stored_file_is_read_in_every_form(suffix: str, codec: Any, tmp_path: Path) -> None:
    data = b"\xfebin" + bytes(range(256)) * 1000
    path = tmp_path / f"binlog.000001{suffix}"
    path.write_bytes(pa.compress(data, codec=codec, asbytes=True) if codec else data)
    files = find_files(str(tmp_path), reach_plainly)

    with closing(files.open(files.paths[0])) as file:
        view = memoryview(bytearray(len(data) + 1))
        assert open_content(file).fill(view) == len(data)
    assert bytes(view[:-1]) == data
