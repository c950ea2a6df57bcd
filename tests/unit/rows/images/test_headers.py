"""The headers of rows events."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.errors import FormatError, TruncatedError
from airflow_provider_binlog.rows.events import RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
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
def test_extra_data_is_skipped(extra: bytes) -> None:
    event = wire.event(EventType.WRITE_ROWS, 2, image(2), extra=extra)

    assert decode(layout_of(2), wire.rows_events(event)).offset.tolist() == [31 + len(extra)]


def test_extra_data_beyond_the_event_is_truncated() -> None:
    event = bytearray(wire.event(EventType.WRITE_ROWS, 2, image(2)))
    event[27:29] = b"\xff\xff"

    with pytest.raises(TruncatedError, match="header"):
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


@pytest.mark.parametrize("kind", [EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1])
@pytest.mark.parametrize("width", [2, 70])
@pytest.mark.parametrize("others", [0, 30])
def test_an_insert_of_no_columns_is_one_row(kind: EventType, width: int, others: int) -> None:
    # What both families log under MINIMAL of INSERT INTO t () VALUES (): no byte of an image.
    whole = wire.event(kind, width, image(width) * 2)
    nothing = wire.event(kind, width, b"", present=0)
    events = wire.rows_events(*[whole] * others, nothing, whole, nothing)

    rows = decode(layout_of(width), events)

    assert [rows.images[number] for number in rows.image.tolist()] == [
        *[tuple(range(width))] * 2 * others,
        (),
        *[tuple(range(width))] * 2,
        (),
    ]
    assert [array.null_count for array in rows.columns] == [2] * width
    assert rows.offset[-1] == len(nothing)


@pytest.mark.parametrize("kind", [EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1])
@pytest.mark.parametrize("width", [2, 70])
@pytest.mark.parametrize("others", [0, 30])
def test_a_group_of_such_inserts_alone(kind: EventType, width: int, others: int) -> None:
    nothing = wire.event(kind, width, b"", present=0)

    rows = decode(layout_of(width), wire.rows_events(*[nothing] * (1 + others)))

    assert [rows.images[number] for number in rows.image.tolist()] == [()] * (1 + others)
    assert [array.null_count for array in rows.columns] == [1 + others] * width


@pytest.mark.parametrize(
    ("kind", "images", "present", "present_after"),
    [
        (EventType.WRITE_ROWS, image(2), 0, None),
        (EventType.WRITE_ROWS, b"\0", 0xFC, None),
        (EventType.DELETE_ROWS, b"", 0, None),
        (EventType.UPDATE_ROWS, b"", 0, 0),
        (EventType.UPDATE_ROWS_V1, b"\0\1", 0b01, 0),
        (EventType.UPDATE_ROWS_V1, b"\0\1", 0, 0b10),
    ],
)
def test_images_of_no_columns_are_refused_elsewhere(
    kind: EventType, images: bytes, present: int, present_after: int | None
) -> None:
    event = wire.event(kind, 2, images, present=present, present_after=present_after)
    whole = wire.event(kind, 2, image(2) * 2)

    with pytest.raises(FormatError, match=r"without any column.*event=1"):
        decode(layout_of(2), wire.rows_events(whole, event))
    with pytest.raises(FormatError):
        decode_plainly(layout_of(2), wire.rows_events(whole, event))


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


@pytest.mark.parametrize("kind", [0, EventType.QUERY, EventType.PRE_GA_UPDATE_ROWS, 166, 255])
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
