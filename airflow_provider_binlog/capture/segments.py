"""Segments of a range: rows of one table in one schema, between two actions on the table.

Statements on captured tables and rows are applied in the order of the log, and rows are cut where
an action concerns their table. Rows that cannot be decoded are skipped, and quarantine their table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.blocks.captured import CapturedBlock, LoggedStatement
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.capture.quarantine import (
    Quarantines,
    RefusedTables,
    RefuseTables,
    concerns_one_table,
    raise_table_error,
)
from airflow_provider_binlog.capture.table_parts import RowsColumns
from airflow_provider_binlog.changes import CHANGE_COLUMNS, ROW_FILE_SHIFT, Policies
from airflow_provider_binlog.manifest import Statement
from airflow_provider_binlog.protected_columns import ColumnRules
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout, protect
from airflow_provider_binlog.schema import Action, Field, Schema, TableId, TableName
from airflow_provider_binlog.schema_history.schemas import TableRefusal
from airflow_provider_binlog.schema_history.tables import EventRow, Tables
from airflow_provider_binlog.sql.lexer import hide_passwords, mask_literals

_UNKNOWN, _LEFT_OUT = -1, -2
_TAKEN = {name.casefold() for name in CHANGE_COLUMNS}


class Segment(NamedTuple):
    """Rows of one table in one schema, between two actions on the table.

    The schema has the fields that are staged.
    """

    table: TableId
    schema: Schema
    layout: RowLayout


class _Logged(NamedTuple):
    """A compiled TABLE_MAP; `first` is the first rows event by it."""

    first: EventRow
    layout: RowLayout
    fields: tuple[Field, ...]
    key: tuple[int, ...]


class SegmentReader:
    """Applies the statements of a range and assigns its rows to segments, block by block.

    Attributes:
        segments: Segments in the order of their first rows; the `table` of a rows event indexes
            them.
        statements: Statements on captured tables, and actions that only a TABLE_MAP shows.
    """

    def __init__(
        self,
        tables: Tables,
        policies: Policies,
        quarantines: Quarantines,
        columns: ColumnRules,
    ) -> None:
        self.segments: list[Segment] = []
        self.statements: list[Statement] = []
        self._tables = tables
        self._policies = policies
        self._quarantines = quarantines
        self._columns = columns
        # By index of a TABLE_MAP: its layout, or the error of compiling it, and the segment of the
        # rows that come next.
        self._logged: list[_Logged | errors.BinlogError | None] = []
        self._current = np.empty(0, dtype=np.int64)
        self._of_table: dict[TableName, list[int]] = {}
        self._cuts: dict[TableId, int] = {}
        self._indexes: dict[tuple[int, TableId, int, int], int] = {}

    def read(
        self,
        captured: CapturedBlock,
        statements: Sequence[LoggedStatement],
        refused: Mapping[int, TableRefusal],
    ) -> RowsColumns:
        """Return the rows events of the next block that can be decoded; `table` is the segment.

        Args:
            captured: The block.
            statements: Statements of the block that act on captured tables, in log order.
            refused: By index of a TABLE_MAP: why rows by it cannot be captured.

        Raises:
            BinlogError: A table cannot be captured, and that is to fail the range.
        """
        columns, table_maps = RowsColumns.of(captured), captured.table_maps
        new = len(table_maps) - len(self._logged)
        self._logged += [None] * new
        self._current = np.append(self._current, np.full(new, _UNKNOWN, dtype=np.int64))
        segment = np.empty(len(columns), dtype=np.int64)
        steps = self._steps(captured, statements)
        cuts = np.searchsorted(columns.row, [row for row, _ in steps]).tolist()
        for number, (start, stop) in enumerate(pairwise([0, *cuts, len(columns)])):
            if start < stop:
                rows = columns.choose(slice(start, stop))
                segment[start:stop] = self._read_rows(captured, rows, refused)
            if number < len(steps):
                self._apply(*steps[number])
        self._refuse_earlier(refused)
        staged = np.flatnonzero(segment != _LEFT_OUT)
        if len(staged) == len(segment):
            return replace(columns, table=segment)
        return replace(columns.choose(staged), table=segment[staged])

    def in_order(self) -> tuple[Statement, ...]:
        """Statements in the order of the log."""
        return tuple(sorted(self.statements, key=lambda statement: statement.row))

    def _steps(
        self, captured: CapturedBlock, statements: Sequence[LoggedStatement]
    ) -> list[tuple[int, LoggedStatement | RefusedTables]]:
        """Return the statements and refusals between the rows of a block, by row number."""
        first, block = captured.file_index << ROW_FILE_SHIFT, captured.block
        refusals = self._quarantines.take_refused(block.file, int(block.expanded_offset[-1]))
        steps: list[tuple[int, LoggedStatement | RefusedTables]] = [
            *((statement.row, statement) for statement in statements),
            *((first + refused.expanded_offset, refused) for refused in refusals),
        ]
        return sorted(steps, key=lambda step: step[0])

    def _refuse_earlier(self, refused: Mapping[int, TableRefusal]) -> None:
        """Quarantine tables whose earlier rows turn out only now not to be capturable."""
        for index, refusal in refused.items():
            logged = self._logged[index]
            if isinstance(logged, _Logged):
                # The rows are still read: block boundaries must not change which rows are skipped.
                tables = {table for table_map, table, *_ in self._indexes if table_map == index}
                for table in tables:
                    self._quarantines.add(table, refusal.error, logged.first)

    def _quarantine(
        self, name: TableName, error: errors.BinlogError, event: EventRow, *, missing: bool
    ) -> None:
        for table in self._tables.quarantine(name, event):
            self._quarantines.add(table, error, event, missing=missing)

    def _apply(self, row: int, step: LoggedStatement | RefusedTables) -> None:
        if isinstance(step, RefusedTables):
            event = EventRow(row, step.file, step.offset)
            for name in step.tables:
                self._quarantine(name, step.error, event, missing=step.lost)
            return
        statement = step
        at, ddl = EventRow(row, statement.file, statement.offset), statement.ddl
        if ddl is None:
            return
        actions = tuple(self._tables.apply(ddl.changes, at, statement.session))
        text = self._show(statement)
        self.statements.append(
            Statement(at.file, at.offset, row, ddl.type, text, actions, statement.commit_ts)
        )
        self._cut(actions)
        # The statement may have changed any table: rows after it have to confirm their schema.
        self._current[:] = _UNKNOWN

    def _show(self, statement: LoggedStatement) -> str:
        """Return a statement as manifests show it."""
        sql = statement.query.sql
        if not self._columns.options:
            return hide_passwords(sql)
        # A default, a partition, a comment: any literal may be a value of a protected column.
        return mask_literals(sql, statement.session, len(sql))

    def _read_rows(
        self,
        captured: CapturedBlock,
        columns: RowsColumns,
        refused: Mapping[int, TableRefusal],
    ) -> npt.NDArray[np.int64]:
        """Return the segments of events between which there is no statement."""
        segments: npt.NDArray[np.int64] = self._current[columns.table]
        if (segments != _UNKNOWN).all():
            return segments
        file, table_maps = captured.block.file, captured.table_maps
        by_name: dict[TableName, list[_Run]] = {}
        for run in _by_table(columns, file, table_maps):
            self._compile(run.table, table_maps[run.table], refused, run.first)
            by_name.setdefault(run.name, []).append(run)
        for runs in by_name.values():
            for run in _in_order(columns, runs) if len(runs) > 1 else runs:
                segments[run.events] = self._segment(run)
        return segments

    def _segment(self, run: _Run) -> int:
        """Return the segment of rows of a TABLE_MAP; `_LEFT_OUT` if they cannot be decoded."""
        index, name, first = run.table, run.name, run.first
        current, logged = int(self._current[index]), self._logged[index]
        if current != _UNKNOWN or logged is None:
            return current
        if isinstance(logged, errors.BinlogError):
            self._quarantine(name, logged, first, missing=True)
            self._current[index] = _LEFT_OUT
            return _LEFT_OUT
        try:
            table, schema, actions = self._tables.confirm(name, first, logged.fields, logged.key)
        except errors.ConfigurationError as error:
            self._quarantine(name, error, first, missing=True)
            self._current[index] = _LEFT_OUT
            return _LEFT_OUT
        if actions:
            self.statements.append(Statement(first.file, first.offset, first.row, "", "", actions))
            self._cut(actions)
        cut = index, table, schema.id, self._cuts.get(table, 0)
        segment = self._indexes.get(cut)
        if segment is None:
            segment = self._indexes[cut] = len(self.segments)
            layout = logged.layout
            if schema.has_origins:
                layout = protect(layout, schema.fields, self._columns.secret)
                schema = schema.staged
            self.segments.append(Segment(table, schema, layout))
            # Rows by another TABLE_MAP of the table have to confirm it first.
            for other in self._of_table[name]:
                if isinstance(self._logged[other], _Logged):
                    self._current[other] = _UNKNOWN
        self._current[index] = segment
        return segment

    def _cut(self, actions: Sequence[Action]) -> None:
        for table in {action.table for action in actions}:
            self._cuts[table] = self._cuts.get(table, 0) + 1

    def _compile(
        self,
        index: int,
        table_map: TableMap,
        refused: Mapping[int, TableRefusal],
        first: EventRow,
    ) -> None:
        if self._logged[index] is not None:
            return
        if index in refused and not refused[index].is_retroactive:
            self._logged[index] = refused[index].error
            return
        try:
            layout = compile_layout(table_map, policies=self._policies)
            check_names(layout)
        except errors.BinlogError as error:
            where = {"table": ".".join(table_map.name), "file": first.file, "offset": first.offset}
            error.context |= {**where, **error.context}
            if not concerns_one_table(error):
                raise
            self._logged[index] = error
        else:
            # A key names fields by their ids, which count from 1 in the order of the columns.
            key = tuple(column + 1 for column in layout.key)
            self._logged[index] = _Logged(first, layout, layout.fields, key)
            self._of_table.setdefault(table_map.name, []).append(index)


class _Run(NamedTuple):
    """Rows events, by their indexes, of one TABLE_MAP; `table` is its index."""

    table: int
    name: TableName
    first: EventRow
    events: npt.NDArray[np.int64]


def _by_table(columns: RowsColumns, file: str, table_maps: Sequence[TableMap]) -> Iterator[_Run]:
    """Yield the events of each TABLE_MAP, in the order of the first events."""
    order = np.argsort(columns.table, kind="stable")
    bounds = [0, *(np.flatnonzero(np.diff(columns.table[order])) + 1).tolist(), len(order)]
    first = order[bounds[:-1]]
    facts = [column[first].tolist() for column in (columns.table, columns.row, columns.position)]
    for table, row, offset, (begin, stop) in sorted(
        zip(*facts, pairwise(bounds), strict=True), key=lambda run: run[1]
    ):
        yield _Run(table, table_maps[table].name, EventRow(row, file, offset), order[begin:stop])


def _in_order(columns: RowsColumns, runs: Sequence[_Run]) -> Iterator[_Run]:
    """Yield the events of several TABLE_MAPs of a table in log order."""
    name, file = runs[0].name, runs[0].first.file
    events = np.sort(np.concatenate([run.events for run in runs]))
    for own in np.split(events, np.flatnonzero(np.diff(columns.table[events])) + 1):
        row, offset = int(columns.row[own[0]]), int(columns.position[own[0]])
        yield _Run(int(columns.table[own[0]]), name, EventRow(row, file, offset), own)


def check_names(layout: RowLayout) -> None:
    """Refuse a table whose columns cannot be staged under their names.

    Raises:
        ServerSetupError: The log does not name the columns.
        UnsupportedError: A column is named like one that every staged row carries.
    """
    if not layout.named:
        raise errors.ServerSetupError(
            "the log does not name the columns of a captured table: SET GLOBAL "
            "binlog_row_metadata=FULL, and let the changes logged before that be replaced by a "
            "new snapshot",
            table=f"{layout.database}.{layout.table}",
        )
    for column in layout.columns:
        if column.name.casefold() in _TAKEN:
            raise errors.UnsupportedError(
                "a column has the name of one that every staged row carries: rename it, or leave "
                "the table out",
                table=f"{layout.database}.{layout.table}",
                column=column.name,
            )


def captured_statements(
    captured: CapturedBlock,
    tables: TableFilter,
    *,
    refuse: errors.Refuse = errors.raise_error,
    refuse_tables: RefuseTables = raise_table_error,
) -> list[LoggedStatement]:
    """Return the statements of a block that act on captured tables as a whole, in log order.

    `refuse_tables` takes those that failed half-way.
    """
    statements = []
    for logged in captured.statements:
        try:
            with errors.error_context(file=logged.file, offset=logged.offset):
                named = () if logged.ddl is None else logged.ddl.tables
            names = [name for name in named if _concerns(tables, name)]
        except errors.UnsupportedError as error:
            refuse(error)
            continue
        if names and logged.query.error:
            refuse_tables(_failed(logged, names))
        elif names:
            statements.append(logged)
    return statements


def _failed(logged: LoggedStatement, names: list[TableName]) -> RefusedTables:
    """Return the tables of a statement that failed: the log does not say what it changed before."""
    error = errors.UnsupportedError(
        "a statement on captured tables failed half-way on the server: reload them",
        error=logged.query.error,
        statement=logged.ddl.type if logged.ddl is not None else "",
        file=logged.file,
        offset=logged.offset,
    )
    expanded_offset = logged.row % (1 << ROW_FILE_SHIFT)
    return RefusedTables(error, tuple(names), logged.file, logged.offset, expanded_offset)


def _concerns(tables: TableFilter, name: TableName) -> bool:
    database, table = name
    if not table:  # a statement on a whole database, as DROP DATABASE
        return tables.may_match_in(database)
    return tables.matches(database, table)
