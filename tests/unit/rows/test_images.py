"""The heads of rows events."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError
from airflow_provider_binlog.rows.decode import decode
from airflow_provider_binlog.rows.events import RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from tests.unit.rows import wire


def layout_of(width: int) -> RowLayout:
    return compile_layout(wire.table(*[wire.column(ColumnType.TINY)] * width))


def image(width: int) -> bytes:
    return bytes((width + 7) // 8) + bytes(width)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 63, 64, 65, 250, 251, 300, 4096])
def test_width_of_one_byte_or_three(width: int) -> None:
    events = wire.rows_events(
        wire.event(EventType.WRITE_ROWS, width, image(width)),
        wire.event(EventType.UPDATE_ROWS_V1, width, image(width) * 2),
    )

    assert len(decode(layout_of(width), events)) == 3


@pytest.mark.parametrize("extra", [b"", b"\x01\x05\x00", bytes(600)])
def test_extra_data_is_passed_over(extra: bytes) -> None:
    event = wire.event(EventType.WRITE_ROWS, 2, image(2), extra=extra)

    assert decode(layout_of(2), wire.rows_events(event)).offset.tolist() == [31 + len(extra)]


def test_extra_data_beyond_the_event_is_truncated() -> None:
    event = bytearray(wire.event(EventType.WRITE_ROWS, 2, image(2)))
    event[27:29] = b"\xff\xff"

    with pytest.raises(TruncatedError, match="head"):
        decode(layout_of(2), wire.rows_events(bytes(event)))


@pytest.mark.parametrize("size", [b"\x00\x00", b"\x01\x00"])
def test_extra_data_smaller_than_its_size_is_refused(size: bytes) -> None:
    event = bytearray(wire.event(EventType.WRITE_ROWS, 2, image(2)))
    event[27:29] = size

    with pytest.raises(FormatError, match="extra data"):
        decode(layout_of(2), wire.rows_events(bytes(event)))


def test_bits_above_the_last_column_may_be_set_or_not() -> None:
    for present in (0b011, 0b11111111):
        event = wire.event(EventType.UPDATE_ROWS, 2, image(2) * 2, present=present)

        assert len(decode(layout_of(2), wire.rows_events(event))) == 2


@pytest.mark.parametrize("kind", [EventType.WRITE_ROWS, EventType.DELETE_ROWS_V1])
@pytest.mark.parametrize("width", [2, 70])
def test_an_image_without_a_column_names_the_setting(kind: EventType, width: int) -> None:
    partial = wire.event(kind, width, b"\x00\x00", present=(1 << width) - 2)
    whole = wire.event(kind, width, image(width))

    with pytest.raises(UnsupportedError, match=r"binlog_row_image=FULL.*event=1"):
        decode(layout_of(width), wire.rows_events(whole, partial))


def test_an_after_image_without_a_column_names_the_setting() -> None:
    event = bytearray(wire.event(EventType.UPDATE_ROWS, 2, image(2) * 2))
    event[31] = 0b01  # the second bitmap

    with pytest.raises(UnsupportedError, match="binlog_row_image=FULL"):
        decode(layout_of(2), wire.rows_events(bytes(event)))


@pytest.mark.parametrize("width", [1, 3, 251])
def test_another_width_than_the_tables_is_refused(width: int) -> None:
    event = wire.event(EventType.WRITE_ROWS, width, image(width))

    with pytest.raises(FormatError, match="number of columns"):
        decode(layout_of(2), wire.rows_events(event))


@pytest.mark.parametrize("first", [0xFB, 0xFD, 0xFE, 0xFF])
def test_what_starts_no_width_is_refused(first: int) -> None:
    event = bytearray(wire.event(EventType.WRITE_ROWS, 2, image(2)))
    event[29] = first

    with pytest.raises(FormatError, match="not a number of columns"):
        decode(layout_of(2), wire.rows_events(bytes(event)))


@pytest.mark.parametrize("kind", [0, EventType.QUERY, EventType.PARTIAL_UPDATE_ROWS, 166, 255])
def test_other_events_are_refused(kind: int) -> None:
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 2, image(2)))
    events.type.setflags(write=True)
    events.type[0] = kind

    with pytest.raises(FormatError, match="not a rows event"):
        decode(layout_of(2), events)


def test_an_end_before_the_start_is_refused() -> None:
    events = wire.rows_events(wire.event(EventType.WRITE_ROWS, 2, image(2)))

    with pytest.raises(FormatError):
        decode(layout_of(2), RowsEvents(events.data, events.start, events.start - 1, events.type))
