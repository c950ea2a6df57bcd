"""The located values of rows, read column by column; how unrepresentable values are handled.

Source: as in the modules of the column families.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.blocks.arrays import numbers_of, of_numbers
from airflow_provider_binlog.changes import ZeroDates
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.rows.values import array_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_binlog.rows.layout import ColumnLayout, RowLayout
    from airflow_provider_binlog.rows.values import Array, Int64Array, Values


FEW_VALUES = 256
"""So few values are read together with their NULLs."""

_MOSTLY_NULL = 0.75
"""Where at least so many values are NULL, the others are read alone."""


@dataclass(frozen=True)
class Converted:
    """The columns of some rows; the rest as in `DecodedRows`."""

    columns: list[Array]
    unrepresentable: dict[str, int]
    invalid_text: dict[str, int]


def convert_columns(
    layout: RowLayout, located: Iterable[tuple[int, Values]], event: Int64Array
) -> Converted:
    """Return the columns of rows of these events; a column that was not located is NULL.

    `event` is the index of each row's event.

    Raises:
        FormatError: A value breaks the format; names the column and the event.
        UnsupportedError: A zero or invalid date is refused, or the values of a column exceed 2 GiB.
    """
    arrays: dict[int, Array] = {}
    became_null: dict[int, int] = {}
    replaced: dict[int, int] = {}
    for index, values in located:
        column = layout.columns[index]
        array, invalid = _convert_column(column, values, event)
        logged = 0 if values.null is None else int(np.count_nonzero(values.null))
        if array.null_count > logged:
            became_null[index] = array.null_count - logged
            is_date = pa.types.is_temporal(column.arrow_type)
            if is_date and layout.policies.zero_dates is ZeroDates.FAIL:
                raise _refuse_null(column, values, array, event)
        if invalid:
            replaced[index] = invalid
        arrays[index] = array
    for index, column in enumerate(layout.columns):
        if index not in arrays:
            arrays[index] = nulls(len(event), column.arrow_type)
    return Converted(
        [arrays[index] for index in range(len(layout.columns))],
        _by_name(layout, became_null),
        _by_name(layout, replaced),
    )


def _by_name(layout: RowLayout, counts: dict[int, int]) -> dict[str, int]:
    return {layout.columns[index].name: counts[index] for index in sorted(counts)}


def _refuse_null(
    column: ColumnLayout, values: Values, array: Array, event: Int64Array
) -> UnsupportedError:
    became_null = ~array.is_valid().to_numpy(zero_copy_only=False)
    if values.null is not None:
        became_null &= ~values.null
    return UnsupportedError(
        "a zero or invalid date, such as 0000-00-00: correct it, or stage it as null or text: "
        'zero_dates="null" or "text"',
        column=column.name,
        event=int(event[became_null.argmax()]),
    )


def _convert_column(column: ColumnLayout, values: Values, event: Int64Array) -> tuple[Array, int]:
    """Return the values, and how many values had invalid byte sequences."""
    present = _few_present(column, values)
    if present is not None and not len(present):
        return nulls(len(values), column.arrow_type), 0
    if present is not None:
        some = replace(values.choose(present), null=None)
        array, invalid = _convert_column(column, some, event[present])
        return _among_nulls(array, present, values), invalid
    try:
        try:
            return column.plan.convert(values), 0
        except FormatError:
            if column.plan.repair is None:
                raise
            return column.plan.repair(values)
    except BinlogError as error:
        error.context["column"] = column.name
        error.context.setdefault("event", int(event[_first_refused(column, values)]))
        raise
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        _raise_if_too_large(error, column)
        raise


def _few_present(column: ColumnLayout, values: Values) -> Int64Array | None:
    """Return which values are not NULL, where they are so few that they are read alone."""
    if values.null is None or len(values) < FEW_VALUES or pa.types.is_union(column.arrow_type):
        return None
    if np.count_nonzero(values.null) < len(values) * _MOSTLY_NULL:
        return None
    return np.flatnonzero(~values.null)


def _among_nulls(array: Array, present: Int64Array, values: Values) -> Array:
    """Return an array where its values are `present`, and NULL everywhere else."""
    kind = array.type
    if pa.types.is_primitive(kind) and kind.bit_width > 1 and not array.null_count:
        numbers = np.zeros(len(values), dtype=f"<u{kind.bit_width // 8}")
        numbers[present] = numbers_of(array.view(str(numbers.dtype)))
        return array_of(kind, numbers, values.null)
    index = np.zeros(len(values), dtype=np.int32)
    index[present] = np.arange(len(present))
    return array.take(of_numbers(index, values.null))


def _first_refused(column: ColumnLayout, values: Values) -> int:
    """Return the index of the first of some values that are not all read."""
    read = column.plan.repair or column.plan.convert
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            read(values.choose(slice(good, middle)))
        except BinlogError:
            bad = middle
        else:
            good = middle
    return good


def _raise_if_too_large(error: Exception, column: ColumnLayout) -> None:
    """Translate Arrow's error about its 32-bit offsets, which it raises in two ways."""
    if "overflow" in str(error) or isinstance(error, pa.ArrowCapacityError):
        raise UnsupportedError(
            "the values of a column exceed 2 GiB in one batch: set binlog_row_event_max_size "
            "lower, or leave the table out",
            column=column.name,
        ) from error


def nulls(count: int, arrow_type: pa.DataType) -> Array:
    """Return NULLs of a type; `pa.array` makes no unions, which values of unknown charset are."""
    array: Array = pa.nulls(count, arrow_type)  # type: ignore[call-overload]  # of any type
    return array
