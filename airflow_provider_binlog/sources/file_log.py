"""The binary log that some files hold, and its end: after the last whole transaction.

Files identify their server by its `server_id` and the log's name alone. A checkpoint that a server
issued is valid for its files, too, if the GTIDs show that they are of one history.

A file that its server still writes to, copied at any moment, ends anywhere, even inside an event. A
file that is closed names the next one; then the log ends at the start of that, be it there or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

import numpy as np

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog import header as headers
from airflow_provider_binlog.binlog.events.control import Rotate
from airflow_provider_binlog.binlog.gtid_set import MariadbGtidPosition, missing_gtids
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.blocks.block import IS_GROUP_START, EventBlock
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.position import (
    FIRST_OFFSET,
    Flavor,
    Position,
    SourceIdentity,
    split_file_name,
)
from airflow_provider_binlog.sources import state
from airflow_provider_binlog.sources.binlog_files import BinlogFiles
from airflow_provider_binlog.transport.block_stream import check_created
from airflow_provider_binlog.transport.files.names import plain_name
from airflow_provider_binlog.transport.files.reader import FileBlockStream


class FileLog(state.Log):
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
        return self._stream(0).beginning(self._names[0])[1].flavor

    def first(self) -> Position:
        """Return where the first file starts."""
        return Position(self._names[0], FIRST_OFFSET)

    def end(self) -> Position:
        """Return where the last whole transaction of the last file ends; read once."""
        return self._end

    def after(self, file: str) -> Position | None:
        """Return where the next file starts."""
        following = self._names[self._names.index(file) + 1 :]
        return Position(following[0], FIRST_OFFSET) if following else None

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        """Yield what the files hold."""
        if stop is not None and self._files.as_given:
            self._index(stop.file)  # refuses a stop in another file
        return self._from(start).blocks(start, stop)

    def close(self) -> None:
        """Do nothing: every iterator closes its files."""

    def read_state(
        self, saved: Checkpoint | None, *, start: state.Start | None
    ) -> state.SourceState:
        """Read the newest file and the one at the checkpoint; see `Log`."""
        if saved is None and start is None:
            raise errors.CheckpointMissingError(state.NO_START)
        position = saved.position if saved else self.resolve(start or {})
        self._check_position(position)
        file = self._file_of(position)
        server_id, description = self._from(position).beginning(file)
        # No file contains the server's UUID; those of GTIDs are of where transactions originated.
        identity = SourceIdentity(
            description.flavor, f"server_id={server_id}", split_file_name(file)[0]
        )
        if position.file == file:
            check_created(file, description.created, position)
            position = replace(position, file_created=description.created)
        if saved is not None:
            self._check_history(saved, identity)
            identity = saved.identity
        return state.SourceState(identity, saved, position, self._end)

    def resolve(self, start: state.Start) -> Position:
        """Return the position that `start` means in these files, or raise ConfigurationError."""
        if state.find_gtid_text(start) is not None:
            raise errors.ConfigurationError(
                'files are read from "earliest", "now" or a position such as "binlog.000042:4": '
                "a GTID set needs the server",
                given=start,
            )
        if start == "earliest":
            return self.first()
        return self._end if start == "now" else state.read_position(start)

    @cached_property
    def _end(self) -> Position:
        return find_log_end(self._stream(len(self._names) - 1))

    def _from(self, start: Position) -> FileBlockStream:
        """Return the files from a position on, after which there must be no gap."""
        if self._files.as_given:
            self._index(start.file)  # refuses a start in another file
            return self._stream(0)
        return self._stream(self._index(self._file_of(start)))

    def _stream(self, first: int) -> FileBlockStream:
        files = self._files
        return FileBlockStream(files.paths[first:], open_file=files.open, as_given=files.as_given)

    def _index(self, file: str) -> int:
        if file not in self._names:
            raise errors.ConfigurationError(
                f"{file} is none of the files: {', '.join(self._names)}"
            )
        return self._names.index(file)

    def _file_of(self, position: Position) -> str:
        """Return the name of a position's file, or of the last file if that is before it."""
        return position.file if position.file in self._names else self._names[-1]

    def _check_position(self, position: Position) -> None:
        log, first = split_file_name(self._names[0])
        context = {"position": position, "first": self._names[0], "end": self._end}
        if split_file_name(position.file)[0] != log:
            raise errors.ForeignPositionError(
                "the files are of another log than the position", **context
            )
        if position.file not in self._names and position.file_number < first:
            raise errors.PositionPurgedError("the files start after the position", **context)
        if position.coordinates > self._end.coordinates:
            raise errors.ForeignPositionError(
                "the files end before the position: newer ones are missing, or they are of a log "
                "that was reset",
                **context,
            )
        if position.file not in self._names and position.coordinates < self._end.coordinates:
            raise errors.PositionPurgedError("the file of the position is not there", **context)

    def _check_history(self, saved: Checkpoint, here: SourceIdentity) -> None:
        """Refuse files of another log than the checkpoint's, or of which nothing shows that."""
        gtid = saved.position.logged_gtid
        names_server = not saved.identity.server.startswith("server_id=")
        same_log = (saved.identity.flavor, saved.identity.log_name) == (here.flavor, here.log_name)
        if saved.identity != here and not (same_log and names_server and gtid):
            raise errors.ForeignPositionError(
                "nothing shows that the files are of the server that the position belongs to",
                position=saved.position,
                issued_by=saved.identity,
                files_of=here,
            )
        if saved.position.file in self._names and gtid is not None:
            executed = self._executed_before(saved.position, here)
            if executed is not None and not _is_one_history(here.flavor, gtid, executed):
                raise errors.ForeignPositionError(
                    "other transactions precede this position in the files than when it was "
                    "issued: they are of another server, or of a log that was reset",
                    position=saved.position,
                    gtid=gtid,
                    found=executed,
                )

    def _executed_before(self, position: Position, identity: SourceIdentity) -> str | None:
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


