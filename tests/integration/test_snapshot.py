"""Snapshots of tables on real servers: every row once, by any key, whatever interrupts it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    SourceError,
    TableAlteredError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.snapshot.bounds import ChunkKey, condition, find_bounds, key_column
from airflow_provider_binlog.snapshot.chunk import describe_table
from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotPlan
from airflow_provider_binlog.transport.server.consistent_read import open_read
from airflow_provider_binlog.transport.server.driver import query as result_of
from airflow_provider_binlog.transport.server.information_schema import hold_table
from airflow_provider_binlog.transport.server.tables import row_bytes
from tests.fixtures.mysql import Connection, Database, connect
from tests.services.servers import Server
from tests.support.snapshots import (
    CHUNK_BYTES,
    ROWS,
    SOURCE,
    after_chunks,
    after_each_chunk,
    by_key,
    fill,
    new_store,
    read,
    read_parts,
    request_of,
    server,
    settings_of,
    take,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.schema import TableName

__all__ = ["server"]

pytestmark = pytest.mark.server


_KEYS = {
    "INT": "n - 200",
    "BIGINT UNSIGNED": "18446744073709551615 - n",
    "DECIMAL(30,5)": "n / 7 - 30",
    "FLOAT": "n / 7 - 30",
    "DOUBLE": "n / 7 - 30",
    "BIT(20)": "n",
    "YEAR": "1901 + n % 200",
    "DATE": "'2001-01-01' + INTERVAL n DAY",
    "TIME(2)": "SEC_TO_TIME(n * 1000 - 300000)",
    "DATETIME(6)": "'2001-01-01' + INTERVAL n * 1234567 MICROSECOND",
    "TIMESTAMP(3)": "'2001-01-01' + INTERVAL n SECOND",
    "VARCHAR(20)": "CONCAT(CHAR(97 + n % 26 USING utf8mb4), ' é\\'\\\\', n)",
    "CHAR(20) COLLATE utf8mb4_bin": "n",
    "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci": "CONCAT('ü', n)",
    "VARCHAR(20) CHARACTER SET utf16": "CONCAT('日', n)",
    "VARBINARY(20)": "UNHEX(LEFT(SHA2(n, 256), 20))",
    "BINARY(6)": "UNHEX(LEFT(SHA2(n, 256), 12))",
    "ENUM('z', 'y', 'x', 'w', 'v')": "n % 5 + 1",
    "SET('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i')": "n",
}
_MARIADB_KEYS = {
    "UUID": "CONCAT('123e4567-e89b-12d3-a456-', LPAD(HEX(n), 12, '0'))",
    "INET6": "CONCAT('2001::', HEX(n))",
}


def test_chunks_by_any_key_have_every_row_once(database: Database) -> None:
    fill(database)
    types = _KEYS | (_MARIADB_KEYS if database.server.name.startswith("mariadb") else {})
    columns = ", ".join(
        f"k{number} {sql_type} NOT NULL, KEY a{number} (k{number}), KEY b{number} (k{number}, n)"
        for number, sql_type in enumerate(types)
    )
    database.execute(
        f"CREATE TABLE t (n INT PRIMARY KEY, {columns})",
        f"INSERT INTO t SELECT n, {', '.join(types.values())} FROM numbers",
        "ANALYZE TABLE t",
    )
    name = (database.name, "t")
    with open_read(database.connect, name, exact=False) as opened:
        layout = describe_table(opened, name, Policies()).layout
        if database.server.name.startswith("mysql"):
            result_of(opened.connection, "SET SESSION explain_format = 'TRADITIONAL'")
        for number, sql_type in enumerate(types):
            key_columns = [key_column(layout.columns[index]) for index in (number + 1, 0)]
            known = tuple(each for each in key_columns if each is not None)
            assert len(known) == (1 if sql_type.startswith(("ENUM", "SET")) else 2), sql_type
            if len(known) == 2:
                assert_divided(
                    opened.connection, name, ChunkKey(known, f" FORCE INDEX (b{number})")
                )
                alone = ChunkKey(known[:1], f" FORCE INDEX (a{number})")
                assert_divided(opened.connection, name, alone)
        # A search that waits for a busy server is not ended as idle.
        (session,) = result_of(opened.connection, "SELECT @@wait_timeout AS seconds")
        assert session["seconds"] == 86_400


def assert_divided(connection: Connection, name: TableName, key: ChunkKey) -> None:
    """Read a table in chunks: each row is in one of them, and each chunk is a range of an index."""
    bounds = [None, *find_bounds(connection, name, key, 70), None]
    found: list[int] = []
    for after, upto in pairwise(bounds):
        statement = f"SELECT n FROM t{key.hint}{condition(key, after, upto)}"
        if after is not None:
            (plan,) = result_of(connection, f"EXPLAIN {statement}")  # traditional, of one table
            assert plan["type"] in ("range", "ref", "const"), statement
        found += [row["n"] for row in result_of(connection, statement)]

    assert len(bounds) > 5
    assert sorted(found) == list(range(ROWS)), key


def test_a_table_is_read_a_constant_number_of_times(database: Database) -> None:
    fill(database, rows=1500)
    before = entries_read(database)

    taken = take(database, "numbers", chunk_bytes=8 * 1024)

    assert len(taken.chunks) > 5
    assert entries_read(database) - before < 4 * 1500


def entries_read(database: Database) -> int:
    found = database.query("SHOW GLOBAL STATUS LIKE 'Handler_read_next'")
    return int(found[0][1])


@pytest.mark.fault("snapshot-killed", servers="mysql97 mariadb1011 mariadb118")
def test_a_retry_reads_the_chunks_that_are_missing(database: Database) -> None:
    fill(database)
    chunks: list[int] = []

    def interrupted() -> Connection:
        if len(chunks) > 1:
            raise ConnectionLostError("interrupted by a test")
        return connect(database.server)

    with pytest.raises(ConnectionLostError, match="interrupted"):
        take(
            database,
            "numbers",
            chunk_bytes=CHUNK_BYTES,
            connect=interrupted,
            on_progress=lambda progress: chunks.append(progress.done),
        )
    database.execute("UPDATE numbers SET n = -1")

    taken = take(database, "numbers", chunk_bytes=CHUNK_BYTES)
    again = take(database, "numbers", chunk_bytes=CHUNK_BYTES, connect=interrupted)

    rows = by_key(read(taken), ("id",))
    assert len(rows) == ROWS
    updated = [key for (key,), row in rows.items() if row["n"] == -1]
    assert chunks
    assert updated == list(range(ROWS - len(updated), ROWS))
    assert 0 < len(updated) < ROWS
    assert again == taken


def test_a_retry_on_another_server_begins_again(database: Database) -> None:
    fill(database)
    request = request_of(database, "numbers")

    def find_plan() -> SnapshotPlan | None:
        return SnapshotFiles(new_store(), SOURCE).find_plan(request)

    def connect_until_planned() -> Connection:
        if find_plan() is not None:
            raise ConnectionLostError("interrupted by a test")
        return connect(database.server)

    with pytest.raises(ConnectionLostError):
        take(database, "numbers", connect=connect_until_planned)
    plan = find_plan()
    assert plan is not None
    SnapshotFiles(new_store(), SOURCE).write_plan(
        replace(plan, identity=replace(plan.identity, server="another"))
    )

    taken = take(database, "numbers")

    assert taken.id > plan.id
    assert taken.identity == plan.identity


def test_another_run_takes_a_snapshot_of_its_own(database: Database) -> None:
    fill(database)

    first, second = (take(database, "numbers", created_by=each) for each in ("one", "two"))
    # A task that was cleared with another argument, and one that was cleared without.
    other = take(database, "numbers", created_by="two", where="id < 7")
    again = take(database, "numbers", created_by="two")

    assert first.id < second.id < other.id
    assert other.rows == 7
    assert again == second


def test_an_altered_table_begins_again(database: Database) -> None:
    fill(database)

    def alter() -> None:
        database.execute("ALTER TABLE numbers ADD COLUMN added INT DEFAULT 7")

    taken = take(database, "numbers", chunk_bytes=CHUNK_BYTES, on_progress=after_chunks(2, alter))

    rows = by_key(read(taken), ("id",))
    assert len(rows) == ROWS
    assert {row["added"] for row in rows.values()} == {7}
    assert taken.schema.fields[-1].name == "added"


def test_a_column_that_gets_another_type_as_its_read_begins_begins_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database)
    # MySQL's information_schema is read as of the transaction's beginning, columns are as of now.
    module = "airflow_provider_binlog.transport.server.information_schema"
    again = "ALTER TABLE numbers DROP COLUMN n, ADD COLUMN n VARCHAR(9) DEFAULT 'x'"
    statements = iter(["DO 0", again, "DO 0", "ALTER TABLE numbers DROP COLUMN text"])

    def hold(connection: Any, *arguments: Any) -> bool:
        for each in islice(statements, 1):
            database.execute(each)
        return hold_table(connection, *arguments)

    monkeypatch.setattr(f"{module}.hold_table", hold)

    taken = take(database, "numbers")

    assert "text" not in read(taken)[0]
    assert {row["n"] for row in read(taken)} == {"x"}


def test_a_table_that_loses_its_key_before_bounds_are_found_begins_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database)
    statements = iter(["ALTER TABLE numbers DROP PRIMARY KEY"])

    def estimate(connection: Any, name: TableName) -> int:
        for each in statements:
            database.execute(each)
        return row_bytes(connection, name)

    monkeypatch.setattr("airflow_provider_binlog.snapshot.take.row_bytes", estimate)

    taken = take(database, "numbers", chunk_bytes=CHUNK_BYTES)

    assert len(read(taken)) == ROWS
    assert taken.schema.key_names == ()


def test_a_table_that_is_altered_again_and_again_is_refused(database: Database) -> None:
    fill(database, rows=40)
    columns = iter(range(100))

    def alter() -> None:
        database.execute(f"ALTER TABLE numbers ADD COLUMN c{next(columns)} INT")

    with pytest.raises(TableAlteredError) as raised:
        take(database, "numbers", chunk_bytes=1024, on_progress=after_each_chunk(alter))

    assert raised.value.retryable


def test_a_condition_chooses_rows(database: Database) -> None:
    fill(database)

    taken = take(database, "numbers", chunk_bytes=CHUNK_BYTES, where="n % 2 = 0 OR text = 'row 7'")

    expected = {number for number in range(ROWS) if number % 2 == 0} | {7}
    assert {row["id"] for row in read(taken)} == expected
    assert taken.where == "n % 2 = 0 OR text = 'row 7'"


def test_an_empty_table_has_no_parts(database: Database) -> None:
    database.execute("CREATE TABLE bare (id INT PRIMARY KEY)")

    taken = take(database, "bare")

    assert taken.parts == ()
    assert [chunk.rows for chunk in taken.chunks] == [0]


def test_rows_come_through_tls(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    fill(database)

    taken = take(database, "numbers", connect=settings_of(database, "required").connect)

    assert by_key(read(taken), ("id",)).keys() == {(number,) for number in range(ROWS)}


def test_rows_of_many_parts_are_numbered(database: Database) -> None:
    fill(database)

    taken = take(database, "numbers", limits=Limits(part_bytes_max=1000))
    parts = read_parts(new_store(), taken.parts)

    assert len(parts) == 1  # a block is not divided
    assert parts[0].column("_row").to_pylist() == list(range(ROWS))
    assert parts[0].column("_file").to_pylist() == [taken.chunks[0].low.file] * ROWS


def test_a_zero_date_is_refused_by_its_policy(database: Database) -> None:
    database.execute(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE dates (id INT PRIMARY KEY, day DATE)",
        "INSERT INTO dates VALUES (1, '2024-01-01'), (2, '0000-00-00')",
    )

    with pytest.raises(UnsupportedError, match="a zero or invalid date") as raised:
        take(database, "dates", policies=Policies(zero_dates=ZeroDates.FAIL))

    assert raised.value.context["table"] == f"{database.name}.dates"
    assert raised.value.context["column"] == "day"
    assert "event" not in raised.value.context


def test_a_table_that_keeps_no_rows_is_refused(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute("CREATE TABLE hole (id INT PRIMARY KEY) ENGINE=BLACKHOLE")

    with pytest.raises(UnsupportedError, match="keeps no row"):
        take(database, "hole")


def test_a_table_that_is_not_there_is_refused(database: Database) -> None:
    with pytest.raises(SourceError, match="no such table"):
        take(database, "missing")


def test_a_row_of_more_than_16_mebibytes_is_read(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute(
        "CREATE TABLE large (id INT PRIMARY KEY, data LONGBLOB)",
        "INSERT INTO large VALUES (1, 'before'), (2, REPEAT('ab', 9000000)), (3, 'after')",
    )

    taken = take(database, "large")

    rows = by_key(read(taken), ("id",))
    assert rows[1,]["data"] == b"before"
    assert rows[2,]["data"] == b"ab" * 9_000_000
    assert rows[3,]["data"] == b"after"
