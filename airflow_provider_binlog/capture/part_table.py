"""The change rows of one part: the table's columns as decoded, then the change columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


def build_part_table(
    layout: RowLayout,
    pieces: Sequence[DecodedRows],
    events: RowsColumns,
    *,
    files: Sequence[str],
    prefixes: Sequence[str],
    image: npt.NDArray[np.int32],
) -> pa.Table:
    """Return the rows as they are staged.

    Args:
        layout: The columns of the table.
        pieces: Its decoded rows, in order: one piece at least.
        events: What is known of the events that their `event` counts.
        files: The range's files, by `events.file`.
        prefixes: What GTIDs begin with, by `events.prefix`.
        image: The table's number for the set of columns in each row.
    """
    event, offset, changes = (
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("event", "offset", "change")
    )
    columns: list[pa.ChunkedArray[Any]] = [
        pa.chunked_array([piece.columns[index] for piece in pieces])
        for index in range(len(layout.columns))
    ]
    change = {
        CHANGE_TYPE: _named(changes.astype(np.int8), CHANGE_TYPES),
        COMMIT_TS: pa.array(events.commit_ts[event]).view(pa.timestamp("us", "UTC")),
        GTID: _gtids(events, prefixes, event),
        FILE: _named(events.file[event].astype(np.int32), files),
        POSITION: pa.array(events.position[event]),
        ROW: pa.array(events.row[event] + offset),
        IMAGE: pa.array(image),
    }
    return pa.Table.from_arrays(
        [*columns, *(change[name] for name in CHANGE_COLUMNS)],
        names=[*layout.schema.names, *CHANGE_COLUMNS],
    )


def _named(index: npt.NDArray[np.signedinteger], names: Sequence[str]) -> Array:
    return _dictionary(pa.array(index), pa.array(names, pa.string()))


def _gtids(events: RowsColumns, prefixes: Sequence[str], event: npt.NDArray[np.int32]) -> Array:
    """Return the GTID of each row: the text is made once per transaction."""
    prefix, number = events.prefix, events.number
    begins = np.ones(len(prefix), dtype=bool)
    np.logical_or(prefix[1:] != prefix[:-1], number[1:] != number[:-1], out=begins[1:])
    transaction = np.cumsum(begins, dtype=np.int32) - 1
    first = prefix[begins]
    # Those without a name have a text as well, though no row shows it: always the same, because
    # it stands in the part's bytes, and prefixes are numbered as the log was cut into blocks.
    starts: Array = pa.array(np.where(first == NO_NAME, len(prefixes), first))
    ends: Array = pa.array(np.where(first == NO_NAME, 0, number[begins]))
    named: Array = pa.array([*prefixes, ""], pa.string()).take(starts)
    texts: Array = pc.binary_join_element_wise(named, ends.cast(pa.string()), "")  # type: ignore[call-overload]
    # Parquet takes no dictionary with a null in it.
    index: Array = pa.array(transaction[event], mask=(first == NO_NAME)[transaction[event]])
    if len(texts) * 2 > len(index):
        return texts.take(index)
    return _dictionary(index, texts)


def _dictionary(index: Array, values: Array) -> Array:
    array: Array = pa.DictionaryArray.from_arrays(index, values)
    return array
