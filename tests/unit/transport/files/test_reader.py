"""Binlog files: every event in order, and a clear word where there is something else."""

from __future__ import annotations

import gzip
import io
import itertools
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.header import ARTIFICIAL, IN_USE, RELAY_LOG, EventType
from airflow_provider_binlog.errors import (
    BinlogError,
    ChecksumError,
    ConfigurationError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
    TruncatedError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.compression import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST, SECOND = "binlog.000001", "binlog.000002"


def a_file(transactions: int = 3, *, checksum: bool = True) -> BinlogFile:
    file = BinlogFile(checksum=checksum)
    for number in range(1, transactions + 1):
        file.add_transaction(number, [(EventType.ROWS_QUERY, b"\x05hello")])
    return file


def placed(name: str, file: BinlogFile) -> list[tuple[str, int, bytes]]:
    bounds = [*file.offsets, len(file.data)]
    return [(name, a, bytes(file.data[a:b])) for a, b in itertools.pairwise(bounds)]


def read(
    paths: Sequence[Path],
    start: Position | None = None,
    stop: Position | None = None,
    *,
    block_bytes: int = 256,
) -> list[tuple[str, int, bytes]]:
    source = FileBlockStream(paths, block_bytes=block_bytes)
    return [
        (block.file, int(block.offset[index]), bytes(block.event(index)))
        for block in source.blocks(start or source.first_position, stop)
        for index in range(len(block))
    ]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    first, second = a_file(), a_file(5)
    first.add(EventType.ROTATE, builder.rotate(SECOND))
    second.add(EventType.STOP)
    paths = [tmp_path / FIRST, tmp_path / SECOND]
    for path, file in zip(paths, (first, second), strict=True):
        path.write_bytes(bytes(file))
    return paths


def everything() -> list[tuple[str, int, bytes]]:
    first, second = a_file(), a_file(5)
    first.add(EventType.ROTATE, builder.rotate(SECOND))
    second.add(EventType.STOP)
    return placed(FIRST, first) + placed(SECOND, second)


@pytest.mark.parametrize("block_bytes", [1, 100, 256, 1 << 20])
def test_every_event_of_every_file(files: list[Path], block_bytes: int) -> None:
    assert read(files, block_bytes=block_bytes) == everything()


def test_a_block_never_spans_two_files(files: list[Path]) -> None:
    blocks = list(FileBlockStream(files).blocks(Position(FIRST, 4)))

    assert [block.file for block in blocks] == [FIRST, SECOND]


def test_from_any_event_on(files: list[Path]) -> None:
    events = everything()

    for index, (file, offset, _) in enumerate(events):
        assert read(files, Position(file, offset)) == events[index:]


def test_from_the_end_of_a_file_on(files: list[Path]) -> None:
    end = files[0].stat().st_size

    assert read(files, Position(FIRST, end)) == [e for e in everything() if e[0] == SECOND]


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_the_block_that_reaches_the_stop_is_the_last(files: list[Path], block_bytes: int) -> None:
    events = everything()
    start = Position(FIRST, 4)

    for file, offset, event in events:
        stop = Position(file, offset + len(event))
        found = read(files, start, stop, block_bytes=block_bytes)
        assert found[-1] >= (file, offset, event)
        assert found == events[: len(found)]
        assert len(list(FileBlockStream(files, block_bytes=1).blocks(stop, stop))) == 0


def test_an_event_longer_than_a_block(tmp_path: Path) -> None:
    file = a_file()
    file.add(EventType.ROWS_QUERY, bytes(5000))
    file.add(EventType.STOP)
    path = tmp_path / FIRST
    path.write_bytes(bytes(file))

    assert read([path], block_bytes=64) == placed(FIRST, file)


def test_a_file_in_use_reads_as_the_server_sends_it(tmp_path: Path) -> None:
    file = a_file()
    expected = placed(FIRST, file)
    file.data[4 + 17] |= IN_USE
    path = tmp_path / FIRST
    path.write_bytes(bytes(file))

    assert read([path]) == expected


def test_a_log_without_checksums(tmp_path: Path) -> None:
    file = a_file(checksum=False)
    path = tmp_path / FIRST
    path.write_bytes(bytes(file))

    assert read([path]) == placed(FIRST, file)


def test_a_single_file_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "copied.bin"
    path.write_bytes(bytes(a_file()))

    assert len(read([path])) == len(placed(FIRST, a_file()))


def test_cut_anywhere_the_file_is_truncated(tmp_path: Path) -> None:
    file = a_file(1)
    path = tmp_path / FIRST
    for size in range(len(file.data)):
        path.write_bytes(bytes(file.data[:size]))
        if size in file.offsets[1:]:
            assert len(read([path])) == file.offsets.index(size)
        else:
            with pytest.raises(TruncatedError) as raised:
                read([path])
            assert raised.value.context["file"] == FIRST


def test_where_a_file_was_cut_is_named(tmp_path: Path) -> None:
    file = a_file()
    path = tmp_path / FIRST
    path.write_bytes(bytes(file.data[: file.offsets[4] + 25]))

    with pytest.raises(TruncatedError, match=f"offset={file.offsets[4]}, event=XID, left=25"):
        read([path])


def test_any_damaged_byte_is_found_and_named(tmp_path: Path) -> None:
    file = a_file(1)
    path = tmp_path / FIRST
    for at in range(4, len(file.data)):
        if at == 4 + 17:
            continue  # the flag IN_USE, which no checksum covers, stands in this byte
        damaged = bytearray(file.data)
        damaged[at] ^= 0x55
        path.write_bytes(bytes(damaged))

        with pytest.raises(BinlogError) as raised:
            read([path])

        assert raised.value.context["file"] == FIRST
        if at >= file.offsets[1]:
            assert isinstance(raised.value, FormatError)
            assert raised.value.context["offset"] == max(o for o in file.offsets if o <= at)


def test_a_damaged_description_is_refused_from_any_start(tmp_path: Path) -> None:
    file = a_file()
    file.data[60] ^= 1
    path = tmp_path / FIRST
    path.write_bytes(bytes(file))

    with pytest.raises(ChecksumError, match=FIRST):
        read([path], Position(FIRST, file.offsets[1]))


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (b"", TruncatedError, "four bytes"),
        (b"\xfdbin" + bytes(600), UnsupportedError, "encrypted"),
        (b"PK\3\4" + bytes(600), FormatError, "not a binlog"),
        (b"\xfebin" + builder.event(EventType.STOP, b""), FormatError, "FORMAT_DESCRIPTION"),
        (b"\xfebin" + bytes(4) + b"\x0f" + bytes(4) + b"\xff" * 10, FormatError, "size"),
    ],
)
def test_what_is_no_binlog_is_refused(
    tmp_path: Path, content: bytes, kind: type[BinlogError], text: str
) -> None:
    path = tmp_path / FIRST
    path.write_bytes(content)

    with pytest.raises(kind, match=text) as raised:
        read([path])

    assert raised.value.context["file"] == FIRST


