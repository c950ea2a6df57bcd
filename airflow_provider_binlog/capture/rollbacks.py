"""Changes that are in the log, and were rolled back later in it: they are left out.

    GTID | changes | SAVEPOINT `s` | changes | ROLLBACK TO `s` | changes | XID
    GTID | changes | ROLLBACK

A server cuts what it rolls back from the log before it writes it, but MariaDB does not where the
session also changed a table that cannot be rolled back, or made a temporary one. In row format the
changes of the first kind are not among these: they are logged as a transaction of their own, when
they happen. So whatever is between a savepoint and the return to it was not committed.

Source: mariadb, sql/log.cc, binlog_savepoint_rollback, binlog_rollback and
THD::binlog_prepare_pending_rows_event; mysql-server, sql/binlog.cc, the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airflow_provider_binlog.binlog.transactions import GroupEnd
from airflow_provider_binlog.capture.quarantine import RefusedTables, raise_table_error
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.sql.lexer import mask_literals
from airflow_provider_binlog.sql.statement_types import SavepointVerb, StatementType, read_savepoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.capture.quarantine import RefuseTables
    from airflow_provider_binlog.capture.transaction_tables import TransactionTables
    from airflow_provider_binlog.position import Flavor

_Named: TypeAlias = tuple[SavepointVerb, str]
_UNREADABLE = "\ufffd"
_REFUSED = (
    "a transaction was rolled back to a savepoint that cannot be identified: take a new "
    "snapshot of its tables and begin after it"
)


class RowIntervals:
    """Intervals of row numbers; none overlaps another."""

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        """Begin with some that do not overlap, in order: pairs of start and stop."""
        self._start: list[int] = []
        self._stop: list[int] = []
        for start, stop in intervals:
            self._start.append(start)
            self._stop.append(stop)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield start and stop of each, in order."""
        return zip(self._start, self._stop, strict=True)

    def add(self, start: int, stop: int) -> None:
        """Add an interval, joined with those that it meets."""
        first, last = bisect_right(self._stop, start), bisect_left(self._start, stop)
        if first < last:
            start, stop = min(start, self._start[first]), max(stop, self._stop[last - 1])
        self._start[first:last], self._stop[first:last] = [start], [stop]

    def contain(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the row numbers lie in an interval."""
        if not self._start:
            return np.zeros(len(rows), dtype=bool)
        before = np.searchsorted(self._start, rows, side="right") - 1
        inside: npt.NDArray[np.bool_] = (before >= 0) & (rows < np.array(self._stop)[before])
        return inside


class RollbackReader:
    """Follows the savepoints of a log, block after block, and finds what was rolled back.

    An interval may begin in an earlier block, whose changes were let through: then
    `needs_restart` is set, and a second reading, given all intervals, leaves them out.

    Attributes:
        rolled_back: What was rolled back, as far as it is known.
        needs_restart: Whether changes were let through that a later event rolled back.
    """

    def __init__(
        self,
        rolled_back: Iterable[tuple[int, int]] = (),
        *,
        tables: TransactionTables,
        refuse: RefuseTables = raise_table_error,
    ) -> None:
        """Begin a range.

        Args:
            rolled_back: What an earlier reading of it found.
            tables: Those that the open transaction changed in earlier blocks.
            refuse: Takes the error where it is not certain which changes were rolled back. Where it
                returns, they are taken for committed.
        """
        self.rolled_back = RowIntervals(rolled_back)
        self.needs_restart = False
        self._tables = tables
        self._refuse = refuse
        self._begin = 0
        # Of the open transaction: name and row number, in log order.
        self._savepoints: list[tuple[str, int]] = []
        self._let_through = -1

    def committed(self, captured: CapturedBlock) -> CapturedBlock:
        """Return the next block without what was rolled back, as far as it is known.

        Raises:
            UnsupportedError: Changes were rolled back, and it is not certain which.
        """
        rows, flavor = captured.row, captured.block.format.flavor
        for event, seen in sorted(captured.transactions.scanned.items()):
            row = captured.row_of(event)
            if seen.gtid is not None:
                self._begin, self._savepoints = row, []
            elif seen.end is GroupEnd.ROLLED_BACK:
                self._roll_back(self._begin, row)
            elif seen.query is None:
                pass
            elif seen.statement_type is StatementType.SAVEPOINT:
                self._follow(_named(seen.query, flavor), row)
            elif seen.statement_type is StatementType.ROLLBACK_TO and not self._return(
                _named(seen.query, flavor), row
            ):
                tables = self._tables.before(captured, event)
                if tables:
                    shown = mask_literals(seen.query.sql, seen.query.session(flavor))
                    where = captured.block.where(event)
                    error = UnsupportedError(_REFUSED, **where, statement=shown)
                    self._refuse(RefusedTables.at(captured.block, event, error, tables))
        committed = ~self.rolled_back.contain(rows)
        if committed.any():
            self._let_through = int(rows[np.flatnonzero(committed)[-1]])
        return captured if committed.all() else captured.where(committed)

    def _follow(self, named: _Named, row: int) -> None:
        """Follow SAVEPOINT, which takes its name from an earlier one, or RELEASE SAVEPOINT."""
        verb, name = named
        names = [each for each, _ in self._savepoints]
        index = names.index(name) if name in names else len(names)
        if verb is SavepointVerb.SET:
            del self._savepoints[index : index + 1]
            self._savepoints.append((name, row))
        else:
            del self._savepoints[index:]

    def _return(self, named: _Named, row: int) -> bool:
        """Follow ROLLBACK TO; return whether it is certain to which savepoint."""
        _, name = named
        names = [each for each, _ in self._savepoints]
        # By the server's collation, names may be equal that differ in letters.
        if name not in names or not all(map(str.isascii, names)):
            return False
        index = names.index(name)
        self._roll_back(self._savepoints[index][1], row)
        del self._savepoints[index + 1 :]
        return True

    def _roll_back(self, start: int, stop: int) -> None:
        self.rolled_back.add(start, stop)
        self.needs_restart |= self._let_through >= start


def _named(query: Query, flavor: Flavor) -> _Named:
    """Return what a statement does with a savepoint, and the name, as far as letters matter."""
    verb, name = read_savepoint(query.sql, query.session(flavor))
    return verb, _UNREADABLE if name is None else name.rstrip(" ").casefold()
