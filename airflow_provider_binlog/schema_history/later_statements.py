"""The statements after a range: nothing else is read there.

Source: as binlog/events/statements.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.binlog.header import EventHeader
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.blocks.transactions import says_begin
from airflow_provider_binlog.errors import error_context
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sql.alterations import Opaque, RewriteRows
from airflow_provider_binlog.sql.ddl import Altered, TableChange, Truncated, read_ddl
from airflow_provider_binlog.sql.statement_types import StatementType, classify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.position import Flavor
    from airflow_provider_binlog.sql.ddl import DdlStatement
    from airflow_provider_binlog.transport.block_stream import BlockStream


def changes_of(query: Query, flavor: Flavor) -> tuple[TableChange, ...]:
    """Return what a logged statement did, even where it failed half-way.

    Raises:
        UnsupportedError: Which tables it is about cannot be determined.
    """
    return changes_by(query, read_ddl(query.sql, query.session(flavor)))


def changes_by(query: Query, ddl: DdlStatement | None) -> tuple[TableChange, ...]:
    """Return what a logged statement did, given what it was to do."""
    if ddl is None:
        return ()
    if query.error:
        # What it did before it failed is not in the log.
        failed = Opaque(f"error {query.error}")
        return tuple(Altered(name, (failed,)) for name in ddl.tables)
    return tuple(each for each in ddl.changes if not _changes_rows_alone(each))


def _changes_rows_alone(change: TableChange) -> bool:
    if isinstance(change, Altered):
        return all(isinstance(each, RewriteRows) for each in change.alterations)
    return isinstance(change, Truncated)


def changes_between(
    source: BlockStream, start: Position, stop: Position
) -> Iterator[tuple[int, str, TableChange]]:
    """Yield what the statements between two positions did, with offset and file of each.

    Nothing else is decoded: rows after the range do not concern it.

    Raises:
        UnsupportedError: Which tables a statement is about cannot be determined.
    """
    if start.coordinates >= stop.coordinates:
        return
    expander, gtid = Expander(), _LastGtid()
    for logged in source.blocks(start, stop):
        for block in expander.expand(logged):
            for event in _statement_events(block):
                offset = int(block.offset[event])
                if Position(block.file, offset).coordinates >= stop.coordinates:
                    return
                query = Query.parse(block.body(event), block.format)
                session = query.session(block.format.flavor)
                if classify(query.sql, session) is not StatementType.DDL:
                    continue
                if gtid.alters_nothing(block, event):
                    continue
                with error_context(file=block.file, offset=offset):
                    changes = changes_of(query, block.format.flavor)
                for change in changes:
                    yield offset, block.file, change
            gtid.remember(block)


class _LastGtid:
    """Knows the last GTID of MariaDB, which may be in the block before."""

    def __init__(self) -> None:
        self._alters_nothing = False

    def alters_nothing(self, block: EventBlock, event: int) -> bool:
        """Whether the statement is the first of two phases, or rolled back."""
        before = np.flatnonzero(block.type[:event] == EventType.MARIADB_GTID)
        if not len(before):
            return self._alters_nothing
        return _alters_nothing(block, int(before[-1]))

    def remember(self, block: EventBlock) -> None:
        """Take the block's last one."""
        own = np.flatnonzero(block.type == EventType.MARIADB_GTID)
        if len(own):
            self._alters_nothing = _alters_nothing(block, int(own[-1]))


def _alters_nothing(block: EventBlock, event: int) -> bool:
    header = EventHeader.parse(block.event(event))
    gtid = MariadbGtid.parse(block.body(event), block.format, server_id=header.server_id)
    return gtid.alters_nothing


def _statement_events(block: EventBlock) -> list[int]:
    """Return the QUERY events that are no BEGIN: with MySQL every transaction has one."""
    queries = np.flatnonzero(block.type == EventType.QUERY)
    chosen: list[int] = queries[~says_begin(block, queries)].tolist()
    return chosen
