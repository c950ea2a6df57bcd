"""Binlog files as the log that a task stages from.

Files say less of whose they are than a server does: no UUID, only the number by which replicas know
it (`server_id`) and the log's name. A checkpoint that a server issued holds for its files, too, if
the GTIDs show that they are of one history.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import GROUP_STARTS
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.checkpoint import load
from airflow_provider_binlog.errors import (
    CheckpointMissingError,
    ConfigurationError,
    ForeignPositionError,
    PositionPurgedError,
)
from airflow_provider_binlog.hooks.standing import NO_START, Standing
from airflow_provider_binlog.hooks.start import maybe_gtids, read_position
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, split_file_name
from airflow_provider_binlog.transport.files.end import find_log_end
from airflow_provider_binlog.transport.files.names import plain_name
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.foreign_keys import ForeignKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.checkpoint import Checkpoint, CheckpointStore
    from airflow_provider_binlog.hooks.binlog_files import BinlogFiles
    from airflow_provider_binlog.hooks.start import Start
    from airflow_provider_binlog.position import SourceIdentity


class FileLog:
    """The log that some files hold."""

    def __init__(self, files: BinlogFiles) -> None:
        self._files = files
        self._names = [plain_name(path) for path in files.paths]

    def check(self) -> None:
        """Files have no settings: what they lack shows when they are read."""

    def look(self, store: CheckpointStore, key: str, *, start: Start | None) -> Standing:
        """Return where capture stands; see `Log`. Reads the newest file and the checkpoint's.

        Raises:
            CheckpointMissingError: There is no checkpoint, and `start` is None.
            ForeignPositionError: The position is of another log, or lies behind the files' end.
            PositionPurgedError: The files begin behind the position.
        """
        saved = load(store, key)
        if saved is None and start is None:
            raise CheckpointMissingError(NO_START, key=key)
        position = saved.position if saved else self.resolve(start or {})
        self._check_place(position)
        identity = self._source(position).identity(self._file_of(position))
        if saved is not None:
            identity = self._check_history(saved, identity)
        return Standing(identity, saved, position, self._end)

    def resolve(self, start: Start) -> Position:
        """Return the position that `start` means in these files; see `Log`.

        Raises:
            ConfigurationError: It is none of the ways to name a position in files.
        """
        if maybe_gtids(start) is not None:
            raise ConfigurationError(
                'files are read from "earliest", "now" or a position such as "binlog.000042:4" on: '
                "a GTID set takes the server",
                given=start,
            )
        if start == "earliest":
            return Position(self._names[0], FIRST_OFFSET)
        return self._end if start == "now" else read_position(start)

    def bytes_between(self, start: Position, stop: Position) -> int | None:  # noqa: ARG002
        """Return None: how long a compressed file is, only its end tells."""
        return None

    def source(self, standing: Standing, start: Position) -> FileBlockStream:  # noqa: ARG002
        """Return the files from that of `start` on; see `Log`."""
        return self._source(start)

    @property
    def read_server_tables(self) -> None:
        """Files have no catalogue: what they leave out, nothing tells; see `Log`."""
        return

    def lacks_columns(self) -> bool:
        """Return False: there is no catalogue that would tell what they hold; see `Log`."""
        return False

    def unlogged_foreign_keys(
        self,
        captured: Callable[[str, str], bool],  # noqa: ARG002
        logged: Collection[tuple[str, str]],  # noqa: ARG002
    ) -> ForeignKeys:
        """Return none: there is no server to ask; see `Log`."""
        return ForeignKeys()

    @cached_property
    def _end(self) -> Position:
        return find_log_end(FileBlockStream(self._files.paths[-1:], open_file=self._files.open))

    def _source(self, start: Position) -> FileBlockStream:
        """Return the files from a position on, and those in front of them up to a gap.

        Raises:
            ConfigurationError: There is a gap behind the position.
        """
        first = self._names.index(self._file_of(start))
        numbers = [split_file_name(name)[1] for name in self._names]
        # What was prepared long ago, and is committed behind the position, is read again.
        while first and numbers[first - 1] == numbers[first] - 1:
            first -= 1
        return FileBlockStream(self._files.paths[first:], open_file=self._files.open)

    def _file_of(self, position: Position) -> str:
        """Return the name of a position's file; the last one's where it stands behind that."""
        return position.file if position.file in self._names else self._names[-1]

    def _check_place(self, position: Position) -> None:
        log, first = split_file_name(self._names[0])
        found = {"position": position, "first": self._names[0], "end": self._end}
        if split_file_name(position.file)[0] != log:
            raise ForeignPositionError("the files are of another log than the position", **found)
        if position.file not in self._names and position.file_number < first:
            raise PositionPurgedError("the files begin behind the position", **found)
        if position.coordinates > self._end.coordinates:
            raise ForeignPositionError(
                "the files end before the position: newer ones are missing, or they are of a log "
                "that was reset",
                **found,
            )
        if position.file not in self._names and position.coordinates < self._end.coordinates:
            raise PositionPurgedError("the file of the position is not there", **found)

    def _check_history(self, saved: Checkpoint, here: SourceIdentity) -> SourceIdentity:
        """Return the checkpoint's identity, if the files are of the log that it is of.

        Raises:
            ForeignPositionError: They are not, or nothing shows that they are.
        """
        gtid = saved.position.gtid if saved.position.logged is None else saved.position.logged
        issued_by = f"{saved.identity.flavor.value} {saved.identity.server}"
        names_server = not saved.identity.server.startswith("server_id=")
        same_log = (saved.identity.flavor, saved.identity.log_name) == (here.flavor, here.log_name)
        if saved.identity != here and not (same_log and names_server and gtid):
            raise ForeignPositionError(
                "nothing shows that the files are of the server that the position belongs to",
                position=saved.position,
                issued_by=issued_by,
                files_of=f"{here.flavor.value} {here.server}",
            )
        if saved.position.file in self._names and gtid is not None:
            found = self._executed_before(saved.position, here)
            if found is not None and not _is_one_history(here.flavor, gtid, found):
                raise ForeignPositionError(
                    "other transactions precede this position in the files than when it was "
                    "issued: they are of another server, or of a log that was reset",
                    position=saved.position,
                    gtid=gtid,
                    found=found,
                )
        return saved.identity

    def _executed_before(self, position: Position, identity: SourceIdentity) -> str | None:
        """Return the GTIDs that the files say were executed before a position."""
        source = self._source(position)
        if position.offset > FIRST_OFFSET:
            return executed_at(source, identity, position)
        for block in source.blocks(position):
            if block.file != position.file:
                break
            # What a file begins with, up to its first transaction, tells what was before.
            begins = np.flatnonzero(np.isin(block.type, [int(each) for each in GROUP_STARTS]))
            behind = int(block.offset[begins[0]]) if len(begins) else block.next_offset
            return executed_at(source, identity, Position(position.file, behind))
        return None


def _is_one_history(flavor: Flavor, gtid: str, found: str) -> bool:
    """Whether a log in which `found` precedes a position is the one where `gtid` did.

    A server that was made from a backup executed more than its files say; a domain of MariaDB's can
    be deleted from its log.
    """
    if flavor is Flavor.MYSQL:
        return not str(GtidSet.parse(found).subtract(GtidSet.parse(gtid)))
    before = MariadbGtidPosition.parse(gtid).domains
    here = MariadbGtidPosition.parse(found).domains
    common = before.keys() & here.keys()
    return all(before[each] == here[each] for each in common) and bool(common or not before)


def describe_files(files: BinlogFiles) -> str:
    """Return in a few words what is read, and what is not."""
    names = [PurePosixPath(path).name for path in files.paths]
    text = f"{len(names)} binlog files, {names[0]} to {names[-1]}"
    return f"{text}; passed over: {', '.join(files.ignored)}" if files.ignored else text
