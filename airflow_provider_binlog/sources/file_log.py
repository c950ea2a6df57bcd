"""The binary log that some files hold, and its end: after the last whole transaction.

Files identify their server less well than a server identifies itself: by no UUID, only by its
`server_id` and the log's name. A checkpoint that a server issued is valid for its files, too, if
the GTIDs show that they are of one history.

A file that its server still writes to, copied at any moment, ends anywhere: inside a transaction,
inside an event. What is whole of it is read; the rest comes with the next copy. A file that
is closed names the next one, and then the log ends at the start of that file, whether or not it
is there already.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.events.control import Rotate
from airflow_provider_binlog.binlog.gtid_set import MariadbGtidPosition, missing_gtids
from airflow_provider_binlog.binlog.header import (
    ARTIFICIAL,
    COMPRESSED,
    ROWS,
    EventHeader,
    EventType,
)
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.blocks.block import IS_GROUP_START
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.errors import (
    BinlogError,
    CheckpointMissingError,
    ConfigurationError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
    TruncatedError,
)
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, split_file_name
from airflow_provider_binlog.sources.state import (
    NO_START,
    Log,
    SourceState,
    find_gtid_text,
    read_position,
)
from airflow_provider_binlog.transport.block_stream import check_created
from airflow_provider_binlog.transport.files.names import plain_name
from airflow_provider_binlog.transport.files.reader import FileBlockStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.checkpoint import Checkpoint
    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.sources.binlog_files import BinlogFiles
    from airflow_provider_binlog.sources.state import Start


class FileLog(Log):
    """The log that some files hold; see `Log` for the methods.

    Only a log that was arranged by the numbers of its files has a state; files that are read as
    they are given may have any names.
    """

    def __init__(self, files: BinlogFiles) -> None:
        self._files = files
        self._names = [plain_name(path) for path in files.paths]

    def describe(self) -> str:
        """Return which files are read, and which are skipped."""
        names = [PurePosixPath(path).name for path in self._files.paths]
        text = f"{len(names)} binlog files, {names[0]} to {names[-1]}"
        skipped = self._files.ignored
        return f"{text}; skipped: {', '.join(skipped)}" if skipped else text

    def flavor(self) -> Flavor:
        """Read the beginning of the first file."""
        return self._stream(0).flavor(self._names[0])

    def first(self) -> Position:
        """Return where the first file starts."""
        return Position(self._names[0], FIRST_OFFSET)

    def end(self) -> Position:
        """Return where the last whole transaction of the last file ends; read once."""
        return self._end

    def number(self, file: str) -> int:
        """Return the number in the file's name, or its index among the files as given.

        Raises:
            ConfigurationError: It is none of the files as given.
        """
        if not self._files.as_given:
            return super().number(file)
        return self._index(file)

    def after(self, file: str) -> Position | None:
        """Return where the next file starts."""
        following = self._names[self._names.index(file) + 1 :]
        return Position(following[0], FIRST_OFFSET) if following else None

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what the files hold."""
        return self._from(start).blocks(start, stop)

    def close(self) -> None:
        """Do nothing: every iterator closes its files."""

    def read_state(self, saved: Checkpoint | None, *, start: Start | None) -> SourceState:
        """Read the newest file and the one at the checkpoint; see `Log`."""
        if saved is None and start is None:
            raise CheckpointMissingError(NO_START)
        position = saved.position if saved else self.resolve(start or {})
        self._check_position(position)
        identity = self._from(position).identity(self._file_of(position))
        if position.file in self._names:
            created = self._from(position).created(position.file)
            check_created(position.file, created, position)
            position = replace(position, file_created=created)
        if saved is not None:
            identity = self._check_history(saved, identity)
        return SourceState(identity, saved, position, self._end)

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means in these files.

        Raises:
            ConfigurationError: It is none of the ways to name a position in files.
        """
        if find_gtid_text(start) is not None:
            raise ConfigurationError(
                'files are read from "earliest", "now" or a position such as "binlog.000042:4": '
                "a GTID set needs the server",
                given=start,
            )
        if start == "earliest":
            return self.first()
        return self._end if start == "now" else read_position(start)

    @cached_property
    def _end(self) -> Position:
        return find_log_end(self._stream(len(self._names) - 1))

    def _from(self, start: Position) -> FileBlockStream:
        """Return the files from a position on.

        Raises:
            ConfigurationError: There is a gap after the position.
        """
        file = start.file if self._files.as_given else self._file_of(start)
        return self._stream(self._index(file))

    def _stream(self, first: int) -> FileBlockStream:
        files = self._files
        return FileBlockStream(files.paths[first:], open_file=files.open, as_given=files.as_given)

    def _index(self, file: str) -> int:
        if file not in self._names:
            raise ConfigurationError(f"{file} is none of the files: {', '.join(self._names)}")
        return self._names.index(file)

    def _file_of(self, position: Position) -> str:
        """Return the name of a position's file, or of the last file if that is before it."""
        return position.file if position.file in self._names else self._names[-1]

    def _check_position(self, position: Position) -> None:
        log, first = split_file_name(self._names[0])
        context = {"position": position, "first": self._names[0], "end": self._end}
        if split_file_name(position.file)[0] != log:
            raise ForeignPositionError("the files are of another log than the position", **context)
        if position.file not in self._names and position.file_number < first:
            raise PositionPurgedError("the files start after the position", **context)
        if position.coordinates > self._end.coordinates:
            raise ForeignPositionError(
                "the files end before the position: newer ones are missing, or they are of a log "
                "that was reset",
                **context,
            )
        if position.file not in self._names and position.coordinates < self._end.coordinates:
            raise PositionPurgedError("the file of the position is not there", **context)

    def _check_history(self, saved: Checkpoint, here: SourceIdentity) -> SourceIdentity:
        """Return the checkpoint's identity, if the files are of the log that it is of.

        Raises:
            ForeignPositionError: They are not, or nothing shows that they are.
        """
        gtid = saved.position.logged_gtid
        names_server = not saved.identity.server.startswith("server_id=")
        same_log = (saved.identity.flavor, saved.identity.log_name) == (here.flavor, here.log_name)
        if saved.identity != here and not (same_log and names_server and gtid):
            raise ForeignPositionError(
                "nothing shows that the files are of the server that the position belongs to",
                position=saved.position,
                issued_by=saved.identity,
                files_of=here,
            )
        if saved.position.file in self._names and gtid is not None:
            executed = self._executed_before(saved.position, here)
            if executed is not None and not _is_one_history(here.flavor, gtid, executed):
                raise ForeignPositionError(
                    "other transactions precede this position in the files than when it was "
                    "issued: they are of another server, or of a log that was reset",
                    position=saved.position,
                    gtid=gtid,
                    found=executed,
                )
        return saved.identity

    def _executed_before(self, position: Position, identity: SourceIdentity) -> str | None:
        """Return the GTIDs that were executed before a position, according to the files."""
        source = self._from(position)
        if position.offset > FIRST_OFFSET:
            return executed_at(source, identity, position)
        for block in source.blocks(position):
            if block.file != position.file:
                break
            # The events before a file's first transaction name the GTIDs executed before.
            starts = np.flatnonzero(IS_GROUP_START[block.type])
            offset = int(block.offset[starts[0]]) if len(starts) else block.next_offset
            return executed_at(source, identity, replace(position, offset=offset))
        return None


