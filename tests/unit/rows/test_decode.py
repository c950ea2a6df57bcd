"""The lock-step decoder: what was written, and what the plain decoder reads."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import BeforeImages, ChangeType
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from airflow_provider_binlog.rows import decode as decode_module
from airflow_provider_binlog.rows import layout
from airflow_provider_binlog.rows.decode import DecodedRows, RowsEvents, decode_pieces
from airflow_provider_binlog.rows.images import located, partial, walk
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire
from tests.unit.rows.tables import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSERT, UPDATE, DELETE = EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS
FORMS = {
    INSERT: [INSERT, EventType.WRITE_ROWS_V1],
    UPDATE: [UPDATE, EventType.UPDATE_ROWS_V1, EventType.PARTIAL_UPDATE_ROWS],
    DELETE: [DELETE, EventType.DELETE_ROWS_V1],
}
CODES = {INSERT: [0], UPDATE: [1, 2], DELETE: [3]}


@contextlib.contextmanager
def small_limits(few: int, group_bytes: int) -> Iterator[None]:
    """Have vectors walk and read few events and rows too, or none; and groups end early."""
    with (
        patch.object(walk, "FEW_EVENTS", few),
        patch.object(located, "FEW_IMAGES", few),
        patch.object(layout, "FEW_VALUES", few),
        patch.object(partial, "FEW_VALUES", few),
        patch.object(decode_module, "GROUP_BYTES", group_bytes),
    ):
        yield


LIMITS = st.builds(small_limits, st.sampled_from([1, 3, 1000]), st.sampled_from([1, 200, 10**6]))


def rows_of(decoded: DecodedRows) -> list[tuple[Any, ...]]:
    """Return the rows with what stands beside them: event, offset, change, columns held."""
    for array in decoded.columns:
        array.validate(full=True)
    beside = (decoded.event, decoded.offset, decoded.change)
    values = [array.to_pylist() for array in decoded.columns]
    return list(zip(*(each.tolist() for each in beside), sets_of(decoded), *values, strict=True))


def sets_of(decoded: DecodedRows) -> list[tuple[int, ...]]:
    """Return the columns that each row holds."""
    assert decoded.images[0] == tuple(range(len(decoded.columns)))
    assert len(set(decoded.images)) == len(decoded.images)
    return [decoded.images[number] for number in decoded.image.tolist()]


def assert_same(one: DecodedRows, other: DecodedRows) -> None:
    assert [array.type for array in one.columns] == [array.type for array in other.columns]
    # As text, since damage makes a NaN, which equals nothing.
    assert [repr(array.to_pylist()) for array in one.columns] == [
        repr(array.to_pylist()) for array in other.columns
    ]
    assert one.unrepresentable == other.unrepresentable
    assert one.images == other.images
    for name in ("event", "offset", "change", "image"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@dataclass
class Log:
    """Events of a table.

    Attributes:
        expected: Of each row its change, the columns that it holds, and all values: None for what
            it does not hold.
    """

    layout: RowLayout
    events: RowsEvents
    expected: list[tuple[int, tuple[int, ...], tuple[Any, ...]]]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a table and events of it, whose images hold all columns or some."""
    columns = draw(st.lists(kinds(), min_size=1, max_size=12))
    key = draw(st.lists(st.integers(0, len(columns) - 1), unique=True, max_size=3))
    table_map = wire.table(*(kind.column for kind in columns), key=key)
    row = st.tuples(*(kind.values | st.just((None, None)) for kind in columns))
    some = st.sets(st.integers(0, len(columns) - 1), min_size=1).map(sorted)
    held = st.just(list(range(len(columns)))) | st.just(sorted(key) or [0]) | some
    log = Log(compile_layout(table_map), None, [])  # type: ignore[arg-type]  # below
    events = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from([INSERT, UPDATE, DELETE]))
        code = draw(st.sampled_from(FORMS[kind]))
        sets = [draw(held) for _ in CODES[kind]]
        if code == EventType.UPDATE_ROWS_V1 and key:
            # MariaDB's before-images hold the key alone, or all but large columns.
            sets[0] = draw(st.sampled_from([sorted(key), list(range(len(columns)))]))
        images = b""
        for _ in range(draw(st.integers(1, 5))):
            before = draw(row)
            rows = [before, draw(st.just(before) | row)][: len(sets)]
            # What an after-image leaves out is as before.
            for column in set(sets[0]) - set(sets[-1]):
                rows[-1] = (*rows[-1][:column], before[column], *rows[-1][column + 1 :])
            padding = draw(st.booleans())
            for change, columns_held, values in zip(CODES[kind], sets, rows, strict=True):
                if code == EventType.PARTIAL_UPDATE_ROWS and change == 2:
                    images += b"\x00"
                written = [value for value, _ in values]
                images += wire.some_image(table_map, written, columns_held, padding=padding)
                known = set(sets[0]) | set(columns_held)
                read = (value if c in known else None for c, (_, value) in enumerate(values))
                log.expected.append((change, tuple(sorted(known)), tuple(read)))
        events.append(drawn_event(draw, code, len(columns), images, sets))
    log.events = wire.rows_events(*events)
    return log


