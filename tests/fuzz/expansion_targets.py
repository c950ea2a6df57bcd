"""Compressed events under test: damaged outside, and damaged inside and compressed again."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.blocks import compressed as compressed_events
from airflow_provider_binlog.blocks.compressed import PLAIN_FORMS
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.position import Flavor
from tests.fuzz.targets import Target, Wrong, check_text, shown
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.compression import (
    compressed,
    inner_events,
    payload,
    single_event,
    zstd,
    zstd_stream,
)
from tests.support.logs import TABLES, Made, insert, maps, query, split_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

_START = Made(EventType.GTID, builder.gtid(1))
_XID = Made(EventType.XID, builder.xid(1))
_INNER = [query("BEGIN"), maps(TABLES[0], Flavor.MYSQL), insert(TABLES[0], [1, 2, 3]), _XID]
_PACKED = inner_events(_INNER)
_GOOD = payload(zstd(_PACKED), len(_PACKED))
_MARIADB = [
    single_event(each) for each in (query("DROP TABLE a"), insert(TABLES[0], [1, 2], version=1))
]
_BLOCK_BYTES = (50, 4 << 20)

Found = list[tuple[int, int, int, bytes]] | BinlogError


def _expand(event: Made, version: str, block_bytes: int) -> Found:
    """Return type, offset, expanded offset and body of events, one between two good ones."""
    file = BinlogFile(version)
    for each in (
        (_START, _GOOD, _START, event, _START, _GOOD)
        if version == builder.MYSQL
        else (
            *_MARIADB,
            event,
            *_MARIADB,
        )
    ):
        file.add(each.type, each.body)
    found: list[tuple[int, int, int, bytes]] = []
    expander = Expander(block_bytes=block_bytes)
    try:
        with patch.multiple(compressed_events, _SIZE_MAX=1 << 20, _RATIO_MAX=100):
            for block in split_blocks("binlog.000001", file):
                for expanded in expander.expand(block):
                    columns = (expanded.type, expanded.offset, expanded.expanded_offset)
                    numbers = zip(*(each.tolist() for each in columns), strict=True)
                    bodies = [bytes(expanded.body(index)) for index in range(len(expanded))]
                    found += [(*each, body) for each, body in zip(numbers, bodies, strict=True)]
    except BinlogError as error:
        check_text(error)
        if error.context.get("offset") != file.offsets[3 if version == builder.MARIADB else 4]:
            raise Wrong(f"the wrong event is blamed: {error}") from error
        return error
    offsets = [offset for _, _, offset, _ in found]
    if offsets != sorted(set(offsets)):
        raise Wrong(f"offsets that do not rise: {offsets}")
    return found


def _same(event: Made, version: str = builder.MYSQL) -> Found:
    """Expand in blocks of any size; the answers must not differ."""
    first, second = (_expand(event, version, block_bytes) for block_bytes in _BLOCK_BYTES)
    if isinstance(first, BinlogError) != isinstance(second, BinlogError) or (
        not isinstance(first, BinlogError) and first != second
    ):
        raise Wrong(f"{shown(first)} by pieces, {shown(second)} at once")
    return first


def payload_event(data: bytes) -> None:
    """Expand a payload that is damaged itself."""
    _same(Made(EventType.TRANSACTION_PAYLOAD, data))


def payload_inside(data: bytes) -> None:
    """Expand a whole payload of damaged events: they are refused, or come out as they are."""
    for packed in (zstd(data), zstd_stream(data)):
        found = _same(payload(packed, len(data)))
        if isinstance(found, list):
            # After FORMAT_DESCRIPTION, a whole transaction and a GTID.
            inner = [body for _, position, _, body in found if position == found[7][1]]
            if sum(19 + len(body) for body in inner) != len(data):
                raise Wrong("not all that was compressed came out")


def compressed_event(data: bytes) -> None:
    """Expand a damaged event of MariaDB; the first byte chooses its type."""
    kinds = sorted(PLAIN_FORMS)
    _same(Made(kinds[data[0] % len(kinds)] if data else kinds[0], data[1:]), builder.MARIADB)


def _compressed_seeds() -> Sequence[bytes]:
    kinds = sorted(PLAIN_FORMS)
    return [
        *(bytes((kinds.index(EventType(each.type)),)) + each.body for each in _MARIADB),
        b"\5" + builder.rows(EventType.UPDATE_ROWS, 1, 9, b"", extra=b"?") + compressed(b"rows"),
    ]


EXPANSION_TARGETS = (
    Target(
        "payload_event",
        payload_event,
        lambda: (_GOOD.body, payload(zstd_stream(_PACKED), None).body, payload(_PACKED, 9).body),
    ),
    Target("payload_inside", payload_inside, lambda: (_PACKED, _PACKED * 3)),
    Target("compressed_event", compressed_event, _compressed_seeds),
)
