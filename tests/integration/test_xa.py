"""XA transactions of real servers: what is staged of them, at which place, equals SELECT."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import GROUP_STARTS
from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import PositionPurgedError, UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.transport.server.queries import identify
from tests.fixtures.mysql import Database, connect, execute, prepare, purge
from tests.services.servers import Server
from tests.support.measured_range import stage_measured
from tests.support.ranges import (
    Range,
    Row,
    Staged,
    assert_equal_to_select,
    end_of,
    files,
    happen,
    live,
    stage,
)
from tests.support.requests import a_request
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_binlog.capture.extract import Extracted
    from airflow_provider_binlog.manifest import Manifest, TableChanges
    from airflow_provider_binlog.transport.block_stream import BlockStream

pytestmark = pytest.mark.server

TABLES = [
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200))",
    "CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, b INT)",
]
_numbers = count()
READ_AGAIN: dict[str, Any] = {"limits": Limits(prepared_bytes_max=1)}


def run_all(database: Database) -> None:
    """Prepare, commit and roll back, with others between."""
    database.execute(*TABLES, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    prepare(
        database,
        "'x', 'branch', 7",
        "UPDATE t SET a = 'x' WHERE id = 1",
        "INSERT INTO u (b) VALUES (1), (2)",
        "SAVEPOINT s",
        "DELETE FROM u WHERE b = 1",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (10, 'x')",
    )
    prepare(database, "X'00ff27'", "UPDATE t SET id = 20 WHERE id = 2")
    prepare(database, "'never'", "DELETE FROM t WHERE id = 3")
    database.execute("INSERT INTO t VALUES (4, 'between')", "XA COMMIT X'00ff27'")
    database.execute("UPDATE t SET id = 21 WHERE id = 20", "FLUSH BINARY LOGS")
    database.execute("XA ROLLBACK 'never'", "DELETE FROM t WHERE id = 3")
    database.execute("/* it is x */ xa commit 'x', 'branch', 7")
    database.execute("UPDATE t SET a = 'later' WHERE id IN (1, 10)")
    one_phase = ["INSERT INTO t VALUES (30, 'one phase')", "UPDATE u SET b = b + 1"]
    database.execute("XA START 'one'", *one_phase, "XA END 'one'", "XA COMMIT 'one' ONE PHASE")
    database.execute("XA START 'left'", "DELETE FROM t", "XA END 'left'", "XA ROLLBACK 'left'")
    database.execute("XA START 'empty'", "XA END 'empty'", "XA COMMIT 'empty' ONE PHASE")
    prepare(database, "'x'", "UPDATE t SET a = 'the name again' WHERE id = 30")
    database.execute("XA COMMIT 'x'")


@pytest.fixture
def happened(database: Database) -> Range:
    """A range of XA transactions, over two files."""
    start = end_of(database.server)
    run_all(database)
    return Range(database, start, end_of(database.server))


def test_changes_applied_in_order_equal_select(happened: Range) -> None:
    # A server id of one's own, under which the server may end a connection for another one.
    staged = stage(live(happened.server, server_id=4_000_000_000), happened)
    again = stage(
        live(happened.server, server_id=4_000_000_000, block_bytes=500), happened, **READ_AGAIN
    )

    assert_equal_to_select(staged, happened.database)
    assert staged.manifest.prepared == ()
    assert [staged.rows(table) for table in staged.manifest.tables] == [
        again.rows(table) for table in again.manifest.tables
    ]
    commits = {row["_pos"]: row["_file"] for row in staged.rows(staged.manifest.tables[0])}
    with closing(connect(happened.server)) as connection, connection.cursor() as cursor:
        found = 0
        for position, file in commits.items():
            cursor.execute(f"SHOW BINLOG EVENTS IN '{file}' FROM {position} LIMIT 1")
            found += "XA COMMIT" in str(cursor.fetchall()[0])
    assert found == 3


def test_every_source_gives_the_same_bytes(happened: Range) -> None:
    expected = stage(live(happened.server), happened)
    sources: list[BlockStream] = [
        files(happened.server),
        files(happened.server, block_bytes=1),
        live(happened.server, block_bytes=700),
    ]

    for source in sources:
        assert stage(source, happened).manifest == expected.manifest


def test_a_range_split_at_every_boundary_gives_the_same_rows(happened: Range) -> None:
    source = files(happened.server)
    bounds = [
        Position(block.file, position)
        for block in source.blocks(happened.start, happened.stop)
        for position, kind in zip(block.offset.tolist(), block.type.tolist(), strict=True)
        if kind in GROUP_STARTS
    ]
    bounds = [each for each in bounds if each.coordinates < happened.stop.coordinates]

    ranges = Ranges(happened.database)
    for start, stop in pairwise([*bounds, happened.stop]):
        ranges.stage(source, stop, start)

    ranges.assert_equal_to_select()


def test_other_tables_are_left_alone(happened: Range) -> None:
    staged = stage(live(happened.server), happened, tables=TableFilter(["other.*"]), **READ_AGAIN)

    assert staged.manifest.tables == ()


# ------------------------------------------------------------------- ranges, one after another


class Ranges:
    """Consecutive ranges of one source, staged one by one."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = open_store(f"memory://ranges{next(_numbers)}")
        self.staged: list[Manifest] = []
        self.log = ManifestLog(self.store, "shop")
        with closing(connect(database.server)) as connection:
            self.identity = identify(connection)

    def stage(
        self, source: BlockStream, stop: Position, start: Position | None = None, **options: Any
    ) -> Extracted:
        """Stage what follows the last range."""
        at = self.staged[-1].stop if self.staged else start
        assert at is not None
        extracted = extract(
            a_request(
                at,
                stop,
                identity=self.identity,
                sequence=len(self.staged) + 1,
                tables=TableFilter([f"{self.database.name}.*"]),
                **options,
            ),
            source,
            self.store,
        )
        self.staged += extracted.manifests
        return extracted

    def in_doubt(self, number: int) -> list[str]:
        """Return the XA transactions that are in doubt at the stop of a range."""
        prepared = self.staged[number].prepared
        assert prepared is not None
        return [each.xid for each in prepared]

    def assert_equal_to_select(self) -> None:
        """Apply all ranges one after another."""
        first, *later = (Staged(manifest, self.store) for manifest in self.staged)
        assert_equal_to_select(first, self.database, *later)

    def joined(self) -> _Joined:
        """Return all ranges as if they were one."""
        names = {(t.database, t.table): t for each in self.staged for t in each.tables}
        statements = tuple(
            replace(each, row=(number << 50) + each.row)
            for number, manifest in enumerate(self.staged)
            for each in manifest.statements
        )
        whole = replace(self.staged[-1], tables=tuple(names.values()), statements=statements)
        return _Joined(whole, self.store, tuple(self.staged))


