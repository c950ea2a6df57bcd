"""Control events: a vector each, cut anywhere, any bytes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.control import Incident, Rotate, read_heartbeat_offset
from airflow_provider_binlog.errors import BinlogError, TruncatedError
from tests.support import builder

if TYPE_CHECKING:
    from collections.abc import Callable

MYSQL = builder.parsed_format()

# A heartbeat of MySQL 9.7 at offset 19306: fields 1 and 2, then the end mark.
HEARTBEAT_V2 = b"\x01\x0dbinlog.000001\x02\x03\xfc\x6a\x4b\x00"


def test_rotate() -> None:
    body = b"\x04\x00\x00\x00\x01\x00\x00\x00binlog.000042"

    assert Rotate.parse(body, MYSQL) == Rotate("binlog.000042", 0x1_0000_0004)
    assert Rotate.parse(body) == Rotate.parse(body, MYSQL)


def test_heartbeat_v2() -> None:
    assert read_heartbeat_offset(HEARTBEAT_V2, MYSQL) == 19_306
    assert builder.heartbeat_v2("binlog.000001", 19_306) == HEARTBEAT_V2


def test_heartbeat_v2_skips_unknown_fields() -> None:
    assert read_heartbeat_offset(b"\x09\x02xx" + HEARTBEAT_V2, MYSQL) == 19_306


def test_incident() -> None:
    assert Incident.parse(b"\x01\x00\x04lost", MYSQL) == Incident(1, "lost")
    assert Incident.parse(b"\x01\x00", MYSQL) == Incident(1, "")


@pytest.mark.parametrize(
    ("parse", "body", "shortest"),
    [
        (Rotate.parse, builder.rotate("b.1"), 8),
        (read_heartbeat_offset, HEARTBEAT_V2, len(HEARTBEAT_V2)),
        (Incident.parse, builder.incident("lost"), len(builder.incident("lost"))),
    ],
)
def test_cut_before_its_last_field_is_truncated(
    parse: Callable[..., object], body: bytes, shortest: int
) -> None:
    for size in range(shortest):
        if parse == Incident.parse and size == 2:
            continue  # no message at all is a message
        with pytest.raises(TruncatedError):
            parse(body[:size], MYSQL)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_documented_error(body: bytes) -> None:
    for parse in (Rotate.parse, read_heartbeat_offset, Incident.parse):
        with contextlib.suppress(BinlogError):
            parse(body, MYSQL)
