"""The whole way of a log under test: its transactions, and what is staged of it."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.header import GROUP_STARTS, ROWS, EventType
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.blocks.transactions import NO_NAME, TransactionReader
from airflow_provider_binlog.capture.capture_range import capture_range
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.errors import BinlogError, ForeignPositionError, StagingError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import part_key
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.fuzz import seeds
from tests.fuzz.log_targets import BLOCK_BYTES, FILE, mutate_log, split
from tests.fuzz.targets import Target, Wrong, check_text, shown
from tests.reference.events import read_file
from tests.support.requests import a_request

Result = TypeVar("Result")
Named = list[tuple[int, str | None, int]]
"""Of each rows event: its offset, and its transaction's GTID and commit timestamp."""


def run_transactions(data: bytes) -> None:
    """Name the transaction of every rows event, by blocks and event by event."""
    small, large = (_attempt(partial(_by_block, data, size)) for size in BLOCK_BYTES)
    plain = _attempt(lambda: _by_event(data))
    if not _may_be_written(data):
        return
    if isinstance(small, BinlogError) or isinstance(large, BinlogError):
        if not (isinstance(small, BinlogError) and isinstance(large, BinlogError)):
            raise Wrong(f"blocks of another size, another outcome: {shown(small)}; {shown(large)}")
        return
    if small != large:
        raise Wrong("blocks of another size, other transactions")
    if isinstance(plain, BinlogError):
        raise Wrong(f"blocks are read where events are refused: {plain!r}")
    if plain != large:
        raise Wrong("blocks hold other transactions than the file")


def _may_be_written(data: bytes) -> bool:
    """Whether a file has one description, at its front, and no encryption.

    And GTIDs of one family, and these and its statements are whole. Others are answered somehow;
    blocks look less closely at what no server writes.
    """
    kinds = Counter(event[4] for event in split(data))
    if kinds[EventType.FORMAT_DESCRIPTION] != 1 or kinds[EventType.START_ENCRYPTION]:
        return False
    if kinds[EventType.MARIADB_GTID_LIST] and kinds.keys() & GROUP_STARTS - {
        EventType.MARIADB_GTID
    }:
        return False
    try:
        for event in read_file(data):
            if event.header.type in GROUP_STARTS:
                TransactionScanner().feed(event.header, event.body, event.format)
            elif event.header.type == EventType.QUERY:
                Query.parse(event.body, event.format)
    except BinlogError:
        return False
    return True


def _by_block(data: bytes, block_bytes: int) -> Named:
    reader = TransactionReader()
    named: Named = []
    for block in _source(data, block_bytes).blocks(Position(FILE, FIRST_OFFSET)):
        read = reader.read(block)
        for index, kind in enumerate(block.type.tolist()):
            if kind in ROWS:
                own = read.of_event[index]
                prefix = int(read.prefix[own])
                name = None if prefix == NO_NAME else f"{reader.prefixes[prefix]}{read.number[own]}"
                named.append((int(block.offset[index]), name, int(read.commit_ts[own])))
    return named


def _by_event(data: bytes) -> Named:
    scanner = TransactionScanner()
    named: Named = []
    name, commit_ts = None, 0
    for event in read_file(data):
        seen = scanner.feed(event.header, event.body, event.format)
        if seen.gtid is not None:
            name, commit_ts = seen.gtid.text, event.header.timestamp * 1_000_000
            if seen.gtid.commit_timestamp_us is not None:
                commit_ts = seen.gtid.commit_timestamp_us
        if event.header.type in ROWS:
            named.append((event.offset, name, commit_ts))
    return named


def run_capture(data: bytes) -> None:
    """Stage a file twice, read in small and in large blocks: the same bytes, or the same error."""
    small, large = (_attempt(partial(stage, data, size)) for size in BLOCK_BYTES)
    # A log that names a transaction twice is refused where it is noticed.
    if not _may_be_written(data):
        return
    if isinstance(small, ForeignPositionError) or isinstance(large, ForeignPositionError):
        return
    if isinstance(small, BinlogError) or isinstance(large, BinlogError):
        if not (isinstance(small, BinlogError) and isinstance(large, BinlogError)):
            raise Wrong(f"blocks of another size, another outcome: {shown(small)}; {shown(large)}")
        return
    if small[0] != large[0]:
        raise Wrong(f"blocks of another size, another manifest: {_difference(small[0], large[0])}")
    if small[1] != large[1]:
        raise Wrong("blocks of another size, other parts")


def _difference(one: Manifest, other: Manifest) -> str:
    names = (name for name, value in vars(one).items() if value != getattr(other, name))
    return ", ".join(f"{name}={getattr(one, name)}, {getattr(other, name)}" for name in names)[:500]


def stage(data: bytes, block_bytes: int) -> tuple[Manifest, dict[str, bytes]]:
    """Return what a file is staged as."""
    store = _MemoryStore()
    flavor = next((event.format.flavor for event in read_file(data)), Flavor.MYSQL)
    request = a_request(
        Position(FILE, FIRST_OFFSET),
        Position(FILE, len(data)),
        identity=SourceIdentity(flavor, "fuzz", "binlog"),
        source_name="fuzz",
        created_by="fuzz",
        on_table_error=OnTableError.QUARANTINE,
        limits=Limits(part_bytes_max=400, pending_bytes_max=900),
    )
    manifest = capture_range(LogRange(request), _source(data, block_bytes), store)
    if Manifest.decode(manifest.encode()) != manifest:
        raise Wrong("a manifest that does not survive being written")
    # What was written of a table that is quarantined is in no manifest.
    named = (part_key("fuzz", part.path) for table in manifest.tables for part in table.parts)
    parts = {key: store.objects[key] for key in named}
    # GTIDs of two families in one log, or one twice, make no set that could be right.
    return replace(manifest, created_at="", stop=Position(FILE, len(data))), parts


class _MemoryStore(ObjectStore):
    """An object store of one process."""

    writes_at_once = 1

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def read(self, key: str) -> bytes:
        return self.objects[key]

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def create(self, key: str, data: bytes) -> None:
        if key in self.objects:
            raise StagingError("taken", key=key)
        self.objects[key] = data

    def folders(self, folder: str) -> list[str]:
        keys = (key for key in self.objects if key.startswith(f"{folder}/"))
        return sorted({key[len(folder) + 1 :].partition("/")[0] for key in keys})

    def list(self, folder: str) -> list[str]:
        return sorted(key for key in self.objects if key.rpartition("/")[0] == folder)

    def size(self, key: str) -> int:
        return len(self.objects[key])


def _source(data: bytes, block_bytes: int) -> FileBlockStream:
    return FileBlockStream([FILE], open_file=lambda _: io.BytesIO(data), block_bytes=block_bytes)


def _attempt(work: Callable[[], Result]) -> Result | BinlogError:
    try:
        return work()
    except BinlogError as error:
        check_text(error)
        return error


CAPTURE_TARGETS = (
    Target("transactions", run_transactions, seeds.logs, mutate_log),
    Target("capture", run_capture, seeds.logs, mutate_log),
)
