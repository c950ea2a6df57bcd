"""A snapshot of a table equals the fold of its complete log: value for value, type for type."""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from tests.fixtures.mysql import connect
from tests.integration.test_oracle_types import TYPES
from tests.oracle.charsets import repertoires
from tests.oracle.kinds import random_kind
from tests.oracle.session import Session
from tests.support.ranges import Range, Staged, end_of, live, stage
from tests.support.snapshots import (
    SOURCE,
    by_key,
    fold,
    new_store,
    read_parts,
    rows_of,
    server,
    take,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.schema import Field, TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.fixtures.mysql import Database
    from tests.services.servers import Server

__all__ = ["server"]

pytestmark = pytest.mark.server

_TABLES, _COLUMNS, _ROWS = 6, 11, 12
_SEED = 20
_POLICIES = (
    Policies(),
    Policies(ZeroDates.TEXT, InvalidText.BINARY),
    Policies(ZeroDates.TEXT, InvalidText.REPLACE),
)


@pytest.fixture
def happened(database: Database) -> Range:
    """Tables with columns of every type, filled and changed; all of it is in the log."""
    start = end_of(database.server)
    with closing(Session(database.server, database=database.name)) as session:
        session.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        _fill_edges(session)
        for number in range(_TABLES):
            _fill(session, Random(_SEED + number), database.server, f"t{number}")
    return Range(database, start, end_of(database.server))


def _fill_edges(session: Session) -> None:
    """Make a table with a column of every type, and a row of every edge value."""
    columns = ", ".join(f"c{number} {each.sql}" for number, each in enumerate(TYPES))
    session.execute(f"CREATE TABLE edges (id INT PRIMARY KEY, {columns}) ROW_FORMAT=DYNAMIC")
    for row in range(max(len(each.values) for each in TYPES) + 1):
        values = ", ".join(each.values[row] if row < len(each.values) else "NULL" for each in TYPES)
        session.execute(f"INSERT INTO edges VALUES ({row}, {values})")


def _fill(session: Session, random: Random, server: Server, table: str) -> None:
    """Make a table of random columns, and write to it."""
    known = repertoires(server)
    kinds = [random_kind(random, server.name, known) for _ in range(_COLUMNS)]
    columns = ", ".join(f"c{number} {each.sql}" for number, each in enumerate(kinds))
    session.execute(f"CREATE TABLE {table} ({columns}, id INT PRIMARY KEY) ROW_FORMAT=DYNAMIC")
    for row in range(_ROWS):
        values = [each.make(random) if random.random() < 0.9 else "NULL" for each in kinds]
        session.attempt(f"INSERT INTO {table} VALUES ({', '.join(values)}, {row})")
    changes = [f"c{n} = {each.make(random)}" for n, each in enumerate(kinds) if n % 2]
    session.attempt(f"UPDATE {table} SET {', '.join(changes)} WHERE id % 3 = 0")
    session.execute(f"UPDATE {table} SET id = id + 100 WHERE id % 4 = 0")
    session.execute(f"DELETE FROM {table} WHERE id % 5 = 1")


def _read_tables(server: Server) -> Callable[[Collection[TableName]], ServerTables]:
    def read(names: Collection[TableName]) -> ServerTables:
        with closing(connect(server)) as connection:
            return read_server_tables(connection, names)

    return read


def _described(field: Field) -> tuple[str, str | None, str | None, bool, str | None]:
    return field.name, field.mysql_type, field.arrow_type, field.nullable, field.charset


def test_a_snapshot_equals_the_fold_of_the_complete_log(happened: Range) -> None:
    server, name = happened.server, happened.database.name
    for policies in _POLICIES:
        staged = stage(
            live(server),
            happened,
            policies=policies,
            tables=TableFilter([f"{name}.*"]),
            read_server_tables=_read_tables(server),
        )

        compared = sum(
            _compare(happened.database, staged, table, policies) for table in staged.manifest.tables
        )

        assert compared > _TABLES * _ROWS // 2
    _assert_replaced_values_are_counted(happened.database)


def _compare(database: Database, staged: Staged, table: TableChanges, policies: Policies) -> int:
    """Compare a table's snapshot with the fold of its log; return how many rows there are."""
    snapshot = take(database, table.table, policies=policies, created_by=repr(policies))
    parts = read_parts(new_store(), snapshot.parts)
    logged = read_parts(staged.store, table.parts)
    schema = table.schemas[-1]
    changes = [row for part in logged for row in part.to_pylist()]

    assert list(map(_described, snapshot.schema.fields)) == list(map(_described, schema.fields))
    assert snapshot.schema.key_names == schema.key_names
    assert types_of(parts) == types_of(logged)[:1]
    assert by_key(rows_of(parts), ("id",)) == fold([], changes, ("id",)), table.table
    return snapshot.rows


def _assert_replaced_values_are_counted(database: Database) -> None:
    (part,) = take(database, "edges").parts

    zero_dates = {
        f"c{number}": 3 if each.sql == "date" else 1
        for number, each in enumerate(TYPES)
        if each.sql.startswith(("date", "timestamp"))
    }
    assert part.replaced == zero_dates
    assert new_store().size(f"{SOURCE}/{part.path}") == part.bytes


def test_values_that_information_schema_cannot_print_are_those_of_select(
    database: Database,
) -> None:
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('\U0001f600', '?'), s SET('\U0001f600', 'b'))"
        " CHARACTER SET utf8mb4",
        "SET sql_mode = ''",
        "INSERT INTO t VALUES (1, 1, 3), (2, 2, 0), (3, 'neither', NULL)",
    )

    rows = rows_of(read_parts(new_store(), take(database, "t").parts))

    assert [tuple(row.values()) for row in rows] == [
        (1, "\U0001f600", "\U0001f600,b"),
        (2, "?", ""),
        (3, "", None),
    ]
