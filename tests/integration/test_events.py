"""Events that servers write only under some settings, and how a range handles them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import UnsupportedError
from tests.fixtures.mysql import Database, execute
from tests.reference.events import read_file
from tests.services.servers import Server
from tests.support.ranges import (
    Range,
    assert_equal_to_select,
    end_of,
    files,
    happen,
    live,
    stage,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server


def test_a_large_commit_that_becomes_a_file_of_its_own(run_folder: Path) -> None:
    server = Server.create("mariadb118", run_folder / "large-commit")
    server.start({"binlog_large_commit_threshold": 10 << 20})
    try:
        execute(server, "CREATE DATABASE shop")
        database = Database(server, "shop")
        rows = "INSERT INTO t SELECT seq, REPEAT(CONCAT('0123456789', seq), 40) FROM seq_1_to_20000"
        happened = happen(
            database,
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(1000))",
            "INSERT INTO t VALUES (0, 'before')",
            rows,
            "UPDATE t SET a = 'after' WHERE id < 9",
        )
        gtids = [
            event.header.size
            for path in sorted(server.data.glob(f"binlog.{'[0-9]' * 6}"))
            for event in read_file(path.read_bytes())
            if event.header.type == EventType.MARIADB_GTID
        ]

        assert max(gtids) > 3000  # padded to a page
        assert happened.start.file != happened.stop.file
        expected = dict(database.query("SELECT * FROM t"))
        for source in (live(server), files(server)):
            staged = stage(source, happened)
            (table,) = staged.manifest.tables
            assert {row["id"]: row["a"] for row in staged.rows(table)} == expected
    finally:
        server.stop()


@pytest.mark.parametrize("captured", [True, False])
def test_a_session_that_logs_statements_is_named_whatever_is_captured(
    database: Database, captured: bool
) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    begin = end_of(database.server)
    database.execute("INSERT INTO t VALUES (1)")
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("INSERT INTO u VALUES (7)")
        cursor.execute("SELECT CONNECTION_ID()")
        ((thread,),) = cursor.fetchall()
    happened = Range(database, begin, end_of(database.server))
    tables = TableFilter([f"{database.name}.{'u' if captured else 't'}"])

    with pytest.raises(UnsupportedError, match="STATEMENT or MIXED") as refused:
        stage(live(database.server), happened, tables=tables)

    assert refused.value.context["thread_id"] == thread
    assert refused.value.context["statement"] == "INSERT INTO u VALUES (?)"
    assert refused.value.context["database"] == database.name


def test_notes_and_temporary_tables_are_no_changes(database: Database) -> None:
    note = "binlog_annotate_row_events" if "mariadb" in database.server.name else None
    happened = happen(
        database,
        f"SET SESSION {note or 'binlog_rows_query_log_events'} = ON",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TEMPORARY TABLE x (id INT)",
        "INSERT INTO x VALUES (1), (2)",
        "INSERT INTO t SELECT id, 1 FROM x",
        "UPDATE /* a note */ t SET a = 2",
        "DROP TEMPORARY TABLE x",
    )

    staged = stage(live(database.server), happened)

    assert_equal_to_select(staged, database)
    assert staged.manifest.events["ANNOTATE_ROWS" if note else "ROWS_QUERY"] == 2
