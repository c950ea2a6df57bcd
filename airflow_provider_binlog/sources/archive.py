"""Copies of a server's binlog files: as the server wrote them, compressed, and only whole ones.

The checksum of each event is verified. A copy is read like the file, after the server purged it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.header import MAGIC
from airflow_provider_binlog.blocks.arrays import bytes_of, gather
from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.sources.binlog_files import StoredFile
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.files.names import plain_name
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.queries import BinaryLog

SUFFIX = ".zst"


def archive_log(
    logs: Sequence[BinaryLog],
    source: BlockStream,
    store: ObjectStore,
    *,
    created: Callable[[Position], int],
) -> Iterator[BinaryLog]:
    """Copy the files that the server writes no more, and are not in the store yet; yield each.

    Args:
        logs: The server's files, oldest first.
        source: Its log.
        store: Where the copies go, and nothing else is.
        created: Returns when the server created the file of a position.

    Raises:
        PositionPurgedError: The server purged files that are not in the store, between those that
            are and those that it has.
        ForeignPositionError: The store has copies of another log.
        ConnectionLostError: A file is not as long as the server says: it was not sent whole.
        BinlogError: As the source and the store.
    """
    there = {plain_name(name): name for name in store.list("") if name.endswith(SUFFIX)}
    _check_continues(logs, there, store, created)
    for log, following in pairwise(logs):
        if log.file not in there:
            stop = Position(following.file, FIRST_OFFSET)
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / f"{log.file}{SUFFIX}"
                _copy(source.blocks(Position(log.file, FIRST_OFFSET), stop), log, copy)
                store.upload(copy.name, copy)
            yield log


def _check_continues(
    logs: Sequence[BinaryLog],
    there: dict[str, str],
    store: ObjectStore,
    created: Callable[[Position], int],
) -> None:
    if not there:
        return
    newest = max(there, key=lambda name: Position(name, FIRST_OFFSET).file_number)
    first, last = Position(logs[0].file, FIRST_OFFSET), Position(newest, FIRST_OFFSET)
    if last.file_number + 1 < first.file_number:
        raise errors.PositionPurgedError(
            "the server has purged files that were not archived: archive what it has in another "
            "folder, and let the tasks run before it purges",
            archived=newest,
            first=logs[0].file,
        )
    both = [log.file for log in logs if log.file in there]
    if not both:
        if last.file_number >= first.file_number:
            raise _other_log(newest)
        return
    position = Position(both[-1], FIRST_OFFSET)
    copies = FileBlockStream(
        [there[both[-1]]], open_file=lambda name: StoredFile(store.open(name), name)
    )
    if copies.beginning(both[-1])[1].created != created(position):
        raise _other_log(both[-1])


def _other_log(file: str) -> errors.ForeignPositionError:
    return errors.ForeignPositionError(
        "the archive holds files of another log, or of this one before it was reset: archive it in "
        "another folder",
        file=file,
    )


def _copy(blocks: Iterator[EventBlock], log: BinaryLog, path: Path) -> None:
    end = len(MAGIC)
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(MAGIC)
        for block in blocks:
            if block.file != log.file:
                break
            # On the wire each event has a packet around it.
            events = gather(block.data, block.start, block.start + block.size)
            sink.write(bytes_of(events).data)
            end = block.next_offset
    if end != log.size:
        raise errors.ConnectionLostError(
            "a file of the log was not sent whole", file=log.file, wanted=log.size, sent=end
        )
