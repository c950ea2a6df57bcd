"""SQL types: what DESCRIBE prints, as far as the TABLE_MAP contains it."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType, mysql_type, real_type
from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


def typed(code: int, metadata: bytes = b"", **more: object) -> str:
    kind = real_type(code, metadata)
    return mysql_type(TableMapColumn(code, metadata, kind, nullable=True, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "metadata", "more", "sql"),
    [
        (ColumnType.TINY, b"", {"unsigned": True}, "tinyint unsigned"),
        (ColumnType.LONGLONG, b"", {"unsigned": False}, "bigint"),
        (ColumnType.LONG, b"", {}, "int"),
        (ColumnType.NEWDECIMAL, b"\x41\x1e", {"unsigned": True}, "decimal(65,30) unsigned"),
        (ColumnType.BIT, b"\x01\x01", {}, "bit(9)"),
        (ColumnType.TIME2, b"\x03", {}, "time(3)"),
        (ColumnType.DATETIME2, b"\x00", {}, "datetime"),
        (ColumnType.YEAR, b"", {"unsigned": True}, "year"),
        (ColumnType.VARCHAR, b"\xa0\x00", {"collation": 255}, "varchar(40)"),
        (ColumnType.VARCHAR, b"\xa0\x00", {"collation": 63}, "varbinary(160)"),
        (ColumnType.VARCHAR, b"\xa0\x00", {}, "varchar"),
        (ColumnType.VARCHAR_COMPRESSED, b"\x29\x00", {"collation": 8}, "varchar(40) compressed"),
        (ColumnType.STRING, b"\xfe\x10", {"collation": 63}, "binary(16)"),
        (ColumnType.STRING, b"\xce\xfc", {"collation": 255}, "char(255)"),
        (ColumnType.BLOB, b"\x01", {"collation": 63}, "tinyblob"),
        (ColumnType.BLOB, b"\x04", {"collation": 45}, "longtext"),
        (ColumnType.BLOB_COMPRESSED, b"\x02", {"collation": 63}, "blob compressed"),
        (ColumnType.GEOMETRY, b"\x04", {"geometry_type": 7}, "geomcollection"),
        (ColumnType.GEOMETRY, b"\x04", {"geometry_type": 99}, "geometry"),
        (ColumnType.VECTOR, b"\x04", {"vector_dimension": 3}, "vector(3)"),
        (ColumnType.JSON, b"\x04", {}, "json"),
        (ColumnType.STRING, b"\xf7\x01", {}, "enum"),
        (
            ColumnType.STRING,
            b"\xf7\x01",
            {"collation": 8, "enum_values": (b"it's", b"\xfc")},
            "enum('it''s','ü')",
        ),
        (
            ColumnType.STRING,
            b"\xf7\x01",
            {"collation": 63, "enum_values": (b"a", b"\xff")},
            "enum('a','\ufffd')",
        ),
        (ColumnType.DECIMAL, b"\x0a\x02", {}, "decimal"),
    ],
)
def test_the_type_as_sql(code: int, metadata: bytes, more: dict[str, object], sql: str) -> None:
    assert typed(code, metadata, **more) == sql
