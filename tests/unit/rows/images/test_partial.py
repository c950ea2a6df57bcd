"""Images that do not hold all columns: as servers log them, and what they are completed with."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.binlog.json.diff import apply_diffs
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows import decode as decode_module
from airflow_provider_binlog.rows.decode import DecodedRows, decode_pieces
from airflow_provider_binlog.rows.images import partial, walk
from airflow_provider_binlog.rows.layout import compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.rows.decode import RowsEvents

INSERT, UPDATE, DELETE = EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS
PARTIAL = EventType.PARTIAL_UPDATE_ROWS

# CREATE TABLE p (id INT PRIMARY KEY, b INT, c VARCHAR(10), bl TEXT)
TABLE_MAP = wire.table(
    wire.column(ColumnType.LONG, nullable=False, name="id"),
    wire.column(ColumnType.LONG, name="b"),
    wire.varchar(40, name="c"),
    wire.column(ColumnType.BLOB, b"\x02", name="bl"),
    key=[0],
)
LAYOUT = compile_layout(TABLE_MAP)


@pytest.fixture(params=[1, 1000], ids=["vectors", "one by one"], autouse=True)
def _few(request: pytest.FixtureRequest) -> Iterator[None]:
    with patch.object(walk, "FEW_EVENTS", request.param):
        yield


def seen(decoded: DecodedRows) -> list[tuple[int, dict[str, Any]]]:
    """Return each row's change and what it holds; what it does not hold is NULL."""
    names = [column.name for column in LAYOUT.columns]
    rows = []
    columns = [array.to_pylist() for array in decoded.columns]
    for change, image, *values in zip(
        decoded.change.tolist(), decoded.image.tolist(), *columns, strict=True
    ):
        held = decoded.images[image]
        assert all(value is None for c, value in enumerate(values) if c not in held)
        rows.append((change, {names[column]: values[column] for column in held}))
    return rows


def read(*events: bytes, keep: BeforeImages = BeforeImages.ALL) -> list[tuple[int, dict[str, Any]]]:
    """Return what both decoders read, the same."""
    logged = wire.rows_events(*events)
    found = seen(decode(LAYOUT, logged, before_images=keep))
    assert found == seen(decode_plainly(LAYOUT, logged, before_images=keep))
    return found


# The bytes of the images are MySQL 9.7's and, with padding, MariaDB's.
MINIMAL = wire.event(
    UPDATE,
    4,
    bytes.fromhex("0006000000 00030000000179"),
    present=0b0001,
    present_after=0b0110,
)
NOBLOB = wire.event(
    EventType.UPDATE_ROWS_V1,
    4,
    bytes.fromhex("f806000000030000000179 f006000000030000000179010071"),
    present=0b0111,
    present_after=0b1111,
)
FULL_NODUP = wire.event(
    EventType.UPDATE_ROWS_V1,
    4,
    bytes.fromhex("f00600000003000000017901007a fe010071"),
    present=0b1111,
    present_after=0b1000,
)


def test_minimal_holds_the_key_and_what_changed() -> None:
    assert read(MINIMAL) == [(1, {"id": 6}), (2, {"id": 6, "b": 3, "c": "y"})]
    assert read(MINIMAL, keep=BeforeImages.KEY_CHANGES) == [(2, {"id": 6, "b": 3, "c": "y"})]


def test_noblob_holds_a_blob_where_it_changed() -> None:
    before = {"id": 6, "b": 3, "c": "y"}

    assert read(NOBLOB) == [(1, before), (2, before | {"bl": "q"})]


def test_full_nodup_is_completed_from_the_before_image() -> None:
    before = {"id": 6, "b": 3, "c": "y", "bl": "z"}

    assert read(FULL_NODUP) == [(1, before), (2, before | {"bl": "q"})]
    assert read(FULL_NODUP, keep=BeforeImages.KEY_CHANGES) == [(2, before | {"bl": "q"})]


def test_an_insert_holds_what_it_was_given() -> None:
    image = wire.some_image(TABLE_MAP, [5, None, None, None], [0, 1])
    event = wire.event(INSERT, 4, image, present=0b0011)

    # b was given as NULL; c and bl are absent, which is not NULL.
    assert read(event) == [(0, {"id": 5, "b": None})]


