"""What a TABLE_MAP says about a column's type: a code, and up to two bytes of metadata.

Source: mysql-server, include/field_types.h and libs/mysql/binlog/event/binary_log_funcs.cpp;
mariadb, sql/field.h and sql/sql_type_string.cc for the compressed types.
"""

from __future__ import annotations

from enum import IntEnum

from airflow_provider_binlog.errors import UnsupportedError


class ColumnType(IntEnum):
    """Type codes in a TABLE_MAP. ENUM and SET stand there as STRING: see `real_type`."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_T = ColumnType
_METADATA_WIDTH: dict[int, int] = {
    **dict.fromkeys((_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.NULL, _T.YEAR), 0),
    **dict.fromkeys((_T.DATE, _T.NEWDATE, _T.TIME, _T.DATETIME, _T.TIMESTAMP), 0),
    **dict.fromkeys((_T.FLOAT, _T.DOUBLE, _T.TIME2, _T.DATETIME2, _T.TIMESTAMP2), 1),
    **dict.fromkeys((_T.TINY_BLOB, _T.BLOB, _T.MEDIUM_BLOB, _T.LONG_BLOB), 1),
    **dict.fromkeys((_T.BLOB_COMPRESSED, _T.JSON, _T.GEOMETRY, _T.VECTOR), 1),
    **dict.fromkeys((_T.DECIMAL, _T.NEWDECIMAL, _T.BIT, _T.ENUM, _T.SET, _T.STRING), 2),
    **dict.fromkeys((_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED), 2),
}

NUMERIC = frozenset(
    {
        *(_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR),
        *(_T.FLOAT, _T.DOUBLE, _T.DECIMAL, _T.NEWDECIMAL),
    }
)
"""Types with a bit in SIGNEDNESS."""

BLOBS = frozenset({_T.TINY_BLOB, _T.BLOB, _T.MEDIUM_BLOB, _T.LONG_BLOB, _T.BLOB_COMPRESSED})
"""BLOB and TEXT of all sizes; MariaDB's JSON too."""

VARCHARS = frozenset({ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.VARCHAR_COMPRESSED})
"""VARCHAR and VARBINARY."""


def metadata_width(type_code: int) -> int:
    """Return how many bytes of metadata a column of this type has.

    Raises:
        UnsupportedError: The code is none that a row image can hold.
    """
    width = _METADATA_WIDTH.get(type_code)
    if width is None:
        raise UnsupportedError(
            "a column type that no known server logs: leave the table out",
            type=type_name(type_code),
        )
    return width


def type_name(type_code: int) -> str:
    """Return the code's name, `UNKNOWN_99` for one without."""
    try:
        return ColumnType(type_code).name
    except ValueError:
        return f"UNKNOWN_{type_code}"


def real_type(type_code: int, metadata: bytes) -> int:
    """Return the type code that the metadata of a STRING hides: ENUM, SET or STRING itself.

    A CHAR of more than 255 bytes keeps bits 8 and 9 of its length, inverted, in the code's bits
    0x30, which are otherwise set. Source: binary_log_funcs.cpp, max_display_length_for_field.
    """
    if type_code != ColumnType.STRING:
        return type_code
    return metadata[0] | 0x30


def string_bytes_max(metadata: bytes) -> int:
    """Return the most bytes that a CHAR or BINARY with this metadata holds."""
    return metadata[1] | ((metadata[0] & 0x30) ^ 0x30) << 4
