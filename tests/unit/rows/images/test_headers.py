"""Headers of rows events, and which columns images hold: bitmaps, NULL bits, options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError
from airflow_provider_binlog.rows.decode import RowsEvents
from airflow_provider_binlog.rows.images.headers import (
    ColumnSets,
    Options,
    Presence,
    bits_of,
    columns_of,
    read_sets,
)
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.rows.values import Memory
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


WIDTHS = st.sampled_from([1, 7, 8, 9, 63, 64, 65, 130])


def memory_of(data: bytes) -> Memory:
    return Memory(np.frombuffer(data + bytes(100), dtype=np.uint8), len(data) + 1)


def presence_of(sets: list[int], width: int, options: Options | None = None) -> Presence:
    """Return the presence of events of one set each."""
    number = np.tile(np.arange(len(sets)), (2, 1))
    nothing = np.zeros(len(sets), dtype=np.bool_)
    return Presence.of(number, bits_of(sets, width), nothing, options)


def test_bitmaps_of_an_insert_and_an_update() -> None:
    # Bits above the third column are set in one and not in the other.
    memory = memory_of(b"\xff\x05\xfa")

    found = read_sets(memory, np.array([0, 1]), 3, np.array([False, True]))

    assert [[found.sets[number] for number in turn] for turn in found.number.tolist()] == [
        [0b111, 0b101],
        [0b111, 0b010],
    ]
    assert found.union == 0b111


@given(WIDTHS, st.data())
def test_any_bitmaps_are_read(width: int, data: st.DataObject) -> None:
    octets = (width + 7) // 8
    maps = data.draw(st.lists(st.binary(min_size=octets, max_size=octets), min_size=1, max_size=9))
    at = np.arange(len(maps)) * octets

    found = read_sets(memory_of(b"".join(maps)), at, width, np.zeros(len(maps), dtype=np.bool_))

    mask = (1 << width) - 1
    expected = [int.from_bytes(each, "little") & mask for each in maps]
    assert [found.sets[number] for number in found.number[0].tolist()] == expected
    assert sorted(found.sets) == sorted(set(expected))
    assert [columns_of(each) for each in found.sets] == [
        tuple(np.flatnonzero(bits).tolist()) for bits in bits_of(found.sets, width)
    ]


def test_null_bits_stand_for_the_columns_that_are_held() -> None:
    # Columns 1, 4 and 6 of eight; the second of them is NULL, and the padding is set.
    presence = presence_of([0b0101_0010], 8)
    missing = np.zeros((1, 1), dtype=np.int64)

    after = presence.read_missing(memory_of(b"\xfa"), np.array([0]), np.array([0]), missing)

    assert missing.tolist() == [[0b1011_1101]]
    assert after.tolist() == [1]


@given(WIDTHS, st.data())
def test_images_in_vectors_and_one_by_one_read_the_same(width: int, data: st.DataObject) -> None:
    sets = data.draw(st.lists(st.integers(1, (1 << width) - 1), min_size=1, max_size=9))
    images = data.draw(
        st.lists(st.binary(min_size=20, max_size=20), min_size=len(sets), max_size=len(sets))
    )
    memory, at = memory_of(b"".join(images)), np.arange(len(sets)) * 20
    presence = presence_of(sets, width)
    missing = np.empty((-(-width // 64), len(sets)), dtype=np.int64)

    after = presence.read_missing(memory, at, np.arange(len(sets)), missing)

    for event, (held, image) in enumerate(zip(sets, images, strict=True)):
        columns = columns_of(held)
        null = int.from_bytes(image, "little")
        absent = (1 << width) - 1 - held
        expected = absent | sum(1 << c for bit, c in enumerate(columns) if null >> bit & 1)
        assert int.from_bytes(missing[:, event].tobytes(), "little") == expected
        assert int(after[event]) == 20 * event + (len(columns) + 7) // 8
        one = presence.reader(event)(memory.u1.data, 20 * event, 0)
        assert one == (int(after[event]), expected, 0)


def test_options_stand_before_after_images() -> None:
    # No options; options without bits; bits of nine JSON columns.
    memory = memory_of(b"\x00\x07" + b"\x00\x07" + b"\x01\xff\x01\x07")
    options = Options(np.array([False, True, True]), 2)
    bits = np.zeros(3, dtype=np.int64)

    after = options.read(memory, np.array([0, 2, 4]), np.arange(3), bits)

    assert (after.tolist(), bits.tolist()) == ([0, 3, 7], [0, 0, 5])
    data = memory.u1.data
    assert [options.read_one(data, at, 0) for at in (2, 4)] == [(3, 0), (7, 5)]
    reader = presence_of([1, 1, 1], 1, options).reader(2)
    assert reader(data, 4, 0) == (5, 0b1, 0)
    assert reader(data, 4, 1) == (8, 0b1, 5)


@pytest.mark.parametrize("value", [2, 3, 0xFC])
def test_other_options_are_refused(value: int) -> None:
    memory = memory_of(bytes([0, value]))
    options = Options(np.array([True, True]), 1)

    with pytest.raises(UnsupportedError, match=r"binlog_row_value_options=''.*event=1"):
        options.read(memory, np.array([0, 1]), np.arange(2), np.zeros(2, dtype=np.int64))
    with pytest.raises(UnsupportedError, match=r"binlog_row_value_options=''.*event=7"):
        options.read_one(memory.u1.data, 1, 7)


def test_whole_images_hold_all_columns() -> None:
    whole = ColumnSets.whole(70, 3)

    assert (whole.sets, whole.number.shape) == (((1 << 70) - 1,), (2, 3))
