"""information_schema: what its texts mean."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from pymysql.constants import ER

from airflow_provider_binlog.errors import SourceError, TableLockedError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sql.columns import Facts, PartialColumn
from airflow_provider_binlog.transport.server import information_schema
from airflow_provider_binlog.transport.server.information_schema import (
    ServerTables,
    _column,
    hold_table,
)
from airflow_provider_binlog.transport.server.queries import parse_version
from tests.support.server_tables import server_column, server_facts, server_table


def row(data_type: str, column_type: str, **others: object) -> dict[str, object]:
    return {
        "name": "c",
        "data_type": data_type,
        "column_type": column_type,
        "nullable": "YES",
        "charset": None,
        "octets": None,
        "extra": "",
        "printed": None,
        "comment": "",
    } | others


@pytest.mark.parametrize(
    ("printed", "facts"),
    [
        (
            row("bigint", "bigint(20) unsigned zerofill", nullable="NO"),
            server_facts("bigint", nullable=False, unsigned=True),
        ),
        (
            row("enum", "enum('unsigned')", charset="utf8"),
            server_facts("enum", charset="utf8mb3", values=("unsigned",)),
        ),
        # MySQL has no character set for a binary ENUM.
        (
            row("enum", "enum('a')"),
            server_facts("enum", charset="binary", values=("a",)),
        ),
        # It prints in utf8mb3, and `?` for characters that this does not hold.
        (
            row("enum", "enum('a','?')", charset="latin1"),
            server_facts("enum", charset="latin1", values=("a", "?")),
        ),
        (row("set", "set('a','?')", charset="utf8mb4"), server_facts("set", charset="utf8mb4")),
        (row("year", "year(2)"), server_facts("year(2)")),
        (row("year", "year(4)"), server_facts("year")),
        (row("uuid", "uuid"), server_facts("uuid", charset="binary")),
        (row("decimal", "decimal(6,2)"), server_facts("decimal", precision=6, scale=2)),
        (row("bit", "bit(9)"), server_facts("bit", precision=9)),
        (row("time", "time /* mariadb-5.3 */"), server_facts("time", fsp=0)),
        (
            row("binary", "binary(3)", octets=3, extra="INVISIBLE"),
            server_facts("binary", charset="binary", octets=3, visible=False),
        ),
        (
            row("int", "int", extra="STORED GENERATED INVISIBLE"),
            server_facts("int", generated=True, visible=False),
        ),
        (row("int", "int", extra="auto_increment"), server_facts("int", auto_increment=True)),
        (
            row("datetime", "datetime(3)", extra="DEFAULT_GENERATED on update"),
            server_facts("datetime", fsp=3),
        ),
    ],
)
def test_a_column(printed: dict[str, object], facts: Facts) -> None:
    # A server whose defaults cannot be read.
    assert _column(printed, parse_version("10.1.48-MariaDB")) == PartialColumn("c", facts)


def test_it_is_a_plain_value() -> None:
    table = server_table(server_column("id"))
    catalog = ServerTables(Position("binlog.000001", 4), {("shop", "t"): table})

    assert pickle.loads(pickle.dumps(catalog)) == catalog


@pytest.mark.parametrize("code", [ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK])
def test_a_table_that_another_session_locks_is_held_later(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadlock ends the transaction: the tables that it held are held no more."""

    def refuse(*_: object) -> list[Any]:
        raise SourceError("the server refused", code=code)

    monkeypatch.setattr(information_schema, "query", refuse)
    connection: Any = SimpleNamespace()

    with pytest.raises(TableLockedError, match="another session holds it") as raised:
        hold_table(connection, ("shop", "orders"))
    assert raised.value.retryable