def test_all_kinds_in_one_group() -> None:
    full = wire.event(INSERT, 4, wire.image(TABLE_MAP, [1, 2, b"three", b"four"]) * 3)
    delete = wire.event(DELETE, 4, wire.some_image(TABLE_MAP, [9] * 4, [0]) * 2, present=1)
    nothing = wire.event(INSERT, 4, b"", present=0)
    everything = {"id": 1, "b": 2, "c": "three", "bl": "four"}
    expected = [
        *[(0, everything)] * 3,
        (1, {"id": 6}),
        (2, {"id": 6, "b": 3, "c": "y"}),
        (0, {}),
        *[(3, {"id": 9})] * 2,
        *read(FULL_NODUP),
        *read(NOBLOB),
    ]

    assert read(full, MINIMAL, nothing, delete, FULL_NODUP, NOBLOB) == expected
    assert read(*[full, MINIMAL, nothing, delete, FULL_NODUP, NOBLOB] * 20) == expected * 20


@pytest.mark.parametrize("group_bytes", [1, 100, 10**6])
def test_groups_do_not_show(group_bytes: int) -> None:
    events = [MINIMAL, FULL_NODUP, NOBLOB, MINIMAL] * 5
    expected = read(*events)

    with patch.object(decode_module, "GROUP_BYTES", group_bytes):
        assert read(*events) == expected


def test_a_column_that_no_image_holds_has_its_type() -> None:
    event = wire.event(DELETE, 4, wire.some_image(TABLE_MAP, [9] * 4, [0]) * 2, present=1)
    decoded = decode(LAYOUT, wire.rows_events(event))

    assert [array.type for array in decoded.columns] == LAYOUT.schema.types
    assert [array.null_count for array in decoded.columns] == [0, 2, 2, 2]


@pytest.mark.parametrize(
    ("before", "after", "held", "codes"),
    [
        (5, 5, [0, 1], [2]),
        (5, 6, [0, 1], [1, 2]),
        (5, 6, [1], [2]),  # the key is not in the image: it did not change
    ],
)
def test_a_key_changes_only_where_the_after_image_says_so(
    before: int, after: int, held: list[int], codes: list[int]
) -> None:
    images = wire.some_image(TABLE_MAP, [before] * 4, [0])
    images += wire.some_image(TABLE_MAP, [after, 1, b"", b""], held)
    present_after = sum(1 << column for column in held)
    event = wire.event(UPDATE, 4, images, present=1, present_after=present_after)

    found = read(event, MINIMAL, keep=BeforeImages.KEY_CHANGES)

    assert [change for change, _ in found] == [*codes, 2]
    assert found[len(codes) - 1][1] == {"id": after if 0 in held else before, "b": 1}


def test_hidden_columns_are_walked_and_left_out() -> None:
    hidden = wire.column(ColumnType.LONGLONG, unsigned=True)
    layout = compile_layout(replace(TABLE_MAP, hidden=2))

    def events(count: int) -> RowsEvents:
        table = wire.table(*TABLE_MAP.columns, *count * [hidden])
        values = [6, 3, b"y", b"z", *range(count)]
        hashes = [4 + each for each in range(count)]
        every, width = [0, 1, 2, 3, *hashes], 4 + count

        def event(kind: EventType, *held: list[int]) -> bytes:
            images = b"".join(wire.some_image(table, values, each) for each in held)
            first, last = (sum(1 << column for column in held[at]) for at in (0, -1))
            return wire.event(kind, width, images, present=first, present_after=last)

        return wire.rows_events(
            event(INSERT, every, every),
            event(UPDATE, [0], [2, *hashes]),
            event(UPDATE, [0, 1, 2, *hashes], [0, 1, 2, *hashes]),
            # Without the hashes, as MariaDB 11.8.9 logs an update in whole images.
            event(EventType.UPDATE_ROWS_V1, [0, 1, 2, 3], [0, 1, 2, 3]),
            event(DELETE, [0]),
        )

    found, expected = decode(layout, events(2)), decode(LAYOUT, events(0))

    assert found.columns == expected.columns
    assert seen(found) == seen(expected)
    whole = wire.event(
        INSERT,
        6,
        wire.image(wire.table(*TABLE_MAP.columns, hidden, hidden), [6, None, b"y", None, None, 8]),
    )
    assert seen(decode(layout, wire.rows_events(whole))) == [
        (0, {"id": 6, "b": None, "c": "y", "bl": None})
    ]


