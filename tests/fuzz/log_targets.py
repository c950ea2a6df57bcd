"""Whole logs and tables under test: files, streams, and rows against the reference decoder."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from airflow_provider_binlog.binlog.column_types import TEXTS
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import (
    ARTIFICIAL,
    HEADER_SIZE,
    MAGIC,
    EventHeader,
    EventType,
)
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.changes import BeforeImages, InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.rows.decode import DecodedRows, RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.stream.live import Dump
from airflow_provider_binlog.transport.stream.packets import PacketReader
from tests.fuzz import seeds
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target, Wrong, check_text, shown
from tests.reference.events import read_file
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.blocks import wire

FILE = "binlog.000001"
BLOCK_BYTES = (60, 4 << 20)
_SIZE_OFFSET, _POSITION_OFFSET = 9, 13

Events = list[tuple[int, bytes]]


# ----------------------------------------------------------------------------------- damage


def mutate_log(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage bytes of a file, or its events while the file stays in order around them."""
    if random.random() < 0.3:
        return mutate(random, data, others)
    changed = _mutate_events(random, split(data), [split(other) for other in others[:8]])
    return MAGIC + b"".join(fix_checksums(changed, FIRST_OFFSET))


def mutate_stream(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage bytes of a stream, or make another stream of a damaged log."""
    if random.random() < 0.5:
        return mutate(random, data, others)
    log = random.choice(seeds.logs())
    return stream(fix_checksums(_mutate_events(random, split(log), [split(log)]), FIRST_OFFSET))


def split(log: bytes) -> list[bytes]:
    """Return the events that a file begins with, as far as their sizes are believable."""
    events, at = [], FIRST_OFFSET
    while at + HEADER_SIZE <= len(log):
        size = int.from_bytes(log[at + _SIZE_OFFSET :][:4], "little")
        if size < HEADER_SIZE + 4 or at + size > len(log):
            break
        events.append(log[at : at + size])
        at += size
    return events


def _mutate_events(random: Random, events: list[bytes], others: list[list[bytes]]) -> list[bytes]:
    events = events or [b""]
    for _ in range(random.choice((1, 1, 2, 4))):
        index = random.randrange(len(events))
        match random.randrange(6):
            case 0 if len(events) > 1:
                del events[index]
            case 1:
                events.insert(index, random.choice(events))
            case 2:
                other = random.choice(others) or events
                events.insert(index, random.choice(other))
            case _:
                # The first one says how to read all others, and damage there hides the rest.
                index = index or random.choice((0, len(events) - 1))
                events[index] = mutate(random, events[index], events)
    return events


def fix_checksums(events: list[bytes], position: int) -> list[bytes]:
    """Return events with the size, the index and the checksum that such events have."""
    fixed = []
    checksum = True
    for event in events:
        data = bytearray(event.ljust(HEADER_SIZE + 4, b"\0"))
        position += len(data)
        struct.pack_into("<II", data, _SIZE_OFFSET, len(data), position & 0xFFFFFFFF)
        if data[4] == EventType.FORMAT_DESCRIPTION:
            checksum = data[-5] != 0
        if checksum or data[4] == EventType.FORMAT_DESCRIPTION:
            data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "little")
        fixed.append(bytes(data))
    return fixed


def stream(events: list[bytes]) -> bytes:
    """Return a log's events as a server sends them."""
    rotate = FIRST_OFFSET.to_bytes(8, "little") + FILE.encode()
    header = wire.event(rotate, position=None, type_code=EventType.ROTATE, flags=ARTIFICIAL)
    return wire.stream([header, *events])


# ------------------------------------------------------------------------------ whole files


def read_blocks(data: bytes, block_bytes: int) -> Events | BinlogError:
    """Return the events of a file, or why it cannot be read."""
    source = FileBlockStream([FILE], open_file=lambda _: io.BytesIO(data), block_bytes=block_bytes)
    return _collect(lambda: _events(source.blocks(Position(FILE, FIRST_OFFSET))))


def _events(blocks: object) -> Events:
    found: Events = []
    for block in blocks:  # type: ignore[attr-defined]
        block_of_ours: EventBlock = block
        for index in range(len(block_of_ours)):
            found.append((int(block.offset[index]), bytes(block.event(index))))
    return found


def _collect(work: Callable[[], Events]) -> Events | BinlogError:
    try:
        return work()
    except BinlogError as error:
        check_text(error)
        return error


def run_file(data: bytes) -> None:
    """Read a file in small and in large blocks, and event by event."""
    small, large = (read_blocks(data, size) for size in BLOCK_BYTES)
    if isinstance(small, BinlogError) or isinstance(large, BinlogError):
        if _brief(small) != _brief(large):
            raise Wrong(
                f"blocks of another size, another outcome: {_brief(small)}; {_brief(large)}"
            )
        return
    if small != large:
        raise Wrong("blocks of another size, other events")
    plain = [(event.offset, bytes(event.data)) for event in read_file(data)]
    # The flag IN_USE of the first event is cleared in blocks.
    if large[1:] != plain[1:]:
        raise Wrong("blocks hold other events than the file")


def run_stream(data: bytes) -> None:
    """Read a stream in small and in large blocks."""
    small, large = (_read_stream(data, size) for size in BLOCK_BYTES)
    # Where a stream ends early, small blocks may know of damage that large ones still wait for; and
    # bytes after the end, which no server sends, are taken for a part of it.
    if not data.endswith(wire.EOF):
        return
    if isinstance(small, list) is not isinstance(large, list):
        raise Wrong(f"blocks of another size, another outcome: {shown(small)}; {shown(large)}")
    if isinstance(small, list) and small != large:
        raise Wrong("blocks of another size, other events")


def _brief(outcome: Events | BinlogError) -> str:
    """Return what does not depend on how much was known when an error was found."""
    if not isinstance(outcome, BinlogError):
        return f"{len(outcome)} events"
    if isinstance(outcome, FormatError):
        return f"damage at {outcome.context.get('offset')}"
    return type(outcome).__name__


def _read_stream(data: bytes, block_bytes: int) -> Events | BinlogError:
    dump = Dump(PacketReader(wire.receiver(data), block_bytes=block_bytes))
    return _collect(lambda: _events(dump.blocks(Position(FILE, FIRST_OFFSET))))


# ------------------------------------------------------------------------------------- rows


READINGS = (
    (Policies(), False),
    (Policies(), True),
    (Policies(ZeroDates.TEXT, InvalidText.REPLACE), False),
)
"""The policies, and whether what the log leaves out is done without."""

_PART_BYTES_MAX = 8192
"""A damaged event whose rows take a byte each has as many of them, and the reference decodes each
for every format, policy and kind of before-images."""


def run_rows(data: bytes) -> None:
    """Decode rows as both decoders do."""
    mapped, *parts = seeds.unpack(data) or [b""]
    events = rows_events([part for part in parts if len(part) >= HEADER_SIZE])
    for file_format in seeds.formats():
        for policies, allow_missing_metadata in READINGS:
            try:
                table = TableMap.parse(mapped[HEADER_SIZE:], file_format)
                layout = compile_layout(
                    table, policies=policies, allow_missing_metadata=allow_missing_metadata
                )
            except BinlogError as error:
                check_text(error)
                continue
            for before_images in BeforeImages:
                compare(layout, events, before_images)


def rows_events(parts: list[bytes]) -> RowsEvents:
    """Return events one after the other."""
    size = np.array([len(part) for part in parts], dtype=np.int64)
    end = np.cumsum(size, dtype=np.int64)
    joined = np.frombuffer(b"".join(parts) + bytes(64), dtype=np.uint8)
    types = np.array([EventHeader.parse(_proper(part)).type for part in parts], dtype=np.uint8)
    return RowsEvents(joined, end - size, end, types)


def _proper(part: bytes) -> bytes:
    """Return a header whose size is not looked at."""
    return part[:_SIZE_OFFSET] + HEADER_SIZE.to_bytes(4, "little") + part[_POSITION_OFFSET:]


def compare(layout: RowLayout, events: RowsEvents, before_images: BeforeImages) -> None:
    """Refuse a difference between the two decoders."""
    fast = _rows(lambda: decode(layout, events, before_images=before_images))
    logged = [column.logged for column in layout.columns]
    if any(column.real_type in TEXTS and column.collation is None for column in logged):
        return  # read as bytes; the reference does not read it
    plain = _rows(lambda: decode_plainly(layout, events, before_images=before_images))
    if isinstance(fast, BinlogError) or isinstance(plain, BinlogError):
        # A column of a type that is not named is guessed at by the fast decoder alone.
        same = isinstance(fast, BinlogError) and isinstance(plain, BinlogError)
        if not same and not isinstance(plain, UnsupportedError):
            raise Wrong(f"one decoder fails: {shown(fast)}; {shown(plain)}")
        return
    for one, other, column in zip(fast.columns, plain.columns, layout.columns, strict=True):
        one.validate(full=True)
        # As text, since damage makes a NaN, which equals nothing.
        if one.type != other.type or repr(one.to_pylist()) != repr(other.to_pylist()):
            raise Wrong(f"{column.mysql_type} reads otherwise: {one} and {other}")
    for name in ("unrepresentable", "invalid_text", "images"):
        if getattr(fast, name) != getattr(plain, name):
            raise Wrong(f"{name}: {getattr(fast, name)} and {getattr(plain, name)}")
    for name in ("event", "offset", "change", "image"):
        if not np.array_equal(getattr(fast, name), getattr(plain, name)):
            raise Wrong(f"{name} differs")


def _rows(work: Callable[[], DecodedRows]) -> DecodedRows | BinlogError:
    try:
        return work()
    except BinlogError as error:
        check_text(error)
        return error


def mutate_rows(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage the table or its events, mostly an event."""
    parts = seeds.unpack(data)
    for _ in range(random.choice((1, 1, 2))):
        index = random.randrange(len(parts)) if random.random() < 0.8 else 0
        other = seeds.unpack(random.choice(others))
        kind = random.random()
        if kind < 0.1:
            parts[index] = other[min(index, len(other) - 1)]
        elif kind < 0.2:
            parts.append(random.choice(parts))
        else:
            parts[index] = mutate(random, parts[index], [parts[index], *other])[:_PART_BYTES_MAX]
    return seeds.pack(parts)


def _streams() -> Sequence[bytes]:
    return tuple(stream(split(log)) for log in seeds.logs())


def _tables() -> Sequence[bytes]:
    return tuple(each for each in seeds.tables() if len(each) <= _PART_BYTES_MAX)


LOG_TARGETS = (
    Target("file", run_file, seeds.logs, mutate_log),
    Target("stream", run_stream, _streams, mutate_stream),
    Target("rows", run_rows, _tables, mutate_rows),
)
