"""The walk: vectors and one by one find the same offsets, and no length leads outside."""

from __future__ import annotations

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import TruncatedError
from airflow_provider_binlog.rows.images import walk
from airflow_provider_binlog.rows.images.located import Images
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.rows.values import Memory
from tests.support.decoded import decode
from tests.unit.rows import wire

# A fixed run, a short text, another run, a long text and one more column.
COLUMNS = (
    wire.column(ColumnType.LONG),
    wire.column(ColumnType.TINY),
    wire.varchar(20),
    wire.column(ColumnType.SHORT),
    wire.column(ColumnType.BLOB, b"\x04"),
    wire.column(ColumnType.INT24),
)
LAYOUT = compile_layout(wire.table(*COLUMNS))
FULL = [b"\1\0\0\0", b"\2", b"\3abc", b"\4\0", b"\5\0\0\0vwxyz", b"\6\0\0"]


@pytest.fixture(params=[1, 1000], ids=["vectors", "one by one"])
def few(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


def locate(images: bytes, few: int) -> Images:
    memory = Memory(np.frombuffer(images + bytes(100), dtype=np.uint8), len(images) + 1)
    with patch.object(walk, "FEW_EVENTS", few):
        return walk.locate(LAYOUT.route, memory, np.array([0]), np.array([len(images)]))


def test_offsets_of_an_image(few: int) -> None:
    images = locate(wire.image_of_bytes(FULL), few)

    offsets = [int(images.values(column).offset[0]) for column in range(6)]
    assert offsets == [1, 5, 7, 10, 16, 21]
    assert {c: v.offset.tolist() for c, v in images.each_column()} == {
        column: [offset] for column, offset in enumerate(offsets)
    }
    lengths = [images.values(column).length for column in range(6)]
    assert [None if each is None else each.tolist() for each in lengths] == [
        None,
        None,
        [3],
        None,
        [5],
        None,
    ]


@pytest.mark.parametrize("missing", range(6))
def test_a_null_takes_no_room(missing: int, few: int) -> None:
    row = [None if column == missing else value for column, value in enumerate(FULL)]
    images = locate(wire.image_of_bytes(row) + wire.image_of_bytes(FULL), few)

    assert images.begin.tolist() == [0, 24 - len(FULL[missing])]
    for column in range(6):
        null = images.null(column)
        assert (None if null is None else null.tolist()) == (
            [True, False] if column == missing else None
        )


def test_a_null_bit_counts_on_a_column_that_may_not_be_null() -> None:
    table_map = wire.table(wire.column(ColumnType.LONG, nullable=False), wire.varchar(5))
    events = wire.rows_events(
        wire.event(EventType.WRITE_ROWS, 2, wire.image_of_bytes([None, b"\1x"]))
    )

    rows = decode(compile_layout(table_map), events)
    assert [array.to_pylist() for array in rows.columns] == [[None], ["x"]]


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 100_000, 10, 9])
@pytest.mark.parametrize("others", [0, 30])
def test_a_length_that_leads_outside_is_truncated(length: int, others: int, few: int) -> None:
    row: list[bytes | None] = [*FULL[:4], length.to_bytes(4, "little") + b"vwxyz", FULL[5]]
    good = wire.event(EventType.WRITE_ROWS, 6, wire.image_of_bytes(FULL) * 3)
    bad = wire.event(EventType.WRITE_ROWS, 6, wire.image_of_bytes(row))
    events = wire.rows_events(*[good] * others, bad)

    tracemalloc.start()
    with (
        patch.object(walk, "FEW_EVENTS", few),
        pytest.raises(TruncatedError, match=f"inside a row.*event={others}"),
    ):
        decode(LAYOUT, events)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_images_of_nothing_but_nulls(few: int) -> None:
    images = locate(b"\x3f" * 1000, few)

    assert len(images) == 1000
    assert images.number.tolist() == list(range(1000))
    assert all(bool(v.null is not None and v.null.all()) for _, v in images.each_column())


@pytest.mark.parametrize("others", [0, 30])
def test_a_short_length_that_leads_outside_is_truncated(others: int, few: int) -> None:
    good = wire.event(EventType.WRITE_ROWS, 6, wire.image_of_bytes(FULL))
    bad = wire.event(EventType.WRITE_ROWS, 6, wire.image_of_bytes([*FULL[:2], b"\xff"]))

    with (
        patch.object(walk, "FEW_EVENTS", few),
        pytest.raises(TruncatedError, match=f"inside a row.*event={others}"),
    ):
        decode(LAYOUT, wire.rows_events(*[good] * others, bad))


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=20))
def test_rows_of_one_size_are_found_as_others_are(events: list[list[int]]) -> None:
    # The second column of a 4 is NULL. What is read at the wrong place looks like NULL bits.
    rows = [[[b"\4\4\4\4", None if each >> 2 else b"\4\4"] for each in event] for event in events]
    layout = compile_layout(
        wire.table(wire.column(ColumnType.LONG), wire.column(ColumnType.SHORT, nullable=True))
    )
    logged = wire.rows_events(
        *(
            wire.event(EventType.WRITE_ROWS, 2, b"".join(map(wire.image_of_bytes, event)))
            for event in rows
        )
    )

    found = decode(layout, logged)
    with patch.object(walk, "_of_one_size", lambda *_: None):
        walked = decode(layout, logged)
    assert found.columns == walked.columns
    assert found.offset.tolist() == walked.offset.tolist()
    assert found.event.tolist() == walked.event.tolist()
    nulls = [each >> 2 for event in events for each in event]
    assert found.columns[1].to_pylist() == [None if null else 0x404 for null in nulls]