def _is_one_history(flavor: Flavor, gtid: str, executed: str) -> bool:
    """Whether a log in which `executed` precedes a position is the one where `gtid` did.

    A server that was restored from a backup has executed more than its files say.
    """
    if flavor is Flavor.MYSQL:
        return not missing_gtids(flavor, executed, gtid)
    return MariadbGtidPosition.parse(gtid).agrees_with(MariadbGtidPosition.parse(executed))


_QUERIES = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED})
# They neither begin nor end a transaction.
_INSIDE = (ROWS | COMPRESSED | {EventType.TABLE_MAP}) - _QUERIES - {EventType.TRANSACTION_PAYLOAD}


def find_log_end(source: FileBlockStream) -> Position:
    """Return where the log of some files ends; reads the last one of them.

    Raises:
        FormatError: That file is no binlog, or an event in it is damaged; that it is cut is no
            error.
        UnsupportedError: It is encrypted.
    """
    end = _End(source.last_position)
    with suppress(TruncatedError):
        for block in source.blocks(source.last_position):
            end.read(block)
    return end.position


class _End:
    """Follows a file to the end of its last whole transaction."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self._scanner = TransactionScanner()

    def read(self, block: EventBlock) -> None:
        """Move after the transactions that end in the next block of the file."""
        begins = np.flatnonzero(IS_GROUP_START[block.type])
        first = 0
        if len(begins):
            # What precedes a transaction is whole, or was abandoned by the server.
            first = int(begins[-1])
            self._move_to(block, first)
            self._scanner = TransactionScanner()
        for event in range(first, len(block)):
            if int(block.type[event]) not in _INSIDE:
                self._follow(block, event)

    def _follow(self, block: EventBlock, event: int) -> None:
        code = int(block.type[event])
        if code == EventType.TRANSACTION_PAYLOAD:
            self._scanner = TransactionScanner()  # it is the whole rest of its transaction
        else:
            (plain,) = Expander().expand(block.part(event, event + 1))
            try:
                header = EventHeader.parse(plain.event(0))
                self._scanner.feed(header, plain.body(0), plain.format)
            except BinlogError:
                # Readers of the log up to here get the error.
                self._scanner = TransactionScanner()
        if self._scanner.at_boundary:
            self._move_to(block, event + 1)
        if not int(block.flags[event]) & ARTIFICIAL:
            self._close(block, event)

    def _move_to(self, block: EventBlock, event: int) -> None:
        offset = int(block.offset[event]) if event < len(block) else block.next_offset
        self.position = Position(block.file, offset, file_created=block.format.created)

    def _close(self, block: EventBlock, event: int) -> None:
        """Continue in the file that the server opened, or will open, after this event."""
        code = int(block.type[event])
        try:
            log, number = split_file_name(block.file)
            if code == EventType.ROTATE:
                following = Rotate.parse(block.body(event), block.format).file
                # A relay log also holds those of the log that it was copied from.
                if split_file_name(following) == (log, number + 1):
                    self.position = Position(following, FIRST_OFFSET)
            elif code == EventType.STOP and event == len(block) - 1:
                digits = len(block.file) - len(log) - 1
                self.position = Position(f"{log}.{number + 1:0{digits}}", FIRST_OFFSET)
        except FormatError:
            return  # a file by a name of its own: nothing follows