def test_a_file_that_mariadb_encrypted_is_refused_from_any_start(tmp_path: Path) -> None:
    file = BinlogFile(builder.MARIADB)
    file.add(EventType.START_ENCRYPTION, bytes(17))
    file.data += bytes(range(100))
    path = tmp_path / FIRST
    path.write_bytes(bytes(file))

    for start in (Position(FIRST, 4), Position(FIRST, len(file.data))):
        with pytest.raises(UnsupportedError, match="encrypted"):
            read([path], start)


@pytest.mark.parametrize("begin", [4, 5])
def test_a_copy_of_what_mariadb_sent_of_an_encrypted_file_is_read(
    tmp_path: Path, begin: int
) -> None:
    file = BinlogFile(builder.MARIADB)
    file.add(EventType.START_ENCRYPTION, bytes(17))
    for size in (0, 24):
        path = tmp_path / f"binlog.{size:06}"
        path.write_bytes(bytes(file))
        found = read([path], Position(path.name, file.offsets[0]))
        assert [offset for _, offset, _ in found] == file.offsets
        file.add(EventType.MARIADB_GTID_LIST, bytes(4 + size))
    file.add_transaction(1, [(EventType.ROWS_QUERY, b"\x05hello")])
    path.write_bytes(bytes(file))

    found = read([path], Position(path.name, file.offsets[begin]))

    assert [offset for _, offset, _ in found] == file.offsets[begin:]


def test_a_start_before_or_after_the_files_is_refused(files: list[Path]) -> None:
    with pytest.raises(PositionPurgedError, match=r"first=binlog\.000002"):
        read(files[1:], Position(FIRST, 4))
    with pytest.raises(ForeignPositionError, match=r"last=binlog\.000002"):
        read(files, Position("binlog.000003", 4))
    with pytest.raises(ForeignPositionError, match="not among"):
        read(files, Position("other.000001", 4))
    with pytest.raises(ForeignPositionError, match="after the end"):
        read(files, Position(SECOND, files[1].stat().st_size + 1))


