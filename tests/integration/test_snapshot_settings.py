"""Snapshots under settings of a server, and of its tables, that change what SELECT returns."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    ServerSetupError,
    SourceError,
    TableLockedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.snapshot import chunk
from airflow_provider_binlog.snapshot.chunk import _read_rows
from airflow_provider_binlog.snapshot.plan import Throttle
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.transport.server import consistent_read
from airflow_provider_binlog.transport.server.consistent_read import open_read
from airflow_provider_binlog.transport.server.driver import query as result_of
from airflow_provider_binlog.transport.server.information_schema import (
    hold_table,
    read_server_tables,
)
from tests.fixtures.mysql import Connection, Database, connect, execute, prepare, query
from tests.integration.test_snapshot import entries_read
from tests.services.servers import Options, Server
from tests.support.ranges import end_of
from tests.support.snapshots import after_chunks, by_key, fill, read, settings_of, take

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.server

_ROWS = 400
_CHUNK_BYTES = 4096


@pytest.fixture(params=["mysql97", "mariadb118"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each family in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


@contextmanager
def with_globals(server: Server, **values: object) -> Iterator[None]:
    """Let the sessions that are opened meanwhile begin with these values."""
    (before,) = query(server, f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in values)}")
    set_all = f"SET {', '.join(f'GLOBAL {name} = %s' for name in values)}"
    query(server, set_all, *values.values())
    try:
        yield
    finally:
        query(server, set_all, *before)


def test_limits_of_the_server_do_not_cut_what_is_read(database: Database) -> None:
    fill(database)
    added = ", ".join(f"ADD COLUMN c{number} INT" for number in range(10))
    database.execute(f"ALTER TABLE numbers {added}", "ANALYZE TABLE numbers")

    limits = {"sql_select_limit": 7, "max_join_size": 5, "completion_type": "RELEASE"}
    with with_globals(database.server, **limits, sql_mode="NO_BACKSLASH_ESCAPES"):
        throttle = Throttle(threads_running_max=1000)
        taken = take(database, "numbers", chunk_bytes=_CHUNK_BYTES, throttle=throttle)

    assert by_key(read(taken), ("id",)).keys() == {(number,) for number in range(_ROWS)}
    assert len(taken.chunks) > 1
    assert len(taken.schema.fields) == 13


def test_limits_of_time_do_not_end_what_is_read(database: Database) -> None:
    fill(database)
    mariadb = database.server.name.startswith("mariadb")
    limit = {"max_statement_time": 0.001} if mariadb else {"max_execution_time": 1}

    with with_globals(database.server, **limit):
        taken = take(database, "numbers", where="SLEEP(0.0001) = 0")

    assert taken.rows == _ROWS


def test_bounds_are_found_as_the_rows_are_read(database: Database) -> None:
    fill(database)
    database.execute(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE days (day DATE, at TIMESTAMP NOT NULL, PRIMARY KEY (day, at))",
        "INSERT INTO days SELECT IF(id < 50, '0000-00-00', '2024-02-31'),"
        " '2001-01-01' + INTERVAL id SECOND FROM numbers",
        "ANALYZE TABLE days",
    )

    with with_globals(database.server, time_zone="+05:30"):
        taken = take(database, "days", chunk_bytes=_CHUNK_BYTES)

    *full, last = (chunk.rows for chunk in taken.chunks)
    assert taken.rows == _ROWS
    assert len(set(full)) == 1
    assert last < full[0]


def test_a_key_that_gets_another_collation_begins_again(database: Database) -> None:
    """Rows between N and Z follow `m` in one collation, and precede it in the other."""
    fill(database)
    database.execute(
        "CREATE TABLE names (name VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY)",
        "INSERT INTO names SELECT CONCAT(CHAR(IF(id % 2, 65, 97) + id % 26), id) FROM numbers",
        "ANALYZE TABLE names",
    )

    def alter() -> None:
        database.execute("ALTER TABLE names MODIFY name VARCHAR(20) COLLATE utf8mb4_bin")

    taken = take(database, "names", chunk_bytes=_CHUNK_BYTES, on_progress=after_chunks(2, alter))

    rows = by_key(read(taken), ("name",))
    assert len(taken.chunks) > 3
    assert rows.keys() == set(database.query("SELECT name FROM names"))


def test_a_key_of_both_directions_is_divided_by_its_front(database: Database) -> None:
    fill(database)
    database.execute(
        "CREATE TABLE orders (customer INT, created INT, PRIMARY KEY (customer, created DESC))",
        "INSERT INTO orders SELECT id DIV 10, id FROM numbers",
        "ANALYZE TABLE orders",
    )
    before = entries_read(database)

    taken = take(database, "orders", chunk_bytes=512)

    assert len(taken.chunks) > 2
    assert by_key(read(taken), ("created",)).keys() == {(number,) for number in range(_ROWS)}
    assert entries_read(database) - before < 4 * _ROWS


@pytest.mark.parametrize("exact", [True, False])
def test_an_engine_without_transactions_is_read_under_a_lock(
    database: Database, exact: bool
) -> None:
    database.execute("CREATE TABLE bag (n INT) ENGINE=MyISAM", "INSERT INTO bag VALUES (1), (2)")

    with open_read(settings_of(database).connect, (database.name, "bag"), exact=exact) as opened:
        end = end_of(database.server)
        with closing(database.connect()) as writer, writer.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 1")
            with pytest.raises(pymysql.OperationalError, match="Lock wait timeout"):
                cursor.execute("INSERT INTO bag VALUES (3)")
        assert result_of(opened.connection, f"SELECT n FROM {database.name}.bag") == [
            {"n": 1},
            {"n": 2},
        ]
    database.execute("INSERT INTO bag VALUES (3)")

    assert opened.is_exact
    assert opened.low.coordinates == end.coordinates


def test_the_end_of_a_snapshot_is_before_what_waits_for_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, rows=2)
    ends: list[Position] = []

    def read_rows(*arguments: Any) -> Iterator[int]:
        ends.append(end_of(database.server))
        database.execute("INSERT INTO numbers VALUES (7, 7, 'later')")
        yield from _read_rows(*arguments)

    monkeypatch.setattr(chunk, "_read_rows", read_rows)
    manifest = take(database, "numbers")

    assert manifest.rows == 2
    assert [manifest.high.coordinates] == [end.coordinates for end in ends]


def test_an_account_that_may_not_read_all_columns_is_refused(database: Database) -> None:
    database.execute(
        "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(9), number VARCHAR(9))",
        "CREATE USER partly IDENTIFIED BY 'secret'",
        f"GRANT SELECT (id, name) ON {database.name}.people TO partly",
        "GRANT REPLICATION CLIENT ON *.* TO partly",
    )
    account = replace(database.server.account, user="partly", password="secret")

    def connect_partly() -> Connection:
        return connect(account)

    try:
        with pytest.raises(AccessDeniedError, match="people"):
            take(database, "people", connect=connect_partly)
        with closing(connect_partly()) as connection:
            assert not read_server_tables(connection, [(database.name, "people")]).tables
    finally:
        database.execute("DROP USER partly")


def test_a_prepared_transaction_is_committed_before_the_rows_are_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its session, MariaDB holds no lock on metadata for it; the log shows it too soon."""
    monkeypatch.setattr(consistent_read, "_LOCK_WAIT_SECONDS", 1)
    database.execute("CREATE TABLE paid (id INT PRIMARY KEY)")
    if database.server.name.startswith("mariadb"):
        database.execute("FLUSH GLOBAL STATUS")
        in_one_phase = "XA COMMIT 'three' ONE PHASE"
        database.execute(
            "XA START 'three'", "INSERT INTO paid VALUES (3)", "XA END 'three'", in_one_phase
        )
        with monkeypatch.context() as patched:
            patched.setattr(consistent_read, "_locked_end", pytest.fail)
            taken = take(database, "paid", exact=True, created_by="one phase")
        assert by_key(read(taken), ("id",)).keys() == {(3,)}
        database.execute("DELETE FROM paid")
    prepare(database, "'one'", "INSERT INTO paid VALUES (1)")
    database.execute("XA COMMIT 'one'")

    prepare(database, "'two'", "INSERT INTO paid VALUES (2)")
    try:
        with pytest.raises(TableLockedError, match="XA RECOVER"):
            take(database, "paid", exact=True)
    finally:
        database.execute("XA COMMIT 'two'")
    rows = read(take(database, "paid", exact=True))
    if database.server.name.startswith("mariadb"):
        # For other tests, whose snapshots need no lock then.
        database.execute("FLUSH GLOBAL STATUS")

    assert by_key(rows, ("id",)).keys() == {(1,), (2,)}


