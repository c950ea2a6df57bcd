"""Changes that are in the log, and were rolled back later in it: they are left out.

    GTID | changes | SAVEPOINT `s` | changes | ROLLBACK TO `s` | changes | XID
    GTID | changes | ROLLBACK

A server cuts what it rolls back from the log before it writes it, but MariaDB does not where the
session also changed a table that cannot be rolled back, or made a temporary one. In row format the
changes of the first kind are not among these: they are logged as a transaction of their own, when
they happen. So whatever is between a savepoint and the return to it was not committed. Nothing
announces a ROLLBACK of the whole: changes before the first SAVEPOINT quarantine their tables then.

Source: mariadb, sql/log.cc, binlog_savepoint_rollback, binlog_rollback and
THD::binlog_prepare_pending_rows_event; mysql-server, sql/binlog.cc, the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.transactions import GroupEnd
from airflow_provider_binlog.blocks.block import choose
from airflow_provider_binlog.blocks.captured import TransactionBlock
from airflow_provider_binlog.blocks.transactions import IS_CHANGE
from airflow_provider_binlog.sql.statement_types import SavepointVerb, StatementType, read_savepoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.binlog.transactions import Scanned
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.position import Flavor

_UNREADABLE = "\ufffd"


class Intervals:
    """Intervals of offsets; none overlaps another."""

    def __init__(self) -> None:
        self._start: list[int] = []
        self._stop: list[int] = []

    def __bool__(self) -> bool:
        """Whether there is an interval."""
        return bool(self._start)

    def add(self, start: int, stop: int) -> None:
        """Add an interval, joined with those that it meets."""
        first, last = bisect_right(self._stop, start), bisect_left(self._start, stop)
        if first < last:
            start, stop = min(start, self._start[first]), max(stop, self._stop[last - 1])
        self._start[first:last], self._stop[first:last] = [start], [stop]

    def contain(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the offsets lie in an interval."""
        if not self._start:
            return np.zeros(len(offsets), dtype=bool)
        before = np.searchsorted(self._start, offsets, side="right") - 1
        inside: npt.NDArray[np.bool_] = (before >= 0) & (offsets < np.array(self._stop)[before])
        return inside


def may_roll_back(seen: Scanned) -> bool:
    """Whether what follows an event may be rolled back by a later event of its transaction."""
    return seen.statement_type is StatementType.SAVEPOINT


class Rollbacks:
    """What one transaction rolled back, as far as it was read.

    Attributes:
        intervals: The expanded offsets between which changes were rolled back.
        resolved: The expanded offsets of the statements that say so.
    """

    def __init__(self) -> None:
        self.intervals = Intervals()
        self.resolved: set[int] = set()
        self._since: int | None = None
        # Name and expanded offset, in log order.
        self._savepoints: list[tuple[str, int]] = []

    def follow(self, block: EventBlock, events: Iterable[tuple[int, Scanned]]) -> None:
        """Process the next events of the transaction, each with its index in a block."""
        flavor = block.format.flavor
        for event, seen in events:
            at = int(block.expanded_offset[event])
            if self._since is None and may_roll_back(seen):
                self._since = at
            if seen.end is GroupEnd.ROLLED_BACK and self._since is not None:
                self.intervals.add(self._since, at)
            elif seen.query is None:
                pass
            elif seen.statement_type is StatementType.SAVEPOINT:
                self._set(seen.query, flavor, at)
            elif seen.statement_type is StatementType.ROLLBACK_TO:
                self._return(seen.query, flavor, at)

    def leave_out(self, part: TransactionBlock) -> TransactionBlock | None:
        """Return a part of the transaction without what was rolled back; None if nothing is left.

        Only the statements that could not be resolved are left.
        """
        if not self.resolved and not self.intervals:
            return part
        block, read = part
        kept = ~(self.intervals.contain(block.expanded_offset) & IS_CHANGE[block.type])
        scanned = {
            event: seen
            for event, seen in read.scanned.items()
            if int(block.expanded_offset[event]) not in self.resolved
        }
        return _choose(part._replace(transactions=replace(read, scanned=scanned)), kept)

    def _set(self, query: Query, flavor: Flavor, at: int) -> None:
        """Follow SAVEPOINT, which takes its name from an earlier one, or RELEASE SAVEPOINT."""
        verb, name = _read(query, flavor)
        names = [name for name, _ in self._savepoints]
        index = names.index(name) if name in names else len(names)
        if verb is SavepointVerb.SET:
            del self._savepoints[index : index + 1]
            self._savepoints.append((name, at))
        else:
            del self._savepoints[index:]

    def _return(self, query: Query, flavor: Flavor, at: int) -> None:
        """Follow ROLLBACK TO, if it is certain to which savepoint."""
        _, name = _read(query, flavor)
        names = [name for name, _ in self._savepoints]
        # By the server's collation, names may be equal that differ in letters.
        if name not in names or not all(map(str.isascii, names)):
            return
        index = names.index(name)
        self.intervals.add(self._savepoints[index][1], at)
        self.resolved.add(at)
        del self._savepoints[index + 1 :]


def leave_out_rolled_back(whole: TransactionBlock) -> TransactionBlock:
    """Return a block without what the transactions that lie whole in it rolled back."""
    block, read = whole
    last = int(read.of_event[-1])
    rolling_back = {
        int(read.of_event[event])
        for event, seen in read.scanned.items()
        if seen.end is GroupEnd.ROLLED_BACK or seen.statement_type is StatementType.ROLLBACK_TO
    }
    # An XA transaction is buffered in any case, and may be read again.
    buffered = {
        int(read.of_event[event])
        for event, seen in read.scanned.items()
        if seen.end is GroupEnd.PREPARED or seen.statement_type is StatementType.XA_START
    }
    for own in sorted(rolling_back - buffered - {0} - ({last} if read.ends_open else set())):
        events = sorted(item for item in read.scanned.items() if read.of_event[item[0]] == own)
        rollbacks = Rollbacks()
        rollbacks.follow(block, events)
        # Its GTID is left, at least.
        whole = rollbacks.leave_out(whole) or whole
    return whole


def _choose(part: TransactionBlock, kept: npt.NDArray[np.bool_]) -> TransactionBlock | None:
    if kept.all():
        return part
    block, read = part
    index = np.flatnonzero(kept)
    scanned = {
        int(np.searchsorted(index, event)): seen
        for event, seen in read.scanned.items()
        if kept[event]
    }
    if not len(index):
        return None
    read = replace(read, of_event=read.of_event[index], scanned=scanned)
    return TransactionBlock(choose(block, index), read)


def _read(query: Query, flavor: Flavor) -> tuple[SavepointVerb, str]:
    """Return what a statement does with a savepoint, and the name, as far as letters matter."""
    verb, name = read_savepoint(query.sql, query.session(flavor))
    return verb, _UNREADABLE if name is None else name.rstrip(" ").casefold()
