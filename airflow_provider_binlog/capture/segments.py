"""Which rows of a range belong together: those of one table in one schema, between two actions.

Statements and rows are followed in the order of the log, and rows are cut wherever an action
concerns their table.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airflow_provider_binlog.capture.pending import RowsColumns
from airflow_provider_binlog.changes import CHANGE_COLUMNS
from airflow_provider_binlog.errors import ServerSetupError, UnsupportedError
from airflow_provider_binlog.manifest import Statement
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema_history.tables import EventOffset, Tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.blocks.captured import CapturedBlock, LoggedStatement
    from airflow_provider_binlog.changes import Policies
    from airflow_provider_binlog.rows.layout import RowLayout
    from airflow_provider_binlog.schema import Action, Field, Schema, TableId, TableName

_UNKNOWN = -1


class Segment(NamedTuple):
    """Rows of one table in one schema, between two actions on the table.

    Attributes:
        table: Id of the table.
        schema: Its schema.
        layout: How to read the rows.
    """

    table: TableId
    schema: Schema
    layout: RowLayout


class _Logged(NamedTuple):
    """A TABLE_MAP, compiled."""

    name: TableName
    layout: RowLayout
    fields: tuple[Field, ...]
    key: tuple[int, ...]


class SegmentReader:
    """Follows statements and rows of a range, block after block.

    Attributes:
        segments: In the order of their first rows; the `table` of a rows event indexes it.
        statements: Those that act on captured tables, and what rows alone say.
    """

    def __init__(self, tables: Tables, policies: Policies) -> None:
        self.segments: list[Segment] = []
        self.statements: list[Statement] = []
        self._tables = tables
        self._policies = policies
        # By index of a TABLE_MAP: how it reads, and the segment of its rows from here on.
        self._logged: list[_Logged | None] = []
        self._current = np.empty(0, dtype=np.int64)
        self._cuts: dict[TableId, int] = {}
        self._indexes: dict[tuple[int, TableId, int, int], int] = {}

    def read(self, captured: CapturedBlock, statements: Sequence[LoggedStatement]) -> RowsColumns:
        """Return the rows events of the next block, with the segment of each as its `table`.

        Args:
            captured: The block.
            statements: Those in it that act on captured tables, in log order.

        Raises:
            ServerSetupError: The log does not name a table's columns.
            UnsupportedError: A column's type is not decoded, or its name is one of ours.
        """
        columns, table_maps = RowsColumns.of(captured), captured.table_maps
        new = len(table_maps) - len(self._logged)
        self._logged += [None] * new
        self._current = np.append(self._current, np.full(new, _UNKNOWN, dtype=np.int64))
        segment = np.empty(len(columns), dtype=np.int64)
        cuts = np.searchsorted(columns.row, [each.row for each in statements]).tolist()
        for number, (start, stop) in enumerate(pairwise([0, *cuts, len(columns)])):
            if start < stop:
                rows = columns.choose(slice(start, stop))
                segment[start:stop] = self._read_rows(captured.block.file, rows, table_maps)
            if number < len(statements):
                self._follow(statements[number])
        return replace(columns, table=segment)

    def in_order(self) -> tuple[Statement, ...]:
        """Return the statements in the order of the log."""
        return tuple(sorted(self.statements, key=lambda each: each.row))

    def _follow(self, statement: LoggedStatement) -> None:
        at, ddl = EventOffset(statement.file, statement.offset), statement.ddl
        if ddl is None:
            return
        actions = tuple(self._tables.apply(ddl.changes, at, statement.session))
        text = statement.query.sql
        self.statements.append(Statement(*at, statement.row, ddl.type, text, actions))
        self._cut(actions)
        self._current[:] = _UNKNOWN

    def _read_rows(
        self, file: str, columns: RowsColumns, table_maps: Sequence[TableMap]
    ) -> npt.NDArray[np.int64]:
        """Return the segments of events between which there is no statement."""
        found: npt.NDArray[np.int64] = self._current[columns.table]
        if (found != _UNKNOWN).all():
            return found
        indexes, first = np.unique(columns.table, return_index=True)
        by_name: dict[TableName, list[int]] = {}
        for each in np.argsort(first).tolist():
            index = int(indexes[each])
            logged = self._compiled(index, table_maps)
            by_name.setdefault(logged.name, []).append(index)
        for own in by_name.values():
            alike = {self._compiled(index, table_maps)[2:] for index in own}
            for events in _runs(columns.table, own, apart=len(alike) > 1):
                index, event = int(columns.table[events[0]]), int(events[0])
                found[events] = self._segment(index, file, columns.choose(slice(event, event + 1)))
        return found

    def _segment(self, index: int, file: str, first: RowsColumns) -> int:
        """Return the segment of rows of a TABLE_MAP, of which this is the first event."""
        known, logged = int(self._current[index]), self._logged[index]
        if known != _UNKNOWN or logged is None:
            return known
        offset = int(first.position[0])
        table, schema, actions = self._tables.confirm(
            logged.name, EventOffset(file, offset), logged.fields, logged.key
        )
        if actions:
            row = int(first.row[0])
            self.statements.append(Statement(file, offset, row, "", "", actions))
            self._cut(actions)
        cut = index, table, schema.id, self._cuts.get(table, 0)
        segment = self._indexes.get(cut)
        if segment is None:
            segment = self._indexes[cut] = len(self.segments)
            self.segments.append(Segment(table, schema, logged.layout))
            # Rows by another TABLE_MAP of the table have to confirm it first.
            for other, each in enumerate(self._logged):
                if each is not None and each.name == logged.name:
                    self._current[other] = _UNKNOWN
        self._current[index] = segment
        return segment

    def _cut(self, actions: Sequence[Action]) -> None:
        for table in {action.table for action in actions}:
            self._cuts[table] = self._cuts.get(table, 0) + 1

    def _compiled(self, index: int, table_maps: Sequence[TableMap]) -> _Logged:
        logged = self._logged[index]
        if logged is None:
            layout = compile_layout(table_maps[index], policies=self._policies)
            check_names(layout)
            key = tuple(each + 1 for each in layout.key)
            logged = _Logged((layout.database, layout.table), layout, layout.fields(), key)
            self._logged[index] = logged
        return logged


def _runs(
    table: npt.NDArray[np.int64], own: Sequence[int], *, apart: bool
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the events of some TABLE_MAPs: of each all at once, or, `apart`, run after run."""
    if not apart:
        for index in own:
            yield np.flatnonzero(table == index)
        return
    events = np.flatnonzero(np.isin(table, own))
    yield from np.split(events, np.flatnonzero(np.diff(table[events])) + 1)


def check_names(layout: RowLayout) -> None:
    """Refuse a table whose columns cannot be staged under their names.

    Raises:
        ServerSetupError: The log does not name them.
        UnsupportedError: One of them is named like a column that every staged row carries.
    """
    table = f"{layout.database}.{layout.table}"
    if not layout.named:
        raise ServerSetupError(
            "the log does not name the columns of a captured table: SET GLOBAL "
            "binlog_row_metadata=FULL, and let the changes logged before that be replaced by a "
            "new snapshot",
            table=table,
        )
    taken = {name.casefold() for name in CHANGE_COLUMNS}
    for name in layout.schema.names:
        if name.casefold() in taken:
            raise UnsupportedError(
                "a column has the name of one that every staged row carries: rename it, or leave "
                "the table out",
                table=table,
                column=name,
            )
