"""Snapshots of tables that are written meanwhile: replayed from a position, they equal SELECT."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.errors import AccessDeniedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from tests.fixtures.mysql import Database, connect, execute
from tests.services.servers import Account, Server
from tests.support.ranges import Range, end_of, live, stage
from tests.support.snapshots import (
    CHUNK_BYTES,
    ROWS,
    by_key,
    fill,
    fold,
    read,
    server,
    take,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_binlog.position import Position
    from tests.support.ranges import Row

__all__ = ["server"]

pytestmark = pytest.mark.server


def test_a_table_without_a_key_is_read_at_one_position(database: Database) -> None:
    database.execute("CREATE TABLE bag (n INT)", "INSERT INTO bag VALUES (1), (1), (2)")

    manifest = take(database, "bag")

    assert manifest.is_exact
    assert manifest.low.coordinates == manifest.high.coordinates
    assert len(manifest.chunks) == 1
    assert manifest.low.coordinates <= end_of(database.server).coordinates


def test_the_position_of_a_table_without_a_key_takes_a_lock(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute(
        "CREATE TABLE bag (n INT)",
        "CREATE TABLE keyed (n INT PRIMARY KEY)",
        "CREATE USER reader IDENTIFIED BY 'secret'",
        f"GRANT SELECT ON {database.name}.* TO reader",
        "GRANT REPLICATION CLIENT ON *.* TO reader",
    )
    account = Account(mysql97.account.host, mysql97.account.port, "reader", "secret")
    try:
        take(database, "keyed", connect=lambda: connect(account))
        with pytest.raises(AccessDeniedError, match="GRANT LOCK TABLES"):
            take(database, "bag", connect=lambda: connect(account))
    finally:
        database.execute("DROP USER reader")


def changes(random: Random) -> tuple[str, ...]:
    # Keys that are moved cross the bounds of chunks.
    one, other = random.randrange(2 * ROWS), random.randrange(2 * ROWS)
    return (
        f"UPDATE numbers SET n = n + 1 WHERE id = {one}",
        f"UPDATE IGNORE numbers SET id = {other} WHERE id = {one}",
        f"DELETE FROM numbers WHERE id = {random.randrange(2 * ROWS)}",
        f"INSERT IGNORE INTO numbers VALUES ({other}, 0, 'new')",
    )


def assert_converges(database: Database, **arguments: Any) -> SnapshotManifest:
    """Take a snapshot while others write; what is logged after it makes it what SELECT returns."""
    start = end_of(database.server)
    with written(database, changes, sessions=6):
        taken = take(database, "numbers", chunk_bytes=CHUNK_BYTES, **arguments)
    manifest = taken
    staged = stage(live(database.server), Range(database, start, end_of(database.server)))
    (table,) = staged.manifest.tables
    columns = [field.name for field in manifest.schema.fields]
    rows = [dict(zip(columns, row, strict=True)) for row in database.query("SELECT * FROM numbers")]
    # The position of the plan has coordinates, that of a chunk GTIDs, too.
    for low in (manifest.low, manifest.chunks[0].low):
        later = [change for change in staged.rows(table) if is_after(change, low)]
        assert later
        assert fold(read(taken), later, ("id",)) == by_key(rows, ("id",))
    assert manifest.high.coordinates <= staged.manifest.stop.coordinates
    return manifest


def is_after(change: Row, low: Position) -> bool:
    """Whether a change is of a transaction that `low` does not contain."""
    if low.gtid is not None:
        return bool(missing_gtids(Flavor.MYSQL, str(change["_gtid"]), low.gtid))
    return (change["_file"], change["_pos"]) >= (low.file, low.offset)


@pytest.fixture(scope="module")
def delaying_server(run_folder: Path) -> Iterator[Server]:
    """A MySQL server on which transactions are in the log long before a SELECT sees them."""
    server = Server.create("mysql97", run_folder / "delaying")
    server.start(
        {
            "sync_binlog": 0,
            "binlog_order_commits": "OFF",
            "binlog_group_commit_sync_delay": 3000,
        }
    )
    yield server
    server.stop()


@pytest.mark.parametrize("kind", ["delaying_server", "mariadb118"])
def test_a_snapshot_among_commits_converges(
    kind: str,
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
) -> None:
    database = create_database(request.getfixturevalue(kind))
    fill(database)

    manifest = assert_converges(database)

    assert len(manifest.chunks) > 3
    assert manifest.low.gtid is None
    assert (manifest.chunks[0].low.gtid is not None) == (kind == "delaying_server")
    assert not manifest.is_exact


def test_without_gtids_the_position_is_read_under_a_lock(
    delaying_server: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(delaying_server)
    fill(database)
    modes = ["ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"]
    execute(delaying_server, *(f"SET GLOBAL gtid_mode = {mode}" for mode in modes))
    try:
        chunked = assert_converges(database)
        exact = assert_converges(database, exact=True, created_by="another run")
    finally:
        modes = ["OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]
        execute(delaying_server, *(f"SET GLOBAL gtid_mode = {mode}" for mode in modes))

    assert chunked.low.gtid is None
    assert len(chunked.chunks) > 3
    assert exact.is_exact


@pytest.mark.parametrize("kind", ["delaying_server", "mariadb118"])
def test_an_exact_snapshot_has_the_rows_of_its_position(
    kind: str,
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
) -> None:
    server = request.getfixturevalue(kind)
    database = create_database(server)
    start = end_of(server)
    fill(database)

    with written(database, changes, sessions=6):
        taken = take(database, "numbers", exact=True)

    low = taken.low
    staged = stage(live(server), Range(database, start, low))
    (table,) = staged.manifest.tables
    assert by_key(read(taken), ("id",)) == fold([], staged.rows(table), ("id",))
    assert taken.is_exact
