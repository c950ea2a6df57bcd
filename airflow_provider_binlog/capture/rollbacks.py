"""Changes that are in the log, and were rolled back behind themselves: they are left out.

    GTID | changes | SAVEPOINT `s` | changes | ROLLBACK TO `s` | changes | XID
    GTID | changes | ROLLBACK

A server cuts what it rolls back from the log before it writes it, but MariaDB does not where the
session also changed a table that cannot be rolled back, or made a temporary one. In row format the
changes of the first kind are not among these: they are logged as a transaction of their own, when
they happen. So whatever stands between a savepoint and the return to it has not stayed.

Source: mariadb, sql/log.cc, binlog_savepoint_rollback, binlog_rollback and
THD::binlog_prepare_pending_rows_event; mysql-server, sql/binlog.cc, the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.statements import StatementKind
from airflow_provider_binlog.binlog.transactions import GroupEnd, Place
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions

# As servers write them, whatever the client wrote; the quotes go by the session's sql_mode.
_NAMED = re.compile(
    r"""(SAVEPOINT|ROLLBACK\ TO|RELEASE\ SAVEPOINT)\ (`(?:[^`]|``)*`|"(?:[^"]|"")*"|[^`"\s]+)""",
    re.VERBOSE,
)
_UNREADABLE = "\ufffd"
_REFUSED = (
    "a transaction was rolled back to a savepoint that cannot be told from others: take a new "
    "snapshot of its tables and begin behind it"
)


class Undone:
    """The stretches of a range that were rolled back, by `_row`; none overlaps another."""

    def __init__(self) -> None:
        self._begin: list[int] = []
        self._end: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Add a stretch, be it known already, or in part."""
        first, last = bisect_right(self._end, begin), bisect_left(self._begin, end)
        if first < last:
            begin, end = min(begin, self._begin[first]), max(end, self._end[last - 1])
        self._begin[first:last], self._end[first:last] = [begin], [end]

    def holds(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the places, by `_row`, lie in a stretch."""
        if not self._begin:
            return np.zeros(len(places), dtype=bool)
        before = np.searchsorted(self._begin, places, side="right") - 1
        inside: npt.NDArray[np.bool_] = (before >= 0) & (places < np.array(self._end)[before])
        return inside


class RollbackReader:
    """Follows the savepoints of a log, block after block, and finds what was undone.

    A stretch may begin in an earlier block, whose changes were not left out: then `late` is set,
    and a second reading, with the same `Undone`, leaves them out.

    Attributes:
        late: Whether changes were let through that a later event undid.
    """

    def __init__(self, undone: Undone) -> None:
        self.late = False
        self._undone = undone
        self._begin = 0
        # Of the open transaction: name and place, in their order.
        self._savepoints: list[tuple[str, int]] = []
        self._let_through = -1

    def stayed(
        self, block: EventBlock, read: Transactions, rows: npt.NDArray[np.int64], file_index: int
    ) -> npt.NDArray[np.bool_]:
        """Return which of these rows events of the next block have stayed, for all that is known.

        Raises:
            UnsupportedError: Changes were rolled back, and it cannot be told which.
        """
        base = file_index << ROW_FILE_SHIFT
        places = base + block.expanded_offset[rows]
        for event, seen in sorted(read.scanned.items()):
            place = base + int(block.expanded_offset[event])
            if seen.place is Place.BEGIN:
                self._begin, self._savepoints = place, []
            elif seen.end is GroupEnd.ROLLED_BACK:
                self._undo(self._begin, place)
            elif seen.query is None:
                pass
            elif seen.kind is StatementKind.SAVEPOINT:
                self._follow(seen.query.sql, place)
            elif seen.kind is StatementKind.ROLLBACK_TO and not self._return(seen.query.sql, place):
                here = (places >= self._begin) & (places < place)
                if here.any() or self._let_through >= self._begin:
                    raise UnsupportedError(
                        _REFUSED,
                        file=block.file,
                        offset=int(block.offset[event]),
                        statement=seen.query.sql[:200],
                    )
        stayed: npt.NDArray[np.bool_] = ~self._undone.holds(places)
        if stayed.any():
            self._let_through = int(places[np.flatnonzero(stayed)[-1]])
        return stayed

    def _follow(self, sql: str, place: int) -> None:
        """Follow SAVEPOINT, which takes its name from an earlier one, or RELEASE SAVEPOINT."""
        verb, name = _named(sql)
        names = [each for each, _ in self._savepoints]
        index = names.index(name) if name in names else len(names)
        if verb == "SAVEPOINT":
            del self._savepoints[index : index + 1]
            self._savepoints.append((name, place))
        else:
            del self._savepoints[index:]

    def _return(self, sql: str, place: int) -> bool:
        """Follow ROLLBACK TO; return whether it can be told to which savepoint."""
        _, name = _named(sql)
        names = [each for each, _ in self._savepoints]
        # By the server's collation, names may be equal that differ in letters.
        if name not in names or not all(map(str.isascii, names)):
            return False
        index = names.index(name)
        self._undo(self._savepoints[index][1], place)
        del self._savepoints[index + 1 :]
        return True

    def _undo(self, begin: int, end: int) -> None:
        self._undone.add(begin, end)
        self.late |= self._let_through >= begin


def _named(sql: str) -> tuple[str, str]:
    """Return what a statement does with a savepoint, and the name, as far as letters matter."""
    found = _NAMED.fullmatch(sql)
    if found is None:
        return sql.partition(" ")[0].upper(), _UNREADABLE
    name = found[2][1:-1] if found[2][0] in '`"' else found[2]
    return found[1], name.rstrip(" ").casefold()