@dataclass(frozen=True)
class _Joined(Staged):
    """Several manifests as if they were one."""

    manifests: tuple[Manifest, ...]

    def rows(self, table: TableChanges) -> list[Row]:
        rows = []
        for number, manifest in enumerate(self.manifests):
            for each in manifest.tables:
                if (each.database, each.table) == (table.database, table.table):
                    found = Staged(manifest, self.store).rows(each)
                    rows += [row | {"_row": (number << 50) + row["_row"]} for row in found]
        return rows


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_a_commit_after_a_restart_in_a_later_range(name: str, run_folder: Path) -> None:
    server = Server.create(name, run_folder / f"xa-{name}")
    compressing: dict[str, str | int] = {"log_bin_compress": "ON", "log_bin_compress_min_len": 10}
    durable: dict[str, str | int] = {"innodb_flush_log_at_trx_commit": 1}
    options = durable | (compressing if name == "mariadb118" else {})
    server.start(options)
    try:
        execute(server, "CREATE DATABASE shop")
        database = Database(server, "shop")
        start = end_of(server)
        settings = "SET binlog_transaction_compression = ON" if name == "mysql97" else "DO 0"
        text = "CONCAT(REPEAT('x', 150), RAND())"
        database.execute(*TABLES, settings, f"INSERT INTO t VALUES (1, {text})")
        prepare(database, "'x'", f"INSERT INTO t VALUES (2, {text})", settings=settings)
        prepare(database, "'y'", f"INSERT INTO t VALUES (3, {text})", settings=settings)
        database.execute(f"INSERT INTO t VALUES (4, {text})")
        ranges = Ranges(database)

        ranges.stage(live(server), end_of(server), start)
        assert ranges.in_doubt(0) == ["X'78',X'',1", "X'79',X'',1"]

        server.restart(options)
        database.execute("UPDATE t SET id = 5 WHERE id = 4", "XA COMMIT 'y'")
        ranges.stage(live(server), end_of(server))
        assert ranges.in_doubt(1) == ["X'78',X'',1"]

        one = [f"INSERT INTO t VALUES (7, {text})", "XA END 'o'", "XA COMMIT 'o' ONE PHASE"]
        database.execute("XA COMMIT 'x'", "DELETE FROM t WHERE id = 1", "FLUSH BINARY LOGS")
        database.execute(settings, "XA START 'o'", *one)
        ranges.stage(files(server), end_of(server), **READ_AGAIN)
        ranges.assert_equal_to_select()
        assert ranges.in_doubt(2) == []

        # Prepared before the first range of another source: what its file says is known.
        prepare(database, "'p'", "INSERT INTO t VALUES (8, 'p')")
        inside = end_of(server)
        database.execute("XA COMMIT 'p'", "FLUSH BINARY LOGS")
        staged = stage(live(server), Range(database, inside, end_of(server)))
        assert [row["id"] for row in staged.rows(staged.manifest.tables[0])] == [8]

        # Prepared in an earlier file: unknown to a first range, purged for a later one.
        prepare(database, "'q'", "INSERT INTO t VALUES (9, 'q')")
        database.execute("FLUSH BINARY LOGS")
        later = Position(end_of(server).file, FIRST_OFFSET)
        database.execute("XA COMMIT 'q'")
        with pytest.raises(UnsupportedError, match="begin before its XA PREPARE"):
            stage(live(server), Range(database, later, end_of(server)))
        ranges.stage(live(server), later)
        assert ranges.in_doubt(-1) == ["X'71',X'',1"]
        purge(server, later.file)
        with pytest.raises(PositionPurgedError, match="take a new snapshot"):
            ranges.stage(live(server), end_of(server))
    finally:
        server.stop()


