"""Rows of columns that only information_schema distinguishes, against the reference decoder.

MariaDB's INET4, INET6, UUID and VECTOR look like BINARY and VARBINARY in the log, and of the
temporals from before MySQL 5.6 it does not say the size. Under `binlog_row_metadata=MINIMAL` it
says no more of any column. So an input begins with what information_schema says of each column.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle
from random import Random

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.binlog.header import HEADER_SIZE, EventType
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema_history.completion import complete, mismatch
from airflow_provider_binlog.sql.columns import Facts
from tests.fuzz import seeds
from tests.fuzz.log_targets import READINGS, compare, mutate_rows, rows_events
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target
from tests.support import builder
from tests.support.table_map_builder import table_map
from tests.unit.rows import wire

_FORMATS = (builder.parsed_format(builder.MARIADB), builder.parsed_format(builder.MYSQL))

_DATA_TYPES = (
    *(None, "inet4", "inet6", "uuid", "vector", "time", "datetime", "timestamp"),
    *("char", "binary", "varchar", "varbinary", "json", "point", "enum", "set", "int", "bit"),
)
_CHARSETS = (None, "binary", "utf8mb4", "latin1", "gbk", "utf16")
_VALUES = (None, ("a", "b"), ("é", ""), tuple(f"l{number}" for number in range(20)))
_FACTS = struct.Struct("BBBB")
"""Of each column: data type, digits of a second, character set with values, and flags."""

_UNSIGNED, _GENERATED, _CONTRADICTS = 1, 2, 4
_READING_SHIFT = 3
"""Above the first column's flags stands which server it is, and how the rows are read: all ways to
read all inputs would take six times as long."""

_WAYS = [(each, *reading) for each in _FORMATS for reading in READINGS]
_NO_DIGITS = 9

_PARTS_MAX = 6
_RECORDED_BYTES_MAX = 2000


def _facts(code: Sequence[int]) -> Facts:
    data_type, fsp, text, flags = code
    return Facts(
        data_type=_DATA_TYPES[data_type % len(_DATA_TYPES)],
        unsigned=bool(flags & _UNSIGNED),
        fsp=fsp if fsp < _NO_DIGITS else None,
        charset=_CHARSETS[text % len(_CHARSETS)],
        values=_VALUES[text // len(_CHARSETS) % len(_VALUES)],
        generated=bool(flags & _GENERATED) or None,
    )


def completed(table: TableMap, said: bytes, flavor: Flavor) -> TableMap:
    """Return a table with what is said of its columns, one after the other, and again."""
    codes: list[tuple[int, ...]] = list(
        _FACTS.iter_unpack(said[: len(said) // _FACTS.size * _FACTS.size])
    )
    columns = []
    for index, (logged, code) in enumerate(
        zip(table.columns, cycle(codes or [(0, 0, 0, 0)]), strict=False)
    ):
        facts = _facts(code)
        # What the log contradicts is never put onto a column; but once more, here it may be.
        if mismatch(logged, facts) is not None and not code[3] & _CONTRADICTS:
            facts = replace(facts, data_type=None, values=None, charset=None)
        columns.append(complete(logged, f"c{index}", facts, flavor))
    return replace(table, columns=tuple(columns))


def run_completed_rows(data: bytes) -> None:
    """Decode rows as both decoders do, of a table completed from information_schema."""
    said, mapped, *parts = (*seeds.unpack(data), b"", b"")[: 2 + _PARTS_MAX]
    events = rows_events([part for part in parts if len(part) >= HEADER_SIZE])
    way = said[_FACTS.size - 1] >> _READING_SHIFT if len(said) >= _FACTS.size else 0
    file_format, policies, allow_missing_metadata = _WAYS[way % len(_WAYS)]
    table = TableMap.parse(mapped[HEADER_SIZE:], file_format)
    table = completed(table, said, file_format.flavor)
    layout = compile_layout(table, policies=policies, allow_missing_metadata=allow_missing_metadata)
    compare(layout, events, BeforeImages.KEY_CHANGES)


def mutate_completed_rows(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage what information_schema says, the table, or its events, mostly an event."""
    said, *parts = seeds.unpack(data)
    if random.random() < 0.2:
        other = seeds.unpack(random.choice(others))[0]
        said = mutate(random, said, [said, other])[: _FACTS.size * 40]
    if random.random() < 0.9:
        tables = [seeds.pack(seeds.unpack(random.choice(others))[1:]) for _ in range(2)]
        parts = seeds.unpack(mutate_rows(random, seeds.pack(parts), tables))
    return seeds.pack([said, *parts])


# ------------------------------------------------------------------------------------ seeds

_CLOCK = b"\x65\x89\x01\x02\x01\x02\x03"
_DATETIME = (((2024 * 13 + 2) * 32 + 29) * 24 + 1) * 3600


def _code(data_type: str | None, fsp: int = _NO_DIGITS, flags: int = 0) -> bytes:
    binary = _CHARSETS.index("binary")
    return _FACTS.pack(_DATA_TYPES.index(data_type), fsp, binary if data_type else 0, flags)


