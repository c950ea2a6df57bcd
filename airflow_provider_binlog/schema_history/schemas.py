"""The schema of the past: what the log leaves out of a TABLE_MAP, for certain or not at all.

Under `binlog_row_metadata=FULL` the log says how a table's columns were named when a row was
logged, and the server is not queried here. Otherwise its information_schema says how they are named
now. The statements between the two moments are reversed: those of the range, and those after it up
to the end of the log when information_schema was read. The result is checked against what the log
does say, and must be one table alone. When information_schema is read makes no difference, except
to whether there is a result.

Of a table whose columns the log names, two things may still be missing: which of them MariaDB
computes, and what an insert leaves in those that its image lacks. information_schema is queried for
these as well. Where it does not show them they stay unknown, and nothing is refused here for it.

A range is first read as if no statement in it changed a table whose rows have come before. Where
one did, the range is read to its end for its statements, and then once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    BinlogError,
    ServerSetupError,
    UnsupportedError,
    raise_error,
)
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.completion import (
    Unclear,
    complete_table_map,
    needs_more,
    selects_otherwise,
)
from airflow_provider_binlog.schema_history.ddl_reader import changes_of
from airflow_provider_binlog.schema_history.history import History, names_of
from airflow_provider_binlog.transport.server.status import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.history import LoggedChange
    from airflow_provider_binlog.schema_history.past import Past

# In place of a completed table's index: it needs information_schema, or might gain by it.
_NEEDS, _GAINS = -1, -2
_ADVICE = (
    "SET GLOBAL binlog_row_metadata=FULL, and let the changes logged before that be replaced by a "
    "new snapshot"
)
# What MariaDB calls the columns of a period that nobody named.
_PERIOD = ["row_start", "row_end"]
_DIGITS = 6
_ADVICE_UNDER_FULL = (
    "binlog_row_metadata=FULL does not log it either: GRANT SELECT on the table to the account, "
    "let the changes logged before its last ALTER TABLE be replaced by a new snapshot, or leave it "
    "out"
)


class TableRefusal(NamedTuple):
    """Why the rows of a table cannot be captured.

    Attributes:
        error: What to raise.
        unclear: Why its TABLE_MAP, which is left as it was logged, could not be completed by the
            server; None where it is complete, or the server was not queried.
    """

    error: BinlogError
    unclear: str | None


class SchemaReader:
    """Completes the TABLE_MAPs of a range's captured tables, while it is read once.

    Attributes:
        table_maps: Completed: the table of a rows event is an index into it.
        refused: By the same index: why the rows of a table cannot be captured.
        changes: What the statements read so far did.
        needs_restart: A statement changed a table whose rows have come before: what is returned
            from here on means nothing, and the range has to be read again, given `changes`.
    """

    def __init__(
        self,
        past: Past,
        changes: Sequence[LoggedChange] | None = None,
        *,
        tentative: bool = True,
        refuse: Refuse = raise_error,
    ) -> None:
        """Begin a range.

        Args:
            past: What is known of its tables from outside of it.
            changes: What the statements of the whole range did; None where it is not known yet.
            tentative: Whether tables are completed before that is known; if not, the range is read
                again for the first table that takes it.
            refuse: Takes what else fails: a statement that is not understood, or the server. Where
                it returns, the server is not queried any more.
        """
        self.table_maps: list[TableMap] = []
        self.refused: dict[int, TableRefusal] = {}
        self.changes: list[LoggedChange] = []
        self.needs_restart = False
        self._past = past
        self._all_changes = changes
        self._tentative = tentative
        self._refuse = refuse
        self._indexes: dict[TableMap, int] = {}
        self._forget()

    def _forget(self) -> None:
        """Begin, or begin again without the server."""
        # Of each TABLE_MAP as logged: the index of it completed, or `_NEEDS` or `_GAINS`.
        self._plain = np.empty(0, dtype=np.int64)
        self._names: set[TableName] = set()
        self._completed: dict[tuple[int, int], int] = {}
        self._history: History | None = None

    def read(self, captured: CapturedBlock) -> CapturedBlock:
        """Return the next block with completed tables: those of `table_maps`.

        Raises:
            UnsupportedError: Which tables a statement is about cannot be determined.
            SourceError: The server, or the way to it, failed.
        """
        try:
            found = [each for logged in captured.statements for each in changes_of(logged)]
        except UnsupportedError as error:
            self._fail(error)
            found = []
        self.changes += found
        try:
            table = self._complete_all(captured, found)
        except BinlogError as error:
            self._fail(error)
            table = self._complete_all(captured, found)
        return captured.with_tables(table, self.table_maps)

    def _fail(self, error: BinlogError) -> None:
        self._refuse(error)
        self._past.lose_server(error)
        self._forget()

    def _complete_all(
        self, captured: CapturedBlock, found: list[LoggedChange]
    ) -> npt.NDArray[np.int64]:
        """Return the completed table of each rows event."""
        logged, flavor = captured.table_maps, captured.block.format.flavor
        self._note(logged, captured.block.format)
        own: npt.NDArray[np.int64] = self._plain[captured.table]
        if found and self._all_changes is None and self._past.has_server:
            self._history = None
            self.needs_restart |= self._changes_earlier_rows(found, captured)
        self._complete_some(own, np.flatnonzero(own == _NEEDS), captured)
        gains = np.flatnonzero(own == _GAINS)
        try:
            self._complete_some(own, gains, captured)
        except (AccessDeniedError, UnsupportedError):
            self._past.can_gain = False
            for index in np.flatnonzero(self._plain == _GAINS).tolist():
                self._plain[index] = self._index(logged[index])
            own[gains] = self._plain[captured.table[gains]]
        if flavor is Flavor.MARIADB and not self.needs_restart:
            self._check_versioned(captured, own)
        return own

    def _check_versioned(self, captured: CapturedBlock, own: npt.NDArray[np.int64]) -> None:
        indexes, first = np.unique(own, return_index=True)
        for index, event in zip(indexes.tolist(), first.tolist(), strict=True):
            logged = captured.table_maps[int(captured.table[event])]
            name = logged.database, logged.table
            if index not in self.refused and (_has_period(logged) or self._past.is_versioned(name)):
                self.refused[index] = TableRefusal(_versioned(captured, event, logged), None)

    def _complete_some(
        self,
        own: npt.NDArray[np.int64],
        depends: npt.NDArray[np.int64],
        captured: CapturedBlock,
    ) -> None:
        """Put the indexes of completed tables where `own` depends on the past."""
        unknown = self._all_changes is None and self._past.has_server
        if len(depends) and unknown and not self._tentative:
            self.needs_restart = True
        if self.needs_restart or not len(depends):
            return
        chosen = captured.where(depends)
        for which, index in self._epochs(chosen):
            own[depends[which]] = self._complete(captured, int(depends[which[0]]), index)
            if self.needs_restart:
                break

    def _note(self, logged: Sequence[TableMap], file_format: FormatDescription) -> None:
        """Find out which of the new TABLE_MAPs say all that it takes."""
        new = logged[len(self._plain) :]
        if not new:
            return
        flavor, version = file_format.flavor, _version(file_format)
        gains = self._past.can_gain and (flavor is Flavor.MARIADB or self._past.wants_defaults)
        indexes = []
        for each in new:
            if not each.has_names or (self._past.has_server and needs_more(each, flavor, version)):
                indexes.append(_NEEDS)
            else:
                indexes.append(_GAINS if gains else self._index(each))
        self._plain = np.append(self._plain, np.array(indexes, dtype=np.int64))

    def _changes_earlier_rows(self, found: list[LoggedChange], captured: CapturedBlock) -> bool:
        """Whether a statement of the block changes a table whose rows came before it."""
        table, row, logged = captured.table, captured.row, captured.table_maps
        first: dict[TableName, int] = dict.fromkeys(self._names, -1)
        for index in np.unique(table[self._plain[table] < 0]).tolist():
            name = logged[index].database, logged[index].table
            own = int(row[table == index].min())
            first[name] = min(first.get(name, own), own)
        return any(
            begin < statement.row and changed in (name, (name[0], ""))
            for statement in found
            for changed in names_of(statement.change)
            for name, begin in first.items()
        )

    def _epochs(self, captured: CapturedBlock) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
        """Yield the events of each TABLE_MAP between two statements on its table."""
        table, row, logged = captured.table, captured.row, captured.table_maps
        indexes = np.unique(table).tolist()
        if not self._past.has_server:
            for index in indexes:
                yield np.flatnonzero(table == index), index
            return
        names = {(logged[index].database, logged[index].table) for index in indexes}
        if self._history is None or not names <= self._names:
            names |= self._names
            changes = self.changes if self._all_changes is None else self._all_changes
            flavor = captured.block.format.flavor
            self._history = self._past.history(list(changes), names, flavor)
            self._names = names
        for index in indexes:
            own = np.flatnonzero(table == index)
            bounds = self._history.bounds((logged[index].database, logged[index].table))
            epoch = np.searchsorted(np.array(bounds, dtype=np.int64), row[own], side="right")
            for each in np.unique(epoch).tolist():
                yield own[epoch == each], index

    def _complete(self, captured: CapturedBlock, event: int, index: int) -> int:
        """Return the index of a table as it was at a rows event; -1 where a restart is needed."""
        table_map, row = captured.table_maps[index], int(captured.row[event])
        name = table_map.database, table_map.table
        bounds = self._history.bounds(name) if self._history is not None else []
        begin = max((each for each in bounds if each <= row), default=-1)
        known = self._completed.get((index, begin))
        if known is not None:
            return known
        completed: TableMap | Unclear | None = None
        gains = bool(self._plain[index] == _GAINS)
        if self._history is not None:
            before, after = self._history.at(name, row)
            completed = complete_table_map(
                table_map,
                before,
                after,
                flavor=captured.block.format.flavor,
                version=_version(captured.block.format),
            )
            gains = gains and not selects_otherwise(before)
        if not isinstance(completed, TableMap) and gains:
            completed = table_map
        if isinstance(completed, TableMap):
            found = self._index(completed)
        elif completed is not None and self._all_changes is None:
            # A statement that comes later in the range may explain it.
            self.needs_restart = True
            return -1
        else:
            found = len(self.table_maps)
            self.table_maps.append(table_map)
            self.refused[found] = self._unclear(captured, event, table_map, completed)
        self._completed[index, begin] = found
        return found

    def _unclear(
        self, captured: CapturedBlock, event: int, table_map: TableMap, unclear: Unclear | None
    ) -> TableRefusal:
        """Return why a table is refused whose TABLE_MAP could not be completed."""
        failure = self._past.failure
        if unclear is None and failure is not None:
            where = _location(captured, event, table_map)
            error: BinlogError = type(failure)(failure.args[0], **(failure.context | where))
            return TableRefusal(error, str(failure))
        if unclear is None:
            text = "there is no server to query for the names of a captured table's columns"
            error = ServerSetupError(f"{text}: {_ADVICE}", **_location(captured, event, table_map))
            return TableRefusal(error, None)
        if self._past.is_versioned((table_map.database, table_map.table)):
            return TableRefusal(_versioned(captured, event, table_map), unclear.reason)
        advice = _ADVICE_UNDER_FULL if table_map.has_names else _ADVICE
        error = ServerSetupError(
            "the log does not say enough of a captured table's columns, and the server's "
            f"information_schema does not determine the rest ({unclear.reason}): {advice}",
            **_location(captured, event, table_map),
        )
        return TableRefusal(error, unclear.reason)

    def _index(self, table_map: TableMap) -> int:
        known = self._indexes.get(table_map)
        if known is None:
            known = self._indexes[table_map] = len(self.table_maps)
            self.table_maps.append(table_map)
        return known


def _location(captured: CapturedBlock, event: int, table_map: TableMap) -> dict[str, object]:
    """Return table and offset of a captured rows event, as errors name them."""
    table = f"{table_map.database}.{table_map.table}"
    return {"table": table, **captured.block.where(int(captured.events[event]))}


def _versioned(captured: CapturedBlock, event: int, table_map: TableMap) -> UnsupportedError:
    return UnsupportedError(
        "a system-versioned table: its previous row versions are in the log like any others, and "
        "SELECT does not return them. Leave the table out",
        **_location(captured, event, table_map),
    )


def _has_period(table_map: TableMap) -> bool:
    """Whether a table of MariaDB has the columns of a period that nobody named."""
    period = table_map.columns[-2:]
    last = len(table_map.columns) - 1
    key = table_map.primary_key
    return (
        [column.name for column in period] == _PERIOD
        and all(each.real_type == ColumnType.TIMESTAMP2 and each.fsp == _DIGITS for each in period)
        and (key is None or last in (index for index, _ in key))
    )


def _version(file_format: FormatDescription) -> tuple[int, ...]:
    return parse_version(file_format.server_version).version
