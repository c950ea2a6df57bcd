"""The change rows of one part: the table's columns as decoded, then the change columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_binlog.blocks.arrays import of_numbers, of_texts
from airflow_provider_binlog.blocks.transactions import NO_NAME
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.capture.pending import RowsColumns
    from airflow_provider_binlog.rows.decode import DecodedRows
    from airflow_provider_binlog.rows.layout import RowLayout
    from airflow_provider_binlog.rows.values import Array

CHANGE_TYPES = tuple(ChangeType)
"""The change types in the order of `DecodedRows.change`."""


class StagedRows:
    """Rows as they are staged: those of one table, or of several tables of equal columns.

    Attributes:
        row: int64; `_row` of each.
        commit_ts: int64; microseconds since 1970.
        change: uint8; indexes of `CHANGE_TYPES`.
    """

    def __init__(
        self,
        layout: RowLayout,
        pieces: Sequence[DecodedRows],
        events: RowsColumns,
        *,
        files: Sequence[str],
        prefixes: Sequence[str],
        firsts: Sequence[int] = (0,),
    ) -> None:
        """Join decoded rows with what is known of their events.

        Args:
            layout: The columns of the table.
            pieces: Its decoded rows, in order: one piece at least.
            events: What is known of the events that their `event` counts.
            files: The range's files, by `events.file`.
            prefixes: What GTIDs begin with, by `events.prefix`.
            firsts: The first event of each table.
        """
        event, offset, self.change = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("event", "offset", "change")
        )
        self.row = events.row[event] + offset
        self.commit_ts = events.commit_ts[event]
        columns: list[pa.ChunkedArray[Any]] = [
            pa.chunked_array([piece.columns[index] for piece in pieces])
            for index in range(len(layout.columns))
        ]
        change = {
            CHANGE_TYPE: _named(self.change.astype(np.int8), CHANGE_TYPES),
            COMMIT_TS: of_numbers(self.commit_ts).view(pa.timestamp("us", "UTC")),
            FILE: _named(events.file[event].astype(np.int32), files),
            POSITION: of_numbers(events.position[event]),
            ROW: of_numbers(self.row),
        }
        self._others = pa.Table.from_arrays(
            [*columns, *(change[name] for name in CHANGE_COLUMNS if name in change)],
            names=[*layout.schema.names, *(name for name in CHANGE_COLUMNS if name in change)],
        )
        self._gtids = _Gtids(events, prefixes, firsts)
        self._transaction = self._gtids.transaction[event]

    def table(self, rows: slice, image: npt.NDArray[np.int32], number: int = 0) -> pa.Table:
        """Return rows of one table.

        Args:
            rows: Which ones.
            image: The table's number for the set of columns in each row.
            number: That of the table, as `firsts` had them.
        """
        arrays = {
            GTID: self._gtids.of(number, self._transaction[rows]),
            IMAGE: of_numbers(image),
        }
        table = self._others.slice(rows.start, rows.stop - rows.start)
        before = table.num_columns + len(arrays) - len(CHANGE_COLUMNS)
        for at, name in enumerate(CHANGE_COLUMNS, start=before):
            if name in arrays:
                table = table.add_column(at, name, arrays[name])
        return table


class _Gtids:
    """The GTIDs of some events, whose texts are made once per transaction and table.

    Attributes:
        transaction: int32; of each event, the index of its text.
    """

    def __init__(self, events: RowsColumns, prefixes: Sequence[str], firsts: Sequence[int]) -> None:
        prefix, number = events.prefix, events.number
        begins = np.ones(len(prefix), dtype=bool)
        np.logical_or(prefix[1:] != prefix[:-1], number[1:] != number[:-1], out=begins[1:])
        begins[np.array(firsts)] = True
        self.transaction = np.cumsum(begins, dtype=np.int32) - np.int32(1)
        self._bounds = [*self.transaction[np.array(firsts)].tolist(), int(self.transaction[-1]) + 1]
        first = prefix[begins]
        self._nameless = first == NO_NAME
        # Those without a name have a text as well, though no row shows it: always the same, because
        # it stands in the part's bytes, and prefixes are numbered as the log was cut into blocks.
        starts: Array = of_numbers(np.where(self._nameless, len(prefixes), first))
        ends: Array = of_numbers(np.where(self._nameless, 0, number[begins]))
        named: Array = of_texts([*prefixes, ""]).take(starts)
        self._texts: Array = pc.binary_join_element_wise(
            named, ends.cast(pa.string()), of_texts([""])[0]
        )

    def of(self, table: int, transaction: npt.NDArray[np.int32]) -> Array:
        """Return the GTID of each row of a table, given the index of its text."""
        begin, stop = self._bounds[table], self._bounds[table + 1]
        texts = self._texts.slice(begin, stop - begin)
        # Parquet takes no dictionary with a null in it.
        index: Array = of_numbers(transaction - begin, self._nameless[transaction])
        if len(texts) * 2 > len(index):
            return texts.take(index)
        return _dictionary(index, texts)


def _named(index: npt.NDArray[np.signedinteger], names: Sequence[str]) -> Array:
    return _dictionary(of_numbers(index), of_texts(names))


def _dictionary(index: Array, values: Array) -> Array:
    array: Array = pa.DictionaryArray.from_arrays(index, values)
    return array