def test_a_broken_table_does_not_hide_the_others(database: Database) -> None:
    database.execute(
        "CREATE TABLE whole (id INT PRIMARY KEY)",
        "CREATE TABLE part (id INT) ENGINE=MyISAM",
        "CREATE TABLE broken (id INT) ENGINE=MERGE UNION=(part)",
        "DROP TABLE part",
    )

    with closing(database.connect()) as connection:
        names = [(database.name, table) for table in ("whole", "part", "broken")]
        found = read_server_tables(connection, names)

    assert found.tables.keys() == {(database.name, "whole")}
    with pytest.raises(SourceError, match="Unable to open underlying table"):
        take(database, "broken")


def test_only_base_tables_are_read(database: Database) -> None:
    fill(database, rows=2)
    database.execute("CREATE VIEW v AS SELECT * FROM numbers")
    made = {"v": "snapshots of the tables that it reads"}
    if database.server.name.startswith("mariadb"):
        database.execute(
            "CREATE SEQUENCE s", "CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING"
        )
        made |= {"s": "leave this one out", "h": "DROP SYSTEM VERSIONING"}

    for name, advice in made.items():
        with pytest.raises(UnsupportedError, match=advice):
            take(database, name)


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_changes_that_the_server_does_not_log_are_refused(name: str, run_folder: Path) -> None:
    server = Server.create(name, run_folder / f"{name}-not-logging")
    updates = "log_slave_updates" if name.startswith("mariadb") else "log_replica_updates"
    has_cache = name.startswith("mariadb")
    cache: Options = {"query_cache_type": 1, "query_cache_size": "1M"} if has_cache else {}
    server.start({updates: "OFF", "binlog_ignore_db": "hidden", **cache})
    try:
        assert_not_logged(server, updates)
        assert_held(Database(server, "shown"))
    finally:
        server.stop()


