"""Rows events as they are handed to the decoder: one table, the same columns, any number of events.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, Rows_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from airflow_provider_binlog.blocks.block import EventBlock


@dataclass(frozen=True)
class RowsEvents:
    """Some rows events of one table, all of the same columns, in log order.

    Attributes:
        data: uint8; holds the events, whatever is between them, and spare bytes after the last
            one (64, else a copy is made).
        start: int64; where each event's header begins in `data`, rising.
        end: int64; where its body ends, checksum excluded.
        type: uint8; WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS or their v1 forms, PARTIAL_UPDATE_ROWS.
    """

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, block: EventBlock, events: npt.NDArray[np.int64]) -> RowsEvents:
        """Return some events of a block, by their indexes: views of its bytes."""
        start = block.start[events]
        end = start + block.size[events] - block.format.checksum_size
        return cls(data=block.data, start=start, end=end, type=block.type[events])

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.start)

    def slice(self, first: int, last: int) -> RowsEvents:
        """Return the events from `first` up to `last`, exclusive: views of the same bytes."""
        part = slice(first, last)
        return RowsEvents(self.data, self.start[part], self.end[part], self.type[part])
