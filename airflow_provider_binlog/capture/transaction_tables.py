"""Which captured tables a transaction changed, each with its first row there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.capture.quarantine import TableRows

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.schema import TableName


class TransactionTables:
    """Follows the open transaction over the blocks of a range."""

    def __init__(self) -> None:
        self._carried: dict[TableName, TableRows] = {}

    def reset(self) -> None:
        """Continue after a gap in the log."""
        self._carried = {}

    def before(self, captured: CapturedBlock, event: int) -> tuple[TableRows, ...]:
        """Return the tables with rows before an event of a block, in the event's transaction."""
        own = int(captured.transactions.of_event[event])
        chosen = (captured.transaction == own) & (captured.events < event)
        return tuple(self._with(captured, chosen, own).values())

    def carry(self, captured: CapturedBlock) -> None:
        """Keep the tables of the transaction that is open at the end of a block."""
        read = captured.transactions
        own = int(read.of_event[-1])
        open_at_end = self._with(captured, captured.transaction == own, own)
        self._carried = open_at_end if read.ends_open else {}

    def _with(
        self, captured: CapturedBlock, chosen: npt.NDArray[np.bool_], own: int
    ) -> dict[TableName, TableRows]:
        """Return the tables of some rows of a transaction, with those of earlier blocks."""
        found = dict(self._carried) if own == 0 else {}
        events, block = np.flatnonzero(chosen), captured.block
        for first in np.sort(events[np.unique(captured.table[events], return_index=True)[1]]):
            table_map = captured.table_maps[int(captured.table[first])]
            name, event = (table_map.database, table_map.table), int(captured.events[first])
            rows = TableRows(int(captured.row[first]), name, block.file, int(block.offset[event]))
            found.setdefault(name, rows)
        return found
