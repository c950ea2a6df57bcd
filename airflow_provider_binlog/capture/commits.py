"""Which changes of a log were committed, and where each of them becomes visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.transactions import GroupEnd
from airflow_provider_binlog.capture.quarantine import RefusedTables, raise_table_error
from airflow_provider_binlog.capture.rollbacks import RollbackReader
from airflow_provider_binlog.capture.transaction_tables import TransactionTables
from airflow_provider_binlog.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_binlog.blocks.captured import CapturedBlock, TransactionBlock
    from airflow_provider_binlog.capture.prepared import PreparedTransactions
    from airflow_provider_binlog.capture.quarantine import RefuseTables
    from airflow_provider_binlog.manifest import Prepared

_IN_DOUBT = {
    # `PreparedTransactions` takes their changes out.
    GroupEnd.PREPARED: "an XA transaction was prepared in a form that is not known here: report it",
    GroupEnd.CUT: (
        "the file ends inside a transaction: its server crashed, and rolled it back; "
        "take a new snapshot, and begin after it"
    ),
}
"""Ends of transactions whose changes may not have been committed."""


class CommitReader:
    """Keeps the changes that were committed, and puts them where they become visible.

    Feed it a log from a transaction boundary on: every expanded block with its transactions to
    `arrange`, and what is captured of each arranged block to `committed`.
    """

    def __init__(
        self,
        prepared: PreparedTransactions,
        rolled_back: Iterable[tuple[int, int]],
        *,
        refuse: RefuseTables = raise_table_error,
    ) -> None:
        """Begin a range.

        Args:
            prepared: Moves the changes of XA transactions.
            rolled_back: What an earlier reading of the range found to be rolled back, by row.
            refuse: Takes the error of changes of which it is not certain that they were committed.
                Where it returns, they are taken for committed.
        """
        self._prepared = prepared
        self._tables = TransactionTables()
        self._rollbacks = RollbackReader(rolled_back, tables=self._tables, refuse=refuse)
        self._refuse = refuse

    @property
    def in_doubt(self) -> tuple[Prepared, ...]:
        """The XA transactions that are prepared, and neither committed nor rolled back by now."""
        return self._prepared.in_doubt

    @property
    def rolled_back(self) -> tuple[tuple[int, int], ...]:
        """Row numbers of what was rolled back: pairs of start and stop."""
        return tuple(self._rollbacks.rolled_back)

    @property
    def needs_restart(self) -> bool:
        """Whether changes were let through that a later event rolled back."""
        return self._rollbacks.needs_restart

    def resume(self) -> None:
        """Continue after a gap in the log."""
        self._prepared.reset()
        self._tables.reset()

    def arrange(self, block: TransactionBlock) -> Iterator[TransactionBlock]:
        """Yield the next block's events, with the changes of prepared transactions at their commit.

        Raises:
            BinlogError: As `PreparedTransactions.arrange`.
        """
        return self._prepared.arrange(block)

    def committed(self, captured: CapturedBlock) -> CapturedBlock:
        """Return the next arranged block without changes that were rolled back.

        Raises:
            UnsupportedError: It is not certain which of its changes were committed; says what to
                change.
        """
        self._check_ends(captured)
        committed = self._rollbacks.committed(captured)
        self._tables.carry(captured)
        return committed

    def _check_ends(self, captured: CapturedBlock) -> None:
        """Refuse captured changes of transactions that may have been rolled back."""
        for event, seen in captured.transactions.scanned.items():
            reason = None if seen.end is None else _IN_DOUBT.get(seen.end)
            if reason is None:
                continue
            tables = self._tables.before(captured, event)
            if tables:
                where = captured.block.where(event)
                error = UnsupportedError(reason, **where, xid=seen.xid)
                self._refuse(RefusedTables.at(captured.block, event, error, tables))
