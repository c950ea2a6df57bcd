"""The schema that a row was logged with: for certain, or not at all.

Under `binlog_row_metadata=FULL` the TABLE_MAP has it. Otherwise it is the schema that the previous
manifest, a snapshot or a `CREATE TABLE` of the range has, with every later statement applied; or
that of information_schema, where no statement from the row on names the table: a later statement
of the range refuses the table when it comes. Nothing is reverted, and whatever the log does say is
compared. Which columns MariaDB computes, and what an insert leaves out, may stay unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.blocks.captured import CapturedBlock
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    BinlogError,
    Refuse,
    ServerSetupError,
    UnsupportedError,
    raise_error,
)
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.schema_history import completion
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas
from airflow_provider_binlog.schema_history.statements import (
    LoggedChange,
    ServerSchemas,
    Undeterminable,
    changes_of,
    named_later,
)
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.sql.ddl import DroppedDatabase
from airflow_provider_binlog.transport.server.queries import parse_version

_UNKNOWN = -1
_ADVICE = "reload the table (binlog_to_lake does so), and SET GLOBAL binlog_row_metadata=FULL"
_ADVICE_ON_FILES = (
    "SET GLOBAL binlog_row_metadata=FULL, and let the changes logged before that be replaced by a "
    "new snapshot"
)
_ADVICE_UNDER_FULL = (
    "binlog_row_metadata=FULL does not log it either: GRANT SELECT on the table to the account, "
    "and reload the table, or leave it out"
)
# What MariaDB calls the columns of a period that nobody named.
_PERIOD = ["row_start", "row_end"]
_DIGITS = 6


class TableRefusal(NamedTuple):
    """Reason why the rows of a table cannot be captured.

    Attributes:
        unclear: Why its TABLE_MAP, which is left as it was logged, could not be completed; None
            where it is complete, or the server was not queried.
        is_retroactive: Whether only a later statement shows it: the rows before that are decoded.
    """

    error: BinlogError
    unclear: str | None
    is_retroactive: bool = False


class _Guess(NamedTuple):
    """A TABLE_MAP that was completed from information_schema, for a first rows event `where`."""

    completed: int
    where: dict[str, object]
    has_names: bool


class SchemaReader:
    """Completes the TABLE_MAPs of a range's captured tables.

    Attributes:
        table_maps: Completed: the table of a rows event is an index into it.
        refused: By the same index: why the rows of a table cannot be captured. An index may be
            added after rows of the table were returned.
    """

    def __init__(
        self,
        server: ServerSchemas,
        schemas: TrackedSchemas | None = None,
        *,
        refuse: Refuse = raise_error,
    ) -> None:
        """Start a range; `schemas` are of its start, by default none.

        `refuse` takes what else fails: a statement that is not understood, or the server. Where it
        returns, the server is not queried any more.
        """
        self.table_maps: list[TableMap] = []
        self.refused: dict[int, TableRefusal] = {}
        self._server = server
        self._schemas = TrackedSchemas() if schemas is None else schemas
        self._refuse = refuse
        self._indexes: dict[TableMap, int] = {}
        self._guesses: dict[TableName, list[_Guess]] = {}
        self._forget()

    def _forget(self) -> None:
        """Complete every TABLE_MAP again from here on."""
        # Of each TABLE_MAP as logged: the index of the completed one.
        self._current = np.empty(0, dtype=np.int64)
        self._of_name: dict[TableName, list[int]] = {}

    def read(self, captured: CapturedBlock) -> CapturedBlock:
        """Return the next block with completed tables: those of `table_maps`.

        Raises:
            UnsupportedError: Which tables a statement is about cannot be determined.
            SourceError: The server, or the way to it, failed.
        """
        changes = self._changes_in(captured)
        self._classify(captured.table_maps, captured.block.format)
        table = np.empty(len(captured), dtype=np.int64)
        start = 0
        for logged in changes:
            stop = int(np.searchsorted(captured.row, logged.row))
            table[start:stop] = self._complete_span(captured, start, stop)
            self._apply(logged, captured.block.format.flavor)
            start = stop
        table[start:] = self._complete_span(captured, start, len(captured))
        if captured.block.format.flavor is Flavor.MARIADB:
            self._check_versioned(captured, table)
        return captured.with_tables(table, self.table_maps)

    def _changes_in(self, captured: CapturedBlock) -> list[LoggedChange]:
        try:
            return [logged for statement in captured.statements for logged in changes_of(statement)]
        except UnsupportedError as error:
            self._fail(error)
            return []

    def _fail(self, error: BinlogError) -> None:
        self._refuse(error)
        self._server.lose_server(error)
        self._forget()

    def _classify(self, logged: Sequence[TableMap], file_format: FormatDescription) -> None:
        """Find out which of the new TABLE_MAPs say all that it takes."""
        new = logged[len(self._current) :]
        if not new:
            return
        indexes = []
        for number, table_map in enumerate(new, start=len(self._current)):
            if self._needs(table_map, file_format) or self._gains(file_format):
                name = table_map.name
                self._of_name.setdefault(name, []).append(number)
                indexes.append(_UNKNOWN)
            else:
                indexes.append(self._index(table_map))
        self._current = np.append(self._current, np.array(indexes, dtype=np.int64))

    def _needs(self, table_map: TableMap, file_format: FormatDescription) -> bool:
        """Whether its rows cannot be read by what is logged alone."""
        if not table_map.has_names:
            return True
        complete = completion.is_complete(table_map, file_format.flavor, _version(file_format))
        return self._server.has_server and not complete

    def _gains(self, file_format: FormatDescription) -> bool:
        """Whether more may be known of a table whose rows can be read."""
        wanted = file_format.flavor is Flavor.MARIADB or self._server.wants_defaults
        return self._server.can_gain and wanted

    def _apply(self, logged: LoggedChange, flavor: Flavor) -> None:
        """Follow a statement: the TABLE_MAPs of its tables are completed again."""
        self._schemas.apply(logged, flavor)
        position = Position(logged.file, logged.offset)
        is_new = position.coordinates < self._server.since.coordinates
        for name in self._names_in(logged):
            self._current[self._of_name.get(name, [])] = _UNKNOWN
            guesses = self._guesses.pop(name, ())
            for guess in guesses if is_new else ():
                reason = named_later(logged)
                error = _undeterminable(reason, guess.where, has_names=guess.has_names)
                self.refused[guess.completed] = TableRefusal(error, reason, is_retroactive=True)

    def _names_in(self, logged: LoggedChange) -> list[TableName]:
        if isinstance(logged.change, DroppedDatabase):
            return [name for name in self._of_name if name[0] == logged.change.database]
        return list(logged.names)

    def _complete_span(
        self, captured: CapturedBlock, start: int, stop: int
    ) -> npt.NDArray[np.int64]:
        """Return the completed table of rows events between which there is no statement."""
        table = captured.table[start:stop]
        completed: npt.NDArray[np.int64] = self._current[table]
        unknown = np.flatnonzero(completed == _UNKNOWN)
        if not len(unknown):
            return completed
        indexes, first = np.unique(table[unknown], return_index=True)
        names = {captured.table_maps[index].name for index in indexes.tolist()}
        for index, event in zip(indexes.tolist(), (unknown[first] + start).tolist(), strict=True):
            try:
                self._current[index] = self._complete(captured, event, index, names)
            except BinlogError as error:
                self._fail(error)
                self._classify(captured.table_maps, captured.block.format)
                return self._complete_span(captured, start, stop)
        return np.take(self._current, table)

    def _complete(
        self, captured: CapturedBlock, event: int, index: int, names: Collection[TableName]
    ) -> int:
        """Return the index of a table as it was at a rows event; `names` are queried at once."""
        table_map, file_format = captured.table_maps[index], captured.block.format
        needs, where = self._needs(table_map, file_format), _location(captured, event, table_map)
        if not self._server.has_server:
            return self._refuse_table(table_map, None, where) if needs else self._index(table_map)
        name = table_map.name
        flavor, version = file_format.flavor, _version(file_format)
        complete = partial(completion.complete_table_map, table_map, flavor=flavor, version=version)
        known = self._schemas.find(name)
        by_log = None if known is None else complete(known)
        if not isinstance(by_log, TableMap):
            by_log = known = None
        plain = by_log or (None if needs else table_map)
        if plain is not None and not self._may_gain(name, known, file_format):
            return self._index(plain)
        at = Position(captured.block.file, int(captured.block.offset[captured.events[event]]))
        shown = self._find_on_server(name, at, names, needed=plain is None)
        result: TableMap | Undeterminable
        if isinstance(shown, Undeterminable):
            result = shown
        else:
            result = complete(shown if known is None else completion.joined(known, shown))
        if isinstance(result, TableMap) and result != plain:
            guess = _Guess(self._index(result), where, table_map.has_names)
            self._guesses.setdefault(name, []).append(guess)
            return guess.completed
        if plain is None or completion.selects_otherwise(shown):
            return self._refuse_table(table_map, result, where)
        return self._index(plain)

    def _may_gain(
        self, name: TableName, known: PartialSchema | None, file_format: FormatDescription
    ) -> bool:
        """Whether information_schema may add to a table whose rows can be read.

        Statements may name a table again, and say its defaults; which columns MariaDB computes only
        information_schema says.
        """
        if not self._gains(file_format):
            return False
        if known is not None:
            return name not in self._schemas.altered and completion.lacks_defaults(known)
        return name not in self._schemas.altered or file_format.flavor is Flavor.MARIADB

    def _find_on_server(
        self, name: TableName, at: Position, names: Collection[TableName], *, needed: bool
    ) -> PartialSchema | Undeterminable:
        try:
            return self._server.find(name, at, also=names)
        except (AccessDeniedError, UnsupportedError) as error:
            if needed:
                raise
            self._server.can_gain = False
            return Undeterminable(str(error))

    def _refuse_table(
        self,
        table_map: TableMap,
        result: TableMap | Undeterminable | None,
        where: dict[str, object],
    ) -> int:
        """Return the index of a table whose TABLE_MAP could not be completed."""
        index = len(self.table_maps)
        self.table_maps.append(table_map)
        reason, failure = None, self._server.failure
        if isinstance(result, Undeterminable):
            reason = result.reason
            error: BinlogError = _undeterminable(reason, where, has_names=table_map.has_names)
            if self._server.is_versioned(table_map.name):
                error = _versioned(where)
        elif failure is not None:
            reason = str(failure)
            error = type(failure)(failure.args[0], **(failure.context | where))
        else:
            text = "there is no server to query for the names of a captured table's columns"
            error = ServerSetupError(f"{text}: {_ADVICE_ON_FILES}", **where)
        self.refused[index] = TableRefusal(error, reason)
        return index

    def _check_versioned(self, captured: CapturedBlock, table: npt.NDArray[np.int64]) -> None:
        indexes, first = np.unique(table, return_index=True)
        for index, event in zip(indexes.tolist(), first.tolist(), strict=True):
            logged = captured.table_maps[int(captured.table[event])]
            if index not in self.refused and (
                _has_period(logged) or self._server.is_versioned(logged.name)
            ):
                error = _versioned(_location(captured, event, logged))
                self.refused[index] = TableRefusal(error, None)

    def _index(self, table_map: TableMap) -> int:
        index = self._indexes.get(table_map)
        if index is None:
            index = self._indexes[table_map] = len(self.table_maps)
            self.table_maps.append(table_map)
        return index


def _location(captured: CapturedBlock, event: int, table_map: TableMap) -> dict[str, object]:
    """Return table and offset of a captured rows event, as errors name them."""
    return {"table": ".".join(table_map.name), **captured.block.where(int(captured.events[event]))}


def _undeterminable(reason: str, where: dict[str, object], *, has_names: bool) -> ServerSetupError:
    return ServerSetupError(
        "the log does not say enough of a captured table's columns, and neither the tables staged "
        f"before nor information_schema say the rest ({reason}): "
        f"{_ADVICE_UNDER_FULL if has_names else _ADVICE}",
        **where,
    )


def _versioned(where: dict[str, object]) -> UnsupportedError:
    return UnsupportedError(
        "a system-versioned table: its previous row versions are in the log like any others, and "
        "SELECT does not return them. Leave the table out",
        **where,
    )


def _has_period(table_map: TableMap) -> bool:
    """Whether a table of MariaDB has the columns of a period that nobody named."""
    period, key = table_map.columns[-2:], table_map.primary_key
    last = len(table_map.columns) - 1
    return (
        [column.name for column in period] == _PERIOD
        and all(c.real_type == ColumnType.TIMESTAMP2 and c.fsp == _DIGITS for c in period)
        and (key is None or last in (index for index, _ in key))
    )


def _version(file_format: FormatDescription) -> tuple[int, ...]:
    return parse_version(file_format.server_version).version
