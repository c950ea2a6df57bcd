"""missing_metadata: what a TABLE_MAP leaves out is named where it changes what is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.binlog.charsets import BINARY_COLLATION
from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.cli.rows import missing_metadata
from tests.support import builder

MYSQL, MARIADB = (builder.parsed_format(each) for each in (builder.MYSQL, builder.MARIADB))
NAMED = TableMapColumn(ColumnType.LONG, b"", ColumnType.LONG, nullable=True, name="c")


def a(kind: ColumnType, metadata: bytes = b"", **said: object) -> TableMapColumn:
    return replace(NAMED, type_code=kind, real_type=kind, metadata=metadata, **said)  # type: ignore[arg-type]


BINARY_16 = a(ColumnType.STRING, bytes((ColumnType.STRING, 16)), collation=BINARY_COLLATION)
CASES = [
    (a(ColumnType.LONG, unsigned=False), ""),
    (a(ColumnType.LONG, unsigned=False, name=None), "how its columns are called"),
    (a(ColumnType.LONGLONG), "which integers are unsigned"),
    # Their bytes say the sign, or there is none.
    (a(ColumnType.NEWDECIMAL, b"\x0a\x02"), ""),
    (a(ColumnType.YEAR), ""),
    (a(ColumnType.VARCHAR, b"\x10\0"), "what is text"),
    (a(ColumnType.VARCHAR, b"\x10\0", collation=255), ""),
    (a(ColumnType.BLOB, b"\x02"), "what is text"),
    (a(ColumnType.ENUM, b"\xf7\x01", collation=255), "the values of ENUM and SET"),
    (a(ColumnType.ENUM, b"\xf7\x01", collation=255, enum_values=(b"a",)), ""),
    (a(ColumnType.SET, b"\xf8\x01", set_members=(b"a",)), "the values of ENUM and SET"),
]


@pytest.mark.parametrize(("column", "said"), CASES)
def test_what_is_left_out_is_said(column: TableMapColumn, said: str) -> None:
    table = TableMap(1, 0, "shop", "t", (column,), None)

    found = missing_metadata(table, MYSQL)

    assert len(found) == bool(said)
    assert all(each.startswith(said) for each in found)


def test_binary_may_be_another_type_of_mariadb() -> None:
    table = TableMap(1, 0, "shop", "t", (BINARY_16,), None)

    assert missing_metadata(table, MYSQL) == []
    assert missing_metadata(table, MARIADB) == [
        "whether what looks like BINARY is UUID, INET or VECTOR (it is printed as base64)"
    ]