def drawn_event(
    draw: st.DrawFn, code: EventType, width: int, images: bytes, sets: list[list[int]]
) -> bytes:
    """Return an event with extra data, and bits set or not above the last column."""
    extra = draw(st.binary(max_size=3)) if code in wire.VERSION_2 else b""
    above = (1 << 8 * ((width + 7) // 8)) - (1 << width)
    bitmaps = [
        sum(1 << column for column in held) | draw(st.sampled_from([0, above])) for held in sets
    ]
    return wire.event(
        code, width, images, extra=extra, present=bitmaps[0], present_after=bitmaps[-1]
    )


@settings(max_examples=150, deadline=None)
@given(log=logs(), limits=LIMITS)
def test_what_was_written_is_read_as_the_plain_decoder_reads_it(
    log: Log, limits: contextlib.AbstractContextManager[None]
) -> None:
    with limits:
        decoded = decode(log.layout, log.events)

    assert [(row[2], row[3], row[4:]) for row in rows_of(decoded)] == log.expected
    assert_same(decoded, decode_plainly(log.layout, log.events))


@settings(max_examples=100, deadline=None)
@given(log=logs(), limits=LIMITS)
def test_before_images_of_equal_key_are_left_out(
    log: Log, limits: contextlib.AbstractContextManager[None]
) -> None:
    keep = BeforeImages.KEY_CHANGES
    with limits:
        decoded = decode(log.layout, log.events, before_images=keep)

    rows_of(decoded)
    assert_same(decoded, decode_plainly(log.layout, log.events, before_images=keep))


@settings(max_examples=60, deadline=None)
@given(log=logs(), rows_max=st.integers(1, 8), keep=st.sampled_from(BeforeImages))
def test_pieces_are_the_whole(log: Log, rows_max: int, keep: BeforeImages) -> None:
    whole = decode(log.layout, log.events, before_images=keep)

    done = 0
    rows: list[tuple[Any, ...]] = []
    pieces = decode_pieces(log.layout, log.events, before_images=keep, rows_max=rows_max)
    for first, last, piece in pieces:
        assert first == done < last
        assert last == first + 1 or len(piece) <= rows_max
        assert set(piece.event.tolist()) <= set(range(first, last))
        done, rows = last, rows + rows_of(piece)
    assert done == len(log.events)
    assert rows == rows_of(whole)


def test_pieces_of_rows_that_are_located_together_follow_one_another() -> None:
    layout = compile_layout(wire.table(wire.column(ColumnType.TINY, nullable=True)))
    images = wire.image_of_bytes([None]) * 90
    events = wire.rows_events(*[wire.event(INSERT, 1, images)] * 5)

    pieces = [
        (first, last, len(rows))
        for first, last, rows in decode_pieces(layout, events, rows_max=200)
    ]

    assert pieces == [(0, 2, 180), (2, 4, 180), (4, 5, 90)]


def test_what_is_between_events_makes_no_row_large() -> None:
    layout, event = compile_layout(TABLE_MAP), wire.event(INSERT, 5, ROW)

    with patch.object(decode_module, "_LARGE_ROW_BYTES", len(event)):
        pieces = list(decode_pieces(layout, wire.rows_events(event, event)))

    assert [(first, last, len(rows)) for first, last, rows in pieces] == [(0, 2, 2)]


@settings(max_examples=40, deadline=None)
@given(log=logs(), data=st.data())
def test_batches_do_not_show(log: Log, data: st.DataObject) -> None:
    layout, events = log.layout, log.events
    cut = data.draw(st.integers(0, len(events)))
    whole = rows_of(decode(layout, events))
    first = rows_of(decode(layout, events.slice(0, cut)))
    second = rows_of(decode(layout, events.slice(cut, len(events))))

    assert whole == [*first, *((row[0] + cut, *row[1:]) for row in second)]


TABLE_MAP = wire.table(
    wire.column(ColumnType.LONG),
    wire.varchar(300),
    wire.column(ColumnType.NEWDECIMAL, b"\x0a\x02"),
    wire.column(ColumnType.BLOB, b"\x04"),
    wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"a", b"b")),
    key=[0],
)
ROW = wire.image_of_bytes([b"\1\0\0\0", b"\2\0hi", b"\x80\0\0\0\7", b"\4\0\0\0text", b"\2"])


