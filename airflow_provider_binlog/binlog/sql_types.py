"""A column's type as SQL writes it, from what its TABLE_MAP says.

Source: mysql-server, sql/field.cc, Field::sql_type of each type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.charsets import (
    BINARY_COLLATION,
    bytes_per_character,
    charset_of,
    decode_text,
)
from airflow_provider_binlog.binlog.column_types import BLOBS, VARCHARS, ColumnType, type_name

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

_NUMBERS = {
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
}
_PLAIN = {
    ColumnType.NULL: "null",
    ColumnType.DATE: "date",
    ColumnType.NEWDATE: "date",
    ColumnType.YEAR: "year",
    ColumnType.JSON: "json",
}
_OLD_TEMPORALS = {
    ColumnType.TIME: "time",
    ColumnType.DATETIME: "datetime",
    ColumnType.TIMESTAMP: "timestamp",
}
_FLOAT_BYTES = 4
_ENUMS = frozenset({ColumnType.ENUM, ColumnType.SET})
_TEMPORALS = {
    ColumnType.TIME2: "time",
    ColumnType.DATETIME2: "datetime",
    ColumnType.TIMESTAMP2: "timestamp",
}
_GEOMETRIES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
)
_BLOB_PREFIX = {1: "tiny", 2: "", 3: "medium", 4: "long"}


def mysql_type(column: TableMapColumn) -> str:
    """Return the column's type as SQL writes it: `decimal(10,2)`, `bigint unsigned`, `varchar(40)`.

    What the TABLE_MAP leaves out is left out: `tinyint` for a BOOLEAN, no length for a VARCHAR of
    unknown character set, no values for an ENUM whose values were not logged.
    """
    kind = column.real_type
    if kind in _NUMBERS:
        return _NUMBERS[ColumnType(kind)] + (" unsigned" if column.unsigned else "")
    if kind in _PLAIN:
        return _PLAIN[ColumnType(kind)]
    if kind in _ENUMS:
        return _enum(column)
    if column.data_type in ("uuid", "inet4", "inet6"):
        return column.data_type
    if kind in BLOBS or kind in VARCHARS or kind == ColumnType.STRING:
        return _string(column)
    return _with_parameters(column)


def _with_parameters(column: TableMapColumn) -> str:
    kind = column.real_type
    name = type_name(kind).lower()
    if kind == ColumnType.NEWDECIMAL:
        sign = " unsigned" if column.unsigned else ""
        name = f"decimal({column.precision},{column.scale}){sign}"
    elif kind in _TEMPORALS:
        name = _TEMPORALS[ColumnType(kind)] + (f"({column.fsp})" if column.fsp else "")
    elif kind in _OLD_TEMPORALS:
        digits = column.datetime_precision
        name = _OLD_TEMPORALS[ColumnType(kind)] + (f"({digits})" if digits else "")
    elif kind == ColumnType.BIT:
        name = f"bit({column.bits})"
    elif kind == ColumnType.VECTOR and column.vector_dimension is not None:
        name = f"vector({column.vector_dimension})"
    elif kind == ColumnType.GEOMETRY:
        name = _geometry(column.geometry_type or 0)
    return name


def _geometry(number: int) -> str:
    return _GEOMETRIES[number] if number < len(_GEOMETRIES) else "geometry"


def _enum(column: TableMapColumn) -> str:
    name = type_name(column.real_type).lower()
    values = column.enum_values if column.real_type == ColumnType.ENUM else column.set_members
    if values is None or column.collation is None:
        return name
    # The values of a binary ENUM are bytes, most often text all the same.
    binary = column.collation == BINARY_COLLATION
    charset = "utf8mb4" if binary else charset_of(column.collation)
    quoted = (
        "'" + decode_text(value, charset, errors="replace").replace("'", "''") + "'"
        for value in values
    )
    return f"{name}({','.join(quoted)})"


def _string(column: TableMapColumn) -> str:
    """Return the name of a text or binary type: only the collation distinguishes the two."""
    binary = column.collation == BINARY_COLLATION
    if column.real_type in BLOBS:
        name = _BLOB_PREFIX.get(column.length_size, "") + ("blob" if binary else "text")
    elif column.data_type == "vector":
        name = f"vector({column.bytes_max // _FLOAT_BYTES})"
    else:
        fixed = column.real_type == ColumnType.STRING
        name = ("binary" if fixed else "varbinary") if binary else ("char" if fixed else "varchar")
        if column.collation is not None:
            size = bytes_per_character(charset_of(column.collation))
            name = f"{name}({column.bytes_max // size})"
    compressed = column.real_type in (ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED)
    return f"{name} compressed" if compressed else name
