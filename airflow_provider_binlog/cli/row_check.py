"""Every row of a log decoded as capture does, and counted; what capture would refuse is noted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.event_types import event_name
from airflow_provider_binlog.capture.part_maker import check_names
from airflow_provider_binlog.changes import ChangeType
from airflow_provider_binlog.errors import BinlogError, ServerSetupError
from airflow_provider_binlog.rows.decode import decode
from airflow_provider_binlog.rows.events import RowsEvents
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.schema_history.schemas import SchemaReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.transactions import Transactions
    from airflow_provider_binlog.cli.refusals import Refusals
    from airflow_provider_binlog.schema_history.history import LoggedChange
    from airflow_provider_binlog.schema_history.schemas import Past

    Events = npt.NDArray[np.int64]

_CHANGES = tuple(ChangeType)
_REFUSALS_MAX = 100
"""A table whose events are refused so often is not decoded any more: each costs a decoding."""


@dataclass
class _Table:
    """A table in one shape.

    Attributes:
        layout: How its rows are decoded; None where they cannot be.
        error: Why capture would refuse them, whether or not they can be decoded.
        refused: How many of its events could not be decoded.
    """

    name: str
    layout: RowLayout | None
    error: BinlogError | None = None
    refused: int = 0


@dataclass
class _Doubt:
    """A TABLE_MAP that was not told: the last reason, and for how many events."""

    error: BinlogError
    count: int = 0


class RowCheck:
    """Follows the rows of a log, block after block.

    Attributes:
        rows: Counted by table and kind of change.
        nulls: Dates that are none, by column.
        skipped: Events that were not decoded, by their type's name.
    """

    def __init__(self, past: Past, alone: Past, refusals: Refusals) -> None:
        """Begin with a log.

        Args:
            past: What a server tells of its tables, where there is one.
            alone: The same without a server, for when that one fails.
            refusals: Takes what capture would refuse.
        """
        self.rows: dict[str, Counter[str]] = {}
        self.nulls: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._schemas = SchemaReader(past)
        self._alone = alone
        self._failure: BinlogError | None = None
        self._refusals = refusals
        self._tables: dict[TableMap, _Table] = {}
        # Tables whose schema is not told, as they were logged.
        self._untold: dict[TableMap, _Table] = {}
        self._doubts: dict[int, _Doubt] = {}

    def statements_needed(self) -> list[LoggedChange] | None:
        """Return what the log's statements did, if that had to be known before the rows came."""
        return self._schemas.changes if self._schemas.gave_up else None

    def read(
        self,
        block: EventBlock,
        transactions: Transactions,
        rows: Events,
        table: Events,
        *,
        logged: Sequence[TableMap],
        file_index: int,
    ) -> None:
        """Decode rows events of the next block; the arguments are those of `SchemaReader.read`."""
        try:
            told = self._schemas.read(
                block, transactions, rows, table, logged=logged, file_index=file_index
            )
        except BinlogError as error:
            if error.retryable or "table" not in error.context:
                # The server failed, or a statement behind the range may be about any table.
                self._refusals.add(error, block.file)
                self._failure, self._schemas = error, SchemaReader(self._alone)
            self._read_apart(block, transactions, rows, table, logged=logged, file_index=file_index)
            return
        if not self._schemas.gave_up:
            self._decode_all(block, rows, told)

    def _read_apart(
        self,
        block: EventBlock,
        transactions: Transactions,
        rows: Events,
        table: Events,
        *,
        logged: Sequence[TableMap],
        file_index: int,
    ) -> None:
        """Decode the rows of one table after another: some of them are refused."""
        quiet = replace(transactions, scanned={})  # its statements are known
        for index in np.unique(table).tolist():
            left = rows[table == index]
            while len(left):
                doubt = self._doubts.get(index)
                if doubt is not None and doubt.count >= _REFUSALS_MAX:
                    self._refuse_untold(block, left, logged[index], doubt)
                    break
                own = np.full(len(left), index, dtype=np.int64)
                try:
                    told = self._schemas.read(
                        block, quiet, left, own, logged=logged, file_index=file_index
                    )
                except BinlogError as error:
                    doubt = self._doubts.setdefault(index, _Doubt(error))
                    doubt.error = self._reason(error)
                    found = np.flatnonzero(block.offset[left] == error.context.get("offset"))
                    at = int(found[0]) if len(found) else 0
                    self._refuse_untold(block, left[at : at + 1], logged[index], doubt)
                    left = np.delete(left, at)
                else:
                    if not self._schemas.gave_up:
                        self._decode_all(block, left, told)
                    break

    def _reason(self, error: BinlogError) -> BinlogError:
        """Return why a table is not told: what failed before, if for that nobody was asked."""
        failure = self._failure
        if failure is None or not isinstance(error, ServerSetupError):
            return error
        return type(failure)(failure.args[0], **(failure.context | error.context))

    def _refuse_untold(
        self, block: EventBlock, rows: Events, table_map: TableMap, doubt: _Doubt
    ) -> None:
        """Note that rows would be refused, and decode them as far as the log tells."""
        doubt.count += len(rows)
        self._refusals.add(doubt.error, block.file, times=len(rows))
        table = self._untold.get(table_map)
        if table is None:
            table = self._untold[table_map] = _untold(table_map)
        self._decode(block, table, rows)

    def _decode_all(self, block: EventBlock, rows: Events, told: Events) -> None:
        for index in np.unique(told).tolist():
            table_map = self._schemas.table_maps[index]
            table = self._tables.get(table_map)
            if table is None:
                table = self._tables[table_map] = _told(table_map)
            self._decode(block, table, rows[told == index])

    def _decode(self, block: EventBlock, table: _Table, rows: Events) -> None:
        """Decode all rows of a table in a block, and count them."""
        if table.error is not None:
            for each in rows.tolist():
                self._refuse(table, block, each, table.error)
        while len(rows) and table.layout is not None and table.refused < _REFUSALS_MAX:
            try:
                self._count(table.name, table.layout, block, rows)
            except BinlogError as error:
                event = error.context.pop("event", 0)
                at = event if isinstance(event, int) and event < len(rows) else 0
                self.skip(block, rows[at : at + 1])
                self._refuse(table, block, int(rows[at]), error)
                if at:
                    self._count(table.name, table.layout, block, rows[:at])
                rows = rows[at + 1 :]
                table.refused += 1
            else:
                return
        self.skip(block, rows)

    def skip(self, block: EventBlock, events: Events) -> None:
        """Take note of events that are not decoded."""
        self.skipped.update(map(event_name, block.type[events].tolist()))

    def _count(self, name: str, layout: RowLayout, block: EventBlock, rows: Events) -> None:
        start = block.start[rows]
        end = start + block.size[rows] - block.format.checksum_size
        events = RowsEvents(data=block.data, start=start, end=end, type=block.type[rows])
        decoded = decode(layout, events)
        counts = self.rows.setdefault(name, Counter())
        found = np.bincount(decoded.change, minlength=len(_CHANGES)).tolist()
        counts.update({str(kind): count for kind, count in zip(_CHANGES, found, strict=True)})
        for column, count in decoded.unrepresentable.items():
            self.nulls[f"{name}.{column}"] += count

    def _refuse(self, table: _Table, block: EventBlock, event: int, error: BinlogError) -> None:
        place = {"table": table.name, "file": block.file, "offset": int(block.offset[event])}
        self._refusals.add(type(error)(error.args[0], **(error.context | place)), block.file)

    def lines(self) -> Iterator[str]:
        """Yield what was counted, line by line."""
        total: Counter[str] = sum(self.rows.values(), Counter())
        yield f"rows      {_count_changes(total)} in {len(self.rows)} tables"
        for name, counts in sorted(self.rows.items()):
            yield f"  {name:<30}{_count_changes(counts):>12}  {_words(counts)}"
        for name, count in sorted(self.nulls.items()):
            yield f"  {name:<30}{count:>12}  dates that are none, read as NULL"


def _told(table_map: TableMap) -> _Table:
    table = _Table(_name(table_map), None)
    try:
        table.layout = compile_layout(table_map)
        check_names(table.layout)
    except BinlogError as error:
        table.error = error
    return table


def _untold(table_map: TableMap) -> _Table:
    try:
        return _Table(_name(table_map), compile_layout(table_map, allow_missing_metadata=True))
    except BinlogError:
        return _Table(_name(table_map), None)  # it is refused for another reason already


def _name(table_map: TableMap) -> str:
    return f"{table_map.database}.{table_map.table}"


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
