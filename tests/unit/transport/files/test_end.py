"""Where the log ends that files hold, wherever the last one was cut."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.header import ARTIFICIAL, RELAY_LOG, EventType
from airflow_provider_binlog.errors import ChecksumError, FormatError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sources.file_log import find_log_end
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.compression import payload

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "binlog.000009"


def end_of(data: bytes, name: str = NAME, *, block_bytes: int = 128) -> Position:
    source = FileBlockStream([name], open_file=lambda _: io.BytesIO(data), block_bytes=block_bytes)
    return find_log_end(source)


def transaction(file: BinlogFile, number: int, events: Sequence[tuple[int, bytes]] = ()) -> int:
    """Add a transaction of either family and return where it begins."""
    if "MariaDB" in file.server_version:
        return file.add_mariadb_transaction(number, events)
    return file.add_transaction(number, events)


def statement(file: BinlogFile, number: int) -> int:
    if "MariaDB" in file.server_version:
        at = file.add(EventType.MARIADB_GTID, builder.mariadb_gtid(number, flags=0x29))
    else:
        at = file.add(EventType.GTID, builder.gtid(number))
    file.add(EventType.QUERY, builder.query("CREATE TABLE t (id INT)"))
    return at


@pytest.mark.parametrize("version", [builder.MYSQL, builder.MARIADB])
@pytest.mark.parametrize("block_bytes", [1, 128, 1 << 20])
def test_cut_anywhere_the_log_ends_after_the_last_whole_transaction(
    version: str, block_bytes: int
) -> None:
    file = BinlogFile(version)
    begins = [transaction(file, 1, [(EventType.ROWS_QUERY, b"\x05hello")])]
    begins += [statement(file, 2), transaction(file, 3)]
    bounds = [*begins, len(file.data)]

    for size in range(begins[0], len(file.data) + 1):
        end = end_of(bytes(file.data[:size]), block_bytes=block_bytes)
        assert end == Position(NAME, max(each for each in bounds if each <= size))


def test_a_file_without_a_transaction_ends_after_its_events() -> None:
    file = BinlogFile()
    head = len(file.data)

    assert end_of(bytes(file)) == Position(NAME, head)


@pytest.mark.parametrize("size", [0, 3, 60])
def test_a_file_that_was_only_just_begun_ends_at_its_beginning(size: int) -> None:
    assert end_of(bytes(BinlogFile())[:size]) == Position(NAME, 4)


def test_a_closed_file_names_the_next_file() -> None:
    file = BinlogFile()
    transaction(file, 1)
    file.add(EventType.ROTATE, builder.rotate("binlog.000010"))

    assert end_of(bytes(file)) == Position("binlog.000010", 4)


def test_after_a_shutdown_the_next_file_is_the_next_number() -> None:
    file = BinlogFile()
    transaction(file, 1)
    file.add(EventType.STOP)

    assert end_of(bytes(file), "binlog.999999") == Position("binlog.1000000", 4)
    assert end_of(bytes(file), NAME) == Position("binlog.000010", 4)


def test_a_file_of_another_name_has_no_next_file() -> None:
    file = BinlogFile()
    file.add(EventType.STOP)

    assert end_of(bytes(file), "copied.bin").file == "copied.bin"


def test_a_relay_log_continues_in_its_own_next_file() -> None:
    file = BinlogFile()
    file.data[4 + 17] |= RELAY_LOG
    file.data[-4:] = zlib.crc32(file.data[4:-4]).to_bytes(4, "little")
    file.add(EventType.ROTATE, builder.rotate("binlog.000002"), flags=ARTIFICIAL, log_pos=0)
    transaction(file, 1)
    file.add(EventType.ROTATE, builder.rotate("binlog.000003"), log_pos=77)
    whole = len(file.data)

    assert end_of(bytes(file), "relay-bin.000005") == Position("relay-bin.000005", whole)

    file.add(EventType.ROTATE, builder.rotate("relay-bin.000006"))

    assert end_of(bytes(file), "relay-bin.000005") == Position("relay-bin.000006", 4)


def test_a_compressed_transaction_is_whole_with_its_one_event() -> None:
    file = BinlogFile()
    begin = file.add(EventType.GTID, builder.gtid(1))
    file.add(EventType.TRANSACTION_PAYLOAD, payload(b"whatever", size=8).body)
    end = len(file.data)

    assert end_of(bytes(file)) == Position(NAME, end)
    assert end_of(bytes(file)[:-1]) == Position(NAME, begin)


def test_a_refused_statement_lies_before_the_end() -> None:
    # So that capture reads it, and says why it cannot go on.
    file = BinlogFile()
    file.add(EventType.GTID, builder.gtid(1))
    file.add(EventType.QUERY, builder.query("BEGIN"))
    file.add(EventType.QUERY, builder.query("INSERT INTO t VALUES (1)"))
    end = len(file.data)

    assert end_of(bytes(file)) == Position(NAME, end)


def test_a_compressed_copy_that_was_cut_ends_as_well() -> None:
    file = BinlogFile()
    for number in range(1, 2000):
        transaction(file, number, [(EventType.ROWS_QUERY, number.to_bytes(2, "big") * 20)])
    packed = gzip.compress(bytes(file))

    end = end_of(packed[: len(packed) // 2], block_bytes=1 << 20)

    assert end.offset in file.offsets
    assert 10_000 < end.offset < len(file.data)


def test_damage_is_no_end() -> None:
    file = BinlogFile()
    at = transaction(file, 1)
    file.data[at + 30] ^= 1

    with pytest.raises(ChecksumError):
        end_of(bytes(file))
    with pytest.raises(FormatError):
        end_of(b"PK\3\4" + bytes(500))
