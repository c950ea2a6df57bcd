"""The rows of a SELECT under test: framed whatever comes at a time, and decoded.

An input begins with how many bytes of it PyMySQL has read ahead, and how many come at a time.
"""

from __future__ import annotations

import struct
from typing import Any

from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.transport.server.result_rows import RowBlock, select_rows
from tests.fuzz.targets import Target, Wrong, check_text, shown
from tests.unit.rows.test_results import fact, results, text
from tests.unit.transport.server.test_result_rows import Connection, packets

_EOF = b"\xfe\x00\x00\x02\x00"
_ERROR = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
_LAYOUTS = tuple(
    results(
        fact("int", unsigned=False),
        fact("longtext", charset="utf8mb4"),
        fact("decimal", precision=20, scale=4, unsigned=False),
        fact("datetime", fsp=6),
        fact("time", fsp=3),
        fact("bit", precision=9),
        policies=policies,
    )
    for policies in (Policies(), Policies(ZeroDates.TEXT))
)
_MOMENT = struct.pack("<HBBBBBI", 2024, 2, 29, 1, 2, 3, 4)
_ROW = (
    b"\0\0"
    + struct.pack("<i", -7)
    + text(b"seven \xc3\xa9")
    + text(b"-1234567.8900")
    + text(_MOMENT)
    + text(struct.pack("<BIBBBI", 1, 34, 22, 59, 59, 500_000))
    + text(b"\1\2")
)
_NULLS = b"\0\xfc"


def _read(data: bytes, block_bytes: int) -> list[RowBlock] | BinlogError:
    ahead, piece, rows = data[:1], data[1:2], data[2:]
    connection: Any = Connection(rows, ahead=sum(ahead), piece=1 + sum(piece))
    try:
        with select_rows(connection, "SELECT", block_bytes=block_bytes) as result:
            return list(result.blocks)
    except BinlogError as error:
        check_text(error)
        if not connection.is_cut:
            raise Wrong("a connection in the middle of rows that is left open") from error
        return error


def _rows(blocks: list[RowBlock]) -> list[bytes]:
    return [
        bytes(block.data[start:stop])
        for block in blocks
        for start, stop in zip(block.start.tolist(), block.stop.tolist(), strict=True)
    ]


def _result_rows(data: bytes) -> None:
    small, large = _read(data, 256), _read(data, 1 << 16)
    if isinstance(small, BinlogError) or isinstance(large, BinlogError):
        # Of what is cut and out of order, small blocks know before the end comes.
        if isinstance(small, BinlogError) is not isinstance(large, BinlogError):
            raise Wrong(f"blocks of another size, another outcome: {shown(small)}; {shown(large)}")
        return
    if _rows(small) != _rows(large):
        raise Wrong("blocks of another size, other rows")
    for block in large:
        for layout in _LAYOUTS:
            try:
                found = layout.decode(block.data, block.start, block.stop)
            except BinlogError as error:
                check_text(error)
                continue
            for column in found.columns:
                column.validate(full=True)
                column.to_pylist()


def _seeds() -> list[bytes]:
    return [
        b"\x00\xff" + packets(_ROW, _NULLS, _ROW, _EOF),
        b"\x10\x03" + packets(_ROW, _EOF),
        b"\xff\xff" + packets(_ROW, _NULLS, _ERROR),
        b"\x05\x07" + packets(_EOF),
    ]


RESULT_TARGETS = (Target("result_rows", _result_rows, _seeds),)
