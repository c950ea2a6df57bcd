"""What is staged of a real server's log: the same from everywhere, and equal to SELECT."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.binlog.header import GROUP_STARTS
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import (
    BinlogError,
    ForeignPositionError,
    ServerSetupError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.queries import (
    check_position,
    gtid_at,
    gtid_executed,
)
from tests.fixtures.mysql import Database, connect, execute, query
from tests.services.servers import Server
from tests.support.measured_range import stage_measured
from tests.support.ranges import (
    Range,
    Row,
    assert_equal_to_select,
    end_of,
    files,
    happen,
    live,
    stage,
)
from tests.support.varied_changes import CHANGES, CREATE, STATEMENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_binlog.transport.block_stream import BlockStream

pytestmark = pytest.mark.server

# ------------------------------------------------------------------- the same as SELECT


@pytest.fixture
def happened(database: Database, tmp_path: Path) -> Range:
    """A range with changes of every kind, over several files."""
    return happen(database, *CREATE, *CHANGES, *_more(database, tmp_path))


def _more(database: Database, folder: Path) -> Iterator[str]:
    path = folder / "visits.csv"
    path.write_text("loaded\t1\nloaded\t\\N\n")
    yield f"LOAD DATA INFILE '{path}' INTO TABLE visits"
    if database.server.name == "mysql97":
        # What a foreign key does to other tables: MySQL logs it since 9.6.
        yield (
            "CREATE TABLE children (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent)"
            " REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)"
        )
        yield "INSERT INTO children VALUES (1, 1), (2, 7), (3, 7)"
        yield "DELETE FROM parents WHERE id = 7"
        yield "UPDATE parents SET id = 100 WHERE id = 1"
        yield "SET gtid_next = 'AUTOMATIC:tagged'"
        yield "INSERT INTO parents VALUES (200, 'tagged')"


def test_changes_applied_in_order_equal_select(happened: Range) -> None:
    staged = stage(live(happened.server), happened)

    assert_equal_to_select(staged, happened.database)
    kinds = [statement.type for statement in staged.manifest.statements]
    assert kinds[: len(STATEMENT_TYPES)] == STATEMENT_TYPES
    assert {table.database for table in staged.manifest.tables} == {happened.database.name}
    assert len({row["_file"] for table in staged.manifest.tables for row in staged.rows(table)}) > 3


def test_every_source_and_block_size_gives_the_same_bytes(happened: Range) -> None:
    expected = stage(live(happened.server), happened)
    sources: list[BlockStream] = [
        files(happened.server),
        files(happened.server, block_bytes=1),
        files(happened.server, block_bytes=3000),
        live(happened.server, block_bytes=700),
    ]

    for source in sources:
        found = stage(source, happened)
        assert found.manifest == expected.manifest
        for table in expected.manifest.tables:
            for part in table.parts:
                key = f"shop/{part.path}"
                assert found.store.read(key) == expected.store.read(key)


def test_all_before_images_are_there_when_asked_for(happened: Range) -> None:
    staged = stage(files(happened.server), happened, before_images=BeforeImages.ALL)

    assert_equal_to_select(staged, happened.database)
    for table in staged.manifest.tables:
        assert table.changes.get("update_preimage") == table.changes.get("update_postimage")


def test_small_limits_change_only_the_parts(happened: Range) -> None:
    limits = Limits(part_bytes_max=300, pending_bytes_max=1000)
    staged = stage(files(happened.server), happened, limits=limits)
    whole = stage(files(happened.server), happened)

    assert sum(len(table.parts) for table in staged.manifest.tables) > sum(
        len(table.parts) for table in whole.manifest.tables
    )
    for table, expected in zip(staged.manifest.tables, whole.manifest.tables, strict=True):
        assert staged.rows(table) == whole.rows(expected)


def test_a_range_split_at_every_boundary_gives_the_same_rows(happened: Range) -> None:
    source = files(happened.server)
    whole = stage(source, happened)
    boundaries = [
        Position(block.file, int(block.offset[index]))
        for block in source.blocks(happened.start, happened.stop)
        for index, kind in enumerate(block.type.tolist())
        if kind in GROUP_STARTS and happened.start.coordinates < (
            Position(block.file, int(block.offset[index])).coordinates
        ) < happened.stop.coordinates
    ]  # fmt: skip

    found: dict[str, list[Row]] = {}
    at = happened.start
    for start, stop in pairwise([happened.start, *boundaries, happened.stop]):
        piece = stage(source, replace(happened, start=at, stop=stop))
        assert piece.manifest.start.coordinates == start.coordinates
        for table in piece.manifest.tables:
            found.setdefault(table.table, []).extend(piece.rows(table))
        at = piece.manifest.stop
    assert at == whole.manifest.stop
    for table in whole.manifest.tables:
        # Both count from the beginning of their own range.
        own = {"_row": 0, "_image": 0}
        rows = [row | own for row in found.pop(table.table)]
        assert rows == [row | own for row in whole.rows(table)]
    assert not found


def test_the_gtids_of_the_stop_are_those_of_the_server(happened: Range) -> None:
    stop = stage(live(happened.server), happened).manifest.stop

    assert stop.gtid is not None
    with closing(connect(happened.server)) as connection:
        if happened.server.name == "mysql97":
            assert GtidSet.parse(stop.gtid) == GtidSet.parse(gtid_executed(connection))
        else:
            assert stop.gtid == gtid_at(connection, happened.stop)
        check_position(connection, stop)


def test_a_stop_inside_a_transaction_is_refused(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    happened = happen(database, "INSERT INTO t VALUES (1)")
    source = files(database.server)
    inside = [
        int(position)
        for block in source.blocks(happened.start, happened.stop)
        for position in block.offset[1:]
    ]

    assert len(inside) >= 3
    for offset in inside:
        for each in (source, live(database.server)):
            with pytest.raises(ForeignPositionError, match="inside a transaction"):
                stage(each, replace(happened, stop=replace(happened.stop, offset=offset)))
            with pytest.raises(ForeignPositionError, match="no event begins"):
                stage(each, replace(happened, stop=replace(happened.stop, offset=offset + 1)))


def test_files_of_which_one_was_cut_between_transactions_are_refused(
    database: Database, tmp_path: Path
) -> None:
    insert = [f"INSERT INTO t VALUES ({number})" for number in range(5)]
    rows = [*insert[:3], "FLUSH BINARY LOGS", *insert[3:]]
    happened = happen(database, "CREATE TABLE t (id INT PRIMARY KEY)", *rows)
    first = happened.start.file
    last = max(
        int(block.offset[index])
        for block in files(database.server).blocks(happened.start)
        for index, kind in enumerate(block.type.tolist())
        if block.file == first and kind in GROUP_STARTS
    )
    paths = []
    for name in (first, happened.stop.file):
        content = (database.server.data / name).read_bytes()
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content[:last] if name == first else content)

    with pytest.raises(TruncatedError, match="transactions are missing"):
        stage(FileBlockStream(paths), happened)


# ------------------------------------------------------------------- what is refused


def refused(
    database: Database, *statements: str, kind: type[BinlogError] = UnsupportedError, **options: Any
) -> BinlogError:
    """Return how a range with these statements is refused, from the server and from its files."""
    happened = happen(database, *statements)
    with pytest.raises(kind) as raised:
        stage(live(database.server), happened, **options)
    with pytest.raises(kind) as by_files:
        stage(files(database.server), happened, **options)
    assert str(by_files.value) == str(raised.value)
    assert raised.value.context["file"] == happened.stop.file
    return raised.value


TABLE = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(500), b INT)"


def test_a_prepared_transaction_on_other_tables_is_not(database: Database) -> None:
    prepared = ["XA START 'x'", "INSERT INTO t (a) VALUES ('x')", "XA END 'x'", "XA PREPARE 'x'"]
    happened = happen(database, TABLE, *prepared, "XA COMMIT 'x'")

    staged = stage(live(database.server), happened, tables=TableFilter(["other.*"]))

    assert staged.manifest.tables == ()


def test_an_xa_transaction_of_one_phase_is_committed(database: Database) -> None:
    one = [
        "XA START 'x'",
        "INSERT INTO t (a) VALUES ('x')",
        "XA END 'x'",
        "XA COMMIT 'x' ONE PHASE",
    ]
    happened = happen(database, TABLE, *one)

    assert_equal_to_select(stage(live(database.server), happened), database)


def test_a_logged_statement_is_refused_with_its_text(database: Database) -> None:
    statement = "INSERT INTO t (a) VALUES ('as a statement')"

    error = refused(database, TABLE, "SET SESSION binlog_format = STATEMENT", statement)

    assert error.context["statement"] == "INSERT INTO t (a) VALUES (?)"


def test_a_logged_statement_is_refused_whatever_its_default_database(database: Database) -> None:
    # MySQL names the databases of the tables that it opened; MariaDB's event has none.
    is_named = not database.server.name.startswith("mariadb")
    captured = f"{database.name}.another" if is_named else "other.*"
    statements = [
        "SET SESSION binlog_format = STATEMENT",
        "USE mysql",
        f"INSERT INTO {database.name}.t (a) VALUES ('x')",
    ]

    refused(database, TABLE, *statements, tables=TableFilter([captured]))


def test_a_log_without_names_is_refused(database: Database) -> None:
    (before,) = database.query("SELECT @@GLOBAL.binlog_row_metadata")
    execute(database.server, "SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        happened = happen(database, TABLE, "INSERT INTO t VALUES (1, 'x', 1)")
    finally:
        execute(database.server, f"SET GLOBAL binlog_row_metadata = {before[0]}")

    with pytest.raises(ServerSetupError, match="binlog_row_metadata=FULL"):
        stage(live(database.server), happened)


def test_what_was_refused_before_the_start_does_not_matter(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    statement = "SET SESSION binlog_format = STATEMENT"
    happen(database, TABLE, statement, "INSERT INTO t VALUES (1, REPEAT('x', 400), 1)")
    happened = happen(database, "INSERT INTO t VALUES (2, 'y', 1)")

    staged = stage(live(mysql97), happened)

    assert staged.manifest.rows == 1
    assert GtidSet.parse(staged.manifest.stop.gtid or "") == GtidSet.parse(
        query(mysql97, "SELECT @@GLOBAL.gtid_executed")[0][0]
    )


# A statement on an InnoDB table, whose trigger writes to a MyISAM table.
MIXED = [
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE TABLE loose (id INT) ENGINE=MyISAM",
    "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO loose VALUES (NEW.id)",
]


BEGUN = ["BEGIN", "SAVEPOINT s", "INSERT INTO t VALUES (1)"]


def test_what_a_rollback_left_is_there(
    mariadb1011: Server, create_database: Callable[[Server], Database]
) -> None:
    # In row format the server logs what cannot be rolled back by itself.
    database = create_database(mariadb1011)
    happened = happen(database, *MIXED, *BEGUN, "ROLLBACK")

    assert_equal_to_select(stage(live(mariadb1011), happened), database)
    assert database.query("SELECT COUNT(*) FROM loose") == [(1,)]


# ------------------------------------------------------------------- servers of their own


def test_transactions_without_names(run_folder: Path) -> None:
    server = Server.create("mysql97", run_folder / "unnamed")
    server.start({"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"})
    try:
        execute(server, "CREATE DATABASE shop")
        database = Database(server, "shop")
        happened = happen(database, TABLE, "INSERT INTO t VALUES (1, 'x', 1), (2, NULL, 2)")
        staged = stage(live(server), happened)
        assert_equal_to_select(staged, database)
        assert {row["_gtid"] for row in staged.rows(staged.manifest.tables[0])} == {None}
        assert stage(files(server), happened).manifest == staged.manifest

        for name, end in (("rolled", ["ROLLBACK"]), ("partly", ["ROLLBACK TO s", "COMMIT"])):
            execute(server, f"CREATE DATABASE {name}")
            happened = happen(Database(server, name), *MIXED, *BEGUN, *end)
            assert_equal_to_select(stage(live(server), happened), happened.database)
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["mysql97", "mariadb1011"])
def test_a_log_that_was_reset_and_has_grown_again_is_refused(name: str, run_folder: Path) -> None:
    server = Server.create(name, run_folder / f"reset-{name}")
    server.start()
    reset = "RESET BINARY LOGS AND GTIDS" if name == "mysql97" else "RESET MASTER"
    try:
        execute(server, "CREATE DATABASE shop")
        database = Database(server, "shop")
        rows = ["INSERT INTO t (b) VALUES (1)"] * 10
        happened = happen(database, TABLE, *rows, "FLUSH BINARY LOGS", *rows)
        stop = stage(live(server), happened).manifest.stop
        # Where the position was there is a boundary again, with fewer transactions before it.
        execute(server, reset, "CREATE DATABASE other", "FLUSH BINARY LOGS")
        database.execute(*rows, *rows)
        end = end_of(server)
        assert stop.file == end.file
        assert stop.offset < end.offset

        with (
            closing(connect(server)) as connection,
            pytest.raises(ForeignPositionError, match="log was reset"),
        ):
            check_position(connection, stop)
        if name == "mysql97":
            for source in (live(server), files(server)):
                with pytest.raises(ForeignPositionError, match="the log was reset"):
                    stage(source, replace(happened, start=stop, stop=end))
    finally:
        server.stop()


# ------------------------------------------------------------------- memory


def test_a_transaction_larger_than_a_part_passes_in_bounded_memory(
    mysql97: Server, create_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = create_database(mysql97)
    database.execute(
        "CREATE TABLE numbers (n INT PRIMARY KEY)",
        f"INSERT INTO numbers VALUES {','.join(f'({n})' for n in range(1000))}",
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200), b INT)",
    )
    happened = happen(
        database,
        "INSERT INTO t SELECT x.n * 1000 + y.n, REPEAT('0123456789', 9), y.n"
        " FROM numbers x, numbers y WHERE x.n < 400",
    )
    assert happened.stop.offset - happened.start.offset > 40_000_000

    rows, mebibytes = stage_measured(happened, tmp_path)

    assert rows == 400_000
    assert mebibytes < 350


def test_large_rows_pass_in_a_few_times_their_memory(
    mysql97: Server, create_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = create_database(mysql97)
    happened = happen(
        database,
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, content LONGBLOB)",
        "SET SESSION group_concat_max_len = 1 << 30, cte_max_recursion_depth = 100000",
        # Bytes that nothing makes smaller.
        "INSERT INTO t WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers"
        " WHERE n < 61440) SELECT 1, 1, GROUP_CONCAT(RANDOM_BYTES(1024) SEPARATOR '') FROM numbers",
        "UPDATE t SET n = 2",
        "DELETE FROM t",
    )
    assert happened.stop.offset - happened.start.offset > 4 * (60 << 20)

    rows, mebibytes = stage_measured(happened, tmp_path)

    assert rows == 3
    # The libraries, the event with both images of the update, twice what it holds of one, and
    # what has arrived of the next event: a busy machine once had 390 where a quiet one has 360.
    assert mebibytes < 150 + 5 * 60
