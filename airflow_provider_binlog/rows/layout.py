"""How the rows of one table read, compiled once per table map; nothing per row looks at metadata.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, Table_map_event (metadata by type).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_binlog import manifest
from airflow_provider_binlog.binlog.charsets import BINARY_COLLATION, charset_of
from airflow_provider_binlog.binlog.column_types import ColumnType, type_name
from airflow_provider_binlog.binlog.sql_types import mysql_type
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.rows import (
    binary,
    bits,
    decimals,
    floats,
    integers,
    labels,
    temporals,
    text,
)
from airflow_provider_binlog.rows.values import Array, Bytes, Plan
from airflow_provider_binlog.rows.walk import Route, compile_route

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.table_map import TableMap, TableMapColumn

BIT_WIDTH_MAX = 64

_METADATA_ADVICE = "set binlog_row_metadata=FULL on the server"

_LABELLED = (ColumnType.ENUM, ColumnType.SET)
_TEXT = (
    ColumnType.STRING,
    ColumnType.VARCHAR,
    ColumnType.VAR_STRING,
    ColumnType.TINY_BLOB,
    ColumnType.MEDIUM_BLOB,
    ColumnType.LONG_BLOB,
    ColumnType.BLOB,
)
_OLD_TEMPORALS = (ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP)


@dataclass(frozen=True)
class ColumnLayout:
    """One column of a row image.

    Attributes:
        name: As the log has it; `@1`, `@2` ... where it has none.
        mysql_type: The type as SQL writes it.
        nullable: Whether the column may hold NULL.
        charset: Character set of text, ENUM and SET; None for the others.
        plan: How its values are located and read.
        logged: What the table map says about it.
    """

    name: str
    mysql_type: str
    nullable: bool
    charset: str | None
    plan: Plan
    logged: TableMapColumn

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the decoded values."""
        return self.plan.arrow_type


