"""Events that hold others, or parts of themselves, compressed.

MySQL compresses whole transactions, with zstd: TRANSACTION_PAYLOAD holds events, which have no
checksums and say no position. MariaDB compresses the bulk of single events, with zlib: the text of
a QUERY, the row images of a rows event.

Source: mysql-server, libs/mysql/binlog/event/codecs/binary.cpp, Transaction_payload;
mariadb, sql/log_event.cc, query_event_uncompress, row_log_event_uncompress, and
sql/log_event.h, binlog_get_uncompress_len.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.control import FormatDescription

PLAIN_FORMS = {
    EventType.QUERY_COMPRESSED: EventType.QUERY,
    EventType.WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
"""MariaDB's compressed events, and what each is when it is not compressed."""

_UPDATES = frozenset(
    {EventType.UPDATE_ROWS_COMPRESSED_V1, EventType.UPDATE_ROWS_COMPRESSED},
)
_EXTRA_SIZE = {
    EventType.WRITE_ROWS_COMPRESSED,
    EventType.UPDATE_ROWS_COMPRESSED,
    EventType.DELETE_ROWS_COMPRESSED,
}

# TRANSACTION_PAYLOAD: the types of its fields.
_END, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)


class Compression(IntEnum):
    """How the events of a transaction are compressed."""

    ZSTD = 0
    NONE = 255


@dataclass(frozen=True, slots=True)
class TransactionPayload:
    """TRANSACTION_PAYLOAD: the events of one transaction, all but its GTID.

        | lenenc type | lenenc size | value | ... | 0 | the events, compressed, to the end |

    Attributes:
        compression: How they are compressed.
        size: Bytes of the events when decompressed; None if the event does not declare it.
        offset: Where the compressed events begin in the body.
    """

    compression: Compression
    size: int | None
    offset: int

    @classmethod
    def parse(cls, body: bytes | memoryview) -> TransactionPayload:
        """Read the event's body, up to the compressed events.

        Raises:
            FormatError: The bytes do not have the size that the event declares.
            UnsupportedError: Their compression is not known.
        """
        buffer = Buffer(body)
        fields: dict[int, int] = {}
        while (kind := buffer.lenenc()) != _END:
            value = buffer.lenenc_bytes()
            if kind <= _UNCOMPRESSED_SIZE:  # what newer servers add is skipped
                fields[kind] = Buffer(value).lenenc()
        if fields.get(_PAYLOAD_SIZE, buffer.remaining) != buffer.remaining:
            raise FormatError(
                "a compressed transaction does not have the size that it declares",
                declared=fields[_PAYLOAD_SIZE],
                size=buffer.remaining,
            )
        code = fields.get(_COMPRESSION, Compression.NONE)
        try:
            compression = Compression(code)
        except ValueError as error:
            raise UnsupportedError(
                "a transaction with an unknown compression: upgrade this package",
                compression=code,
            ) from error
        return cls(compression, fields.get(_UNCOMPRESSED_SIZE), buffer.offset)


def plain_body(
    type_code: int,
    body: bytes | memoryview,
    file_format: FormatDescription,
    *,
    bytes_max: int,
) -> tuple[memoryview, bytes]:
    """Return the body of one of `PLAIN_FORMS` as two pieces: what was not compressed, and the rest.

        | 1 algorithm and n | n bytes: size, the highest first | zlib stream |

    replaces the rest.

    Raises:
        FormatError: The body does not decompress to its declared size, or declares more than
            `bytes_max`.
        UnsupportedError: Its compression is not known.
    """
    view = memoryview(body)
    at = _plain_size(type_code, view, file_format)
    first = view[at] if at < len(view) else 0
    if first & 0xF8 != 0x80:
        raise UnsupportedError(
            "an event with an unknown compression: upgrade this package", algorithm=hex(first)
        )
    begin = at + 1 + (first & 7)
    size = int.from_bytes(view[at + 1 : begin], "big")
    if size > bytes_max:
        raise FormatError("a compressed event declares a size that no event has", size=size)
    stream = zlib.decompressobj()
    try:
        rest = stream.decompress(view[begin:], size + 1)
    except zlib.error as error:
        raise FormatError("a compressed event is damaged", reason=str(error)) from error
    if len(rest) != size or not stream.eof or stream.unused_data:
        raise FormatError(
            "a compressed event does not have the size that it declares", declared=size
        )
    return view[:at], rest


def _plain_size(type_code: int, body: memoryview, file_format: FormatDescription) -> int:
    """Return how many bytes of the body are not compressed."""
    at = file_format.post_header_length(type_code)
    if at > len(body):
        raise TruncatedError("event ends early", wanted=at, left=len(body))
    if type_code == EventType.QUERY_COMPRESSED:
        # | 4 thread | 4 seconds | 1 size of database | 2 error | 2 size of status |
        return at + body[8] + 1 + int.from_bytes(body[11:13], "little")
    if type_code in _EXTRA_SIZE:
        at += int.from_bytes(body[8:10], "little") - 2
    buffer = Buffer(body)
    buffer.take(at)
    octets = (buffer.lenenc() + 7) // 8
    buffer.take(2 * octets if type_code in _UPDATES else octets)
    return buffer.offset