def cut(event: bytes, size: int) -> RowsEvents:
    """Return the first bytes of an event, with bytes of another one after them."""
    whole = wire.rows_events(event, event)
    return RowsEvents(whole.data, whole.start[:1], whole.start[:1] + size, whole.type[:1])


@pytest.mark.parametrize("few", [1, 1000])
@pytest.mark.parametrize("kind", [INSERT, UPDATE, DELETE])
def test_cut_anywhere_is_truncated(kind: EventType, few: int) -> None:
    layout = compile_layout(TABLE_MAP)
    event = wire.event(kind, 5, ROW * 2)
    row_ends = {len(event), len(event) - 2 * len(ROW)}
    if kind != UPDATE:
        row_ends.add(len(event) - len(ROW))
    with small_limits(few, 10**6):
        for size in range(19, len(event) + 1):
            if size in row_ends:
                decode(layout, cut(event, size))
                continue
            with pytest.raises(TruncatedError, match=r"table=shop\.orders.*event=0"):
                decode(layout, cut(event, size))


@settings(max_examples=100, deadline=None)
@given(
    body=st.binary(max_size=120),
    kind=st.sampled_from([code for forms in FORMS.values() for code in forms]),
    present=st.none() | st.integers(0, 255),
    limits=LIMITS,
    keep=st.sampled_from(BeforeImages),
)
def test_any_rows_give_what_the_plain_decoder_gives(
    body: bytes,
    kind: EventType,
    present: int | None,
    limits: contextlib.AbstractContextManager[None],
    keep: BeforeImages,
) -> None:
    layout = compile_layout(TABLE_MAP)
    other = wire.event(kind, 5, body, present=present)
    events = wire.rows_events(wire.event(INSERT, 5, ROW * 2), other)

    plain = outcome(lambda: decode_plainly(layout, events, before_images=keep))
    with limits:
        fast = outcome(lambda: decode(layout, events, before_images=keep))
    if isinstance(plain, DecodedRows) and isinstance(fast, DecodedRows):
        assert_same(fast, plain)
    else:
        assert isinstance(plain, BinlogError)
        assert isinstance(fast, BinlogError)


@settings(max_examples=100, deadline=None)
@given(log=logs(), data=st.data(), limits=LIMITS)
def test_any_flipped_byte_gives_a_value_or_a_documented_error(
    log: Log,
    data: st.DataObject,
    limits: contextlib.AbstractContextManager[None],
) -> None:
    layout, events = log.layout, log.events
    changed = events.data.copy()
    event = data.draw(st.integers(0, len(events) - 1))
    offset = data.draw(st.integers(int(events.start[event]) + 19, int(events.end[event]) - 1))
    changed[offset] = data.draw(st.integers(0, 255))
    damaged = RowsEvents(changed, events.start, events.end, events.type)

    plain = outcome(lambda: decode_plainly(layout, damaged))
    with limits:
        fast = outcome(lambda: decode(layout, damaged))
    if isinstance(plain, DecodedRows) and isinstance(fast, DecodedRows):
        assert_same(fast, plain)
    else:
        # Of two things that are wrong either may be raised.
        assert isinstance(fast, FormatError) or (
            isinstance(fast, BinlogError) and isinstance(plain, BinlogError)
        )


def outcome(work: Callable[[], DecodedRows]) -> DecodedRows | BinlogError:
    """Return the rows or the error; any other exception is a bug."""
    try:
        return work()
    except BinlogError as error:
        return error


def test_the_codes_are_the_change_types_in_order() -> None:
    layout = compile_layout(TABLE_MAP)
    events = wire.rows_events(
        wire.event(INSERT, 5, ROW), wire.event(UPDATE, 5, ROW * 2), wire.event(DELETE, 5, ROW)
    )

    assert decode(layout, events).change.tolist() == list(range(len(ChangeType)))
    assert [change.value for change in ChangeType] == [
        "insert",
        "update_preimage",
        "update_postimage",
        "delete",
    ]


