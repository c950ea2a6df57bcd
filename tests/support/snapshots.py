"""Snapshots of real tables, read back, and the same tables by their logs."""

from __future__ import annotations

import io
import threading
from contextlib import closing, contextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
import pytest

from airflow_provider_binlog.changes import CHANGE_COLUMNS
from airflow_provider_binlog.snapshot.plan import SnapshotRequest
from airflow_provider_binlog.snapshot.take import take_snapshot
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.staging.paths import part_key
from tests.fixtures.mysql import Database, execute
from tests.services.servers import Server
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.read_progress import OnProgress, ReadProgress
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.support.ranges import Row

SOURCE = "shop"
ROWS = 400
# About 30 bytes a row, says InnoDB, or 16 KiB in all.
CHUNK_BYTES = 4096


def take(
    database: Database, table: str, store: ObjectStore | None = None, **arguments: Any
) -> SnapshotManifest:
    """Take a snapshot of a table; `arguments` of the request, and of `take_snapshot`."""
    taking = {name: arguments.pop(name) for name in ("connect", "on_progress") if name in arguments}
    request = request_of(database, table, **arguments)
    connect = taking.pop("connect", settings_of(database).connect)
    return take_snapshot(request, connect, store or new_store(), **taking)


def request_of(database: Database, table: str, **arguments: Any) -> SnapshotRequest:
    """Return a request for a snapshot of a table."""
    defaults: dict[str, Any] = {"source_name": SOURCE, "created_by": "a test"}
    return SnapshotRequest(name=(database.name, table), **defaults | arguments)


def settings_of(database: Database, ssl_mode: str = "disabled") -> ConnectionSettings:
    """Return how a task reaches the server."""
    return ConnectionSettings.from_dsn(f"{database.server.dsn}/?ssl_mode={ssl_mode}")


def new_store() -> ObjectStore:
    """Return a store of this process, which all tests share: sources and ids differ."""
    return open_store("memory://snapshots")


def read_parts(store: ObjectStore, parts: Iterable[Part]) -> list[pa.Table]:
    """Return the parts as they are stored."""
    data = (store.read(part_key(SOURCE, part.path)) for part in parts)
    return [pq.read_table(io.BytesIO(each)) for each in data]


def types_of(parts: Iterable[pa.Table]) -> list[list[tuple[str, pa.DataType]]]:
    """Return the columns of each part, with their Parquet types as Arrow has them."""
    return [[(field.name, field.type) for field in part.schema] for part in parts]


def rows_of(parts: Iterable[pa.Table]) -> list[Row]:
    """Return the rows of parts, in their order, without what a change row adds."""
    return [
        {name: value for name, value in row.items() if name not in CHANGE_COLUMNS}
        for part in parts
        for row in part.to_pylist()
    ]


def fold(
    rows: Iterable[Row], changes: Iterable[Row], key: tuple[str, ...]
) -> dict[tuple[Any, ...], Row]:
    """Return rows by their key after changes in the order of the log, of whole images.

    A change may have been made to the rows already.
    """
    found = {_key_of(row, key): row for row in rows}
    for change in sorted(changes, key=lambda each: int(each["_row"])):
        values = {name: value for name, value in change.items() if name not in CHANGE_COLUMNS}
        if change["_change_type"] in ("insert", "update_postimage"):
            found[_key_of(values, key)] = values
        else:
            found.pop(_key_of(values, key), None)
    return found


def by_key(rows: Iterable[Row], key: tuple[str, ...]) -> dict[tuple[Any, ...], Row]:
    """Return rows by their key, each of which must be there once."""
    listed = list(rows)
    found = {_key_of(row, key): row for row in listed}
    assert len(found) == len(listed)
    return found


def _key_of(row: Row, key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


def after_chunks(count: int, act: Callable[[], None]) -> OnProgress:
    """Return what to call on progress, so that something happens after so many chunks, once."""
    done: list[None] = []

    def on_progress(progress: ReadProgress) -> None:
        if progress.done == count and not done:
            done.append(None)
            act()

    return on_progress


def after_each_chunk(act: Callable[[], None]) -> OnProgress:
    """Return what to call on progress, so that something happens after each chunk."""
    done = 0

    def on_progress(progress: ReadProgress) -> None:
        nonlocal done
        if progress.done > done:
            done = progress.done
            act()

    return on_progress


@pytest.fixture(
    params=["mysql97", "mariadb1011", "mariadb118", pytest.param("mysql80", marks=pytest.mark.slow)]
)
def server(request: pytest.FixtureRequest) -> Server:
    """Each kind of server in turn; of MySQL also the older one."""
    found: Server = request.getfixturevalue(request.param)
    if request.param == "mariadb118":
        # Other tests commit prepared transactions, after which snapshots need a lock.
        execute(found, "FLUSH GLOBAL STATUS")
    return found


def read(taken: SnapshotManifest) -> list[Row]:
    return rows_of(read_parts(new_store(), taken.parts))


@contextmanager
def written(
    database: Database, make: Callable[[Random], Iterable[str]], *setup: str, sessions: int = 4
) -> Iterator[None]:
    """Let sessions run statements meanwhile, again and again; `setup` is run by each first."""
    stop = threading.Event()

    def write(seed: int) -> None:
        random = Random(seed)
        with closing(database.connect()) as connection, connection.cursor() as cursor:
            for statement in setup:
                cursor.execute(statement)
            while not stop.is_set():
                for statement in make(random):
                    with suppress(pymysql.OperationalError):  # a deadlock
                        cursor.execute(statement)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(sessions)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def fill(database: Database, *, rows: int = ROWS) -> None:
    """Make a table `numbers` of some rows, of which the server has an estimate."""
    values = ", ".join(f"({number}, {number}, 'row {number}')" for number in range(rows))
    database.execute(
        "CREATE TABLE numbers (id INT PRIMARY KEY, n INT NOT NULL, text VARCHAR(40))",
        f"INSERT INTO numbers VALUES {values}",
        "ANALYZE TABLE numbers",
    )
