"""Which tables of a range are quarantined: from where on, and why.

What concerns one table does not stop the others. From that row on the table's changes are left out,
until it is truncated or the range ends: the next range tries again. So nothing has to be carried
over or forgotten. Rows that a range leaves out are a gap, which only a reload closes; what follows
the gap is staged as soon as it can be, for the reload to build on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_provider_binlog.errors import ServerSetupError, UnsupportedError

if TYPE_CHECKING:
    from airflow_provider_binlog.errors import BinlogError
    from airflow_provider_binlog.schema import TableName

_LEFT_OUT = ("file", "offset", "log_pos", "event", "table", "tables", "xid", "value")


class TableRows(NamedTuple):
    """The rows of a table from one on.

    Attributes:
        row: Its number in the range, or that of the event after which they come.
        name: Database and table; of all tables of a database, (database, "").
        file, offset: Where its event begins.
    """

    row: int
    name: TableName
    file: str
    offset: int


class Quarantine(NamedTuple):
    """From where on a table is left out of a range, and why."""

    since: TableRows
    reason: str


class LostChanges(NamedTuple):
    """Changes that the log shows no more, of a transaction that is committed at an event.

    Attributes:
        error: Why.
        tables: Whose changes they are.
        file, offset: Where the event begins.
        expanded_offset: Where it is among the events of its file.
    """

    error: BinlogError
    tables: tuple[TableName, ...]
    file: str
    offset: int
    expanded_offset: int


RefuseTables: TypeAlias = Callable[["BinlogError", Iterable[TableRows]], None]
"""Takes an error that concerns the rows of some tables: raises it, or leaves them out."""


def raise_table_error(error: BinlogError, _: Iterable[TableRows]) -> None:
    """Refuse by raising; a `RefuseTables`."""
    raise error


def concerns_one_table(error: BinlogError) -> bool:
    """Whether what failed is the decoding of a table, and not the log.

    An error that names a column is about its values, which an intact log may hold.
    """
    return isinstance(error, UnsupportedError | ServerSetupError) or "column" in error.context


class Quarantines:
    """The quarantined tables of a range, while it is read once.

    Attributes:
        missing: Those of rows that were let through already: the range has to be read again, given
            them.
        read_through: Number of the last event whose rows were let through.
    """

    def __init__(self, known: Iterable[Quarantine] = (), *, fails: bool = False) -> None:
        """Begin a range.

        Args:
            known: What an earlier reading of it found too late.
            fails: Whether an error of a table fails the range.
        """
        self.missing: list[Quarantine] = []
        self.read_through = -1
        self._coming = sorted(known)
        self._known = {(each.since.row, each.since.name) for each in self._coming}
        self._fails = fails
        self._lost: list[LostChanges] = []
        self._begun: list[Quarantine] = []

    def take(self, error: BinlogError, tables: Iterable[TableRows]) -> None:
        """Leave out rows of tables; a `RefuseTables`.

        Raises:
            BinlogError: The error, where it is to fail the range.
        """
        for each in tables:
            if self._fails:
                raise error
            if (each.row, each.name) in self._known:
                continue
            self._known.add((each.row, each.name))
            found = Quarantine(each, _explain(error))
            if each.row <= self.read_through:
                self.missing.append(found)
            else:
                self._coming = sorted([*self._coming, found])

    def take_lost(self, lost: LostChanges) -> None:
        """Leave out the rows of tables that a transaction changed which is lost.

        Raises:
            BinlogError: The error, where it is to fail the range.
        """
        if self._fails:
            raise lost.error
        self._lost.append(lost)

    def due(self, file: str, first: int, last: int) -> list[Quarantine]:
        """Return what begins in a block, in the order of the log.

        Args:
            file: Of the block.
            first: What numbers of events of this file count from.
            last: Number of the block's last event.
        """
        for lost in [each for each in self._lost if each.file == file]:
            self._lost.remove(lost)
            row = first + lost.expanded_offset
            self.take(lost.error, [TableRows(row, name, file, lost.offset) for name in lost.tables])
        found = [each for each in self._coming if each.since.row <= last]
        self._coming = self._coming[len(found) :]
        return found

    def begin(self, error: BinlogError, since: TableRows) -> Quarantine:
        """Leave out a table from a row on that was not let through yet.

        Raises:
            BinlogError: The error, where it is to fail the range.
        """
        if self._fails:
            raise error
        return Quarantine(since, _explain(error))

    def note(self, begun: Quarantine) -> None:
        """Take note that a table is left out from here on."""
        self._begun.append(begun)

    def name_range(self, range_id: str, row: int) -> str:
        """Return the name of a range's parts that are written once this row was read.

        What is left out may depend on more than the log: on information_schema, and on what the
        server has purged. A retry that leaves out other rows must not overwrite parts that a
        manifest names.
        """
        begun = sorted(each for each in self._begun if each.since.row <= row)
        if not begun:
            return range_id
        return hashlib.sha256(json.dumps([range_id, begun]).encode()).hexdigest()[:12]


def _explain(error: BinlogError) -> str:
    """Return why, without what is said elsewhere, the table and the position, and without data."""
    context = {key: each for key, each in error.context.items() if key not in _LEFT_OUT}
    return str(type(error)(error.args[0], **context))
