"""The quarantined tables of a range: the manifest has none of their rows, and says why.

What concerns one table does not stop the others. Nothing has to be carried over or forgotten: the
next range tries again, and a reload closes the gap. Reading continues without a difference, so
that ids and schemas follow, and so that the parts of the other tables stay what they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, TypeAlias

from airflow_provider_binlog.blocks.block import EventBlock
from airflow_provider_binlog.errors import BinlogError, ServerSetupError, UnsupportedError
from airflow_provider_binlog.manifest import Statement
from airflow_provider_binlog.schema import QuarantineTable, TableId, TableName
from airflow_provider_binlog.schema_history.tables import EventRow

_LEFT_OUT = ("file", "offset", "log_pos", "event", "table", "tables", "xid", "value")


class RefusedTables(NamedTuple):
    """Tables of which it is not certain which of their changes were committed, or what they are.

    Attributes:
        error: Why.
        tables: Database and table of each; of all tables of a database, (database, "").
        file, offset: Where the event begins at which this is found.
        expanded_offset: Its offset among the events of its file.
        lost: Whether changes of the tables are missing from what is read.
    """

    error: BinlogError
    tables: tuple[TableName, ...]
    file: str
    offset: int
    expanded_offset: int
    lost: bool = False

    @classmethod
    def at(
        cls, block: EventBlock, event: int, error: BinlogError, tables: Iterable[TableName]
    ) -> RefusedTables:
        """Return tables refused at an event."""
        offset, expanded_offset = int(block.offset[event]), int(block.expanded_offset[event])
        return cls(error, tuple(tables), block.file, offset, expanded_offset)


RefuseTables: TypeAlias = Callable[[RefusedTables], None]
"""Takes an error that concerns some tables: raises it, or quarantines them."""


def raise_table_error(refused: RefusedTables) -> NoReturn:
    """Refuse by raising; a `RefuseTables`."""
    raise refused.error


def concerns_one_table(error: BinlogError) -> bool:
    """Whether what failed is the decoding of a table, and not the log.

    An error that names a column is about its values, which an intact log may hold.
    """
    return isinstance(error, UnsupportedError | ServerSetupError) or "column" in error.context


class Quarantines:
    """The quarantined tables of a range; with `fails`, the error of a table fails the range.

    Attributes:
        tables: The event that each was quarantined for first, and why, by the table's id.
    """

    def __init__(self, *, fails: bool = False) -> None:
        self.tables: dict[TableId, tuple[EventRow, str]] = {}
        self._fails = fails
        self._refused: list[RefusedTables] = []
        self._missing: dict[TableId, int] = {}

    def refuse(self, refused: RefusedTables) -> None:
        """Quarantine tables by the names that they have at an event; a `RefuseTables`."""
        if self._fails:
            raise refused.error
        self._refused.append(refused)

    def take_refused(self, file: str, expanded_offset: int) -> list[RefusedTables]:
        """Remove and return what was refused up to an event of a file."""
        taken = [
            refused
            for refused in self._refused
            if refused.file == file and refused.expanded_offset <= expanded_offset
        ]
        self._refused = [refused for refused in self._refused if refused not in taken]
        return taken

    def add(
        self, table: TableId, error: BinlogError, event: EventRow, *, missing: bool = False
    ) -> None:
        """Quarantine a table; `missing`: its rows are not read from this event on."""
        if self._fails:
            raise error
        before = self.tables.get(table)
        if before is None or event < before[0]:
            self.tables[table] = event, _explain(error)
        if missing:
            self._missing.setdefault(table, event.row)

    def name_range(self, range_id: str, row: int) -> str:
        """Return the name of a range's parts that are written once this row was read.

        Which rows are missing may depend on more than the log: on information_schema, and on what
        the server has purged. The other tables' parts then end at other rows. A retry must not
        overwrite parts that a manifest names.
        """
        missing = sorted((since, table) for table, since in self._missing.items() if since <= row)
        if not missing:
            return range_id
        return hashlib.sha256(json.dumps([range_id, missing]).encode()).hexdigest()[:12]

    def statements(self) -> tuple[Statement, ...]:
        """Return what the manifest says of the tables, in the order of the log."""
        return tuple(
            Statement(
                event.file, event.offset, event.row, "", "", (QuarantineTable(table, reason),)
            )
            for table, (event, reason) in sorted(self.tables.items(), key=lambda item: item[1])
        )


def _explain(error: BinlogError) -> str:
    """Return why, without what is said elsewhere, the table and the position, and without data."""
    context = {key: value for key, value in error.context.items() if key not in _LEFT_OUT}
    return str(type(error)(error.args[0], **context))