_QUERIES = frozenset({headers.EventType.QUERY, headers.EventType.QUERY_COMPRESSED})
# They neither begin nor end a transaction.
_INSIDE = headers.ROWS | headers.COMPRESSED | {headers.EventType.TABLE_MAP}
_INSIDE -= _QUERIES | {headers.EventType.TRANSACTION_PAYLOAD}


def find_log_end(source: FileBlockStream) -> Position:
    """Return where the log ends of which one file, the last one, is given; it may be cut.

    Raises:
        FormatError: The file is no binlog, or an event in it is damaged.
        UnsupportedError: It is encrypted.
    """
    end = _End(source.first_position)
    with suppress(errors.TruncatedError):
        for block in source.blocks(end.position):
            end.read(block)
    return end.position


class _End:
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
        if code == headers.EventType.TRANSACTION_PAYLOAD:
            self._scanner = TransactionScanner()  # it is the whole rest of its transaction
        else:
            (plain,) = Expander().expand(block.part(event, event + 1))
            try:
                header = headers.EventHeader.parse(plain.event(0))
                self._scanner.feed(header, plain.body(0), plain.format)
            except errors.BinlogError:
                # Readers of the log up to here get the error.
                self._scanner = TransactionScanner()
        if self._scanner.at_boundary:
            self._move_to(block, event + 1)
        if not int(block.flags[event]) & headers.ARTIFICIAL:
            self._close(block, event)

    def _move_to(self, block: EventBlock, event: int) -> None:
        offset = int(block.offset[event]) if event < len(block) else block.next_offset
        self.position = Position(block.file, offset, file_created=block.format.created)

    def _close(self, block: EventBlock, event: int) -> None:
        code = int(block.type[event])
        try:
            log, number = split_file_name(block.file)
            if code == headers.EventType.ROTATE:
                following = Rotate.parse(block.body(event), block.format).file
                # A relay log also holds those of the log that it was copied from.
                if split_file_name(following) == (log, number + 1):
                    self.position = Position(following, FIRST_OFFSET)
            elif code == headers.EventType.STOP and event == len(block) - 1:
                digits = len(block.file) - len(log) - 1
                self.position = Position(f"{log}.{number + 1:0{digits}}", FIRST_OFFSET)
        except errors.FormatError:
            return  # a file by a name of its own: nothing follows