def test_a_file_that_was_created_at_another_time_is_refused(files: list[Path]) -> None:
    created = 1_700_000_000
    inside = Position(FIRST, a_file().offsets[3], file_created=created)

    assert read(files, inside) == read(files, replace(inside, file_created=None))
    for start in (inside, Position(SECOND, 4, file_created=created)):
        other = replace(start, file_created=created + 1)
        with pytest.raises(ForeignPositionError, match="not the one in the log now"):
            read(files, other)
        with pytest.raises(ForeignPositionError, match="file_was_created=2023-11-14T22:13:21"):
            read(files, other)


def test_a_start_inside_an_event_is_refused(files: list[Path]) -> None:
    with pytest.raises(FormatError, match="offset=140"):
        read(files, Position(FIRST, 140))


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["binlog.000001", "binlog.000003"],
        ["binlog.000002", "binlog.000001"],
        ["binlog.000001", "binlog.000001"],
        ["binlog.000001", "other.000002"],
        ["binlog.000001", "binlog.index"],
    ],
)
def test_files_that_are_not_consecutive_are_refused(names: list[str]) -> None:
    with pytest.raises(ConfigurationError):
        FileBlockStream(names)


def test_numbers_are_counted_not_compared_as_text(tmp_path: Path) -> None:
    names = ["binlog.999999", "binlog.1000000"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(a_file(1)))
    source = FileBlockStream([tmp_path / name for name in names])

    stop = Position("binlog.1000000", 4)
    assert {block.file for block in source.blocks(source.first_position, stop)} == {names[0]}


def test_files_may_lie_elsewhere() -> None:
    content = bytes(a_file())
    opened: list[str] = []

    def open_file(path: str) -> io.BytesIO:
        opened.append(path)
        return io.BytesIO(content)

    source = FileBlockStream([f"s3://bucket/logs/{FIRST}"], open_file=open_file)

    assert sum(map(len, source.blocks(Position(FIRST, 4)))) == len(a_file().offsets)
    assert opened == [f"s3://bucket/logs/{FIRST}"]