@dataclass(frozen=True)
class RowLayout:
    """One shape of one table.

    Attributes:
        database, table: Names as the server has them.
        columns: In the table's order.
        key: Indexes of the primary key's columns in key order; empty where the log names no key.
        named: Whether the log names the columns.
        route: How to walk its row images.
    """

    database: str
    table: str
    columns: tuple[ColumnLayout, ...]
    key: tuple[int, ...]
    named: bool
    route: Route

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as decoded: all nullable, since what no lake type holds becomes NULL."""
        return pa.schema([pa.field(column.name, column.arrow_type) for column in self.columns])

    def manifest_schema(self) -> manifest.Schema:
        """Return this shape as a manifest names it."""
        return manifest.Schema(
            columns=tuple(
                manifest.Column(
                    name=column.name,
                    mysql_type=column.mysql_type,
                    arrow_type=str(column.arrow_type),
                    nullable=column.nullable,
                    charset=column.charset,
                )
                for column in self.columns
            ),
            key=tuple(self.columns[index].name for index in self.key),
        )


def compile_layout(table_map: TableMap, *, unnamed_ok: bool = False) -> RowLayout:
    """Return how to read the rows of this table.

    Under `unnamed_ok` what the log leaves out is done without, for looking at a log: integers
    without a sign bit are signed, ENUM and SET without labels are numbers, and a value that may be
    text is text if it is UTF-8. Names are `@1`, `@2` ... either way; see `RowLayout.named`.

    Raises:
        FormatError: The table map describes no table.
        UnsupportedError: A column's type is not decoded, or the log leaves out what it takes to
            read it.
    """
    if not table_map.columns:
        raise FormatError("a table without columns", table=_full_name(table_map))
    columns = tuple(
        _compile_column(table_map, index, unnamed_ok=unnamed_ok)
        for index in range(len(table_map.columns))
    )
    return RowLayout(
        database=table_map.database,
        table=table_map.table,
        columns=columns,
        key=tuple(index for index, _prefix in table_map.primary_key or ()),
        named=table_map.has_names,
        route=compile_route([column.plan for column in columns]),
    )


def _full_name(table_map: TableMap) -> str:
    return f"{table_map.database}.{table_map.table}"


def _compile_column(table_map: TableMap, index: int, *, unnamed_ok: bool) -> ColumnLayout:
    logged = table_map.columns[index]
    name = logged.name if logged.name is not None else f"@{index + 1}"
    try:
        plan = _plan(logged, unnamed_ok=unnamed_ok)
        charset = _charset(logged)
        sql_type = mysql_type(logged)
    except BinlogError as error:
        error.context |= {"table": _full_name(table_map), "column": name}
        raise
    return ColumnLayout(name, sql_type, logged.nullable, charset, plan, logged)


def _charset(column: TableMapColumn) -> str | None:
    """Return the character set of a column of text, ENUM or SET."""
    if column.real_type not in _LABELLED and column.real_type not in _TEXT:
        return None
    if column.collation is None or column.collation == BINARY_COLLATION:
        return None
    return charset_of(column.collation)


def _plan(column: TableMapColumn, *, unnamed_ok: bool) -> Plan:
    kind = column.real_type
    if kind in _PLANS:
        return _PLANS[kind](column)
    if kind in _INTEGER_SIZES:
        if column.unsigned is None and not unnamed_ok:
            raise UnsupportedError(
                f"the log does not say whether the column is signed: {_METADATA_ADVICE}"
            )
        return integers.plan(_INTEGER_SIZES[kind], unsigned=bool(column.unsigned))
    if kind in _TEXT:
        return _text_plan(column, unnamed_ok=unnamed_ok)
    if kind in _LABELLED:
        return _label_plan(column, unnamed_ok=unnamed_ok)
    if kind in _OLD_TEMPORALS:
        raise UnsupportedError(
            "a date or time in the format from before MySQL 5.6 is not decoded: rebuild the table "
            "with ALTER TABLE ... FORCE, on MariaDB with mysql56_temporal_format=ON",
            type=type_name(kind),
        )
    raise UnsupportedError(
        "a column of this type is not decoded: leave the table out", type=type_name(kind)
    )


def _bit_plan(column: TableMapColumn) -> Plan:
    if not 1 <= column.bits <= BIT_WIDTH_MAX:
        raise FormatError("not a BIT", bits=column.bits)
    return bits.plan(column.bits)


_INTEGER_SIZES: dict[int, int] = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}

_PLANS: dict[int, Callable[[TableMapColumn], Plan]] = {
    ColumnType.FLOAT: lambda _: floats.float_plan(),
    ColumnType.DOUBLE: lambda _: floats.double_plan(),
    ColumnType.NEWDECIMAL: lambda column: decimals.plan(column.precision, column.scale),
    ColumnType.BIT: _bit_plan,
    ColumnType.YEAR: lambda _: integers.year_plan(),
    ColumnType.DATE: lambda _: temporals.date_plan(),
    ColumnType.NEWDATE: lambda _: temporals.date_plan(),
    ColumnType.TIME2: lambda column: temporals.time_plan(column.fsp),
    ColumnType.DATETIME2: lambda column: temporals.datetime_plan(column.fsp),
    ColumnType.TIMESTAMP2: lambda column: temporals.timestamp_plan(column.fsp),
}


def _text_plan(column: TableMapColumn, *, unnamed_ok: bool) -> Plan:
    prefix = _prefix(column)
    if column.collation is None:
        if unnamed_ok:
            return text.unknown_plan(prefix)
        raise UnsupportedError(
            f"the log does not say the column's character set: {_METADATA_ADVICE}"
        )
    if column.collation != BINARY_COLLATION:
        return text.plan(prefix, charset_of(column.collation))
    if column.real_type == ColumnType.STRING:
        return binary.padded_plan(prefix, column.bytes_max)
    return binary.plan(prefix)


def _prefix(column: TableMapColumn) -> int:
    """Return the bytes of length before each value."""
    if column.real_type in (ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VAR_STRING):
        return 1 if column.bytes_max <= 0xFF else 2
    if not 1 <= column.length_size <= 4:
        raise FormatError("not the size of a BLOB's length", size=column.length_size)
    return column.length_size


def _label_plan(column: TableMapColumn, *, unnamed_ok: bool) -> Plan:
    is_enum = column.real_type == ColumnType.ENUM
    logged = column.enum_labels if is_enum else column.set_labels
    if logged is None or column.collation is None:
        if unnamed_ok:
            return labels.number_plan(column.pack_size)
        raise UnsupportedError(f"the log does not name the labels: {_METADATA_ADVICE}")
    make = labels.enum_plan if is_enum else labels.set_plan
    return make(column.pack_size, _label_array(logged, column.collation))


def _label_array(logged: tuple[bytes, ...], collation: int) -> Array:
    """Return the labels in UTF-8, or as bytes where the column is binary."""
    array = pa.array(logged, pa.binary())
    if collation == BINARY_COLLATION:
        return array
    return text.to_utf8(Bytes.of(array), charset_of(collation)).array(pa.string(), None)
