"""Facts: they complete what was logged, or contradict it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.completion import (
    complete,
    may_be_another_type,
    mismatch,
    missing,
)
from airflow_provider_binlog.sql.columns import UNKNOWN, Facts
from tests.unit.rows import wire

V10_11, V11_8 = (10, 11, 18), (11, 8, 6)


def bare(kind: int, metadata: bytes = b"") -> TableMapColumn:
    """Return a column as MariaDB logs it under NO_LOG."""
    column = wire.column(ColumnType(kind), metadata)
    return replace(
        column, name=None, unsigned=None, collation=None, enum_values=None, set_members=None
    )


INT = bare(ColumnType.LONG)
CHAR_16 = bare(ColumnType.STRING, b"\xfe\x10")
ENUM = bare(ColumnType.STRING, b"\xf7\x01")


def test_wire_makes_what_servers_log() -> None:
    assert CHAR_16.real_type == ColumnType.STRING
    assert CHAR_16.bytes_max == 16
    assert ENUM.real_type == ColumnType.ENUM


@pytest.mark.parametrize(
    ("logged", "facts"),
    [
        (INT, Facts("int", nullable=INT.nullable, unsigned=True)),
        (INT, UNKNOWN),
        (bare(ColumnType.NEWDECIMAL, b"\x0a\x02"), Facts("decimal", precision=10, scale=2)),
        (bare(ColumnType.DATETIME2, b"\x03"), Facts("datetime", fsp=3)),
        (bare(ColumnType.DATETIME), Facts("datetime", fsp=3)),
        (bare(ColumnType.BIT, b"\x01\x01"), Facts("bit", precision=9)),
        (bare(ColumnType.VARCHAR, b"\x50\x00"), Facts("varchar", octets=80)),
        (bare(ColumnType.VARCHAR_COMPRESSED, b"\x51\x00"), Facts("varchar", octets=80)),
        (bare(ColumnType.BLOB, b"\x03"), Facts("mediumtext", octets=16777215)),
        (bare(ColumnType.BLOB, b"\x04"), Facts("json")),
        (CHAR_16, Facts("uuid", octets=None)),
        (ENUM, Facts("enum", values=("a",) * 255)),
        (bare(ColumnType.STRING, b"\xf8\x08"), Facts("set", values=("a",) * 33)),
        (replace(CHAR_16, collation=8), Facts("char", charset="latin1", octets=16)),
        (bare(ColumnType.YEAR), Facts("year", unsigned=False)),
        (replace(bare(ColumnType.GEOMETRY, b"\x04"), geometry_type=1), Facts("point")),
    ],
)
def test_facts_that_agree(logged: TableMapColumn, facts: Facts) -> None:
    assert mismatch(logged, facts) is None


@pytest.mark.parametrize(
    ("logged", "facts"),
    [
        (INT, Facts("bigint")),
        (INT, Facts("xmltype")),
        (INT, Facts(nullable=not INT.nullable)),
        (replace(INT, unsigned=False), Facts(unsigned=True)),
        (bare(ColumnType.NEWDECIMAL, b"\x0a\x02"), Facts("decimal", precision=10, scale=3)),
        (bare(ColumnType.DATETIME2, b"\x03"), Facts("datetime", fsp=0)),
        (bare(ColumnType.BIT, b"\x01\x01"), Facts("bit", precision=8)),
        (bare(ColumnType.VARCHAR, b"\x50\x00"), Facts("varchar", octets=81)),
        (bare(ColumnType.BLOB, b"\x03"), Facts("text")),
        (CHAR_16, Facts("inet4")),
        (ENUM, Facts("set")),
        (ENUM, Facts("enum", values=("a",) * 256)),
        (bare(ColumnType.STRING, b"\xf8\x08"), Facts("set", values=("a",) * 32)),
        (replace(CHAR_16, collation=8), Facts("char", charset="utf8mb4")),
        (replace(bare(ColumnType.GEOMETRY, b"\x04"), geometry_type=1), Facts("polygon")),
    ],
)
def test_facts_that_the_log_contradicts(logged: TableMapColumn, facts: Facts) -> None:
    assert mismatch(logged, facts) is not None


@pytest.mark.parametrize(
    ("logged", "facts", "added"),
    [
        (INT, Facts(unsigned=True), {"name": "c", "unsigned": True}),
        (replace(INT, name="n", unsigned=False), Facts(unsigned=True), {"unsigned": False}),
        (bare(ColumnType.YEAR), UNKNOWN, {"unsigned": True}),
        (CHAR_16, Facts("char", charset="binary"), {"collation": 63, "data_type": None}),
        (CHAR_16, Facts("uuid", charset="binary"), {"collation": 63, "data_type": "uuid"}),
        (
            ENUM,
            Facts("enum", charset="latin1", values=("ü", "€", "it's")),
            {"enum_values": (b"\xfc", b"\x80", b"it's"), "set_members": None},
        ),
        (ENUM, Facts("enum", charset="utf16", values=("a",)), {"enum_values": (b"\0a",)}),
        (ENUM, Facts("enum", charset="sjis", values=("日",)), {"enum_values": (b"\x93\xfa",)}),
        (ENUM, Facts("enum", charset="binary", values=("a",)), {"enum_values": (b"a",)}),
        # A value that the character set cannot hold, or that is bytes.
        (ENUM, Facts("enum", charset="latin1", values=("日",)), {"enum_values": None}),
        (ENUM, Facts("enum", charset="binary", values=("ü",)), {"enum_values": None}),
        (bare(ColumnType.GEOMETRY, b"\x04"), Facts("polygon"), {"geometry_type": 3}),
        (bare(ColumnType.TIME), Facts("time", fsp=3), {"datetime_precision": 3}),
        (INT, Facts(generated=True), {"generated": True}),
    ],
)
def test_what_is_not_logged_is_added(
    logged: TableMapColumn, facts: Facts, added: dict[str, Any]
) -> None:
    completed = complete(logged, "c", facts, Flavor.MARIADB)

    assert {name: getattr(completed, name) for name in added} == added


@pytest.mark.parametrize(
    ("logged", "facts", "what"),
    [
        (INT, UNKNOWN, "signedness"),
        (INT, Facts(unsigned=False), None),
        (bare(ColumnType.DOUBLE, b"\x08"), UNKNOWN, "signedness"),
        (bare(ColumnType.VARCHAR, b"\x50\x00"), Facts("varchar"), "character set"),
        (ENUM, Facts("enum", values=("a",)), "character set"),
        (ENUM, Facts("enum", charset="latin1"), "enum values"),
        (bare(ColumnType.GEOMETRY, b"\x04"), UNKNOWN, "geometry type"),
        (bare(ColumnType.TIME), Facts("time"), "digits of a fraction of a second"),
        (CHAR_16, Facts(charset="binary"), "data type"),
        (CHAR_16, Facts("binary", charset="binary"), None),
        (CHAR_16, Facts(charset="latin1"), None),
        (bare(ColumnType.DATE), UNKNOWN, None),
    ],
)
def test_what_is_missing_is_named(logged: TableMapColumn, facts: Facts, what: str | None) -> None:
    completed = complete(logged, "c", facts, Flavor.MARIADB)

    assert missing(completed, facts, Flavor.MARIADB, V11_8) == what


@pytest.mark.parametrize(
    ("kind", "metadata", "version", "may"),
    [
        (ColumnType.STRING, b"\xfe\x10", V10_11, True),
        (ColumnType.STRING, b"\xfe\x04", V10_11, True),
        (ColumnType.STRING, b"\xfe\x04", (10, 6, 23), False),
        (ColumnType.STRING, b"\xfe\x05", V11_8, False),
        (ColumnType.VARCHAR, b"\x0c\x00", V11_8, True),
        (ColumnType.VARCHAR, b"\x0c\x00", V10_11, False),
        (ColumnType.VARCHAR, b"\x0d\x00", V11_8, False),
        (ColumnType.BLOB, b"\x02", V11_8, False),
    ],
)
def test_bytes_that_may_be_of_another_type(
    kind: int,
    metadata: bytes,
    version: tuple[int, ...],
    may: bool,
) -> None:
    logged = replace(bare(kind, metadata), collation=63)

    assert may_be_another_type(logged, version) is may
    assert not may_be_another_type(replace(logged, collation=8), version)


def test_of_two_facts_the_first_counts() -> None:
    joined = Facts("int", unsigned=False).joined(Facts("bigint", unsigned=True, fsp=3))

    assert joined == Facts("int", unsigned=False, fsp=3)
