"""Rows per second of the lock-step decoder: `python -m tests.bench.rows_decode`.

On one core: bulk inserts into a table of 11 columns, events of 8 KiB; 100 thousand updates of one
row each; updates under binlog_row_image=MINIMAL, of one set of columns and of hundreds. Then the
parts: the walk alone, and each column.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.support.json_documents import document
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_binlog.rows.decode import RowsEvents

EVENT_BYTES = 8192
ROWS = 300_000
UPDATES = 100_000
DOCUMENTS = 200_000
TEMPLATES = 2_000

TABLE = wire.table(
    wire.column(ColumnType.LONGLONG, unsigned=True),
    wire.column(ColumnType.LONG),
    wire.varchar(160),
    wire.varchar(400),
    wire.column(ColumnType.NEWDECIMAL, bytes([12, 2])),
    wire.column(ColumnType.TINY),
    wire.column(ColumnType.DATETIME2, b"\x06"),
    wire.column(ColumnType.TIMESTAMP2, b"\x00"),
    wire.column(ColumnType.BLOB, b"\x02"),
    wire.column(ColumnType.DOUBLE, b"\x08"),
    wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"new", b"paid", b"sent")),
    key=[0],
)
JSON_TABLE = wire.table(
    wire.column(ColumnType.LONG), wire.column(ColumnType.JSON, b"\x04"), key=[0]
)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def row(number: int) -> list[Any]:
    """Return one row: about 110 bytes of image."""
    random.seed(number)
    return [
        number,
        random.randint(-(2**31), 2**31 - 1),
        f"customer {number}".encode(),
        f"customer.{number}@example.com, {'x' * random.randint(0, 20)}".encode(),
        Decimal(random.randint(0, 10**8)).scaleb(-2),
        random.randint(-128, 127),
        EPOCH + timedelta(seconds=number, microseconds=number),
        1_700_000_000_000_000 + number * 1_000_000,
        None if number % 4 == 0 else b"a note " * random.randint(0, 4),
        random.random(),
        random.randint(1, 3),
    ]


def bulk(rows: int = ROWS) -> RowsEvents:
    """Return inserts in events of `EVENT_BYTES`."""
    return inserts(11, [wire.image(TABLE, row(number)) for number in range(TEMPLATES)], rows)


def json_documents(count: int = DOCUMENTS) -> RowsEvents:
    """Return inserts of a number and a document of 10 keys each, about 230 bytes of it."""
    images = [
        wire.image(JSON_TABLE, [number, document(json_document(number))])
        for number in range(TEMPLATES)
    ]
    return inserts(2, images, count)


def json_document(number: int) -> dict[str, Any]:
    """Return one document."""
    random.seed(number)
    return {
        "id": number * 100,
        "name": f"customer {number}",
        "email": f"c{number}@example.com",
        "note": 'says "hi"\n' if number % 10 == 0 else "plain text note",
        "price": round(random.random() * 1000, 2),
        "quantity": random.randint(0, 100_000),
        "active": number % 2 == 0,
        "address": {"street": f"Main St {number % 100}", "zip": random.randint(10_000, 99_999)},
        "tags": [1, 2, "x"],
        "extra": None if number % 3 else "text",
    }


def inserts(width: int, images: Sequence[bytes], rows: int) -> RowsEvents:
    """Return inserts of these images over and over."""
    events, pending, size = [], [], 0
    for number in range(rows):
        pending.append(images[number % len(images)])
        size += len(pending[-1])
        if size > EVENT_BYTES:
            events.append(wire.event(EventType.WRITE_ROWS, width, b"".join(pending)))
            pending, size = [], 0
    return wire.rows_events(*events)


def single_updates(count: int = UPDATES) -> RowsEvents:
    """Return updates of one row each."""
    images = [wire.image(TABLE, row(number)) for number in range(TEMPLATES)]
    events = [
        wire.event(EventType.UPDATE_ROWS, 11, images[number % TEMPLATES] * 2)
        for number in range(count)
    ]
    return wire.rows_events(*events)


def minimal_updates(count: int, *, sets: int, event_bytes: int) -> RowsEvents:
    """Return updates with the key before and, after, one of so many sets of columns an event."""
    chosen = random.Random(1)
    after = [sorted(chosen.sample(range(1, 11), chosen.randint(1, 4))) for _ in range(sets)]
    rows = [row(number) for number in range(200)]
    keys = [wire.some_image(TABLE, each, [0]) for each in rows]
    images = [[wire.some_image(TABLE, each, held) for each in rows] for held in after]
    events, done = [], 0
    while done < count:
        which, size = chosen.randrange(sets), 0
        pairs: list[bytes] = []
        while not pairs or (size < event_bytes and done < count):
            pairs.append(keys[done % 200] + images[which][done % 200])
            size += len(pairs[-1])
            done += 1
        present = sum(1 << column for column in after[which])
        joined = b"".join(pairs)
        events.append(
            wire.event(EventType.UPDATE_ROWS, 11, joined, present=1, present_after=present)
        )
    return wire.rows_events(*events)


def best(work: Callable[[], object], repeat: int = 5) -> float:
    """Return the shortest of some runs, in seconds."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def report(name: str, layout: RowLayout, events: RowsEvents, mode: BeforeImages) -> None:
    """Print one case."""
    images = len(decode(layout, events))
    seconds = best(lambda: decode(layout, events, before_images=mode))
    size = int((events.end - events.start).sum())
    print(
        f"{name:34} {images / seconds:12,.0f} images/s {size / seconds / 1e6:7.1f} MB/s"
        f" {seconds / images * 1e9:6.0f} ns/image"
    )


