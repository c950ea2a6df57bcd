"""The change rows of one part: the table's columns as decoded, then the change columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.capture.pending import RowsColumns
    from airflow_provider_binlog.rows.decode import DecodedRows
    from airflow_provider_binlog.rows.layout import RowLayout
    from airflow_provider_binlog.rows.values import Array

CHANGE_TYPES = tuple(ChangeType)
"""The change types in the order of `DecodedRows.change`."""

_TYPE_NAMES = [each.value for each in CHANGE_TYPES]


class StagedPart(NamedTuple):
    """The rows of one table, at least one, and what the manifest says of them: see `Part`."""

    table: pa.Table
    first_row: int
    last_row: int
    first_commit: int
    last_commit: int
    changes: dict[str, int]


class StagedRows:
    """Rows as they are staged: those of one table, or of several tables of equal columns."""

    def __init__(
        self,
        layout: RowLayout,
        pieces: Sequence[DecodedRows],
        events: RowsColumns,
        image: npt.NDArray[np.int32],
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
            image: Of each row: its table's number for the set of columns in it.
            files: The range's files, by `events.file`.
            prefixes: What GTIDs begin with, by `events.prefix`.
            firsts: The first event of each table.
        """
        event, offset, self._change = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("event", "offset", "change")
        )
        self._bounds = np.append(np.searchsorted(event, firsts), len(event))
        self._row = events.row[event] + offset
        self._commit_ts = events.commit_ts[event]
        columns: list[pa.ChunkedArray[Any]] = [
            pa.chunked_array([piece.columns[index] for piece in pieces])
            for index in range(len(layout.columns))
        ]
        change = {
            CHANGE_TYPE: _named(self._change.astype(np.int8), CHANGE_TYPES),
            COMMIT_TS: of_numbers(self._commit_ts).view(pa.timestamp("us", "UTC")),
            FILE: _named(events.file[event].astype(np.int32), files),
            POSITION: of_numbers(events.position[event]),
            ROW: of_numbers(self._row),
            IMAGE: of_numbers(image),
        }
        self._gtids = _Gtids(events, prefixes, firsts)
        self._transaction = self._gtids.transaction[event]
        self._with_gtids = self._gtids.differ(np.diff(self._bounds))
        self._gtids_at = len(columns) + CHANGE_COLUMNS.index(GTID)
        if self._with_gtids:
            change[GTID] = self._gtids.plain(self._transaction)
        names = [name for name in CHANGE_COLUMNS if name in change]
        self._rows = pa.Table.from_arrays(
            [*columns, *(change[name] for name in names)],
            names=[*layout.schema.names, *names],
        )

    def parts(self) -> Iterator[tuple[int, StagedPart]]:
        """Yield the rows of each table that has some, with its number among `firsts`."""
        tables = np.flatnonzero(np.diff(self._bounds))
        if not len(tables):
            return
        begin, stop = self._bounds[tables], self._bounds[tables + 1]
        kind = len(CHANGE_TYPES) * np.repeat(np.arange(len(tables)), stop - begin) + self._change
        changes = np.bincount(kind, minlength=len(CHANGE_TYPES) * len(tables))
        facts = zip(
            self._row[begin].tolist(),
            self._row[stop - 1].tolist(),
            np.minimum.reduceat(self._commit_ts, begin).tolist(),
            np.maximum.reduceat(self._commit_ts, begin).tolist(),
            map(_by_type, changes.reshape(len(tables), -1).tolist()),
            strict=True,
        )
        for number, at, end, own in zip(
            tables.tolist(), begin.tolist(), stop.tolist(), facts, strict=True
        ):
            rows = self._rows.slice(at, end - at)
            if not self._with_gtids:
                gtids = self._gtids.of(number, self._transaction[at:end])
                rows = rows.add_column(self._gtids_at, GTID, gtids)
            yield number, StagedPart(rows, *own)


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
        self._bounds = np.append(self.transaction[np.array(firsts)], self.transaction[-1] + 1)
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

    def differ(self, rows: npt.NDArray[np.int64]) -> bool:
        """Whether no table has two rows or more of each transaction, given how many rows it has."""
        return bool((2 * np.diff(self._bounds) > rows).all())

    def plain(self, transaction: npt.NDArray[np.int32]) -> Array:
        """Return the GTID of each row, given the index of its text."""
        return self._texts.take(of_numbers(transaction, self._nameless[transaction]))

    def of(self, table: int, transaction: npt.NDArray[np.int32]) -> Array:
        """Return the GTID of each row of a table, given the index of its text."""
        begin, stop = self._bounds[table : table + 2].tolist()
        if 2 * (stop - begin) > len(transaction):
            return self.plain(transaction)
        # Parquet takes no dictionary with a null in it.
        index: Array = of_numbers(transaction - np.int32(begin), self._nameless[transaction])
        return _dictionary(index, self._texts.slice(begin, stop - begin))


def _by_type(counts: Sequence[int]) -> dict[str, int]:
    return {name: count for name, count in zip(_TYPE_NAMES, counts, strict=True) if count}


def _named(index: npt.NDArray[np.signedinteger], names: Sequence[str]) -> Array:
    return _dictionary(of_numbers(index), of_texts(names))


def _dictionary(index: Array, values: Array) -> Array:
    array: Array = pa.DictionaryArray.from_arrays(index, values)
    return array
