"""Names, keys, enum values and signedness of the past: the same without metadata as with it.

Every history is made twice on a server, in two databases: under `binlog_row_metadata=FULL`, and
under what servers have by default. What is staged must be the same.
"""

from __future__ import annotations

import io
import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pymysql
import pytest
from pymysql.cursors import Cursor

from airflow_provider_binlog.cleanup.removal import clean_up, plan_cleanup
from airflow_provider_binlog.errors import ServerSetupError
from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.merge.progress import PROGRESS, Progress, save_progress
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.fixtures.mysql import connect, execute, query
from tests.services.servers import Account, Server
from tests.support.past import Staging, happen, numbers, staged_content
from tests.support.schema_histories import (
    ADDED,
    DOUBTS,
    HISTORIES,
    IN_RANGE,
    LATER,
    NAMED,
    ROWS,
    SPARSE,
    Past,
    T,
    ghost,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def start_server(run_folder: Path) -> Iterator[Callable[[str], Server]]:
    """Start each kind of server once: its settings change, so that it cannot be shared."""
    started: dict[str, Server] = {}

    def start(name: str) -> Server:
        if name not in started:
            server = Server.create(name, run_folder / f"{name}-past")
            server.start()
            execute(server, "CREATE USER reader IDENTIFIED BY ''")
            started[name] = server
        return started[name]

    yield start
    for server in started.values():
        server.stop()


def cases() -> list[Any]:
    return [pytest.param(name, p, id=f"{name}: {p.title}") for p in HISTORIES for name in p.on]


@pytest.mark.parametrize(("name", "past"), cases())
def test_it_is_the_same_as_under_full(
    start_server: Callable[[str], Server], name: str, past: Past
) -> None:
    server, found = start_server(name), []
    for metadata in ("FULL", SPARSE[name]):
        database = happen(server, metadata, *past.before).database
        logged = happen(server, metadata, *past.during, database=database)
        happen(server, metadata, *past.later, database=database)
        staging = Staging()
        found.append(staged_content(staging, staging.stage(logged)))

    full, sparse = found
    assert sparse == full
    assert full[0]


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_the_rest_is_known_from_what_was_staged_last(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    for before, during, later in LATER:
        found = []
        for metadata in ("FULL", SPARSE[name]):
            first = happen(server, metadata, *before)
            staging = Staging()
            staging.stage(first)
            second = happen(server, metadata, *during, database=first.database)
            # MariaDB may have written something of its own between the two.
            second = replace(second, start=first.stop)
            happen(server, metadata, *later, database=first.database)
            found.append(staged_content(staging, staging.stage(second, sequence=2)))

        full, sparse = found
        assert sparse == full
        assert full[0]


@pytest.mark.parametrize("name", ["mysql97", pytest.param("mariadb118", marks=pytest.mark.slow)])
def test_the_rest_is_known_after_older_manifests_were_removed(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    for before, during, later in LATER:
        first = happen(server, SPARSE[name], *before)
        stages = [first]
        for statements in (["CREATE TABLE other (a INT)"], ["DROP TABLE other"], during):
            stages.append(happen(server, SPARSE[name], *statements, database=first.database))
            stages[-1] = replace(stages[-1], start=stages[-2].stop)
        happen(server, SPARSE[name], *later, database=first.database)
        found = []
        for removes in (False, True):
            staging = Staging()
            for sequence, logged in enumerate(stages, 1):
                manifest = staging.stage(logged, sequence=sequence)
                if removes:
                    remove_all_but_the_newest(staging, manifest)
            found.append(staged_content(staging, manifest))
            assert (len(staging.store.list("past/manifests")) == 1) is removes

        assert found[1] == found[0]
        assert found[0][0]


def remove_all_but_the_newest(staging: Staging, manifest: Manifest) -> None:
    """Clean up after a month in which a lake was merged up to a manifest, at its start."""
    merged = Progress(end=manifest.end, servers=(manifest.identity,))
    files, now = StoredFiles(staging.store, "past"), datetime.now(UTC)
    save_progress(files, f"{PROGRESS}/lake", merged, loaded=None, merged=(), now=now)
    grace = timedelta(days=30)
    plan = plan_cleanup(
        staging.store, "past", checkpoint=None, grace=grace, now=now + grace + grace
    )
    clean_up(staging.store, "past", plan)


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
@pytest.mark.parametrize("in_range", [False, True])
@pytest.mark.parametrize("later", DOUBTS, ids=lambda later: later[-1])
def test_what_cannot_be_determined_is_refused(
    start_server: Callable[[str], Server], name: str, later: list[str], *, in_range: bool
) -> None:
    server = start_server(name)
    database = happen(server, SPARSE[name], T).database
    logged = happen(server, SPARSE[name], ROWS, database=database)
    stop = happen(server, SPARSE[name], *later, database=database).stop
    if in_range:
        logged = replace(logged, stop=stop)

    with pytest.raises(ServerSetupError, match=IN_RANGE if in_range else NAMED) as raised:
        Staging().stage(logged)

    context: dict[str, Any] = raised.value.context
    assert context["table"] == f"{database}.t"
    assert context["file"] == logged.start.file
    assert logged.start.offset < context["offset"] < logged.stop.offset
    assert "binlog_row_metadata=FULL" in str(raised.value)


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_tables_that_are_not_captured_are_followed(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    database = happen(server, SPARSE[name], "CREATE TABLE other (a INT)").database
    logged = happen(server, SPARSE[name], T, ROWS, *ghost(ADDED), database=database)
    happen(server, SPARSE[name], "RENAME TABLE t TO away", "DROP TABLE other", database=database)
    staging = Staging()

    manifest = staging.stage(logged, tables="t")

    # The table that leaves the captured name is another one than that which takes it.
    left, came = sorted(manifest.tables, key=lambda each: each.table)
    assert [each.schemas[0].fields[1].name for each in (left, came)] == ["a", "z"]
    *_, rename = manifest.statements
    assert [(type(each), each.table) for each in rename.actions] == [
        (RenameTable, left.id),
        (RenameTable, came.id),
    ]
    assert (left.table, came.table, came.created) == ("_t_del", "t", None)
    assert left.created is not None


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_the_account_must_be_let_in_on_the_tables(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    database = happen(server, SPARSE[name], T).database
    logged = happen(server, SPARSE[name], ROWS, database=database)
    reader = Account(server.host, server.port, "reader")
    execute(server, "GRANT REPLICATION CLIENT ON *.* TO reader")

    with pytest.raises(ServerSetupError, match="the account has no SELECT on it"):
        Staging().stage(logged, account=reader)

    execute(server, f"GRANT INSERT ON {logged.database}.t TO reader")
    with pytest.raises(ServerSetupError, match="refuses a SELECT from it: SELECT command denied"):
        Staging().stage(logged, account=reader)

    # It sees that another table is there, and has no SELECT on it.
    execute(
        server,
        f"CREATE TABLE {logged.database}.hidden (id INT PRIMARY KEY)",
        f"GRANT INSERT ON {logged.database}.hidden TO reader",
        f"GRANT SELECT ON {logged.database}.t TO reader",
    )
    assert Staging().stage(logged, account=reader).rows == 2


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_nobody_alters_a_table_while_information_schema_is_read(
    start_server: Callable[[str], Server], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(name)
    logged = happen(server, SPARSE[name], T)
    reading, altering = threading.Event(), threading.Event()

    def alter() -> None:
        reading.wait()
        with suppress(pymysql.MySQLError):
            execute(
                server,
                "SET lock_wait_timeout = 1",
                "ALTER TABLE t ADD z INT",
                database=logged.database,
            )
        altering.set()

    class Slow(Cursor):
        """Stops between the tables and the columns, until somebody has tried to alter one."""

        def execute(self, query: str, args: Any = None) -> int:
            if "information_schema.COLUMNS" in query:
                reading.set()
                assert altering.wait(20)
            return super().execute(query, args)

    thread = threading.Thread(target=alter)
    thread.start()
    monkeypatch.setattr("airflow_provider_binlog.transport.server.driver.Cursor", Slow)
    with closing(connect(server)) as connection:
        found = read_server_tables(connection, [(logged.database, "t")])
    thread.join()

    assert [each.name for each in found.tables[logged.database, "t"].columns][-1] == "y"
    assert query(server, "SHOW COLUMNS FROM t", database=logged.database)[-1][0] == "y"
    assert found.position == logged.stop


# All that MySQL and MariaDB allow: neither NUL, nor a space at the end, nor what is beyond U+FFFF.
NAMES = [
    *("back`tick", "quo'te\"s", "new\r\nline\ttab", ";-- DROP TABLE t", "/*x*/", "a.b/../c", ".."),
    *("50%", "%2F", "_log", "manifests", "~", "\\", "\\'", "*[?]", "{{ ds }}", "${a}", " leading"),
    *("日本\u00e9", "e\u0301", "\x01\x7f", "\u2028", "NULL", "x" * 50),
]


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
@pytest.mark.parametrize("sparse", [True, False])
def test_names_of_any_characters(
    start_server: Callable[[str], Server], name: str, *, sparse: bool
) -> None:
    server, number = start_server(name), next(numbers)
    statements: list[str] = []
    for each in NAMES:
        database, old, new = (f"{front}{each}" for front in (f"odd{number}", "", "n"))
        table, column = f"{quoted(database)}.{quoted(old)}", quoted(old)
        value = each.replace("\\", "\\\\").replace("'", "''")
        statements += [
            f"CREATE DATABASE {quoted(database)} CHARACTER SET utf8mb4",
            (
                f"CREATE TABLE {table} (id INT PRIMARY KEY, {column} INT, e ENUM('a', '{value}')) "
                "DEFAULT CHARSET utf8mb4"
            ),
            f"INSERT INTO {table} VALUES (1, 2, '{value}')",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO {quoted(new)}, ADD {column} INT",
            f"INSERT INTO {table} VALUES (2, 3, 'a', 4)",
            f"RENAME TABLE {table} TO {quoted(database)}.{quoted(new)}",
            f"UPDATE {quoted(database)}.{quoted(new)} SET {quoted(new)} = 5 WHERE id = 1",
        ]
    logged = happen(server, SPARSE[name] if sparse else "FULL", *statements)
    staging = Staging()
    manifest = staging.stage(replace(logged, database=f"odd{number}*"))

    found = {(table.database, table.table): table for table in manifest.tables}
    assert set(found) == {(f"odd{number}{each}", f"n{each}") for each in NAMES}
    for each in NAMES:
        staged = found[f"odd{number}{each}", f"n{each}"]
        first, *others = staged.schemas
        assert [field.name for field in first.fields] == ["id", each, "e"]
        for schema in others:
            assert [field.name for field in schema.fields] == ["id", f"n{each}", "e", each]
        rows = [
            tuple(row.values())[: len(staged.schema(part.schema).fields)]
            for part in staged.parts
            for row in pq.read_table(
                io.BytesIO(staging.store.read(f"past/{part.path}"))
            ).to_pylist()
            if row["_change_type"] != "update_preimage"
        ]
        assert rows == [(1, 2, each), (2, 3, "a", 4), (1, 5, each, None)]
        database, new = quoted(f"odd{number}{each}"), quoted(f"n{each}")
        assert query(server, f"SELECT * FROM {database}.{new}") == [rows[2], rows[1]]
        execute(server, f"DROP DATABASE {database}")


def quoted(name: str) -> str:
    """Return an identifier, quoted."""
    return f"`{name.replace('`', '``')}`"