# ------------------------------------------------------------------- compressed copies


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
@pytest.mark.parametrize("block_bytes", [1, 256, 1 << 20])
def test_a_compressed_copy_reads_as_the_file_does(
    suffix: str, pack: Callable[[bytes], bytes], block_bytes: int, files: list[Path]
) -> None:
    events = everything()
    copies = [Path(f"{path}{suffix}") for path in files]
    for path, copy in zip(files, copies, strict=True):
        copy.write_bytes(pack(path.read_bytes()))

    assert read(copies, block_bytes=block_bytes) == events
    for index in (0, 1, 2, len(events) // 2, len(events) - 1):
        file, offset, _ = events[index]
        assert read(copies, Position(file, offset), block_bytes=block_bytes) == events[index:]
    end = files[0].stat().st_size
    assert read(copies, Position(FIRST, end)) == [each for each in events if each[0] == SECOND]
    with pytest.raises(ForeignPositionError, match="after the end"):
        read(copies, Position(SECOND, 1 << 40))


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_first_bytes_decide_the_form_not_the_name(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / FIRST
    path.write_bytes(pack(bytes(a_file())))

    assert read([path]) == placed(FIRST, a_file())
    path.write_bytes(pack(b"no binlog at all"))
    with pytest.raises(FormatError, match="not a binlog"):
        read([path])


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_cut_file_that_was_compressed_is_truncated_all_the_same(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    file = a_file()
    path = tmp_path / FIRST
    path.write_bytes(pack(bytes(file.data[: file.offsets[4] + 25])))

    with pytest.raises(TruncatedError, match=f"offset={file.offsets[4]}, event=XID, left=25"):
        read([path], block_bytes=4096)


def test_a_size_that_a_compressed_file_does_not_hold_takes_no_memory(tmp_path: Path) -> None:
    file = a_file()
    data = bytearray(file.data[: file.offsets[4] + 25])
    # Size and end agree, as they do where a whole header is damaged.
    at, size = file.offsets[4], 800 << 20
    data[at + 9 : at + 17] = size.to_bytes(4, "little") + (at + size).to_bytes(4, "little")
    path = tmp_path / FIRST
    path.write_bytes(gzip.compress(bytes(data)))

    tracemalloc.start()
    try:
        with pytest.raises(TruncatedError, match="left=25"):
            read([path], block_bytes=1)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_compressed_file_that_was_cut_gives_what_is_whole(tmp_path: Path) -> None:
    file = a_file(500)
    path = tmp_path / FIRST
    packed = gzip.compress(bytes(file))
    path.write_bytes(packed[: len(packed) // 2])
    found: list[int] = []

    def read_on() -> None:
        for block in FileBlockStream([path], block_bytes=256).blocks(Position(FIRST, 4)):
            found.extend(block.offset.tolist())

    with pytest.raises(TruncatedError, match="gzip file ends early") as raised:
        read_on()

    assert 100 < len(found) < len(file.offsets)
    assert [*found, raised.value.context["offset"]] == file.offsets[: len(found) + 1]


# ------------------------------------------------------------------- relay logs


def relay_log(source: str = builder.MYSQL, *, source_checksum: bool = True) -> BinlogFile:
    """Return what a replica keeps: what it was sent, between events of its own."""
    file = BinlogFile()
    file.data[4 + 17] |= RELAY_LOG
    file.data[-4:] = zlib.crc32(file.data[4:-4]).to_bytes(4, "little")
    source_side = {"server_id": 77, "timestamp": 0, "log_pos": 0}
    file.add(EventType.ROTATE, builder.rotate("binlog.000042"), flags=ARTIFICIAL, **source_side)
    file.add(
        EventType.FORMAT_DESCRIPTION,
        builder.format_description(source, checksum=source_checksum),
        **source_side,
    )
    file.checksum = source_checksum
    # Positions are those in the files of the source.
    file.add(EventType.GTID, builder.gtid(1), server_id=77, log_pos=5077)
    file.add(EventType.QUERY, builder.query("BEGIN"), server_id=77, log_pos=6000)
    file.add(EventType.XID, builder.xid(1), server_id=77, log_pos=12)
    file.add(EventType.ROTATE, builder.rotate("relay-bin.000004"))
    return file


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
@pytest.mark.parametrize("source_checksum", [True, False])
def test_a_relay_log_is_read_as_it_stands(
    block_bytes: int, source_checksum: bool, tmp_path: Path
) -> None:
    file = relay_log("8.0.44", source_checksum=source_checksum)
    path = tmp_path / "relay-bin.000003"
    path.write_bytes(bytes(file))
    events = placed(path.name, file)

    assert read([path], block_bytes=block_bytes) == events
    for index, (_, offset, _) in enumerate(events):
        found = read([path], Position(path.name, offset), block_bytes=block_bytes)
        assert found == events[index:]
    assert read([path], Position(path.name, len(file.data))) == []
    with pytest.raises(ForeignPositionError, match="no event begins"):
        read([path], Position(path.name, file.offsets[3] + 1), block_bytes=block_bytes)
    with pytest.raises(ForeignPositionError, match="after the end"):
        read([path], Position(path.name, len(file.data) + 1), block_bytes=block_bytes)


def test_events_of_a_relay_log_read_by_the_format_of_their_source(tmp_path: Path) -> None:
    file = relay_log("8.0.44", source_checksum=False)
    path = tmp_path / "relay-bin.000003"
    path.write_bytes(bytes(file))

    for start in (4, file.offsets[4]):
        blocks = list(FileBlockStream([path]).blocks(Position(path.name, start)))
        assert blocks[-1].format.server_version == "8.0.44"
        assert blocks[-1].format.checksum_size == 0
        # The relay log was created when the replica began it.
        assert blocks[-1].format.created == 1_700_000_000


def test_a_binlog_with_positions_of_another_file_is_damaged(tmp_path: Path) -> None:
    file = a_file(1)
    file.add(EventType.XID, builder.xid(1), log_pos=12)
    path = tmp_path / FIRST
    path.write_bytes(bytes(file))

    with pytest.raises(FormatError, match="does not end where its header says"):
        read([path])


def test_files_say_by_which_number_replicas_know_their_server(tmp_path: Path) -> None:
    for version, flavor in ((builder.MYSQL, Flavor.MYSQL), (builder.MARIADB, Flavor.MARIADB)):
        path = tmp_path / FIRST
        path.write_bytes(bytes(BinlogFile(version, server_id=4711)))

        server_id, description = FileBlockStream([path]).beginning(FIRST)

        assert (server_id, description.flavor) == (4711, flavor)
