"""What carries row changes and is not decoded: real servers write it, the scanner refuses it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.header import event_name
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.errors import UnsupportedError
from tests.fixtures.mysql import Database, flush_log
from tests.reference.events import Event, read_file
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable


TABLES = [
    "CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, a varchar(2000))",
    "CREATE TABLE documents (id int PRIMARY KEY, j json)",
    "INSERT INTO documents VALUES (1, JSON_OBJECT('a', REPEAT('x', 900), 'b', 1))",
    """CREATE FUNCTION adds() RETURNS int DETERMINISTIC MODIFIES SQL DATA
    BEGIN INSERT INTO t (a) VALUES ('f'); RETURN 1; END""",
]
STATEMENT = "SET SESSION binlog_format = STATEMENT"

# Server, session settings, the statement, the event that is refused, what the error says.
CASES = [
    ("both", [STATEMENT], "INSERT INTO t (a) VALUES ('x')", "", "STATEMENT or MIXED"),
    ("both", [STATEMENT, "SET @v = 'x'"], "INSERT INTO t (a) VALUES (@v)", "USER_VAR", "MIXED"),
    ("both", [STATEMENT], "UPDATE t SET a = RAND()", "RAND", "MIXED"),
    ("both", [STATEMENT], "SELECT adds()", "INTVAR", "MIXED"),
    ("both", [STATEMENT], "CREATE TABLE u AS SELECT * FROM documents", "", "MIXED"),
]


def run(
    create_database: Callable[[Server], Database], server: Server, settings: list[str], sql: str
) -> tuple[set[str], UnsupportedError]:
    """Execute `sql` under `settings`; return the names of all events, and what was refused."""
    database = create_database(server)
    database.execute(*TABLES)
    file = flush_log(server)
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO t (a) VALUES ('decoded')")
        for statement in [*settings, sql]:
            cursor.execute(statement)
    database.execute("FLUSH BINARY LOGS")
    events = list(read_file((server.data / file).read_bytes()))
    with pytest.raises(UnsupportedError) as refused:
        scan(events)
    return {event_name(event.header.type) for event in events}, refused.value


def scan(events: list[Event]) -> None:
    """Feed everything to a scanner."""
    scanner = TransactionScanner()
    for event in events:
        scanner.feed(event.header, event.body, event.format)


@pytest.mark.parametrize("name", ["mysql97", "mariadb1011"])
@pytest.mark.parametrize(
    ("where", "settings", "sql", "event", "hint"), CASES, ids=[case[2][:30] for case in CASES]
)
def test_it_is_refused_with_what_to_change(  # noqa: PLR0917
    name: str,
    where: str,
    settings: list[str],
    sql: str,
    event: str,
    hint: str,
    request: pytest.FixtureRequest,
    create_database: Callable[[Server], Database],
) -> None:
    if where not in {"both", name}:
        pytest.skip(f"only {where} has it")

    names, refused = run(create_database, request.getfixturevalue(name), settings, sql)

    assert hint in str(refused)
    assert not event or event in names
    if hint.endswith("MIXED"):
        assert str(refused.context["statement"]).startswith(sql[:6])
        assert refused.context["database"]
