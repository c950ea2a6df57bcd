"""The logged statements that act on captured tables as a whole, and the shapes behind them.

They are staged with the rows, in the order of the log, so that the merge can act on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.errors import UnsupportedError, raise_error
from airflow_provider_binlog.manifest import Statement
from airflow_provider_binlog.schema_history.ddl import (
    STATEMENT_SHOWN,
    Described,
    describe,
    placed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.errors import Refuse
    from airflow_provider_binlog.manifest import Schema
    from airflow_provider_binlog.position import Flavor

_NEVER = 1 << 62


@dataclass
class _Waiting:
    """A statement, and the place in it of a table whose next rows have not come yet.

    Attributes:
        statement: Index into those found.
        table: Index into its tables.
        row: Its place.
        until: The place of the next statement on the table.
    """

    statement: int
    table: int
    row: int
    until: int = _NEVER


class StatementReader:
    """Collects the statements of a log that act on captured tables as a whole.

    Attributes:
        found: In the order of the log.
    """

    def __init__(self, tables: TableFilter, *, refuse: Refuse = raise_error) -> None:
        """Begin a range; `refuse` takes the error of a statement that is not understood."""
        self.found: list[Statement] = []
        self._tables = tables
        self._refuse = refuse
        # By table: the statements behind which no rows of it have come yet.
        self._waiting: dict[tuple[str, str], list[_Waiting]] = {}
        self._indexes: dict[tuple[str, str], list[int]] = {}
        self._known = 0

    def read(self, captured: CapturedBlock) -> None:
        """Add those of the next block.

        Raises:
            UnsupportedError: A statement failed half-way, or which tables it is about cannot be
                determined.
        """
        for row, file, offset, query in captured.statements:
            try:
                with placed(file, offset):
                    described = self._captured(query, captured.block.format.flavor)
            except UnsupportedError as error:
                self._refuse(error)
                continue
            if described is not None:
                self._add(Statement(file, offset, row, *described, text=query.sql))

    def _add(self, statement: Statement) -> None:
        for name in statement.tables:
            for each in self._waiting.get(name, []):
                each.until = min(each.until, statement.row)
        for index, name in enumerate(statement.tables):
            waiting = self._waiting.setdefault(name, [])
            waiting.append(_Waiting(len(self.found), index, statement.row))
        unknown = (None,) * len(statement.tables)
        self.found.append(replace(statement, fingerprints=unknown))

    def see_rows(self, captured: CapturedBlock, schema_of: Callable[[int], Schema]) -> None:
        """Note the schemas that the rows of a block have after statements; call it after `read`.

        Args:
            captured: The block.
            schema_of: Returns the schema by the index of a table map.
        """
        table_maps = captured.table_maps
        for index in range(self._known, len(table_maps)):
            name = table_maps[index].database, table_maps[index].table
            self._indexes.setdefault(name, []).append(index)
        self._known = len(table_maps)
        if not self._waiting:
            return
        row, table = captured.row, captured.table
        for name in list(self._waiting):
            own = np.flatnonzero(np.isin(table, self._indexes.get(name, [])))
            left = []
            for each in self._waiting[name]:
                behind = own[(row[own] > each.row) & (row[own] < each.until)]
                if len(behind):
                    found = schema_of(int(table[behind[0]])).fingerprint
                    self._tell(each, found)
                elif each.until == _NEVER:
                    left.append(each)
            if left:
                self._waiting[name] = left
            else:
                del self._waiting[name]

    def _tell(self, waiting: _Waiting, fingerprint: str) -> None:
        statement = self.found[waiting.statement]
        fingerprints = list(statement.fingerprints)
        fingerprints[waiting.table] = fingerprint
        self.found[waiting.statement] = replace(statement, fingerprints=tuple(fingerprints))

    def _captured(self, query: Query, flavor: Flavor) -> Described | None:
        described = describe(query, flavor)
        if described is None or not any(self._concerns(*each) for each in described.tables):
            return None
        if query.error:
            # What it did before it failed is not in the log.
            raise UnsupportedError(
                "a statement on a captured table failed half-way on the server: take a new "
                "snapshot of it",
                error=query.error,
                statement=query.sql[:STATEMENT_SHOWN],
            )
        return described

    def _concerns(self, database: str, table: str) -> bool:
        if not table:
            return self._tables.may_match_in(database)
        return self._tables.matches(database, table)
