"""What a range is read for: the parts of it, or what is known at its files' boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.capture.part_maker import PartMaker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.blocks.captured import CapturedBlock
    from airflow_provider_binlog.capture.log_range import ExtractRequest
    from airflow_provider_binlog.capture.pending import RowsColumns
    from airflow_provider_binlog.capture.quarantine import Quarantines
    from airflow_provider_binlog.capture.range_reader import RangeReader
    from airflow_provider_binlog.capture.segments import Segment
    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.schema import TableId
    from airflow_provider_binlog.schema_history.tables import TableInRange, Tables
    from airflow_provider_binlog.staging.part_writer import PartQueue


class RangeSink(Protocol):
    """What a range is read for.

    Attributes:
        parts: How many parts were written.
        rows: How many change rows they hold.
    """

    parts: int
    rows: int

    def open(self, reader: RangeReader, tables: Tables, quarantines: Quarantines) -> None:
        """Begin, with what follows the range."""

    def begin(self, logged: EventBlock) -> None:
        """Take note that everything before a block of the log was read."""

    def add(
        self, captured: CapturedBlock, columns: RowsColumns, segments: Sequence[Segment]
    ) -> None:
        """Take what is captured of a block; see `PartMaker.add`."""

    def finish(self, touched: Mapping[TableId, TableInRange]) -> tuple[TableChanges, ...]:
        """End, and return the tables for the manifest, by name."""


class PartSink(RangeSink):
    """Writes parts."""

    def __init__(self, request: ExtractRequest, queue: PartQueue) -> None:
        self.parts = self.rows = 0
        self._request = request
        self._queue = queue

    def open(self, reader: RangeReader, tables: Tables, quarantines: Quarantines) -> None:  # noqa: ARG002
        """Begin with the first event of a range."""
        self._maker = PartMaker(
            self._request,
            self._queue,
            files=reader.files,
            prefixes=reader.transactions.prefixes,
            quarantines=quarantines,
        )

    def begin(self, logged: EventBlock) -> None:
        """Do nothing."""

    def add(
        self, captured: CapturedBlock, columns: RowsColumns, segments: Sequence[Segment]
    ) -> None:
        """Write the parts that are full."""
        self._maker.add(captured.block, columns, segments)
        self.parts, self.rows = self._maker.parts, self._maker.rows

    def finish(self, touched: Mapping[TableId, TableInRange]) -> tuple[TableChanges, ...]:
        """Write what is left."""
        return self._maker.finish(touched)
