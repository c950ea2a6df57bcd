"""Snapshots of tables on real servers: every row once, by any key, whatever interrupts it."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    ConnectionLostError,
    SourceError,
    TableAlteredError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.snapshot import (
    SnapshotFiles,
)
from airflow_provider_binlog.snapshot.bounds import ChunkKey, condition, find_bounds, key_column
from airflow_provider_binlog.snapshot.chunk import describe_table
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.transport.server.consistent_read import open_read
from airflow_provider_binlog.transport.server.information_schema import hold_table
from airflow_provider_binlog.transport.server.result_sets import query as result_of
from tests.fixtures.mysql import Connection, Database, connect, execute
from tests.services.servers import Account, Server
from tests.support.ranges import Range, end_of, happen, live, stage
from tests.support.snapshots import (
    SOURCE,
    after_chunks,
    by_key,
    fold,
    new_store,
    read_parts,
    request_of,
    rows_of,
    settings_of,
    take,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot import TakenSnapshot
    from tests.support.ranges import Row

pytestmark = pytest.mark.server

_ROWS = 400
# About 30 bytes a row, says InnoDB, or 16 KiB in all.
_CHUNK_BYTES = 4096


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


def read(taken: TakenSnapshot) -> list[Row]:
    return rows_of(read_parts(new_store(), taken.manifest.parts))


def fill(database: Database, *, rows: int = _ROWS) -> None:
    """Make a table `numbers` of some rows, of which the server has an estimate."""
    values = ", ".join(f"({number}, {number}, 'row {number}')" for number in range(rows))
    database.execute(
        "CREATE TABLE numbers (id INT PRIMARY KEY, n INT NOT NULL, text VARCHAR(40))",
        f"INSERT INTO numbers VALUES {values}",
        "ANALYZE TABLE numbers",
    )


# ------------------------------------------------------------------- keys

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
    assert sorted(found) == list(range(_ROWS)), key


def test_a_table_is_read_a_constant_number_of_times(database: Database) -> None:
    fill(database, rows=1500)
    before = entries_read(database)

    taken = take(database, "numbers", chunk_bytes=8 * 1024)

    assert len(taken.manifest.chunks) > 5
    assert entries_read(database) - before < 4 * 1500


def entries_read(database: Database) -> int:
    found = database.query("SHOW GLOBAL STATUS LIKE 'Handler_read_next'")
    return int(found[0][1])


# ------------------------------------------------------------------- tries


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
            chunk_bytes=_CHUNK_BYTES,
            connect=interrupted,
            on_progress=lambda progress: chunks.append(progress.chunks),
        )
    database.execute("UPDATE numbers SET n = -1")

    taken = take(database, "numbers", chunk_bytes=_CHUNK_BYTES)
    again = take(database, "numbers", chunk_bytes=_CHUNK_BYTES, connect=interrupted)

    rows = by_key(read(taken), ("id",))
    assert len(rows) == _ROWS
    updated = [key for (key,), row in rows.items() if row["n"] == -1]
    assert chunks
    assert updated == list(range(_ROWS - len(updated), _ROWS))
    assert 0 < len(updated) < _ROWS
    assert again == taken


def test_a_retry_on_another_server_begins_again(database: Database) -> None:
    fill(database)
    files, request = SnapshotFiles(new_store(), SOURCE), request_of(database, "numbers")

    def connect_until_planned() -> Connection:
        if files.find_plan(request) is not None:
            raise ConnectionLostError("interrupted by a test")
        return connect(database.server)

    with pytest.raises(ConnectionLostError):
        take(database, "numbers", connect=connect_until_planned)
    plan = files.find_plan(request)
    assert plan is not None
    files.write_plan(replace(plan, identity=replace(plan.identity, server="another")))

    taken = take(database, "numbers")

    assert taken.manifest.id > plan.id
    assert taken.manifest.identity == plan.identity


def test_another_run_takes_a_snapshot_of_its_own(database: Database) -> None:
    fill(database)

    first, second = (take(database, "numbers", created_by=each) for each in ("one", "two"))
    # A task that was cleared with another argument, and one that was cleared without.
    other = take(database, "numbers", created_by="two", where="id < 7")
    again = take(database, "numbers", created_by="two")

    assert first.manifest.id < second.manifest.id < other.manifest.id
    assert other.manifest.rows == 7
    assert again == second


def test_an_altered_table_begins_again(database: Database) -> None:
    fill(database)

    def alter() -> None:
        database.execute("ALTER TABLE numbers ADD COLUMN added INT DEFAULT 7")

    taken = take(database, "numbers", chunk_bytes=_CHUNK_BYTES, on_progress=after_chunks(2, alter))

    rows = by_key(read(taken), ("id",))
    assert len(rows) == _ROWS
    assert {row["added"] for row in rows.values()} == {7}
    assert taken.manifest.schema.fields[-1].name == "added"


def test_a_column_that_gets_another_type_as_its_read_begins_begins_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database)
    # MySQL's information_schema is read as of the transaction's beginning, columns are as of now.
    module = "airflow_provider_binlog.transport.server.consistent_read"
    again = "ALTER TABLE numbers DROP COLUMN n, ADD COLUMN n VARCHAR(9) DEFAULT 'x'"
    statements = iter(["DO 0", again, "DO 0", "ALTER TABLE numbers DROP COLUMN text"])

    def hold(connection: Any, name: TableName) -> bool:
        for each in islice(statements, 1):
            database.execute(each)
        return hold_table(connection, name)

    monkeypatch.setattr(f"{module}.hold_table", hold)

    taken = take(database, "numbers")

    assert "text" not in read(taken)[0]
    assert {row["n"] for row in read(taken)} == {"x"}


def test_a_table_that_is_altered_again_and_again_is_refused(database: Database) -> None:
    fill(database, rows=40)
    columns = iter(range(100))

    def alter(_: object) -> None:
        database.execute(f"ALTER TABLE numbers ADD COLUMN c{next(columns)} INT")

    with pytest.raises(TableAlteredError) as raised:
        take(database, "numbers", chunk_bytes=1024, on_progress=alter)

    assert raised.value.retryable


# ------------------------------------------------------------------- what is read


def test_a_condition_chooses_rows(database: Database) -> None:
    fill(database)

    taken = take(database, "numbers", chunk_bytes=_CHUNK_BYTES, where="n % 2 = 0 OR text = 'row 7'")

    expected = {number for number in range(_ROWS) if number % 2 == 0} | {7}
    assert {row["id"] for row in read(taken)} == expected
    assert taken.manifest.where == "n % 2 = 0 OR text = 'row 7'"


def test_an_empty_table_has_no_parts(database: Database) -> None:
    database.execute("CREATE TABLE bare (id INT PRIMARY KEY)")

    taken = take(database, "bare")

    assert taken.manifest.parts == ()
    assert [chunk.rows for chunk in taken.manifest.chunks] == [0]


def test_rows_come_through_tls(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    fill(database)

    taken = take(database, "numbers", connect=settings_of(database, "required").connect)

    assert by_key(read(taken), ("id",)).keys() == {(number,) for number in range(_ROWS)}


def test_rows_of_many_parts_are_numbered(database: Database) -> None:
    fill(database)

    taken = take(database, "numbers", limits=Limits(part_bytes_max=1000))
    parts = read_parts(new_store(), taken.manifest.parts)

    assert len(parts) == 1  # a block is not divided
    assert parts[0].column("_row").to_pylist() == list(range(_ROWS))
    assert parts[0].column("_file").to_pylist() == [taken.manifest.chunks[0].low.file] * _ROWS


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


# ------------------------------------------------------------------- positions


def test_a_table_without_a_key_is_read_at_one_position(database: Database) -> None:
    database.execute("CREATE TABLE bag (n INT)", "INSERT INTO bag VALUES (1), (1), (2)")

    manifest = take(database, "bag").manifest

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


# ------------------------------------------------------------------- writers


class Writers:
    """Sessions that write to a table `numbers` until they are stopped."""

    def __init__(self, database: Database, count: int = 6) -> None:
        self._database = database
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(count)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, seed: int) -> None:
        random = Random(seed)
        with closing(self._database.connect()) as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                # Keys that are moved cross the bounds of chunks.
                one, other = random.randrange(2 * _ROWS), random.randrange(2 * _ROWS)
                for statement in (
                    f"UPDATE numbers SET n = n + 1 WHERE id = {one}",
                    f"UPDATE IGNORE numbers SET id = {other} WHERE id = {one}",
                    f"DELETE FROM numbers WHERE id = {random.randrange(2 * _ROWS)}",
                    f"INSERT IGNORE INTO numbers VALUES ({other}, 0, 'new')",
                ):
                    with suppress(pymysql.OperationalError):  # a deadlock
                        cursor.execute(statement)


def assert_converges(database: Database, **arguments: Any) -> SnapshotManifest:
    """Take a snapshot while others write; what is logged after it makes it what SELECT returns."""
    start = end_of(database.server)
    with Writers(database):
        taken = take(database, "numbers", chunk_bytes=_CHUNK_BYTES, **arguments)
    manifest = taken.manifest
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


def test_a_snapshot_among_delayed_commits_converges(
    delaying_server: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(delaying_server)
    fill(database)

    manifest = assert_converges(database)

    assert len(manifest.chunks) > 3
    assert manifest.low.gtid is None
    assert manifest.chunks[0].low.gtid is not None
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


def test_a_table_whose_images_lack_columns_is_read_at_one_position(
    delaying_server: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(delaying_server)
    fill(database)

    def read_under(image: str, **arguments: Any) -> tuple[bool, bool]:
        """Return whether a snapshot has one position, and whether it is in chunks."""
        execute(delaying_server, f"SET GLOBAL binlog_row_image = {image}")
        run = f"{image} {arguments}"
        manifest = take(
            database, "numbers", chunk_bytes=_CHUNK_BYTES, created_by=run, **arguments
        ).manifest
        return manifest.is_exact, len(manifest.chunks) > 1

    try:
        assert read_under("FULL") == (False, True)
        with Writers(database):
            assert read_under("MINIMAL") == (True, False)
        assert read_under("MINIMAL", exact=False) == (False, True)
        # Without a TEXT or BLOB there is nothing that NOBLOB leaves out.
        assert read_under("NOBLOB") == (False, True)
        database.execute("ALTER TABLE numbers MODIFY text TEXT")
        assert read_under("NOBLOB", source_name="text") == (True, False)
    finally:
        execute(delaying_server, "SET GLOBAL binlog_row_image = FULL")
    # A session may have a setting of its own, or one of before.
    store, name = new_store(), "a session of its own"
    update = happen(
        database, "SET binlog_row_image = MINIMAL", "UPDATE numbers SET n = n - 1 LIMIT 1"
    )
    stage(live(delaying_server), update, store=store, source_name=name)
    assert read_under("FULL", source_name=name) == (True, False)


def test_a_snapshot_of_mariadb_converges(
    mariadb118: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mariadb118)
    fill(database)

    manifest = assert_converges(database)

    assert len(manifest.chunks) > 3
    assert manifest.low.gtid is None


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

    with Writers(database):
        taken = take(database, "numbers", exact=True)

    low = taken.manifest.low
    staged = stage(live(server), Range(database, start, low))
    (table,) = staged.manifest.tables
    assert by_key(read(taken), ("id",)) == fold([], staged.rows(table), ("id",))
    assert taken.manifest.is_exact
