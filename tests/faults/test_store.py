"""A store that fails, loses answers, lags, denies, or is full: retried where that helps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_binlog.checkpoint import Checkpoint, checkpoint_key
from airflow_provider_binlog.errors import (
    ForeignPositionError,
    ManifestError,
    StagingError,
    StoreUnavailableError,
    TruncatedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.server import queries
from tests.faults.faulty_s3 import FaultyS3, Request
from tests.faults.tasks import LARGE, Tasks
from tests.support.stores import open_store

pytestmark = [pytest.mark.server, pytest.mark.timeout(200)]

SMALL = Limits(part_bytes_max=400, pending_bytes_max=1000)


@pytest.mark.fault("store-500", servers="mysql97 mariadb118", stores="s3")
@pytest.mark.parametrize(
    "fault", ["500", *(pytest.param(each, marks=pytest.mark.slow) for each in ("503", "cut"))]
)
def test_one_request_of_each_kind_fails(kind: str, fault: str, remote: Tasks, s3: FaultyS3) -> None:
    """The client itself tries again, and else the task."""
    remote.run(limits=SMALL)
    kinds: set[tuple[str, bool]] = set()
    failed: set[tuple[str, bool]] = set()

    def fail_first(request: Request) -> str | None:
        of = request.method, request.lists
        kinds.add(of)
        if of in failed:
            return None
        failed.add(of)
        return fault

    s3.fault = fail_first
    remote.change(2)
    for _ in range(5):
        try:
            staged = remote.stage(limits=SMALL)
            break
        except StoreUnavailableError:
            continue
    remote.save(staged)

    assert failed == kinds
    assert len(kinds) >= 3
    remote.check()
    remote.nothing_left()


@pytest.mark.fault("store-down", servers="mysql97 mariadb118", stores="s3")
@pytest.mark.parametrize("fault", ["500", pytest.param("cut", marks=pytest.mark.slow)])
def test_a_store_that_is_down_for_long(kind: str, fault: str, remote: Tasks, s3: FaultyS3) -> None:
    remote.run()
    remote.change(2)

    s3.fault = lambda _: fault
    remote.fails(StoreUnavailableError)
    s3.fault = lambda _: None

    remote.run()
    remote.nothing_left()


@pytest.mark.slow
@pytest.mark.fault("store-timeout", servers="mysql97 mariadb118", stores="s3")
def test_a_store_that_does_not_answer(kind: str, remote: Tasks, s3: FaultyS3) -> None:
    remote.run()
    remote.change(2)

    s3.fault = lambda _: "silent"
    remote.fails(StoreUnavailableError)
    s3.fault = lambda _: None

    remote.run()
    remote.nothing_left()


@pytest.mark.fault("store-slow", servers="mysql97 mariadb118", stores="s3")
def test_a_slow_store(kind: str, remote: Tasks, s3: FaultyS3) -> None:
    s3.fault = lambda _: "slow"

    remote.run(limits=SMALL)
    remote.nothing_left()


@pytest.mark.fault("store-answer-lost", servers="mysql97 mariadb118", stores="s3")
def test_written_but_the_answer_is_lost(kind: str, remote: Tasks, s3: FaultyS3) -> None:
    """Every write is done twice, that of the manifest, which may be created once alone, too."""
    answered: set[str] = set()

    def lose_first(request: Request) -> str | None:
        if request.method != "PUT" or request.path in answered:
            return None
        answered.add(request.path)
        return "lost"

    s3.fault = lose_first
    remote.run(limits=SMALL)
    remote.change(2)
    remote.run(limits=SMALL)

    assert any("/manifests/" in path for path in answered)
    remote.nothing_left()


@pytest.mark.slow
@pytest.mark.fault("store-partial", servers="mysql97 mariadb118", stores="s3")
def test_an_upload_that_is_cut_in_the_middle(kind: str, remote: Tasks, s3: FaultyS3) -> None:
    remote.run()
    remote.change(2)
    before = {path for path in staged_files(remote) if path.is_file()}

    s3.fault = lambda request: "partial" if request.method == "PUT" else None
    remote.fails(StoreUnavailableError)
    s3.fault = lambda _: None

    assert {path for path in staged_files(remote) if path.is_file()} == before
    remote.run()
    remote.nothing_left()


def staged_files(tasks: Tasks) -> list[Path]:
    return list(Path(tasks.store._root).rglob("*"))


@pytest.mark.fault("store-lag", servers="mysql97 mariadb118", stores="s3")
def test_a_list_that_lags(kind: str, remote: Tasks, s3: FaultyS3) -> None:
    """Every list is what it was first: no task relies on a list that is new."""
    s3.fault = lambda request: "stale" if request.lists else None
    remote.run()
    for number in (2, 3, 4):
        remote.change(number)
        remote.run()
    remote.nothing_left()


@pytest.mark.fault("store-denied", servers="mysql97 mariadb118", stores="s3")
def test_a_lost_permission(kind: str, remote: Tasks, s3: FaultyS3) -> None:
    remote.run()
    remote.change(2)

    # To write, and to do anything.
    s3.fault = lambda request: "403" if request.method == "PUT" else None
    remote.fails(StagingError, says="denies access")
    s3.fault = lambda _: "403"
    remote.fails(StagingError, says="denies access")
    s3.fault = lambda _: None

    remote.run()
    remote.nothing_left()


@pytest.fixture
def on_small_disk(tasks: Tasks, small_disk: Path) -> Tasks:
    """The tasks, staging into a folder of a small file system."""
    tasks.staging = f"file://{small_disk}/staging"
    tasks.store = open_store(tasks.staging)
    return tasks


@pytest.mark.fault("store-full", servers="mysql97 mariadb118", stores="file")
def test_a_full_disk(kind: str, on_small_disk: Tasks, small_disk: Path) -> None:
    tasks = on_small_disk
    tasks.run()
    tasks.database.execute(
        *(f"INSERT INTO orders VALUES ({n}, '{os.urandom(LARGE // 10).hex()}')" for n in (70, 71))
    )
    filler = small_disk / "filler"
    with suppress(OSError):
        filler.write_bytes(bytes(5 * LARGE))

    tasks.fails(StoreUnavailableError, says="No space left on device")
    tasks.fails(StoreUnavailableError, says="No space left on device")
    filler.unlink()

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("store-denied", servers="mysql97 mariadb118", stores="file")
def test_a_disk_that_becomes_read_only(kind: str, on_small_disk: Tasks, small_disk: Path) -> None:
    on_small_disk.run()
    on_small_disk.change(2)

    def mount(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(small_disk)], check=True)

    mount("ro")
    on_small_disk.fails(StagingError, says="Read-only file system")
    mount("rw")

    on_small_disk.run()
    on_small_disk.nothing_left()


@pytest.mark.fault("manifest-damaged", servers="mysql97 mariadb118", stores="file")
def test_a_damaged_manifest_is_refused_until_it_is_back(kind: str, tasks: Tasks) -> None:
    tasks.run()
    tasks.change(2)
    tasks.run()
    tasks.change(3)
    (file,) = [path for path in staged_files(tasks) if path.name.endswith("2.json")]
    whole = file.read_bytes()

    damages: list[Callable[[], object]] = [
        lambda: file.write_bytes(whole[: len(whole) // 2]),
        lambda: file.write_bytes(whole.replace(b"insert", b"insorb")),
        lambda: file.write_bytes(file.with_name("0000000000000001.json").read_bytes()),
        file.unlink,
    ]
    for damage in damages:
        damage()
        assert not file.exists() or file.read_bytes() != whole
        tasks.fails(ManifestError)
        file.write_bytes(whole)

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("manifest-damaged", servers="mysql97 mariadb118", stores="file")
def test_a_stop_that_was_edited_with_its_digest_is_not_followed(kind: str, tasks: Tasks) -> None:
    """The GTIDs are not those of its offset: the transactions after it are known, or missing."""
    tasks.run()
    tasks.change(2)
    tasks.run()
    tasks.change(3)
    saved = dict(tasks.variables)
    (file,) = [path for path in staged_files(tasks) if path.name.endswith("2.json")]
    whole = file.read_bytes()
    manifest = tasks.manifests()[1]

    def edit(to: Position) -> None:
        stop = replace(manifest.stop, file=to.file, offset=to.offset)
        edited = replace(manifest, stop=stop)
        file.write_bytes(edited.encode())
        covering = Checkpoint.covering(edited, saved_at="now", saved_by="somebody")
        tasks.variables[checkpoint_key(tasks.source.name)] = covering.encode()

    edit(manifest.start)
    tasks.fails(ForeignPositionError)
    with closing(tasks.database.connect()) as connection:
        end = queries.log_end(connection)
    edit(end)
    tasks.change(4)
    # MySQL says at the beginning of a file what was logged before it, MariaDB at any offset.
    tasks.database.execute("FLUSH BINARY LOGS")
    tasks.fails(ForeignPositionError, TruncatedError)

    file.write_bytes(whole)
    tasks.variables.update(saved)
    tasks.run()
