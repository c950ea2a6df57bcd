"""A sink that decodes every captured row, and counts it; what capture would refuse is noted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import event_name
from airflow_provider_binlog.capture.segments import check_names
from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.rows.decode import decode_pieces
from airflow_provider_binlog.rows.events import RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.cli.refusals import Refusals
    from airflow_provider_binlog.schema_history.schemas import TableRefusal

    Events = npt.NDArray[np.int64]

_CHANGES = tuple(ChangeType)
_REFUSALS_MAX = 100
"""A table whose events are refused so often is not decoded any more: each costs a decoding."""


@dataclass
class _Table:
    """A table with one schema.

    Attributes:
        layout: How its rows are decoded; None where they cannot be.
        error: Why capture would refuse them, whether or not they can be decoded.
        refused: How many of its events could not be decoded.
    """

    name: str
    layout: RowLayout | None = None
    error: BinlogError | None = None
    refused: int = 0


class RowCounts:
    """Counts the rows of a log, block after block.

    Attributes:
        rows: Counted by table and type of change.
        nulls: Invalid dates, by column.
        skipped: Rows events that were not decoded, by the name of their type.
    """

    def __init__(self, refusals: Refusals) -> None:
        """Begin a log; `refusals` takes what capture would refuse."""
        self.rows: dict[str, Counter[str]] = {}
        self.nulls: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._refusals = refusals
        # By the index of their table maps.
        self._tables: dict[int, _Table] = {}

    def add(self, captured: CapturedBlock, refused: Mapping[int, TableRefusal]) -> None:
        """Decode the rows of a block; `refused` has the tables that capture would refuse."""
        for index in np.unique(captured.table).tolist():
            table = self._tables.get(index)
            if table is None:
                table_map = captured.table_maps[index]
                table = self._tables[index] = _table(table_map, refused.get(index))
            self._decode(captured, table, captured.events[captured.table == index])

    def _decode(self, captured: CapturedBlock, table: _Table, events: Events) -> None:
        """Decode the rows of a table in a block, and count them."""
        if table.error is not None:
            self._refuse(captured, table, events, table.error)
        while len(events) and table.layout is not None and table.refused < _REFUSALS_MAX:
            try:
                self._count(captured, table.name, table.layout, events)
            except BinlogError as error:
                event = error.context.pop("event", 0)
                at = event if isinstance(event, int) and event < len(events) else 0
                self._skip(captured, events[at : at + 1])
                self._refuse(captured, table, events[at : at + 1], error)
                if at:
                    self._count(captured, table.name, table.layout, events[:at])
                events = events[at + 1 :]
                table.refused += 1
            else:
                return
        self._skip(captured, events)

    def _skip(self, captured: CapturedBlock, events: Events) -> None:
        self.skipped.update(map(event_name, captured.block.type[events].tolist()))

    def _count(self, captured: CapturedBlock, name: str, layout: RowLayout, events: Events) -> None:
        # All before any is counted: what follows an event that is refused is decoded again.
        pieces = list(decode_pieces(layout, RowsEvents.of(captured.block, events)))
        counts = self.rows.setdefault(name, Counter())
        for _, _, rows in pieces:
            found = np.bincount(rows.change, minlength=len(_CHANGES)).tolist()
            counts.update({str(kind): count for kind, count in zip(_CHANGES, found, strict=True)})
            for column, count in rows.unrepresentable.items():
                self.nulls[f"{name}.{column}"] += count

    def _refuse(
        self, captured: CapturedBlock, table: _Table, events: Events, error: BinlogError
    ) -> None:
        where = {"table": table.name, **captured.block.where(int(events[0]))}
        located = type(error)(error.args[0], **(error.context | where))
        self._refusals.add(located, times=len(events))

    def lines(self) -> Iterator[str]:
        """Yield what was counted, line by line."""
        total: Counter[str] = sum(self.rows.values(), Counter())
        yield f"rows      {_count_changes(total)} in {len(self.rows)} tables"
        for name, counts in sorted(self.rows.items()):
            yield f"  {name:<30}{_count_changes(counts):>12}  {_words(counts)}"
        for name, count in sorted(self.nulls.items()):
            yield f"  {name:<30}{count:>12}  invalid dates, read as NULL"


def _table(table_map: TableMap, refusal: TableRefusal | None) -> _Table:
    table = _Table(f"{table_map.database}.{table_map.table}")
    try:
        table.layout = compile_layout(table_map, allow_missing_metadata=refusal is not None)
        check_names(table.layout)
    except BinlogError as error:
        table.error = error
    if refusal is not None:
        table.error = refusal.error
    return table


def _count_changes(counts: Counter[str]) -> int:
    """Return how many rows were changed: an update's two images are of one change."""
    return counts.total() - counts[ChangeType.UPDATE_PREIMAGE]


def _words(counts: Counter[str]) -> str:
    names = {
        ChangeType.INSERT: "inserts",
        ChangeType.UPDATE_POSTIMAGE: "updates",
        ChangeType.DELETE: "deletes",
    }
    return ", ".join(f"{counts[kind]} {word}" for kind, word in names.items() if counts[kind])