def main() -> None:
    """Print all cases."""
    layout = compile_layout(TABLE)
    logged, updates = bulk(), single_updates()
    report("bulk inserts, 11 columns", layout, logged, BeforeImages.ALL)
    report("single-row updates, all", layout, updates, BeforeImages.ALL)
    report("single-row updates, key changes", layout, updates, BeforeImages.KEY_CHANGES)
    report("JSON", compile_layout(JSON_TABLE), json_documents(), BeforeImages.ALL)
    for sets in (1, 300):
        for name, size in (("bulk", EVENT_BYTES), ("single-row", 0)):
            some = minimal_updates(UPDATES, sets=sets, event_bytes=size)
            title = f"{name} updates, MINIMAL, {sets} sets"
            report(title, layout, some, BeforeImages.KEY_CHANGES)
    three = bulk(200).slice(0, 1)
    small = best(lambda: decode(layout, three), 50)
    print(f"one event of {len(decode(layout, three))} rows: {small * 1e6:.0f} us")
    tiny = wire.rows_events(wire.event(EventType.WRITE_ROWS, 11, wire.image(TABLE, row(1)) * 3))
    print(f"one event of 3 rows: {best(lambda: decode(layout, tiny), 50) * 1e6:.0f} us")
    few = bulk(2_000)
    fast, plain = best(lambda: decode(layout, few)), best(lambda: decode_plainly(layout, few), 1)
    print(f"the plain reference decoder takes {plain / fast:.0f} times as long")
    columns(layout, logged)


def columns(layout: RowLayout, events: RowsEvents) -> None:
    """Print what each column of a bulk insert costs."""
    from airflow_provider_binlog.rows import layout as module

    taken: dict[str, float] = {}
    convert = module._convert_column

    def timed(column: Any, values: Any, event: Any) -> Any:
        began = time.perf_counter()
        array = convert(column, values, event)
        name = f"{column.name} {column.mysql_type}"
        taken[name] = taken.get(name, 0.0) + time.perf_counter() - began
        return array

    module._convert_column = timed
    try:
        began = time.perf_counter()
        count = len(decode(layout, events))
        total = time.perf_counter() - began
    finally:
        module._convert_column = convert
    for name, seconds in taken.items():
        print(f"  {name:34} {seconds / count * 1e9:6.1f} ns")
    rest = total - sum(taken.values())
    print(f"  {'headers, walk, offsets, joining':34} {rest / count * 1e9:6.1f} ns")


if __name__ == "__main__":
    main()
