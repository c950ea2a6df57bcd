"""Which plan a column is read by: a case per type.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, Table_map_event (metadata by type).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_binlog.binlog.charsets import (
    BINARY,
    BINARY_COLLATION,
    charset_of,
    encode_ascii,
)
from airflow_provider_binlog.binlog.column_types import BLOBS, VARCHARS, ColumnType, type_name
from airflow_provider_binlog.blocks.arrays import of_octets
from airflow_provider_binlog.changes import InvalidText, ZeroDates
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.types import (
    addresses,
    binary,
    bits,
    compressed,
    decimals,
    enums,
    floats,
    integers,
    old_temporals,
    temporals,
    text,
    vectors,
)
from airflow_provider_binlog.rows.types.json import column as json
from airflow_provider_binlog.rows.values import Bytes, Gather, Plan, gather_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
    from airflow_provider_binlog.changes import Policies
    from airflow_provider_binlog.rows.values import Convert

BIT_WIDTH_MAX = 64

_METADATA_ADVICE = "set binlog_row_metadata=FULL on the server"

_ENUMS = (ColumnType.ENUM, ColumnType.SET)
_COMPRESSED = (ColumnType.VARCHAR_COMPRESSED, ColumnType.BLOB_COMPRESSED)
_TEXT = VARCHARS | BLOBS | {ColumnType.STRING}
_OLD_TEMPORALS = (ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP)


def plan_column(
    column: TableMapColumn, policies: Policies, *, allow_missing_metadata: bool
) -> Plan:
    """Return how the column's values are located and read.

    `allow_missing_metadata` is that of `compile_layout`.

    Raises:
        FormatError: There is no such column.
        UnsupportedError: The type is not decoded, or the log leaves out what it takes to read it.
    """
    kind, as_text = column.real_type, policies.zero_dates is ZeroDates.TEXT
    if kind in _PLANS:
        return _PLANS[kind](column)
    if kind in INTEGER_SIZES:
        return _integer_plan(column, allow_missing_metadata=allow_missing_metadata)
    if kind in _DATES:
        return _DATES[kind](column, as_text)
    if kind in _OLD_TEMPORALS:
        return _old_temporal_plan(column, as_text=as_text)
    if column.data_type in _INFORMATION_SCHEMA_TYPES:
        return _information_schema_plan(column)
    if kind in _TEXT or kind in _ENUMS:
        make = _text_plan if kind in _TEXT else _enum_plan
        return make(column, policies.invalid_text, allow_missing_metadata=allow_missing_metadata)
    raise UnsupportedError(
        "a column of this type is not decoded: leave the table out", type=type_name(kind)
    )


def column_charset(column: TableMapColumn) -> str | None:
    """Return the character set of a column of text, ENUM or SET; None for the others."""
    if column.real_type not in _ENUMS and column.real_type not in _TEXT:
        return None
    if column.collation is None or column.collation == BINARY_COLLATION:
        return None
    return charset_of(column.collation)


def _bit_plan(column: TableMapColumn) -> Plan:
    if not 1 <= column.bits <= BIT_WIDTH_MAX:
        raise FormatError("not a BIT", bits=column.bits)
    return bits.plan(column.bits)


INTEGER_SIZES: dict[int, int] = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}


def _integer_plan(column: TableMapColumn, *, allow_missing_metadata: bool) -> Plan:
    if column.unsigned is None and not allow_missing_metadata:
        raise UnsupportedError(
            f"the log does not contain the signedness of the column: {_METADATA_ADVICE}"
        )
    return integers.plan(INTEGER_SIZES[column.real_type], unsigned=bool(column.unsigned))


_PLANS: dict[int, Callable[[TableMapColumn], Plan]] = {
    ColumnType.FLOAT: lambda _: floats.float_plan(),
    ColumnType.DOUBLE: lambda _: floats.double_plan(),
    ColumnType.NEWDECIMAL: lambda column: decimals.plan(column.precision, column.scale),
    ColumnType.BIT: _bit_plan,
    ColumnType.YEAR: lambda _: integers.year_plan(),
    ColumnType.TIME2: lambda column: temporals.time_plan(column.fsp),
    ColumnType.GEOMETRY: lambda column: binary.plan(_prefix(column)),
    ColumnType.JSON: lambda column: json.plan(_prefix(column)),
    ColumnType.VECTOR: lambda column: Plan(vectors.VECTOR, vectors.vectors, prefix=_prefix(column)),
}

_DATES: dict[int, Callable[[TableMapColumn, bool], Plan]] = {
    ColumnType.DATE: lambda _, as_text: temporals.date_plan(as_text=as_text),
    ColumnType.NEWDATE: lambda _, as_text: temporals.date_plan(as_text=as_text),
    ColumnType.DATETIME2: lambda column, as_text: temporals.datetime_plan(
        column.fsp, as_text=as_text
    ),
    ColumnType.TIMESTAMP2: lambda column, as_text: temporals.timestamp_plan(
        column.fsp, as_text=as_text
    ),
}


def _old_temporal_plan(column: TableMapColumn, *, as_text: bool) -> Plan:
    fsp = column.datetime_precision
    if fsp is None:
        raise UnsupportedError(
            "a date or time in the format from before MySQL 5.6, whose size is not in the "
            "log: rebuild the table with ALTER TABLE ... FORCE, on MariaDB with "
            "mysql56_temporal_format=ON",
            type=type_name(column.real_type),
        )
    if column.real_type == ColumnType.TIME:
        return old_temporals.time_plan(fsp)
    if column.real_type == ColumnType.DATETIME:
        return old_temporals.datetime_plan(fsp, as_text=as_text)
    return old_temporals.timestamp_plan(fsp, as_text=as_text)


_INFORMATION_SCHEMA_TYPES: dict[str | None, tuple[pa.DataType, Convert, int]] = {
    "inet4": (pa.string(), addresses.inet4s, addresses.INET4_BYTES),
    "inet6": (pa.string(), addresses.inet6s, addresses.INET6_BYTES),
    "uuid": (pa.string(), addresses.uuids, addresses.UUID_BYTES),
    "vector": (vectors.VECTOR, vectors.vectors, 0),
}
"""By data type: how it is read, and how many bytes there are where it is always as many."""


def _information_schema_plan(column: TableMapColumn) -> Plan:
    arrow_type, convert, size = _INFORMATION_SCHEMA_TYPES[column.data_type]
    fixed = column.real_type == ColumnType.STRING
    if fixed != bool(size) or (size and column.bytes_max != size):
        raise FormatError(
            "information_schema and the log disagree on the type of a column",
            data_type=column.data_type,
            type=type_name(column.real_type),
            bytes=column.bytes_max,
        )
    return Plan(arrow_type, convert, prefix=_prefix(column))


def _text_plan(
    column: TableMapColumn, invalid_text: InvalidText, *, allow_missing_metadata: bool
) -> Plan:
    if column.collation is None and not allow_missing_metadata:
        raise UnsupportedError(
            f"the log does not contain the character set of the column: {_METADATA_ADVICE}"
        )
    prefix, charset = _prefix(column), column_charset(column)
    gather: Gather = gather_bytes
    growth = 1
    if column.real_type in _COMPRESSED:
        is_varchar = column.real_type == ColumnType.VARCHAR_COMPRESSED
        bytes_max = column.bytes_max if is_varchar else (1 << 8 * prefix) - 1
        gather, growth = partial(compressed.gather, bytes_max=bytes_max), compressed.GROWTH_MAX
    elif column.collation is None:
        return text.unknown_plan(prefix)
    if charset is not None and invalid_text is not InvalidText.BINARY:
        replaces = invalid_text is InvalidText.REPLACE
        return text.plan(prefix, charset, gather, growth, replaces=replaces)
    if charset is None and column.real_type == ColumnType.STRING:
        return binary.padded_plan(prefix, column.bytes_max)
    return binary.plan(prefix, gather, growth)


def _prefix(column: TableMapColumn) -> int:
    """Return the bytes of length before each value."""
    kind = column.real_type
    if kind in (ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VAR_STRING):
        return 1 if column.bytes_max <= 0xFF else 2
    if kind == ColumnType.VARCHAR_COMPRESSED:
        # The byte that says how a value is compressed counts as well.
        return 1 if column.bytes_max < 0xFF else 2
    if not 1 <= column.length_size <= 4:
        raise FormatError("not the size of a BLOB's length", size=column.length_size)
    return column.length_size


def _enum_plan(
    column: TableMapColumn, invalid_text: InvalidText, *, allow_missing_metadata: bool
) -> Plan:
    is_enum = column.real_type == ColumnType.ENUM
    logged = column.enum_values if is_enum else column.set_members
    if logged is None or column.collation is None:
        if allow_missing_metadata:
            return enums.number_plan(column.pack_size)
        raise UnsupportedError(
            f"the log does not contain the values of the column: {_METADATA_ADVICE}"
        )
    make = enums.enum_plan if is_enum else enums.set_plan
    return make(column.pack_size, _enum_values(logged, column.collation, invalid_text))


def _enum_values(
    logged: tuple[bytes, ...], collation: int, invalid_text: InvalidText
) -> enums.EnumValues:
    """Return the values in UTF-8, or as bytes if the column is binary or staged so."""
    array = of_octets(logged)
    charset, stored = charset_of(collation), Bytes.of(array)
    if charset == BINARY or invalid_text is InvalidText.BINARY:
        return enums.EnumValues(array, comma=encode_ascii(",", charset))
    if invalid_text is InvalidText.REPLACE:
        encoded, changed = text.replace_invalid(stored, charset)
        indexes = tuple(changed.nonzero()[0].tolist())
        return enums.EnumValues(encoded.array(pa.string(), None), indexes)
    return enums.EnumValues(text.to_utf8(stored, charset).array(pa.string(), None))
