"""The DDL statements of a log that took effect.

Source: as binlog/transactions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.events.mariadb import MariadbGtid
from airflow_provider_binlog.sql.statement_types import StatementType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.binlog.events.statements import Query
    from airflow_provider_binlog.blocks.transactions import Transactions


class DdlReader:
    """Finds the statements of a log that change tables or other objects, and took effect."""

    def __init__(self) -> None:
        self._alters_nothing = False

    def read(self, transactions: Transactions) -> Iterator[tuple[int, Query]]:
        """Yield those of the next block, each with the index of its event."""
        for event, seen in sorted(transactions.scanned.items()):
            if seen.gtid is not None:
                # It is about the statement that follows, be that in the next block.
                self._alters_nothing = (
                    isinstance(seen.gtid, MariadbGtid) and seen.gtid.alters_nothing
                )
            if seen.query is None or self._alters_nothing:
                continue
            if seen.statement_type is StatementType.DDL:
                yield event, seen.query