def _addresses() -> bytes:
    columns = (
        wire.column(ColumnType.LONG, name="id"),
        wire.char(4, collation=wire.BINARY, name="a"),
        wire.char(16, collation=wire.BINARY, name="b"),
        wire.char(16, collation=wire.BINARY, name="c"),
        wire.varchar(16, collation=wire.BINARY, name="d"),
        wire.varchar(400, collation=wire.BINARY, name="e"),
    )
    said = map(_code, (None, "inet4", "inet6", "uuid", "vector", "vector"))
    floats = struct.pack("<3f", 1.5, -2.25, float("inf"))
    return _packed(
        said,
        columns,
        [1, b"\xc0\x00\x02\x01", b"\x20\x01\x0d\xb8" + bytes(11) + b"\x07", bytes(16), b"", floats],
        [2, b"\x0a", bytes(10) + b"\xff\xff\1\2\3\4", b"\x12" * 16, floats, floats * 30],
        [3, None, b"\1\0" * 8, None, None, b""],
    )


def _temporals(digits: Sequence[int]) -> bytes:
    kinds = (ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP)
    sizes = ((3, 4, 4, 5, 5, 5, 6), (8, 6, 6, 7, 7, 7, 8), (4, 5, 5, 6, 6, 7, 7))
    columns, said = [wire.column(ColumnType.LONG, name="id")], [_code(None)]
    rows: list[list[object]] = [[1], [2], [3]]
    for fsp in digits:
        for kind, of_kind in zip(kinds, sizes, strict=True):
            size, value = of_kind[fsp], _CLOCK
            if kind == ColumnType.DATETIME:
                value = (_DATETIME * 10**fsp + 5).to_bytes(size, "big")
                value = value if fsp else (20_240_229_010_203).to_bytes(size, "little")
            name = kind.name.lower()
            columns.append(wire.column(kind, name=f"{name}{fsp}"))
            said.append(_code(name, fsp))
            rows[0].append(value[:size])
            rows[1].append(bytes(size))
            rows[2].append(None)
    return _packed(said, columns, *rows)


def _unnamed() -> bytes:
    kinds = (
        (ColumnType.LONG, b""),
        (ColumnType.VARCHAR, b"\x50\0"),
        (ColumnType.ENUM, b"\x01"),
        (ColumnType.SET, b"\x01"),
        (ColumnType.STRING, b"\xfe\x10"),
    )
    columns = [wire.column(*kind, collation=None, unsigned=None) for kind in kinds]
    latin1, values = _CHARSETS.index("latin1"), len(_CHARSETS)
    said = (
        _FACTS.pack(_DATA_TYPES.index("int"), _NO_DIGITS, 0, _UNSIGNED),
        _FACTS.pack(_DATA_TYPES.index("varchar"), _NO_DIGITS, latin1, 0),
        _FACTS.pack(_DATA_TYPES.index("enum"), _NO_DIGITS, latin1 + values, 0),
        _FACTS.pack(_DATA_TYPES.index("set"), _NO_DIGITS, latin1 + 2 * values, 0),
        _code("uuid", flags=_GENERATED),
    )
    return _packed(said, columns, [1, b"\xe9t\xe9", 2, 3, b"\1\2"], [2, None, None, None, None])


def _packed(
    said: Iterable[bytes], columns: Sequence[TableMapColumn], *rows: Sequence[object]
) -> bytes:
    """Return an input: rows written, updated with all columns and with some, and deleted."""
    table = wire.table(*columns, key=(0,))
    if columns[0].name is None:
        table = replace(table, primary_key=None)
    width = len(columns)
    images = [wire.image(table, row) for row in rows]
    key = wire.some_image(table, rows[0], [0])
    some = wire.some_image(table, rows[1], range(1, width, 2))
    odd = sum(1 << column for column in range(1, width, 2))
    events = [
        wire.event(EventType.WRITE_ROWS, width, b"".join(images)),
        wire.event(EventType.UPDATE_ROWS_V1, width, images[0] + images[1]),
        wire.event(EventType.UPDATE_ROWS, width, key + some, present=1, present_after=odd),
        wire.event(EventType.DELETE_ROWS, width, images[-1]),
    ]
    mapped = bytes(HEADER_SIZE) + table_map(table, Flavor.MARIADB)
    return seeds.pack([b"".join(said), mapped, *events])


def _read_as(way: int, data: bytes) -> bytes:
    said, *parts = seeds.unpack(data)
    first = said[: _FACTS.size - 1] + bytes((said[_FACTS.size - 1] | way << _READING_SHIFT,))
    return seeds.pack([first + said[_FACTS.size :], *parts])


@cache
def completed_tables() -> tuple[bytes, ...]:
    """Return tables of such columns, and those of the corpus with something said of them."""
    own = [_addresses(), *(_temporals((each,)) for each in range(7)), _temporals(range(7))]
    own = [_read_as(way, each) for way in range(len(_WAYS)) for each in (*own, _unnamed())]
    some = b"".join(map(_code, ("inet4", "vector", "uuid", None)))
    recorded = [each for each in seeds.tables() if len(each) <= _RECORDED_BYTES_MAX]
    said = (seeds.pack([some, *seeds.unpack(each)]) for each in recorded[::4])
    return (*own, *said)


COMPLETION_TARGETS = (
    Target("completed_rows", run_completed_rows, completed_tables, mutate_completed_rows),
)
