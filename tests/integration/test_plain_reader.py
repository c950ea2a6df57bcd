"""The plain reader on files that real servers wrote: it finds what SHOW BINLOG EVENTS shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.column_types import mysql_type
from airflow_provider_binlog.binlog.events.control import Rotate
from airflow_provider_binlog.binlog.events.gtid import (
    Gtid,
    read_gtid_list,
)
from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import ROWS, EventType, show_name
from airflow_provider_binlog.binlog.transactions import GroupEnd, TransactionScanner
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.statement_types import StatementType
from tests.fixtures.mysql import Database, flush_log
from tests.reference.events import Event, read_file
from tests.reference.rows_header import RowsHeader

if TYPE_CHECKING:
    from collections.abc import Callable


TABLE = """
CREATE TABLE every (
    id bigint unsigned PRIMARY KEY, tiny tinyint, small smallint unsigned, medium mediumint,
    plain int unsigned, f float, d double unsigned, amount decimal(20,6), bits bit(9), y year,
    day date, at time(3), moment datetime(6), seen timestamp NULL,
    name varchar(40), fixed char(7) CHARACTER SET ucs2, code binary(5), raw varbinary(300),
    note mediumtext CHARACTER SET latin1, blobs longblob, place point,
    size enum('s','grün') CHARACTER SET latin1, tags set('x','y')
)
"""
TYPES = [
    *("bigint unsigned", "tinyint", "smallint unsigned", "mediumint", "int unsigned"),
    *("float", "double unsigned", "decimal(20,6)", "bit(9)", "year", "date", "time(3)"),
    *("datetime(6)", "timestamp", "varchar(40)", "char(7)", "binary(5)", "varbinary(300)"),
    *("mediumtext", "longblob", "point", "enum('s','grün')", "set('x','y')"),
]

COMMON = [
    TABLE,
    "CREATE TABLE parts (a varchar(20), b int, c text, PRIMARY KEY (b, a(7)))",
    "CREATE TABLE untransactional (a int) ENGINE=MyISAM",
    "INSERT INTO every (id, name) VALUES (1, 'ü'), (2, NULL)",
    "UPDATE every SET name = 'z', size = 'grün'",
    "DELETE FROM every WHERE id = 1",
    "INSERT INTO parts VALUES ('a', 1, 'b')",
    "CREATE TABLE copied SELECT * FROM parts",
    "CREATE TEMPORARY TABLE passing (a int)",
    "BEGIN",
    "INSERT INTO every (id) VALUES (5)",
    "SAVEPOINT s1",
    "INSERT INTO every (id) VALUES (6)",
    "ROLLBACK TO s1",
    "INSERT INTO parts VALUES ('c', 2, NULL)",
    "COMMIT",
    "DROP TEMPORARY TABLE passing",
    "BEGIN",
    "INSERT INTO untransactional VALUES (1)",
    "INSERT INTO every (id) VALUES (7)",
    "ROLLBACK",
    "XA START 'a','b',3",
    "INSERT INTO every (id) VALUES (8)",
    "XA END 'a','b',3",
    "XA PREPARE 'a','b',3",
    "XA COMMIT 'a','b',3",
    "XA START 'c'",
    "INSERT INTO every (id) VALUES (9)",
    "XA END 'c'",
    "XA COMMIT 'c' ONE PHASE",
    "ANALYZE TABLE every",
    "FLUSH TABLES",
    "CREATE VIEW seen AS SELECT id FROM every",
    "ALTER /* DELETE */ TABLE parts ADD d int",
    "TRUNCATE TABLE untransactional",
    "DROP TABLE copied",
]
OWN = {
    Flavor.MYSQL: [
        "CREATE TABLE vectors (v vector(3), hidden int INVISIBLE)",
        "INSERT INTO vectors (v) VALUES (TO_VECTOR('[1,2,3]'))",
        "SET SESSION binlog_rows_query_log_events = ON",
        "INSERT INTO every (id) VALUES (10)",
        "SET gtid_next = 'AUTOMATIC:nightly'",
        "INSERT INTO every (id) VALUES (11)",
        "SET gtid_next = 'AUTOMATIC'",
    ],
    Flavor.MARIADB: [
        "CREATE SEQUENCE numbers",
        "SELECT NEXTVAL(numbers)",
        "DROP SEQUENCE numbers",
        "SET SESSION binlog_alter_two_phase = ON",
        "ALTER TABLE parts ADD e int",
        "SET STATEMENT sql_mode = '' FOR ALTER TABLE parts ADD f int",
    ],
}


@dataclass
class Log:
    """One closed file: what we read, and what the server shows."""

    events: list[Event]
    shown: list[tuple[str, int, str, int, int, str]]
    flavor: Flavor
    database: str
    tables: dict[str, TableMap] = field(default_factory=dict)


@pytest.fixture
def log(database: Database) -> Log:
    """A file that holds every kind of event which a server in row format writes."""
    maria = database.server.name.startswith("mariadb")
    flavor = Flavor.MARIADB if maria else Flavor.MYSQL
    file = flush_log(database.server)
    database.execute(*COMMON, *OWN[flavor])
    database.execute("FLUSH BINARY LOGS")
    shown = database.query(f"SHOW BINLOG EVENTS IN '{file}'")
    data = (database.server.data / file).read_bytes()
    log = Log(list(read_file(data)), shown, flavor, database.name)
    for event in log.events:
        if event.header.type == EventType.TABLE_MAP:
            table = TableMap.parse(event.body, event.format)
            log.tables.setdefault(table.table, table)
    return log


def test_offsets_and_types_are_those_of_show_binlog_events(log: Log) -> None:
    ours = [(e.offset, show_name(e.header.type), e.header.server_id) for e in log.events]

    assert ours == [(pos, name, server) for _, pos, name, server, _, _ in log.shown]
    # MariaDB 11.8 shows 0 inside transactions, as it writes there.
    ends = zip(log.events, log.shown, strict=True)
    assert not [event for event, (*_, end, _) in ends if end not in (0, event.end)]


def of_table(table: TableMap) -> str:
    return f"table_id: {table.table_id} ({table.database}.{table.table})"


# Event type -> what the server's description must hold.
INFO: dict[int, Callable[[Event], str]] = {
    EventType.FORMAT_DESCRIPTION: lambda e: e.format.server_version,
    EventType.ROTATE: lambda e: Rotate.parse(e.body, e.format).file,
    EventType.QUERY: lambda e: Query.parse(e.body, e.format).sql,
    EventType.TABLE_MAP: lambda e: of_table(TableMap.parse(e.body, e.format)),
    EventType.GTID: lambda e: f"'{Gtid.parse(e.header, e.body).text}'",
    EventType.GTID_TAGGED: lambda e: f"'{Gtid.parse(e.header, e.body).text}'",
    EventType.PREVIOUS_GTIDS: lambda e: str(GtidSet.decode(e.body)).replace(",", ",\n"),
    EventType.MARIADB_GTID: lambda e: str(Gtid.parse(e.header, e.body).text),
    EventType.MARIADB_GTID_LIST: lambda e: str(
        MariadbGtidPosition.of(read_gtid_list(e.body, e.format))
    ),
}


def test_contents_are_those_of_show_binlog_events(log: Log) -> None:
    described = 0
    for event, (*_, info) in zip(log.events, log.shown, strict=True):
        kind = event.header.type
        if kind in INFO:
            assert INFO[kind](event) in info
            described += 1
        if kind in ROWS:
            header = RowsHeader.parse(kind, event.body, event.format)
            assert f"table_id: {header.table_id}" in info

    assert described > len(log.events) // 2


def test_groups_are_whole(log: Log) -> None:
    scanner, ends, kinds = TransactionScanner(), [], set()
    for event in log.events:
        scanned = scanner.feed(event.header, event.body, event.format)
        if scanned.end is not None:
            ends.append(scanned.end)
        kinds.add(scanned.statement_type)

    assert scanner.at_boundary
    assert not scanner.skipped
    assert {
        GroupEnd.COMMITTED,
        GroupEnd.STATEMENT,
        GroupEnd.PREPARED,
        GroupEnd.XA_COMMITTED,
    } == set(ends)
    assert {StatementType.DDL, StatementType.OTHER, StatementType.XA_END} <= kinds


def test_table_maps_describe_the_tables(log: Log) -> None:
    every, parts = log.tables["every"], log.tables["parts"]

    assert every.database == log.database
    assert [mysql_type(column) for column in every.columns] == TYPES
    assert [column.nullable for column in every.columns] == [False] + [True] * 22
    assert every.columns[21].enum_values == (b"s", "grün".encode("latin-1"))
    assert every.primary_key == ((0, 0),)
    assert parts.primary_key == ((1, 0), (0, 7))
    assert log.tables["untransactional"].primary_key is None
    if log.flavor is Flavor.MYSQL:
        vector, hidden = log.tables["vectors"].columns
        assert mysql_type(vector) == "vector(3)"
        assert (vector.visible, hidden.visible) == (True, False)


def test_row_images_of_whole_rows_are_full(log: Log) -> None:
    headers = [
        RowsHeader.parse(event.header.type, event.body, event.format)
        for event in log.events
        if event.header.type in ROWS
    ]

    assert headers
    assert all(header.full for header in headers)
