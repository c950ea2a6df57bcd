"""The GTIDs executed up to a position in the log, kept up to date block by block.

They are built from what the log itself says: the set that a file begins with, and the transactions
read since. The server's status row is of another moment than its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.gtid import MariadbGtidList
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.blocks.transactions import NO_NAME
from airflow_provider_binlog.errors import ForeignPositionError, FormatError, TruncatedError
from airflow_provider_binlog.position import Flavor

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock


class ExecutedGtids:
    """Everything executed before a position in the log; unknown until the log has said it.

    Args:
        flavor: Whose GTIDs they are.
        text: What was executed before the start; None where it is not known.
    """

    def __init__(self, flavor: Flavor, text: str | None) -> None:
        self._set: GtidSet | None = None
        self._last: MariadbGtidPosition | None = None
        self._before = GtidSet()
        self._file = ""
        if text is not None and flavor is Flavor.MYSQL:
            self._before = GtidSet.parse(text)
            self._set = self._before.copy()
        elif text is not None:
            self._last = MariadbGtidPosition.parse(text)

    def reset(self) -> None:
        """Begin again, at a position before which it is not known what was executed."""
        self._set, self._last, self._before, self._file = None, None, GtidSet(), ""

    @property
    def text(self) -> str | None:
        """MySQL's GTID set or MariaDB's list; None where it is not known."""
        executed = self._set if self._set is not None else self._last
        return None if executed is None else str(executed)

    def read(
        self,
        block: EventBlock,
        prefix: npt.NDArray[np.int64],
        number: npt.NDArray[np.int64],
        prefixes: list[str],
    ) -> None:
        """Add the transactions that begin in the next block.

        Args:
            block: The next block.
            prefix: Of each transaction, in the order of the log: see `Transactions`.
            number: The same.
            prefixes: The reader's.

        Raises:
            ForeignPositionError: One of them was executed before the position where it is logged.
            FormatError: One is of the other family.
            TruncatedError: The file begins after transactions that were in no file before it.
        """
        for event in np.flatnonzero(block.type == EventType.PREVIOUS_GTIDS).tolist():
            previous = GtidSet.decode(bytes(block.body(event)))
            if self._set is not None and block.file != self._file:
                _refuse_gap(str(previous.subtract(self._set)), block.file)
            # A server that was made from a backup executed more than any of its files says.
            self._set = previous.union(self._before)
            self._file = block.file
        for event in np.flatnonzero(block.type == EventType.MARIADB_GTID_LIST).tolist():
            listed = MariadbGtidList.parse(block.body(event), block.format)
            last = MariadbGtidPosition.of(listed.gtids)
            if self._last is not None and self._file not in ("", block.file):
                _refuse_gap(str(last.beyond(self._last)), block.file)
            self._last = last
            self._file = block.file
        self._file = block.file
        if self._last is not None:
            # The newest transaction of each server, in the order of the log.
            used, from_end = np.unique(prefix[::-1], return_index=True)
            for each in np.argsort(-from_end).tolist():
                domain, server = _domain_and_server(prefixes, int(used[each]), block.file)
                sequence = int(number[len(number) - 1 - int(from_end[each])])
                self._last = self._last.update(domain, server, sequence)
        elif self._set is not None:
            for each in np.unique(prefix).tolist():
                if each != NO_NAME:
                    numbers = np.sort(number[prefix == each])
                    self._add(self._set, prefixes[each], numbers, block.file)

    def _add(
        self, executed: GtidSet, prefix: str, numbers: npt.NDArray[np.int64], file: str
    ) -> None:
        """Add the transactions of one server and tag: `uuid:` or `uuid:tag:` is the prefix."""
        server, _, tag = prefix.rstrip(":").partition(":")
        steps = np.diff(numbers)
        breaks = np.flatnonzero(steps > 1)
        firsts = numbers[np.concatenate([[0], breaks + 1])].tolist()
        lasts = numbers[np.concatenate([breaks, [len(numbers) - 1]])].tolist()
        fresh = GtidSet()
        for first, last in zip(firsts, lasts, strict=True):
            fresh.add_interval(server, tag, first, last)
        if (steps == 0).any() or executed.intersects(fresh):
            raise ForeignPositionError(
                "a transaction in the log was executed before the position: the log was reset, "
                "or the position is another server's; take a new snapshot",
                gtids=str(fresh)[:200],
                file=file,
            )
        for first, last in zip(firsts, lasts, strict=True):
            executed.add_interval(server, tag, first, last)


def _domain_and_server(prefixes: list[str], prefix: int, file: str) -> tuple[int, int]:
    """Return what MariaDB's GTIDs with this prefix begin with."""
    text = "" if prefix == NO_NAME else prefixes[prefix]
    domain, _, server = text.rstrip("-").partition("-")
    if not (domain.isdigit() and server.isdigit()):
        raise FormatError("a GTID of MySQL in a log of MariaDB", file=file)
    return int(domain), int(server)


def _refuse_gap(missing: str, file: str) -> None:
    """Refuse a file before which transactions are missing, as they are where files end early."""
    if missing:
        raise TruncatedError(
            "transactions are missing before a file: the previous file was cut when it was "
            "copied, or the position's GTIDs are not those of its place",
            file=file,
            gtids=missing[:200],
        )
