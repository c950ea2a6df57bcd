"""What a table map says, compiled."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import InvalidText, Policies
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows import decode as decode_module
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema import Default, Field
from tests.support.decoded import decode
from tests.unit.rows import wire

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

NAMED = wire.table(
    wire.column(ColumnType.LONGLONG, unsigned=True, name="id", nullable=False, collation=None),
    wire.varchar(160, name="customer"),
    wire.column(ColumnType.NEWDECIMAL, b"\x0a\x02", name="total", collation=None),
    wire.column(ColumnType.BLOB, b"\x02", collation=wire.BINARY, name="scan"),
    wire.column(ColumnType.TIMESTAMP2, b"\x03", name="paid_at", collation=None),
    wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"a", b"b"), collation=8, name="state"),
    key=[1, 0],
)


def test_a_layout_has_names_types_and_key() -> None:
    layout = compile_layout(NAMED)

    assert layout.named
    assert layout.key == (1, 0)
    assert layout.schema.names == ["id", "customer", "total", "scan", "paid_at", "state"]
    assert list(map(str, layout.schema.types)) == [
        "decimal128(20, 0)",
        "string",
        "decimal128(10, 2)",
        "binary",
        "timestamp[us, tz=UTC]",
        "string",
    ]


def test_two_columns_of_the_same_name_are_refused() -> None:
    column = wire.column(ColumnType.LONG, name="total")

    with pytest.raises(FormatError, match="the same name") as caught:
        compile_layout(wire.table(column, column))
    assert caught.value.context["column"] == "total"


def test_its_fields_are_numbered_in_the_order_of_the_table() -> None:
    assert compile_layout(NAMED).fields == (
        Field(1, "id", "bigint unsigned", "decimal128(20, 0)", nullable=False),
        Field(2, "customer", "varchar(40)", "string", nullable=True, charset="utf8mb4"),
        Field(3, "total", "decimal(10,2)", "decimal128(10, 2)", nullable=True),
        Field(4, "scan", "blob", "binary", nullable=True),
        Field(5, "paid_at", "timestamp(3)", "timestamp[us, tz=UTC]", nullable=True),
        Field(6, "state", "enum('a','b')", "string", nullable=True, charset="latin1"),
    )


def test_a_key_with_a_prefix_is_the_whole_column() -> None:
    assert compile_layout(replace(NAMED, primary_key=((1, 7), (0, 0)))).key == (1, 0)


def test_columns_without_names_are_numbered() -> None:
    layout = compile_layout(wire.table(wire.column(ColumnType.TINY), wire.varchar(4)))

    assert not layout.named
    assert layout.schema.names == ["@1", "@2"]


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        (ColumnType.DECIMAL, b"\x0a\x02"),
        (ColumnType.NULL, b""),
    ],
)
def test_types_that_are_not_decoded(kind: ColumnType, metadata: bytes) -> None:
    table_map = wire.table(wire.column(kind, metadata, name="doc"))

    with pytest.raises(
        UnsupportedError, match=rf"leave the table out.*{kind.name}.*table=shop.orders, column=doc"
    ):
        compile_layout(table_map)


@pytest.mark.parametrize("kind", [ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP])
def test_temporals_from_before_5_6(kind: ColumnType) -> None:
    with pytest.raises(UnsupportedError, match="FORCE"):
        compile_layout(wire.table(wire.column(kind)))


@pytest.mark.parametrize(
    "column",
    [
        wire.column(ColumnType.LONG, unsigned=None),
        wire.column(ColumnType.BLOB, b"\x02", collation=None),
        replace(wire.varchar(20), collation=None),
        wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"a",), collation=None),
    ],
)
def test_what_the_log_leaves_out_names_the_setting(column: TableMapColumn) -> None:
    with pytest.raises(UnsupportedError, match="binlog_row_metadata=FULL"):
        compile_layout(wire.table(column))


def test_no_columns() -> None:
    with pytest.raises(FormatError, match="without columns"):
        compile_layout(wire.table())


@pytest.mark.parametrize("size", [0, 5])
def test_no_such_size_of_a_length(size: int) -> None:
    with pytest.raises(FormatError, match="length"):
        compile_layout(wire.table(wire.column(ColumnType.BLOB, bytes([size]))))


@pytest.mark.parametrize("group_bytes", [1, 10**6])
def test_looking_at_a_log_that_leaves_out_everything(group_bytes: int) -> None:
    # MariaDB's default, binlog_row_metadata=NO_LOG.
    table_map = wire.table(
        wire.column(ColumnType.LONG, unsigned=None, collation=None),
        wire.column(ColumnType.NEWDECIMAL, b"\x04\x01", unsigned=None, collation=None),
        replace(wire.varchar(20), collation=None),
        wire.column(ColumnType.ENUM, b"\x01", collation=None),
        wire.column(ColumnType.SET, b"\x08", collation=None),
    )
    rows: list[list[Any]] = [
        [-1, Decimal("1.5"), b"text \xc3\xa9", 2, 5],
        [7, None, b"\xff\x00", 0, 2**63],
        [None, None, None, None, None],
    ]
    layout = compile_layout(table_map, allow_missing_metadata=True)
    events = [wire.event(EventType.WRITE_ROWS, 5, wire.image(table_map, row)) for row in rows]
    with patch.object(decode_module, "GROUP_BYTES", group_bytes):
        decoded = decode(layout, wire.rows_events(*events))

    assert [array.type for array in decoded.columns] == layout.schema.types
    for array in decoded.columns:
        array.validate(full=True)
    assert list(zip(*(array.to_pylist() for array in decoded.columns), strict=True)) == [
        (-1, Decimal("1.5"), b"text \xc3\xa9", 2, 5),
        (7, None, b"\xff\x00", 0, 2**63),
        (None, None, None, None, None),
    ]


def test_defaults_of_a_manifest_go_by_the_staged_type() -> None:
    default, null = Default("x"), Default(None)
    columns = [
        replace(wire.varchar(160, name="a"), default=default),
        replace(wire.varchar(160, name="b"), default=null),
        wire.varchar(160, name="c"),
    ]
    binary = Policies(invalid_text=InvalidText.BINARY)

    def defaults(policies: Policies) -> list[Default | None]:
        fields = compile_layout(wire.table(*columns), policies=policies).fields
        return [field.write_default for field in fields]

    assert defaults(Policies()) == [default, null, None]
    assert defaults(binary) == [None, null, None]
