"""The rows of a chunk, written as parts while they come."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.changes import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
    ChangeType,
)
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.snapshot_manifest import snapshot_part_path
from airflow_provider_binlog.staging.part_writer import write_part

if TYPE_CHECKING:
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.rows.conversion import Converted
    from airflow_provider_binlog.rows.values import Array
    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.snapshot.plan import SnapshotFiles

_ROW_CHUNK_SHIFT = 40
"""`_row` is `(number of the chunk << _ROW_CHUNK_SHIFT) + number of the row in it`."""

_TOKEN_BYTES = 6


class ChunkParts:
    """Collects the rows of one chunk and writes parts.

    Attributes:
        parts: Those that were written.
        rows: How many rows were taken.
    """

    def __init__(
        self,
        files: SnapshotFiles,
        snapshot_id: str,
        schema: Schema,
        *,
        number: int,
        low: Position,
        read_at: int,
        bytes_max: int,
    ) -> None:
        """Begin a chunk.

        Args:
            files: Where the parts go.
            snapshot_id: Of the snapshot.
            schema: Of the table.
            number: Of the chunk.
            low: Of the chunk.
            read_at: When it is read, microseconds since 1970 in UTC.
            bytes_max: Bytes of decoded rows in one part.
        """
        self.parts: list[Part] = []
        self.rows = 0
        self._files = files
        self._snapshot_id = snapshot_id
        self._schema = schema
        self._number = number
        self._low = low
        self._read_at = read_at
        self._bytes_max = bytes_max
        self._token = secrets.token_hex(_TOKEN_BYTES)
        self._waiting: list[list[Array]] = []
        self._bytes = 0
        self._replaced: Counter[str] = Counter()

    def add(self, rows: Converted) -> None:
        """Take some rows; write a part once they are enough."""
        self._waiting.append(rows.columns)
        self._bytes += sum(column.nbytes for column in rows.columns)
        self._replaced.update(rows.unrepresentable)
        self._replaced.update(rows.invalid_text)
        if self._bytes >= self._bytes_max:
            self.flush()

    def flush(self) -> None:
        """Write what waits as a part."""
        count = sum(len(columns[0]) for columns in self._waiting)
        if not count:
            return
        first = (self._number << _ROW_CHUNK_SHIFT) + self.rows
        path = snapshot_part_path(
            self._snapshot_id, self._number, f"{self._token}{len(self.parts):06}"
        )
        table = self._table(first, count)
        self._waiting = []
        written = write_part(self._files.store, self._files.key(path), table, self._schema)
        self.parts.append(
            Part(
                path=path,
                schema=self._schema.id,
                rows=count,
                bytes=written.bytes,
                sha256=written.sha256,
                first_row=first,
                last_row=first + count - 1,
                first_commit=self._read_at,
                last_commit=self._read_at,
                changes={ChangeType.INSERT.value: count},
                replaced=dict(sorted(self._replaced.items())),
            )
        )
        self.rows += count
        self._bytes = 0
        self._replaced.clear()

    def _table(self, first: int, count: int) -> pa.Table:
        columns = [pa.chunked_array(pieces) for pieces in zip(*self._waiting, strict=True)]
        change = {
            CHANGE_TYPE: _repeated(ChangeType.INSERT.value, count),
            COMMIT_TS: pa.array(np.full(count, self._read_at)).view(pa.timestamp("us", "UTC")),
            GTID: pa.nulls(count, pa.string()),
            FILE: _repeated(self._low.file, count),
            POSITION: pa.array(np.full(count, self._low.offset)),
            ROW: pa.array(np.arange(first, first + count)),
            IMAGE: pa.array(np.zeros(count, dtype=np.int32)),
        }
        return pa.Table.from_arrays(
            [*columns, *(change[name] for name in CHANGE_COLUMNS)],
            names=[*(field.name for field in self._schema.fields), *CHANGE_COLUMNS],
        )


def _repeated(text: str, count: int) -> Array:
    index: Array = pa.array(np.zeros(count, dtype=np.int32))
    array: Array = pa.DictionaryArray.from_arrays(index, pa.array([text]))
    return array