def test_zero_dates_are_counted_where_they_are_and_not_where_nothing_is() -> None:
    table_map = wire.table(
        wire.column(ColumnType.LONG, name="id"), wire.column(ColumnType.DATE, name="day"), key=[0]
    )
    layout = compile_layout(table_map)
    zero, absent = [1, (0, 0, 0)], [2, None]
    events = wire.rows_events(
        wire.event(INSERT, 2, wire.image(table_map, zero)),
        wire.event(INSERT, 2, wire.some_image(table_map, absent, [0]) * 3, present=1),
        # Twice: before, and after, where it is left out as it did not change.
        wire.event(
            UPDATE,
            2,
            wire.image(table_map, zero) + wire.some_image(table_map, zero, [0]),
            present_after=1,
        ),
    )

    assert decode(layout, events).unrepresentable == {"day": 3}
    assert decode_plainly(layout, events).unrepresentable == {"day": 3}


def test_more_columns_than_a_word_has_bits() -> None:
    table_map = wire.table(
        *[wire.column(ColumnType.TINY) if n % 3 else wire.varchar(20) for n in range(200)], key=[0]
    )
    layout = compile_layout(table_map)
    row = [None if n % 7 == 0 else (n % 100 if n % 3 else b"x") for n in range(200)]
    sets = [list(range(0, 200, each)) for each in (1, 2, 3, 7, 66, 199)]
    events = wire.rows_events(
        *[
            wire.event(
                UPDATE,
                200,
                (wire.some_image(table_map, row, one) + wire.some_image(table_map, row, other)) * 3,
                present=sum(1 << column for column in one),
                present_after=sum(1 << column for column in other),
            )
            for one in sets
            for other in sets
        ]
    )

    fast, plain = decode(layout, events), decode_plainly(layout, events)
    assert fast.columns == plain.columns
    assert [fast.images[n] for n in fast.image] == [plain.images[n] for n in plain.image]


def test_the_bytes_of_a_wide_table_need_not_be_walked() -> None:
    # A route has the columns that some image holds, not all of the table's.
    table_map = wire.table(*[wire.varchar(20)] * 1000, key=[0])
    layout = compile_layout(table_map)
    image = wire.some_image(table_map, [b"x"] * 1000, [0])
    events = wire.rows_events(*[wire.event(DELETE, 1000, image * 100, present=1)] * 50)

    with patch.object(walk, "_walk_values", wraps=walk._walk_values) as walked:
        decode(layout, events)

    routes = {len(call.args[0].segments) for call in walked.call_args_list}
    assert routes <= {1}


def test_a_partial_update_without_differences() -> None:
    # Written for all updates of a session with PARTIAL_JSON, of tables without JSON as well.
    images = bytes.fromhex("0006000000") + b"\0" + bytes.fromhex("00030000000179")
    event = wire.event(PARTIAL, 4, images * 2, present=0b0001, present_after=0b0110)

    assert read(event) == read(MINIMAL) * 2
    offsets = decode(LAYOUT, wire.rows_events(event)).offset
    assert offsets.tolist() == [32, 37, 45, 50]
    assert decode_plainly(LAYOUT, wire.rows_events(event)).offset.tolist() == offsets.tolist()


# ------------------------------------------------------------------- JSON

JSON_TABLE_MAP = wire.table(
    wire.column(ColumnType.LONG, name="id"),
    wire.column(ColumnType.JSON, b"\x04", name="j"),
    wire.varchar(40, name="c"),
    wire.column(ColumnType.JSON, b"\x04", name="k"),
    key=[0],
)
# {"a": 1}, and `$.a` replaced by 2: as MySQL logs it.
DOCUMENT = bytes.fromhex("00 0100 0c00 0b00 0100 05 0100 61")
DIFF = bytes.fromhex("00 03 242e61 03 050200")


def json_event(*after: bytes, before: list[int] | None = None, rows: int = 1) -> bytes:
    """Return an event with an id, DOCUMENT twice and a text before, `after` after."""
    held = [0, 1, 2, 3] if before is None else before
    image = wire.some_image(JSON_TABLE_MAP, [6, DOCUMENT, b"text", DOCUMENT], held)
    present = sum(1 << column for column in held)
    pairs = b"".join(image + each for each in after) * rows
    return wire.event(PARTIAL, 4, pairs, present=present, present_after=0b1111)


