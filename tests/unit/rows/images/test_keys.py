"""Which updates change the key."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.rows.images import partial
from airflow_provider_binlog.rows.layout import compile_layout
from tests.support.decoded import decode
from tests.unit.rows import wire

COLUMNS = (wire.varchar(2000), wire.column(ColumnType.LONG), wire.varchar(10))


@pytest.fixture(params=[0, 1000], ids=["by word", "one by one"], autouse=True)
def _few(request: pytest.FixtureRequest) -> Any:
    with patch.object(partial, "FEW_VALUES", request.param):
        yield


def changes(key: list[int], *updates: tuple[list[Any], list[Any]]) -> list[int]:
    """Return the change codes that are left of these updates."""
    table_map = wire.table(*COLUMNS, key=key)
    images = b"".join(wire.image(table_map, row) for update in updates for row in update)
    events = wire.rows_events(wire.event(EventType.UPDATE_ROWS, 3, images))
    decoded = decode(compile_layout(table_map), events, before_images=BeforeImages.KEY_CHANGES)
    codes: list[int] = decoded.change.tolist()
    return codes


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (b"a", b"a", False),
        (b"a", b"A", True),
        (b"a", b"ab", True),
        (b"", b"", False),
        (b"", b"\0", True),
        (b"12345678", b"12345678", False),
        (b"12345678", b"12345679", True),
        (b"x" * 1000, b"x" * 1000, False),
        (b"x" * 1000, b"x" * 999 + b"y", True),
        (b"y" + b"x" * 999, b"x" * 1000, True),
        (None, None, False),
        (None, b"", True),
        (b"", None, True),
    ],
)
def test_a_key_of_text(before: bytes | None, after: bytes | None, changed: bool) -> None:
    left = [1, 2] if changed else [2]

    assert changes([0], ([before, 1, b"p"], [after, 2, b"q"])) == left
    # The same among others, of which one is kept and one is not.
    others = ([b"k", 1, b""], [b"m", 1, b""]), ([b"k", 1, b""], [b"k", 2, b"zz"])
    assert changes([0], others[0], ([before, 1, b""], [after, 1, b""]), others[1]) == [
        1,
        2,
        *left,
        2,
    ]


def test_every_column_of_the_key_counts() -> None:
    row = [b"k", 1, b"z"]

    assert changes([1, 0], (row, [b"k", 2, b"z"])) == [1, 2]
    assert changes([1, 0], (row, [b"l", 1, b"z"])) == [1, 2]
    assert changes([1, 0], (row, [b"k", 1, b"other"])) == [2]


def test_without_a_key_every_before_image_is_kept() -> None:
    row = [b"k", 1, b"z"]

    assert changes([], (row, row), (row, row)) == [1, 2, 1, 2]


def test_inserts_and_deletes_are_kept() -> None:
    table_map = wire.table(*COLUMNS, key=[0])
    image = wire.image(table_map, [b"k", 1, b"z"])
    events = wire.rows_events(
        wire.event(EventType.WRITE_ROWS, 3, image * 2),
        wire.event(EventType.UPDATE_ROWS, 3, image * 4),
        wire.event(EventType.DELETE_ROWS, 3, image),
    )
    layout = compile_layout(table_map)
    kept = decode(layout, events, before_images=BeforeImages.KEY_CHANGES)

    assert kept.change.tolist() == [0, 0, 2, 2, 3]
    assert decode(layout, events).change.tolist() == [0, 0, 1, 2, 1, 2, 3]
    assert kept.event.tolist() == [0, 0, 1, 1, 2]
