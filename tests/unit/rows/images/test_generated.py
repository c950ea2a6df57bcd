"""Generated columns that MariaDB does not log: refused where they can be known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

# CREATE TABLE g (id INT PRIMARY KEY, a INT, v INT AS (a + 1), z INT, t TEXT)
COLUMNS = (
    wire.column(ColumnType.LONG, name="id"),
    wire.column(ColumnType.LONG, name="a"),
    wire.column(ColumnType.LONG, name="v"),
    wire.column(ColumnType.LONG, name="z"),
    wire.column(ColumnType.BLOB, b"\x02", name="t"),
)
INSERT, UPDATE, DELETE = (
    EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_V1,
)
V2 = {INSERT: EventType.WRITE_ROWS, UPDATE: EventType.UPDATE_ROWS, DELETE: EventType.DELETE_ROWS}
WHOLE, KEY = [0, 1, 2, 3, 4], [0]
WITHOUT = [0, 1, 3, 4]


def layout(*, known: bool, key: Sequence[int] = (0,)) -> RowLayout:
    columns = [replace(each, generated=each.name == "v") if known else each for each in COLUMNS]
    return compile_layout(wire.table(*columns, key=key))


def event(kind: EventType, *sets: list[int]) -> bytes:
    table_map = wire.table(*COLUMNS)
    images = b"".join(wire.some_image(table_map, [1, 2, 3, 4, b"five"], held) for held in sets)
    first, last = (sum(1 << column for column in sets[each]) for each in (0, -1))
    return wire.event(kind, len(COLUMNS), images * 2, present=first, present_after=last)


# What is logged; whether it is refused with information_schema, and without.
CASES = [
    (INSERT, [WHOLE], False, False),
    (INSERT, [[0, 1]], True, False),  # MINIMAL
    (INSERT, [[0, 1, 2]], False, False),
    (UPDATE, [WHOLE, WHOLE], False, False),
    (UPDATE, [WITHOUT, WITHOUT], True, True),  # 11.8.9, FULL
    (UPDATE, [[0, 1, 3], WITHOUT], True, True),  # 11.8.9, NOBLOB
    (UPDATE, [WHOLE, [1, 3]], True, False),  # FULL_NODUP
    (UPDATE, [KEY, [1]], True, False),  # MINIMAL
    (UPDATE, [KEY, [0, 1]], True, False),
    (UPDATE, [KEY, [1, 2]], False, False),
    (UPDATE, [[0, 1, 2, 3], [0, 1, 2, 3]], False, False),  # NOBLOB: t is large
    (UPDATE, [[0, 1, 2, 3], WHOLE], False, False),
    (DELETE, [KEY], False, False),
    (DELETE, [WITHOUT], False, False),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("kind", "sets", "when_known", "when_not"), CASES)
def test_a_value_that_is_not_logged_is_refused_on_mariadb(
    kind: EventType, sets: list[list[int]], when_known: bool, when_not: bool, known: bool
) -> None:
    table_map = layout(known=known)
    good = event(INSERT, WHOLE)
    events = wire.rows_events(good, event(kind, *sets), good)

    if not (when_known if known else when_not):
        assert decode(table_map, events).columns == decode_plainly(table_map, events).columns
        return
    with pytest.raises(UnsupportedError, match=r"binlog_row_image=FULL.*event=1"):
        decode(table_map, events)
    with pytest.raises(UnsupportedError):
        decode_plainly(table_map, events)


@pytest.mark.parametrize(("kind", "sets", "_one", "_other"), CASES)
def test_mysql_logs_what_changes(
    kind: EventType, sets: list[list[int]], _one: bool, _other: bool
) -> None:
    events = wire.rows_events(event(V2[kind], *sets))

    assert len(decode(layout(known=True), events)) == 2 * len(sets)


def test_without_a_key_a_before_image_lacks_generated_columns_alone() -> None:
    table_map = layout(known=False, key=())
    logged = wire.rows_events(event(UPDATE, WHOLE, WHOLE))
    not_logged = wire.rows_events(event(UPDATE, WITHOUT, WITHOUT))

    assert decode(table_map, logged).columns == decode_plainly(table_map, logged).columns
    with pytest.raises(UnsupportedError, match="generated"):
        decode(table_map, not_logged)
    with pytest.raises(UnsupportedError):
        decode_plainly(table_map, not_logged)


def test_images_as_they_are_lack_what_is_not_logged() -> None:
    table_map = compile_layout(wire.table(*COLUMNS, key=(0,)), allow_missing_metadata=True)

    rows = decode(table_map, wire.rows_events(event(UPDATE, WITHOUT, WITHOUT)))

    assert {rows.images[number] for number in rows.image.tolist()} == {tuple(WITHOUT)}
