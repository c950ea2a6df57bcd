"""Which captured tables a transaction changed, in the order of their first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.schema import TableName


class TransactionTables:
    """The tables of the open transaction, over the blocks of a range."""

    def __init__(self) -> None:
        self._open: dict[TableName, None] = {}

    def reset(self) -> None:
        """Continue after a gap in the log."""
        self._open = {}

    def before(self, captured: CapturedBlock, event: int) -> tuple[TableName, ...]:
        """Return the tables with rows before an event of a block, in the event's transaction."""
        own = int(captured.transactions.of_event[event])
        chosen = (captured.transaction == own) & (captured.events < event)
        return tuple(self._with(captured, chosen, own))

    def carry(self, captured: CapturedBlock) -> None:
        """Keep the tables of the transaction that is open at the end of a block."""
        read = captured.transactions
        own = int(read.of_event[-1])
        open_at_end = self._with(captured, captured.transaction == own, own)
        self._open = open_at_end if read.ends_open else {}

    def _with(
        self, captured: CapturedBlock, chosen: npt.NDArray[np.bool_], own: int
    ) -> dict[TableName, None]:
        """Return the tables of some rows of a transaction, with those of earlier blocks."""
        tables = dict(self._open) if own == 0 else {}
        indexes, first = np.unique(captured.table[chosen], return_index=True)
        for index in indexes[np.argsort(first)].tolist():
            table_map = captured.table_maps[index]
            tables[table_map.database, table_map.table] = None
        return tables
