"""What the tests of capture share: a log's files as a source, and a store in memory."""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.header import ARTIFICIAL, EventType
from airflow_provider_binlog.capture.capture_range import capture_range
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.schema_history.tables import TableLookup
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.stream.live import Dump
from airflow_provider_binlog.transport.stream.packets import PacketReader
from tests.support import builder
from tests.support.logs import split_blocks
from tests.support.requests import a_request
from tests.support.stores import open_store
from tests.unit.blocks.wire import receiver, stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.transport.block_stream import BlockStream
    from tests.support.builder import BinlogFile

Files = dict[str, "BinlogFile"]
_numbers = itertools.count()


class CutSource:
    """The blocks of a log, cut where the test says."""

    def __init__(self, files: Files, cuts: Mapping[str, Sequence[int]]) -> None:
        self._files = files
        self._cuts = cuts

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the blocks of a log that is read from its beginning on."""
        assert start.offset == FIRST_OFFSET
        for name, file in self._files.items():
            yield from split_blocks(name, file, self._cuts.get(name, ()))

    def close(self) -> None:
        """Nothing to let go of."""


class StreamSource(CutSource):
    """The same events as a server sends them, received in parts of these sizes."""

    def __init__(self, files: Files, sizes: Sequence[int], block_bytes: int) -> None:
        super().__init__(files, {})
        self._sizes = sizes
        self._block_bytes = block_bytes

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield the blocks of the stream."""
        events = []
        for name, file in self._files.items():
            body = builder.rotate(name)
            events.append(
                builder.event(EventType.ROTATE, body, checksum=False, timestamp=0, flags=ARTIFICIAL)
            )
            bounds = [*file.offsets, len(file.data)]
            events += [bytes(file.data[a:b]) for a, b in itertools.pairwise(bounds)]
        receive = receiver(stream(events), self._sizes)
        return Dump(PacketReader(receive, block_bytes=self._block_bytes)).blocks(start)


def file_source(files: Files, block_bytes: int = 1 << 22) -> FileBlockStream:
    """Return a source that reads files, in pieces of so many bytes."""
    return FileBlockStream(
        list(files),
        open_file=lambda name: io.BytesIO(bytes(files[name])),
        block_bytes=block_bytes,
    )


def end_of(files: Files) -> Position:
    """Return where a log ends."""
    name = list(files)[-1]
    return Position(name, len(files[name].data))


def new_store() -> ObjectStore:
    """Return an empty store in memory."""
    return open_store(f"memory://capture{next(_numbers)}")


def capture(
    source: BlockStream,
    stop: Position,
    *,
    flavor: Flavor = Flavor.MYSQL,
    store: ObjectStore | None = None,
    **arguments: Any,
) -> Manifest:
    """Return the manifest of a range; what is not given is what it is by default."""
    start = arguments.pop("start", Position("binlog.000001", FIRST_OFFSET))
    context = {name: arguments.pop(name) for name in ("prepared", "known") if name in arguments}
    request = a_request(start, stop, flavor=flavor, **arguments)
    return capture_range(LogRange(request, **context), source, store or new_store())


def known_after(manifest: Manifest) -> TableLookup:
    """Return what is known of the tables that a manifest names."""
    states = {table.name: table.state for table in manifest.tables if not table.dropped}
    return TableLookup(
        states.get, lambda database: [s for s in states.values() if s.name[0] == database]
    )