def after_image(bits: int, j: bytes | None, k: bytes | None) -> bytes:
    image = wire.image(JSON_TABLE_MAP, [6, j, b"text", k])
    return (b"\0" if bits < 0 else bytes([1, bits])) + image


def documents(*events: bytes, keep: BeforeImages = BeforeImages.ALL) -> list[list[str | None]]:
    """Return the after-images' JSON columns; both decoders find the same documents."""
    layout = compile_layout(JSON_TABLE_MAP)
    logged = wire.rows_events(*events)
    found = decode(layout, logged, before_images=keep)
    plain = decode_plainly(layout, logged, before_images=keep)
    assert found.columns == plain.columns
    assert found.offset.tolist() == plain.offset.tolist()
    columns = [found.columns[column].to_pylist() for column in (1, 3)]
    return [[each[row] for each in columns] for row in np.flatnonzero(found.change == 2).tolist()]


@pytest.mark.parametrize("keep", BeforeImages)
@pytest.mark.parametrize("rows", [1, 40])
def test_differences_become_whole_documents(keep: BeforeImages, rows: int) -> None:
    event = json_event(
        after_image(0b01, DIFF, DOCUMENT),
        after_image(0b10, None, DIFF),
        after_image(0b11, DIFF + DIFF, b""),  # no differences: as before
        after_image(-1, DOCUMENT, None),
        rows=rows,
    )
    one, two = '{"a": 1}', '{"a": 2}'
    expected = [[two, one], [None, two], [two, one], [one, None]]

    assert documents(event, keep=keep) == expected * rows
    assert documents(*[event] * 20, keep=keep) == expected * rows * 20


def test_differences_are_applied_once_in_however_many_pieces() -> None:
    event = json_event(after_image(0b01, DIFF, DOCUMENT))
    with patch.object(partial, "apply_diffs", wraps=apply_diffs) as applied:
        events = wire.rows_events(*[event] * 20)
        pieces = list(decode_pieces(compile_layout(JSON_TABLE_MAP), events, rows_max=4))

    assert len(pieces) > 1
    assert applied.call_count == 20


def test_differences_to_a_document_that_was_not_logged_name_the_settings() -> None:
    event = json_event(after_image(0b10, DOCUMENT, DIFF), before=[0, 1])
    layout = compile_layout(JSON_TABLE_MAP)
    good = json_event(after_image(0b11, DIFF, DIFF))

    with pytest.raises(UnsupportedError, match="binlog_row_value_options=''") as raised:
        decode(layout, wire.rows_events(good, event))

    assert "binlog_row_image=FULL" in str(raised.value)
    assert raised.value.context == {"table": "shop.orders", "column": "k", "event": 1}
    with pytest.raises(UnsupportedError):
        decode_plainly(layout, wire.rows_events(good, event))


@pytest.mark.parametrize("diff", [DIFF[:-1], b"\x03\x00", b"\x00\x03$.z\x03\x05\x02\x00"])
def test_differences_that_do_not_fit_are_refused(diff: bytes) -> None:
    layout = compile_layout(JSON_TABLE_MAP)
    good = json_event(after_image(0b11, DIFF, DIFF))

    with pytest.raises(FormatError, match=r"column=j.*event=1|event=1.*column=j"):
        decode(layout, wire.rows_events(good, json_event(after_image(0b01, diff, DOCUMENT))))


def test_differences_to_null_are_refused() -> None:
    before = wire.image(JSON_TABLE_MAP, [6, None, b"text", DOCUMENT])
    event = wire.event(PARTIAL, 4, before + after_image(0b01, DIFF, DOCUMENT))

    with pytest.raises(FormatError, match="NULL"):
        decode(compile_layout(JSON_TABLE_MAP), wire.rows_events(event))


def test_any_cut_is_refused() -> None:
    layout = compile_layout(JSON_TABLE_MAP)
    whole = json_event(after_image(0b01, DIFF, DOCUMENT))
    for size in range(len(whole) - 1, 27, -1):
        with contextlib.suppress(FormatError):
            assert len(decode(layout, wire.rows_events(whole[:size]))) == 0
