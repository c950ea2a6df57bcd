"""Logs that real servers compressed: what is staged is what they would have logged without."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.transport.server.setup import check_setup
from tests.fixtures.mysql import Database, connect, execute
from tests.services.servers import Server
from tests.support.measured_range import stage_measured
from tests.support.ranges import (
    Range,
    Staged,
    assert_equal_to_select,
    end_of,
    files,
    happen,
    live,
    stage,
)
from tests.support.varied_changes import CHANGES, CREATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

POSITION_COLUMNS = {"_file", "_pos", "_row", "_gtid", "_commit_ts"}
TINY = 300
BULK = 20_000


@pytest.fixture(scope="module", params=["mysql97", "mariadb1011", "mariadb118"])
def compressing(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Server]:
    """A server that compresses all that it can."""
    server = Server.create(request.param, run_folder / f"compressing-{request.param}")
    if request.param == "mysql97":
        server.start({"binlog_transaction_compression": "ON"})
    else:
        server.start({"log_bin_compress": "ON", "log_bin_compress_min_len": 10})
    yield server
    server.stop()


def workload() -> Iterator[str]:
    """Yield tiny transactions, a bulky one, and statements between them."""
    yield "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(60), amount INT)"
    for number in range(TINY):
        row = f"{number}, 'customer {number % 7}', {number * 7919}"
        yield f"INSERT INTO t (id, name, amount) VALUES ({row})"
        if number % 100 == 50:
            yield f"ALTER TABLE t ADD c{number} VARCHAR(10) DEFAULT 'added'"
        if number % 3 == 0:
            yield f"UPDATE t SET amount = amount + 1 WHERE id > {number - 4}"
    yield "BEGIN"
    for begin in range(1000, 1000 + BULK, 5000):
        rows = (f"({n}, REPEAT('ab ', {n % 20}), NULL)" for n in range(begin, begin + 5000))
        yield f"INSERT INTO t (id, name, amount) VALUES {', '.join(rows)}"
        yield f"DELETE FROM t WHERE id = {begin}"
    yield "COMMIT"
    yield "TRUNCATE TABLE t"
    yield "INSERT INTO t (id) SELECT 1"


def values(staged: Staged) -> list[list[dict[str, Any]]]:
    """Return the change rows of each table in their order, without the columns of positions."""
    return [
        [
            {name: value for name, value in row.items() if name not in POSITION_COLUMNS}
            for row in rows
        ]
        for rows in map(staged.rows, staged.manifest.tables)
    ]


def test_the_settings_are_fine(compressing: Server) -> None:
    with closing(connect(compressing)) as connection:
        check_setup(connection)


def test_changes_of_every_kind_equal_select(
    compressing: Server, create_database: Callable[[Server], Database]
) -> None:
    happened = happen(create_database(compressing), *CREATE, *CHANGES)

    expected = stage(live(compressing), happened)

    assert_equal_to_select(expected, happened.database)
    for source in (
        files(compressing),
        files(compressing, block_bytes=500),
        live(compressing, block_bytes=700),
    ):
        found = stage(source, happened)
        assert found.manifest == expected.manifest
        for part in (part for table in expected.manifest.tables for part in table.parts):
            key = f"shop/{part.path}"
            assert found.store.read(key) == expected.store.read(key)


def test_what_was_compressed_is_staged_as_what_was_not(
    compressing: Server, create_database: Callable[[Server], Database]
) -> None:
    packed = happen(create_database(compressing), *workload())
    assert_equal_to_select(stage(live(compressing), packed), packed.database)
    mysql = compressing.name == "mysql97"
    setting = "binlog_transaction_compression" if mysql else "log_bin_compress"
    execute(compressing, f"SET GLOBAL {setting} = OFF")
    try:
        plain = happen(create_database(compressing), *workload())
    finally:
        execute(compressing, f"SET GLOBAL {setting} = ON")

    found, expected = stage(live(compressing), packed), stage(live(compressing), plain)

    assert values(found) == values(expected)
    (table,) = found.manifest.tables
    order = [(row["_file"], row["_pos"]) for row in found.rows(table)]
    assert order == sorted(order)
    events = found.manifest.events
    inner = expected.manifest.events
    if mysql:
        assert events.pop("TRANSACTION_PAYLOAD") > TINY
        assert events == inner
    else:
        assert events["WRITE_ROWS_COMPRESSED_V1"] + events.get("WRITE_ROWS_V1", 0) == inner.pop(
            "WRITE_ROWS_V1"
        )
        assert events["UPDATE_ROWS_COMPRESSED_V1"] > TINY // 4
        assert events["QUERY_COMPRESSED"] > 3


def test_a_session_may_compress_or_not_within_a_range(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    begin = end_of(mysql97)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(400))")
    for number in range(40):
        switch = f"SET SESSION binlog_transaction_compression = {'ON' if number % 3 else 'OFF'}"
        size = 10 if number % 5 == 0 else 300
        database.execute(switch, f"INSERT INTO t VALUES ({number}, REPEAT('x', {size}))")
    happened = Range(database, begin, end_of(mysql97))

    for source in (live(mysql97), files(mysql97, block_bytes=700)):
        staged = stage(source, happened)
        assert_equal_to_select(staged, database)
        rows = staged.rows(staged.manifest.tables[0])
        assert [row["id"] for row in rows] == list(range(40))


@pytest.mark.parametrize(
    "compressing",
    [
        "mysql97",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("mariadb1011", "mariadb118")),
    ],
    indirect=True,
)
def test_a_large_transaction_passes_in_bounded_memory(
    compressing: Server, create_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = create_database(compressing)
    database.execute(
        "CREATE TABLE numbers (n INT PRIMARY KEY)",
        f"INSERT INTO numbers VALUES {','.join(f'({n})' for n in range(1000))}",
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(400))",
    )
    happened = happen(
        database,
        "INSERT INTO t SELECT x.n * 1000 + y.n, REPEAT(CONCAT('0123456789', y.n), 24)"
        " FROM numbers x, numbers y WHERE x.n < 250",
    )
    assert happened.stop.offset - happened.start.offset < 25_000_000  # of 75 MB

    rows, mebibytes = stage_measured(happened, tmp_path)

    assert rows == 250_000
    assert mebibytes < 350