def test_rows_are_placed_in_their_event() -> None:
    layout = compile_layout(TABLE_MAP)
    event = wire.event(UPDATE, 5, ROW * 4)
    decoded = decode(layout, wire.rows_events(event, event))

    assert decoded.event.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    header = len(event) - 4 * len(ROW)
    assert decoded.offset.tolist() == [header + number * len(ROW) for number in range(4)] * 2


def test_no_events_give_empty_columns() -> None:
    layout = compile_layout(TABLE_MAP)
    nothing = wire.rows_events(wire.event(INSERT, 5, ROW)).slice(0, 0)

    for events in (nothing, wire.rows_events(wire.event(INSERT, 5, b""))):
        decoded = decode(layout, events)
        assert len(decoded) == 0
        assert [array.type for array in decoded.columns] == layout.schema.types
        assert [len(array) for array in decoded.columns] == [0] * 5


def test_no_rows_of_every_kind_of_column() -> None:
    columns = [
        *(wire.char(size, collation=wire.BINARY) for size in (0, 1, 8, 255)),
        wire.column(ColumnType.VARCHAR, b"\x28\x00", collation=None),
        wire.varchar(40, collation=wire.BINARY),
        wire.column(ColumnType.SET, b"\x01", set_members=(b"a",)),
        wire.column(ColumnType.BIT, b"\x02\x01"),
        wire.column(ColumnType.NEWDECIMAL, b"\x41\x1e"),
    ]
    layout = compile_layout(wire.table(*columns), allow_missing_metadata=True)
    nothing = wire.rows_events(wire.event(INSERT, len(columns), b""))

    for events in (nothing, nothing.slice(0, 0)):
        decoded = decode(layout, events)
        assert [array.type for array in decoded.columns] == layout.schema.types
        assert [len(array) for array in decoded.columns] == [0] * len(columns)


def test_spare_bytes_may_be_missing() -> None:
    layout = compile_layout(TABLE_MAP)
    events = wire.rows_events(wire.event(INSERT, 5, ROW), slack=0)
    exact = RowsEvents(events.data[: int(events.end[0])], events.start, events.end, events.type)

    assert rows_of(decode(layout, exact)) == rows_of(decode_plainly(layout, exact))


def test_an_error_counts_events_from_the_first() -> None:
    layout = compile_layout(TABLE_MAP)
    good, bad = wire.event(INSERT, 5, ROW), wire.event(INSERT, 5, ROW[:-1])

    with small_limits(1, 1), pytest.raises(TruncatedError, match="event=2"):
        decode(layout, wire.rows_events(good, good, bad, good))


@pytest.mark.parametrize("kind", [0, EventType.TABLE_MAP, EventType.PRE_GA_WRITE_ROWS, 255])
def test_an_event_of_another_type_is_refused(kind: int) -> None:
    layout = compile_layout(TABLE_MAP)
    events = wire.rows_events(wire.event(INSERT, 5, ROW))
    other = RowsEvents(events.data, events.start, events.end, np.array([kind], dtype=np.uint8))

    for decoder in (decode, decode_plainly):
        with pytest.raises(FormatError):
            decoder(layout, other)


def test_events_out_of_order_are_refused() -> None:
    layout = compile_layout(TABLE_MAP)
    events = wire.rows_events(wire.event(INSERT, 5, ROW), wire.event(INSERT, 5, ROW))
    turned = RowsEvents(events.data, events.start[::-1], events.end[::-1], events.type)

    with pytest.raises(FormatError, match="order"):
        decode(layout, turned)


def test_a_wide_table_with_nulls_everywhere() -> None:
    columns = [wire.column(ColumnType.TINY) if n % 3 else wire.varchar(20) for n in range(300)]
    layout = compile_layout(wire.table(*columns))
    rows = [
        [None if n % each == 0 else (b"\x05" if n % 3 else b"\x01x") for n in range(300)]
        for each in (1, 2, 3, 7, 299)
    ]
    images = b"".join(wire.image_of_bytes(row) for row in rows)
    events = wire.rows_events(*[wire.event(INSERT, 300, images)] * 20)

    assert_same(decode(layout, events), decode_plainly(layout, events))


def test_many_events_of_different_lengths() -> None:
    layout = compile_layout(TABLE_MAP)
    counts = [1, 40, 3, *([2] * 30), 17, 5, 1]
    events = wire.rows_events(*(wire.event(INSERT, 5, ROW * count) for count in counts))
    decoded = decode(layout, events)

    assert decoded.event.tolist() == [n for n, count in enumerate(counts) for _ in range(count)]
    assert_same(decoded, decode_plainly(layout, events))