def assert_held(database: Database) -> None:
    """Nobody alters a table that was read from, be what was read in a cache."""
    alter = "ALTER TABLE numbers COMMENT 'altered'"
    with closing(database.connect()) as reader, closing(database.connect()) as other:
        for connection in (other, reader):
            result_of(connection, "START TRANSACTION")
            assert hold_table(connection, (database.name, "numbers"))
            result_of(other, "ROLLBACK")
        result_of(other, "SET SESSION lock_wait_timeout = 1")
        with pytest.raises(SourceError, match="Lock wait timeout"):
            result_of(other, alter)


def assert_not_logged(server: Server, updates: str) -> None:
    databases = [Database(server, each) for each in ("hidden", "shown")]
    for each in databases:
        execute(server, f"CREATE DATABASE {each.name}")
        fill(each, rows=2)
    hidden, shown = databases
    log = ServerLog(settings_of(shown))

    def check(include: list[str], exclude: list[str] | None = None) -> None:
        tables = TableFilter(include, exclude or ())
        log.check_databases(tables.may_capture_from, tables.databases)

    assert take(shown, "numbers").rows == 2
    with pytest.raises(ServerSetupError, match=r"binlog_ignore_db .*databases=hidden"):
        take(hidden, "numbers")
    for globs in (["hidden.numbers"], ["*.*"]):
        with pytest.raises(ServerSetupError, match="leave these databases out"):
            check(globs)
    check(["shown.*"])
    check(["*.*"], ["hidden.*"])
    log.check()

    source = "MASTER" if updates == "log_slave_updates" else "REPLICATION SOURCE"
    prefix = source.rsplit(maxsplit=1)[-1]
    execute(server, f"CHANGE {source} TO {prefix}_HOST = '127.0.0.1', {prefix}_USER = 'nobody'")
    advice = f"put {updates}=ON"
    with pytest.raises(ServerSetupError, match=advice):
        take(shown, "numbers", created_by="a replica")
    with pytest.raises(ServerSetupError, match=advice):
        log.check()