def test_a_compressed_transaction_of_two_phases(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    start = end_of(mysql97)
    compress = "SET binlog_transaction_compression = ON"
    database.execute(*TABLES)
    many = ", ".join(f"({number}, REPEAT('x', 150))" for number in range(2000))
    more = ", ".join(f"({number}, REPEAT('y', 150))" for number in range(3000, 4000))
    prepare(database, "'x'", f"INSERT INTO t VALUES {many}", settings=compress)
    database.execute("INSERT INTO u (b) VALUES (1)", "XA COMMIT 'x'", "DELETE FROM t WHERE id < 50")
    one_phase = [f"INSERT INTO t VALUES {more}", "XA END 'o'", "XA COMMIT 'o' ONE PHASE"]
    database.execute(compress, "UPDATE t SET a = 'z' WHERE id < 90", "XA START 'o'", *one_phase)
    happened = Range(database, start, end_of(mysql97))

    staged = stage(live(mysql97), happened)
    again = stage(files(mysql97), happened, **READ_AGAIN)

    assert_equal_to_select(staged, database)
    assert [staged.rows(table) for table in staged.manifest.tables] == [
        again.rows(table) for table in again.manifest.tables
    ]


@pytest.mark.parametrize("end", ["XA PREPARE 'x'", "XA COMMIT 'x' ONE PHASE"])
def test_a_large_one_passes_in_bounded_memory(
    end: str, mysql97: Server, create_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = create_database(mysql97)
    numbers = ",".join(f"({n})" for n in range(1000))
    database.execute(
        "CREATE TABLE numbers (n INT PRIMARY KEY)", f"INSERT INTO numbers VALUES {numbers}"
    )
    rows = (
        "INSERT INTO t SELECT x.n * 1000 + y.n, REPEAT('0123456789', 9)"
        " FROM numbers x, numbers y WHERE x.n < 400"
    )
    commit = ["XA COMMIT 'x'"] if end == "XA PREPARE 'x'" else []
    happened = happen(database, TABLES[0], "XA START 'x'", rows, "XA END 'x'", end, *commit)
    assert happened.stop.offset - happened.start.offset > 30_000_000

    count, mebibytes = stage_measured(happened, tmp_path)

    assert count == 400_000
    assert mebibytes < 350
