"""A column's type as SQL writes it, from what its TABLE_MAP says.

Source: mysql-server, sql/field.cc, Field::sql_type of each type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.charsets import (
    BINARY_COLLATION,
    bytes_per_character,
    charset_of,
    decode_text,
)
from airflow_provider_binlog.binlog.column_types import BLOBS, VARCHARS, ColumnType, type_name
from airflow_provider_binlog.sql.column_types import GEOMETRIES, NUMBERS, SqlType

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

NAMES: dict[int, str] = {
    ColumnType.NULL: "null",
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.NEWDECIMAL: "decimal",
    ColumnType.BIT: "bit",
    ColumnType.YEAR: "year",
    **dict.fromkeys((ColumnType.DATE, ColumnType.NEWDATE), "date"),
    **dict.fromkeys((ColumnType.TIME, ColumnType.TIME2), "time"),
    **dict.fromkeys((ColumnType.DATETIME, ColumnType.DATETIME2), "datetime"),
    **dict.fromkeys((ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2), "timestamp"),
    ColumnType.ENUM: "enum",
    ColumnType.SET: "set",
    ColumnType.JSON: "json",
}
"""Types that have one name in SQL, whatever else a TABLE_MAP says of the column."""

_WITH_FSP = frozenset({ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2})
_FLOAT_BYTES = 4
_BLOB_PREFIX = {1: "tiny", 2: "", 3: "medium", 4: "long"}


def mysql_type(column: TableMapColumn) -> str:
    """Return the column's type as SQL writes it: `decimal(10,2)`, `bigint unsigned`, `varchar(40)`.

    What the TABLE_MAP leaves out is left out: `tinyint` for a BOOLEAN, no length for a VARCHAR of
    unknown character set, no values for an ENUM whose values were not logged.
    """
    return str(_sql_type(column))


def _sql_type(column: TableMapColumn) -> SqlType:
    kind = column.real_type
    if column.data_type in ("uuid", "inet4", "inet6"):
        return SqlType(column.data_type)
    if kind in BLOBS or kind in VARCHARS or kind == ColumnType.STRING:
        compressed = kind in (ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED)
        return replace(_string(column), compressed=compressed)
    if kind == ColumnType.GEOMETRY:
        number = column.geometry_type or 0
        return SqlType(GEOMETRIES[number] if number < len(GEOMETRIES) else GEOMETRIES[0])
    name = NAMES.get(kind, type_name(kind).lower())
    if kind == ColumnType.NEWDECIMAL:
        return SqlType(name, column.precision, column.scale, unsigned=bool(column.unsigned))
    return SqlType(
        name,
        column.bits if kind == ColumnType.BIT else column.vector_dimension,
        fsp=column.fsp if kind in _WITH_FSP else column.datetime_precision or 0,
        unsigned=bool(column.unsigned) and name in NUMBERS,
        values=_values(column),
    )


def _values(column: TableMapColumn) -> tuple[str, ...] | None:
    values = column.enum_values if column.real_type == ColumnType.ENUM else column.set_members
    if not values or column.collation is None:
        return None
    # The values of a binary ENUM are bytes, most often text all the same.
    binary = column.collation == BINARY_COLLATION
    charset = "utf8mb4" if binary else charset_of(column.collation)
    return tuple(decode_text(each, charset, errors="replace") for each in values)


def _string(column: TableMapColumn) -> SqlType:
    """Return a text or binary type: only the collation distinguishes the two."""
    binary = column.collation == BINARY_COLLATION
    if column.real_type in BLOBS:
        return SqlType(_BLOB_PREFIX.get(column.length_size, "") + ("blob" if binary else "text"))
    if column.data_type == "vector":
        return SqlType("vector", column.bytes_max // _FLOAT_BYTES)
    fixed = column.real_type == ColumnType.STRING
    name = ("binary" if fixed else "varbinary") if binary else ("char" if fixed else "varchar")
    if column.collation is None:
        return SqlType(name)
    return SqlType(name, column.bytes_max // bytes_per_character(charset_of(column.collation)))
