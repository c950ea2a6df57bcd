"""What fuzzing begins with: the corpus, whole logs and their events one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import ROWS, EventType
from tests.corpus.case import recorded
from tests.reference.events import Event, read_file


@cache
def logs() -> tuple[bytes, ...]:
    """Return whole binlog files."""
    return tuple(file.read_bytes() for log in recorded() for file in log.files)


@cache
def events() -> tuple[Event, ...]:
    """Return all their events."""
    return tuple(event for log in logs() for event in read_file(log))


@cache
def formats() -> tuple[FormatDescription, ...]:
    """Return the FORMAT_DESCRIPTIONs that differ in how they have events read."""
    by_kind = {
        (found.flavor, found.checksum_algorithm, found.post_header_lengths): found
        for found in (event.format for event in events())
    }
    return tuple(by_kind.values())


@cache
def bodies(*types: EventType) -> tuple[bytes, ...]:
    """Return the bodies of all events of these types, each once."""
    return tuple(
        dict.fromkeys(bytes(event.body) for event in events() if event.header.type in types)
    )


@cache
def tables() -> tuple[bytes, ...]:
    """Return tables with rows events, as `pack` joins them."""
    found = []
    for log in logs():
        for mapped, rows in _tables_of(log):
            found.append(pack([mapped, *rows]))
            found += [pack([mapped, each]) for each in rows]
    return tuple(dict.fromkeys(found))


def _tables_of(log: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield each TABLE_MAP with the rows events that follow it, both without their checksum."""
    mapped: bytes | None = None
    rows: list[bytes] = []
    for event in read_file(log):
        whole = bytes(event.data[: len(event.data) - event.format.checksum_size])
        if event.header.type == EventType.TABLE_MAP:
            if mapped is not None and rows:
                yield mapped, rows
            mapped, rows = whole, []
        elif event.header.type in ROWS:
            rows.append(whole)
    if mapped is not None and rows:
        yield mapped, rows


def pack(parts: list[bytes]) -> bytes:
    """Return parts as one input, each after its size in two bytes."""
    return b"".join(len(part).to_bytes(2, "little") + part for part in parts)


def unpack(data: bytes) -> list[bytes]:
    """Return the parts of any input: one that ends early is as long as it is."""
    parts = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        parts.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    return parts
