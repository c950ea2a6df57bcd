"""information_schema: what its texts mean."""

from __future__ import annotations

import pickle

import pytest

from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.server.information_schema import (
    ServerTable,
    ServerTables,
    _column,
)
from airflow_provider_binlog.transport.server.server_column import ServerColumn


def row(data_type: str, column_type: str, **others: object) -> dict[str, object]:
    return {
        "name": "c",
        "data_type": data_type,
        "column_type": column_type,
        "nullable": "YES",
        "charset": None,
        "octets": None,
        "num_precision": None,
        "num_scale": None,
        "fsp": None,
        "extra": "",
    } | others


@pytest.mark.parametrize(
    ("printed", "column"),
    [
        (
            row("bigint", "bigint(20) unsigned zerofill", nullable="NO", num_precision=20),
            ServerColumn("c", "bigint", nullable=False, unsigned=True, precision=20),
        ),
        (
            row("enum", "enum('unsigned')", charset="utf8"),
            ServerColumn("c", "enum", True, charset="utf8mb3", values=("unsigned",)),
        ),
        # MySQL has no character set for a binary ENUM.
        (
            row("enum", "enum('a')"),
            ServerColumn("c", "enum", True, charset="binary", values=("a",)),
        ),
        (row("uuid", "uuid"), ServerColumn("c", "uuid", True, charset="binary")),
        (
            row("binary", "binary(3)", octets=3, extra="INVISIBLE"),
            ServerColumn("c", "binary", True, charset="binary", octets=3, visible=False),
        ),
        (
            row("int", "int", extra="STORED GENERATED INVISIBLE"),
            ServerColumn("c", "int", True, generated=True, visible=False),
        ),
        (
            row("datetime", "datetime(3)", fsp=3, extra="DEFAULT_GENERATED on update"),
            ServerColumn("c", "datetime", True, fsp=3),
        ),
    ],
)
def test_a_column(printed: dict[str, object], column: ServerColumn) -> None:
    assert _column(printed) == column


def test_it_is_a_plain_value() -> None:
    column = ServerColumn("id", "int", nullable=False)
    table = ServerTable((column,), (("id", 0),), primary=True, others=False)
    catalog = ServerTables(Position("binlog.000001", 4), {("shop", "t"): table})

    assert pickle.loads(pickle.dumps(catalog)) == catalog
