"""Compresses logs as servers do: whole transactions of MySQL, single events of MariaDB."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_binlog.binlog.header import GROUP_STARTS, EventType
from airflow_provider_binlog.blocks.compressed import PLAIN_FORMS
from tests.reference.rows_header import RowsHeader
from tests.support import builder
from tests.support.logs import MARIADB_FORMAT, Made
from tests.support.wire import lenenc, lenenc_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PAYLOAD_SIZE, _COMPRESSION, _SIZE = 1, 2, 3
_COMPRESSED_FORMS = {plain: packed for packed, plain in PLAIN_FORMS.items()}
_ENDS = (EventType.XID, EventType.XA_PREPARE)


def zstd(data: bytes) -> bytes:
    """Return a frame that says its size."""
    return bytes(pa.Codec("zstd").compress(data))


def zstd_stream(data: bytes) -> bytes:
    """Return a frame that does not say its size."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def inner_events(events: Sequence[Made]) -> bytes:
    """Return events as they stand in a payload: without checksum and position."""
    return b"".join(
        builder.event(
            each.type,
            each.body,
            checksum=False,
            timestamp=each.timestamp,
            server_id=each.server_id,
            flags=each.flags,
        )
        for each in events
    )


def payload(
    packed: bytes,
    size: int | None,
    *,
    compression: int | None = 0,
    packed_size: int | None = None,
    more: bytes = b"",
) -> Made:
    """Return TRANSACTION_PAYLOAD; `size` and `packed_size` are what it says."""
    fields = more
    if compression is not None:
        fields += _field(_COMPRESSION, compression)
    if size is not None:
        fields += _field(_SIZE, size)
    fields += _field(_PAYLOAD_SIZE, len(packed) if packed_size is None else packed_size)
    return Made(EventType.TRANSACTION_PAYLOAD, fields + b"\0" + packed)


def _field(kind: int, value: int) -> bytes:
    return lenenc(kind) + lenenc_bytes(lenenc(value))


def whole_transactions(
    events: Sequence[Made], choose: Callable[[], bool] = lambda: True
) -> Iterator[Made]:
    """Yield the events of a file of MySQL, the chosen ones of its transactions compressed."""
    at = 0
    while at < len(events):
        yield events[at]
        at += 1
        if events[at - 1].type not in GROUP_STARTS:
            continue
        inner = list(itertools.takewhile(lambda each: each.type not in _NEVER_INSIDE, events[at:]))
        ends = [index for index, each in enumerate(inner) if each.type in _ENDS]
        if ends and choose():
            packed = inner_events(inner[: ends[0] + 1])
            yield payload(zstd(packed), len(packed))
            at += ends[0] + 1


_NEVER_INSIDE = {*GROUP_STARTS, EventType.STOP, EventType.ROTATE}


def single_event(event: Made) -> Made:
    """Return a QUERY or rows event as MariaDB compresses it."""
    body = event.body
    if event.type == EventType.QUERY:
        at = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    else:
        at = RowsHeader.parse(event.type, body, MARIADB_FORMAT).images_offset
    packed = compressed(body[at:])
    return replace(event, type=_COMPRESSED_FORMS[EventType(event.type)], body=body[:at] + packed)


def compressed(data: bytes, *, size: int | None = None, algorithm: int = 0) -> bytes:
    """Return MariaDB's compressed block; `size` is what it says."""
    said = len(data) if size is None else size
    octets = said.to_bytes(max(1, (said.bit_length() + 7) // 8), "big")
    return bytes((0x80 | algorithm << 4 | len(octets),)) + octets + zlib.compress(data)


def single_events(
    events: Sequence[Made], choose: Callable[[], bool] = lambda: True
) -> Iterator[Made]:
    """Yield the events of a file of MariaDB, some of those that can be compressed so."""
    for event in events:
        yield single_event(event) if event.type in _COMPRESSED_FORMS and choose() else event
