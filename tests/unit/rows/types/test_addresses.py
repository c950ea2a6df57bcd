"""INET4, INET6 and UUID."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.layout import compile_layout
from tests.support.decoded import decode
from tests.unit.rows import wire
from tests.unit.rows.columns import read

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


def column(data_type: str, size: int) -> TableMapColumn:
    return replace(wire.char(size, collation=wire.BINARY), data_type=data_type)


def test_inet6_as_mariadb_prints_it() -> None:
    # Each was inserted into an INET6 of MariaDB 10.11, and selected.
    inet6 = column("inet6", 16)
    texts = [
        "::",
        "::1",
        "::1.2.3.4",
        "::ffff:1.2.3.4",
        "::ffff:0.0.0.1",
        "1::2:3:4:5:6:7",
        "1::2:3:0:0:4",
        "2001:db8::",
        "fe80::1:0:0:1",
        "::0.1.0.0",
        "::fffe:1:2",
        "ff::",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "0:0:0:1::",
        "abcd::ef01",
        "1:2:3:4:5:6:7:8",
    ]
    stored = [ipaddress.IPv6Address(text).packed for text in texts]

    assert read(inet6, *(wire.encode(inet6, each.rstrip(b"\0")) for each in stored), None) == [
        *texts,
        None,
    ]


def test_inet4() -> None:
    inet4 = column("inet4", 4)

    assert read(inet4, b"\x02\x00\x01", b"\x02\xc0\x00", None, b"\x04\xff\xff\xff\xff") == [
        "0.1.0.0",
        "192.0.0.0",
        None,
        "255.255.255.255",
    ]


def test_uuid() -> None:
    uuid = column("uuid", 16)
    text = "123e4567-e89b-12d3-a456-426655440000"

    assert read(uuid, b"\x0e" + bytes.fromhex(text.replace("-", ""))[:14], None, b"\x00") == [
        text,
        None,
        "00000000-0000-0000-0000-000000000000",
    ]


@pytest.mark.parametrize("data_type", ["inet4", "inet6", "uuid"])
def test_they_are_named(data_type: str) -> None:
    size = 4 if data_type == "inet4" else 16

    assert compile_layout(wire.table(column(data_type, size))).columns[0].mysql_type == data_type


@pytest.mark.parametrize(
    "other",
    [
        column("uuid", 15),
        column("inet4", 16),
        column("vector", 16),
        replace(wire.varchar(16, collation=wire.BINARY), data_type="uuid"),
    ],
)
def test_an_information_schema_that_disagrees(other: TableMapColumn) -> None:
    with pytest.raises(FormatError, match="disagree"):
        compile_layout(wire.table(other))


@pytest.mark.parametrize("data_type", ["inet4", "inet6", "uuid"])
def test_a_value_longer_than_its_column_is_refused(data_type: str) -> None:
    size = 4 if data_type == "inet4" else 16
    layout = compile_layout(wire.table(column(data_type, size)))
    image = wire.image_of_bytes([bytes([size + 1]) + bytes(size + 1)])
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 1, image))

    with pytest.raises(FormatError, match="longer than its column"):
        decode(layout, events)
