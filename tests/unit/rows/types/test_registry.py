"""Every column type has its description in a TABLE_MAP, its readers, and its staged types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airflow_provider_binlog.binlog.column_types import (
    FORMATS,
    HIDDEN_TYPES,
    NAMES,
    OLD_TEMPORALS,
    TEXTS,
    ColumnType,
    MetadataField,
    metadata_width,
    mysql_type,
    types_with,
)
from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.layout import compile_layout, nulls
from airflow_provider_binlog.rows.types import registry
from airflow_provider_binlog.rows.types.registry import (
    HIDDEN_READERS,
    READERS,
    plan_column,
    plan_result,
    sent_bytes,
    to_json_values,
)
from airflow_provider_binlog.rows.values import Memory, Values
from airflow_provider_binlog.spark.staged.types import spark_type
from airflow_provider_binlog.sql.columns import parse_type
from tests.unit.rows import wire

# A TABLE_MAP may have them, and no table: DECIMAL is of servers before MySQL 5.0.
NOT_DECODED = {ColumnType.DECIMAL, ColumnType.NULL}

# Metadata of some column of each type that has any.
METADATA: dict[int, bytes] = {
    ColumnType.FLOAT: b"\4",
    ColumnType.DOUBLE: b"\x08",
    ColumnType.NEWDECIMAL: b"\x0a\2",
    ColumnType.BIT: b"\0\2",
    **dict.fromkeys((ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2), b"\6"),
    ColumnType.ENUM: b"\xf7\1",
    ColumnType.SET: b"\xf8\1",
    ColumnType.STRING: b"\xfe\x10",
    **dict.fromkeys(TEXTS - {ColumnType.STRING}, b"\2"),
    **dict.fromkeys(
        (ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.VARCHAR_COMPRESSED), b"\x10\0"
    ),
    **dict.fromkeys((ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR), b"\4"),
}
POLICIES = [
    Policies(zero_dates=zero_dates, invalid_text=invalid_text)
    for zero_dates in ZeroDates
    for invalid_text in InvalidText
]


def column(kind: ColumnType, **others: Any) -> TableMapColumn:
    """Return a column of a type with all optional metadata that it may have."""
    logged = TableMapColumn(kind, METADATA.get(kind, b""), kind, nullable=True, name="c", **others)
    fields: dict[MetadataField, tuple[str, object]] = {
        MetadataField.SIGNEDNESS: ("unsigned", True),
        MetadataField.COLUMN_CHARSET: ("collation", 255),
        MetadataField.ENUM_AND_SET_COLUMN_CHARSET: ("collation", 255),
        MetadataField.ENUM_STR_VALUE: ("enum_values", (b"a", b"b")),
        MetadataField.SET_STR_VALUE: ("set_members", (b"a", b"b")),
        MetadataField.GEOMETRY_TYPE: ("geometry_type", 0),
        MetadataField.VECTOR_DIMENSIONALITY: ("vector_dimension", 3),
    }
    for field, (name, value) in fields.items():
        if kind in types_with(field, Flavor.MYSQL):
            logged = replace(logged, **{name: value})  # type: ignore[arg-type]
    if kind in OLD_TEMPORALS:
        logged = replace(logged, datetime_precision=3)
    return logged


COLUMNS = [
    *(column(kind) for kind in READERS),
    *(
        replace(
            column(hidden.real_type),
            data_type=name,
            collation=63,
            metadata=bytes((0xFE, hidden.size)) if hidden.size else b"\x10\0",
        )
        for name, hidden in HIDDEN_TYPES.items()
    ),
]


def test_every_type_of_the_enum_is_described_and_read_or_says_why_not() -> None:
    in_memory = {ColumnType.TYPED_ARRAY, ColumnType.INVALID, ColumnType.BOOL}
    assert FORMATS.keys() == set(ColumnType) - in_memory
    assert READERS.keys() | NOT_DECODED == FORMATS.keys()
    assert not READERS.keys() & NOT_DECODED
    assert HIDDEN_READERS.keys() == HIDDEN_TYPES.keys()


@pytest.mark.parametrize("kind", sorted(NOT_DECODED))
def test_a_type_without_readers_is_refused(kind: ColumnType) -> None:
    logged = TableMapColumn(kind, bytes(metadata_width(kind)), kind, nullable=True)

    with pytest.raises(UnsupportedError, match="leave the table out"):
        plan_column(logged, Policies(), allow_missing_metadata=True)


@pytest.mark.parametrize("kind", sorted(READERS))
def test_the_metadata_of_a_type_have_its_width(kind: ColumnType) -> None:
    assert len(METADATA.get(kind, b"")) == metadata_width(kind)


@pytest.mark.parametrize("logged", COLUMNS, ids=mysql_type)
@pytest.mark.parametrize("policies", POLICIES, ids=str)
def test_row_images_and_result_sets_give_one_type_that_is_staged_and_printed(
    logged: TableMapColumn, policies: Policies
) -> None:
    plan = plan_column(logged, policies, allow_missing_metadata=False)
    result = plan_result(logged, policies, plan)
    nothing = Values(
        Memory(np.zeros(0, dtype=np.uint8), 0),
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        None,
    )

    assert result.arrow_type == plan.arrow_type
    assert bool(plan.size) != bool(plan.prefix)
    assert plan.convert(nothing).type == result.convert(nothing).type == plan.arrow_type
    assert spark_type(str(plan.arrow_type))
    assert to_json_values(nulls(2, plan.arrow_type), logged) == [None, None]


@pytest.mark.parametrize("logged", COLUMNS, ids=mysql_type)
def test_a_result_set_sends_a_type_as_it_declares_it(logged: TableMapColumn) -> None:
    readers = registry.readers_of(logged)

    assert sent_bytes(logged.real_type) == readers.sent
    assert "`c`" in readers.select("`c`", logged)


@pytest.mark.parametrize("logged", COLUMNS, ids=mysql_type)
def test_the_name_of_a_type_is_one_of_sql(logged: TableMapColumn) -> None:
    printed = parse_type(mysql_type(logged))

    assert printed is not None
    assert logged.data_type or printed.name == NAMES.get(logged.real_type, printed.name)


@pytest.mark.parametrize("data_type", sorted(HIDDEN_TYPES))
def test_a_type_that_the_log_does_not_name_is_of_a_column_of_bytes(data_type: str) -> None:
    column = replace(wire.column(ColumnType.LONG), data_type=data_type)

    with pytest.raises(FormatError, match="disagree on the type"):
        compile_layout(wire.table(column))
