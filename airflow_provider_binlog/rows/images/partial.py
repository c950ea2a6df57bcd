"""The row images of some events: walked, and completed from before-images.

An update's after-image may leave out what did not change. So what its before-image holds and it
does not is as before: under MINIMAL the key, under FULL_NODUP all that is equal. What neither holds
is absent. A JSON column of a PARTIAL_UPDATE_ROWS event may hold differences to the document in the
before-image: they are applied, so that whole documents come out.

Source: mysql-server sql/rpl_record.cc, pack_row and unpack_row; sql/handler.cc, binlog_log_row;
mariadb sql/sql_class.cc, THD::binlog_prepare_row_images; sql/table.cc,
TABLE::mark_columns_per_binlog_row_image; what 10.11.18, 11.8.6 and 11.8.9 log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from airflow_provider_binlog.binlog.column_types import LARGE, ColumnType
from airflow_provider_binlog.binlog.json.diff import apply_diffs
from airflow_provider_binlog.errors import FormatError, UnsupportedError, error_context
from airflow_provider_binlog.rows.images.headers import (
    INSERT,
    UPDATE_POSTIMAGE,
    ColumnSets,
    Options,
    Presence,
    RowsHeaders,
    bits_of,
    columns_of,
)
from airflow_provider_binlog.rows.images.located import Images, compile_route
from airflow_provider_binlog.rows.images.walk import locate
from airflow_provider_binlog.rows.values import (
    OFFSET_MAX,
    OVERREAD_BYTES,
    Int64Array,
    Memory,
    Rows,
    Values,
)

if TYPE_CHECKING:
    from airflow_provider_binlog.rows.layout import RowLayout


def refuse_unlogged(layout: RowLayout, headers: RowsHeaders, sets: ColumnSets) -> None:
    """Refuse events of MariaDB without the values of generated columns, which are not in the log.

    MySQL logs a generated column wherever it changes. MariaDB names it in the TABLE_MAP, and leaves
    it out though its value changes:

        ≤ 11.8.8  MINIMAL, FULL_NODUP   VIRTUAL ones are in no after-image of an update
        ≥ 11.8.9  all                   none is in an image of an update or a delete
        both      MINIMAL               a VIRTUAL one without an index is in no insert

    information_schema says which columns are generated, if it was read. Else the images of an
    update may show it.

    Raises:
        UnsupportedError: An insert or update lacks a generated column.
    """
    if layout.allows_missing or not headers.version_1.any():
        return
    held = bits_of(sets.sets, layout.width)
    before, after = sets.number
    generated_columns = [c for c in layout.read if layout.columns[c].logged.generated]
    lacks = ~np.all(held[:, generated_columns][after], axis=1)
    lacks &= headers.paired | (headers.changes[:, 0] == INSERT)
    if layout.named:
        lacks |= headers.paired & _shows_generated(layout, held, before, after)
    lacks &= headers.version_1
    if lacks.any():
        raise UnsupportedError(
            "an insert or update of a table with generated columns does not log their values: set "
            "binlog_row_image=FULL on the server and in the sessions that write; MariaDB from "
            "11.8.9 leaves them out of updates even so: leave the table out",
            event=int(lacks.argmax()),
        )


def _shows_generated(
    layout: RowLayout,
    held: npt.NDArray[np.bool_],
    before: npt.NDArray[np.int64],
    after: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Return which updates lack a column that is missing only if it is generated."""
    is_key, is_small, is_shown = (np.zeros(layout.width, dtype=np.bool_) for _ in range(3))
    is_key[list(layout.key)] = True
    for index in layout.read:
        is_shown[index] = True
        is_small[index] = layout.columns[index].logged.real_type not in LARGE
    pairs, which = np.unique(before * len(held) + after, return_inverse=True)
    one, other = held[pairs // len(held)], held[pairs % len(held)]
    if layout.key:
        # MINIMAL logs the key alone before an update, NOBLOB all but large columns.
        is_minimal = ~(one & ~is_key).any(axis=1)
        shows = (~one & ~other & is_small).any(axis=1) & ~is_minimal
    else:
        # Without a key the image before an update is whole under any setting.
        shows = (~one & is_shown).any(axis=1)
    lacks: npt.NDArray[np.bool_] = shows[which]
    return lacks


FEW_VALUES = 16
"""So few values are compared one by one, each in one call whatever its length."""


def pairs_of(images: Images, before: Int64Array) -> Images:
    """Return these before-images, each with the next image, which is its after-image."""
    return images.select(np.stack([before, before + 1], axis=1).reshape(-1))


def differs(values: Values, size: int) -> npt.NDArray[np.bool_]:
    """Return whether each pair of neighbours differs; `size` is that of fixed-width values."""
    length = np.full(len(values), size, dtype=np.int64) if values.length is None else values.length
    if values.null is not None:
        length = np.where(values.null, -1, length)
    lengths = length.reshape(-1, 2)
    differs: npt.NDArray[np.bool_] = lengths[:, 0] != lengths[:, 1]
    rest = np.flatnonzero(~differs & (lengths[:, 0] > 0))
    offset = values.offset.reshape(-1, 2)[rest]
    size_left = lengths[rest, 0]
    memory, word = values.memory, 0
    while len(rest) > FEW_VALUES:
        before = memory.word(offset[:, 0], size_left, word)
        unequal = before != memory.word(offset[:, 1], size_left, word)
        differs[rest[unequal]] = True
        word += 1
        rest_pairs = ~unequal & (size_left > 8 * word)
        rest, offset, size_left = rest[rest_pairs], offset[rest_pairs], size_left[rest_pairs]
    for pair, (one, other), count in zip(rest, offset, size_left, strict=True):
        same = np.array_equal(memory.u1[one : one + count], memory.u1[other : other + count])
        differs[pair] = not same
    return differs


class RowImages:
    """The row images of some events, full or not.

    Raises:
        TruncatedError: An event ends inside an image.
        UnsupportedError: Generated columns are not logged, or options are not known.

    Attributes:
        images: The images, along a route of the columns that some image holds.
        change: uint8; what each image is.
    """

    def __init__(
        self, layout: RowLayout, memory: Memory, headers: RowsHeaders, end: Int64Array
    ) -> None:
        self._layout = layout
        width = layout.width
        self._is_whole = headers.sets is None and headers.partial is None
        self._sets = headers.sets or ColumnSets.whole(width, len(headers.images))
        # The route's columns, as the layout counts them.
        self._columns = tuple(range(width))
        self._held = np.ones((1, width), dtype=np.bool_)
        route, presence = layout.route, None
        if not self._is_whole:
            self._columns = columns_of(self._sets.union)
            self._held = bits_of(self._sets.sets, width)[:, list(self._columns)]
            refuse_unlogged(layout, headers, self._sets)
            columns = enumerate(layout.columns)
            self._json = [c for c, column in columns if column.logged.real_type == ColumnType.JSON]
            if len(self._columns) < width:
                route = compile_route([layout.route.plans[column] for column in self._columns])
            if headers.partial is not None or not self._held.all() or headers.nothing.any():
                options = None
                if headers.partial is not None:
                    options = Options(headers.partial, (len(self._json) + 7) // 8)
                presence = Presence.of(self._sets.number, self._held, headers.nothing, options)
        self.images = locate(route, memory, headers.images, end, presence)
        turn = self.images.event * 2 + (self.images.number & 1)
        self.change = headers.changes.reshape(-1).take(turn)

    def key_changed(self, before: Int64Array) -> npt.NDArray[np.bool_]:
        """Return for each update whether the bytes of its key change; `before`: its before-images.

        A change from 'a' to 'A' makes one key to MySQL's collation, but two to a lake. A column of
        which only a prefix is in the key is compared whole. A column of the key that the
        after-image does not hold has not changed; one that only the after-image holds may have.
        """
        changed = np.zeros(len(before), dtype=np.bool_)
        pairs = pairs_of(self.images, before)
        numbers = self._sets.number[:, self.images.event[before]]
        for column in self._layout.key:
            if column in self._columns:
                index = self._columns.index(column)
                values, size = pairs.values(index), pairs.route.plans[index].size
                held_before, held_after = self._held[numbers, index]
                changed |= held_after & (differs(values, size) | ~held_before)
        return changed

    def each_column(self, rows: Rows) -> Iterator[tuple[int, Values]]:
        """Yield the columns that some image holds and, for each of these rows, where its value is.

        Absent values count as NULL. Hidden and excluded columns are left out.

        Raises:
            FormatError: A JSON document or its differences break the format.
            UnsupportedError: A JSON document is not in the before-image that differs from it.
        """
        read = frozenset(self._layout.read)
        if self._is_whole:
            columns = self.images.select(rows).each_column()
            yield from (pair for pair in columns if pair[0] in read)
            return
        for index, located in self.images.each_column():
            column, values = self._columns[index], located
            if column not in read:
                continue
            as_before = self._as_before(index)
            if column in self._json and self.images.options is not None:
                values, unchanged = self._apply_diffs(index, values, rows)
                as_before = np.concatenate([as_before, unchanged])
            if len(as_before):
                source = np.arange(len(self.images))
                source[as_before] -= 1
                rows_of_values: Rows = source[rows]
            else:
                rows_of_values = rows
            yield column, values.choose(rows_of_values)

    def _as_before(self, index: int) -> Int64Array:
        """Return the after-images that leave out what their before-images hold of a column."""
        held = self._held[:, index]
        if held.all():
            return np.zeros(0, dtype=np.int64)
        before, after = self._sets.number
        as_before = held[before] & ~held[after]
        chosen: Int64Array = np.flatnonzero(
            as_before[self.images.event] & (self.change == UPDATE_POSTIMAGE)
        )
        return chosen

    def number_sets(self, rows: Rows) -> tuple[npt.NDArray[np.int32], list[tuple[int, ...]]]:
        """Return the number of each row's set of columns, and the sets.

        0 is all columns, the others are numbered as their rows come. Sets are indexes among the
        columns that are read.
        """
        event, read = self.images.event[rows], self._layout.read
        if self._is_whole:
            return np.zeros(len(event), dtype=np.int32), [tuple(range(len(read)))]
        before, after = self._sets.number
        sets, count = self._sets.sets, len(self._sets.sets)
        pairs, which = np.unique(before * count + after, return_inverse=True)
        shown = sum(1 << column for column in read)
        numbers = {shown: 0}
        one = [numbers.setdefault(columns & shown, len(numbers)) for columns in sets]
        both = [
            numbers.setdefault((sets[pair // count] | sets[pair % count]) & shown, len(numbers))
            for pair in pairs.tolist()
        ]
        completed = np.array(both, dtype=np.int32)[which][event]
        own = np.array(one, dtype=np.int32)[before][event]
        number = np.where(self.change[rows] == UPDATE_POSTIMAGE, completed, own)
        first = first_rows(number, len(numbers))
        first[0] = -1
        order = np.argsort(first)[: np.count_nonzero(first < len(number))]
        renumbered = np.zeros(len(numbers), dtype=np.int32)
        renumbered[order] = np.arange(len(order))
        bits = list(numbers)
        at = {column: index for index, column in enumerate(read)}
        held = [columns_of(bits[index]) for index in order.tolist()]
        return renumbered[number], [tuple([at[column] for column in own]) for own in held]

    def _apply_diffs(self, index: int, values: Values, wanted: Rows) -> tuple[Values, Int64Array]:
        """Return a JSON column with differences applied, and the rows in which there are none.

        Of the others than the wanted rows nothing is read.
        """
        ordinal = self._json.index(self._columns[index])
        rows = self._with_diffs(ordinal, values)
        is_wanted = np.zeros(len(self.images), dtype=np.bool_)
        is_wanted[wanted] = True
        rows = rows[is_wanted[rows]]
        if not len(rows):
            return values, rows
        self._check_before(index, rows, values)
        unchanged = values.lengths[rows] == 0
        changed = rows[~unchanged]
        documents = [self._document(index, values, row) for row in changed.tolist()]
        return _with_documents(values, changed, documents), rows[unchanged]

    def _with_diffs(self, ordinal: int, values: Values) -> Int64Array:
        """Return the rows whose value of a JSON column is differences."""
        bits = self.images.options
        if bits is None:
            raise TypeError("images without options")
        rows = np.flatnonzero(bits)
        partial = values.memory.u1[bits[rows] + ordinal // 8] >> ordinal % 8 & 1
        rows = rows[partial.astype(np.bool_)]
        return rows if values.null is None else rows[~values.null[rows]]

    def _check_before(self, index: int, rows: Int64Array, values: Values) -> None:
        """Refuse differences to a document that is not in the log."""
        event = self.images.event[rows]
        name = self._layout.columns[self._columns[index]].name
        lacks = ~self._held[self._sets.number[0, event], index]
        if lacks.any():
            raise UnsupportedError(
                "an update logged how a JSON document changed, but not the document: set "
                "binlog_row_value_options='' or binlog_row_image=FULL on the server and in the "
                "sessions that write",
                column=name,
                event=int(event[lacks.argmax()]),
            )
        if values.null is not None and (null := values.null[rows - 1]).any():
            raise FormatError(
                "differences to a JSON document that is NULL",
                column=name,
                event=int(event[null.argmax()]),
            )

    def _document(self, index: int, values: Values, row: int) -> bytes:
        """Return the whole document of one after-image."""
        begins, lengths = values.offset, values.lengths
        document, diffs = (
            values.memory.u1[begins[image] : begins[image] + lengths[image]].tobytes()
            for image in (row - 1, row)
        )
        column = self._layout.columns[self._columns[index]].name
        with error_context(column=column, event=int(self.images.event[row])):
            return apply_diffs(document, diffs)


def first_rows(numbers: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    """Return the first row that has each of `count` numbers; of one that none has, their length."""
    first = np.full(count, len(numbers))
    # Of a number's rows the last one that is written here is its first.
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


def _with_documents(values: Values, rows: Int64Array, documents: list[bytes]) -> Values:
    """Return the values with documents in some of the rows, stored after the others' bytes."""
    if not documents:
        return values
    memory = values.memory
    sizes = np.array([len(document) for document in documents])
    ends = memory.size + np.cumsum(sizes)
    if ends[-1] > OFFSET_MAX - OVERREAD_BYTES:
        raise UnsupportedError(
            "the JSON documents of one batch exceed 2 GiB: set binlog_row_event_max_size lower, "
            "or leave the table out"
        )
    data = np.concatenate(
        [memory.u1[: memory.size], np.frombuffer(b"".join(documents), dtype=np.uint8)]
    )
    offset, length = values.offset.copy(), values.lengths.copy()
    offset[rows], length[rows] = ends - sizes, sizes
    return replace(values, memory=Memory(data, len(data)), offset=offset, length=length)
