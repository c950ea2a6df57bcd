"""Snapshots under settings of a server, and of its tables, that change what SELECT returns."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.mysql import Database, query
from tests.integration.test_snapshot import fill, read
from tests.support.snapshots import by_key, take

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.servers import Server

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

    with with_globals(database.server, sql_select_limit=7):
        taken = take(database, "numbers", chunk_bytes=_CHUNK_BYTES)

    assert by_key(read(taken), ("id",)).keys() == {(number,) for number in range(_ROWS)}
    assert len(taken.manifest.chunks) > 1
    assert len(taken.manifest.schema.fields) == 13


def test_limits_of_time_do_not_end_what_is_read(database: Database) -> None:
    fill(database)
    mariadb = database.server.name.startswith("mariadb")
    limit = {"max_statement_time": 0.001} if mariadb else {"max_execution_time": 1}

    with with_globals(database.server, **limit):
        taken = take(database, "numbers", where="SLEEP(0.0001) = 0")

    assert taken.manifest.rows == _ROWS


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

    *full, last = (chunk.rows for chunk in taken.manifest.chunks)
    assert taken.manifest.rows == _ROWS
    assert len(set(full)) == 1
    assert last < full[0]
