"""Decoded columns as JSON: numbers stay numbers, the rest is text as MySQL prints it.

TIMESTAMP is printed in UTC, whatever the session's time zone was.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.column_types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_binlog.rows.layout import ColumnLayout

JsonValue = int | float | str | dict[str, str] | None

_MICROSECONDS = 1_000_000


def to_json_values(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:
    """Return the values of one column, None for NULL."""
    kind = column.logged.real_type
    convert = _BY_COLUMN_TYPE.get(kind)
    if convert is not None:
        return convert(array, column)
    if pa.types.is_float32(array.type):
        return [_shortest(value) for value in array.to_pylist()]
    return [_plain(value) for value in array.to_pylist()]


def format_moments(microseconds: Sequence[int], digits: int) -> list[str]:
    """Return microseconds since 1970 as `YYYY-MM-DD HH:MM:SS`, with so many digits behind."""
    return _moments(np.array(microseconds, dtype=np.int64), digits)


def _plain(value: Any) -> JsonValue:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value  # type: ignore[no-any-return]  # int, float, str or None


def _shortest(value: float | None) -> float | None:
    """Return the double that prints with as few digits as tell the float from its neighbours."""
    return None if value is None else float(str(np.float32(value)))


def _bits(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:  # noqa: ARG001
    return [
        int.from_bytes(value, "big") if isinstance(value, bytes) else _number(value)
        for value in array.to_pylist()
    ]


def _integers(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:  # noqa: ARG001
    return [_number(value) for value in array.to_pylist()]


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _decimals(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:  # noqa: ARG001
    values = array.to_pylist()
    return [
        f"{value:f}" if value is not None and not isinstance(value, str) else value
        for value in values
    ]


def _dates(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:  # noqa: ARG001
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    return _with_nulls(np.datetime_as_string(days.astype("datetime64[D]")).tolist(), array)


def _datetimes(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return _with_nulls(_moments(numbers, column.logged.fsp), array)


def _moments(microseconds: np.ndarray[Any, Any], digits: int) -> list[str]:
    texts = np.datetime_as_string(microseconds.astype("datetime64[us]")).tolist()
    size = 19 + (digits + 1 if digits else 0)
    return [text[:size].replace("T", " ") for text in texts]


def _times(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:
    return [
        None if value is None else _time(value, column.logged.fsp) for value in array.to_pylist()
    ]


def _time(microseconds: int, digits: int) -> str:
    seconds, fraction = divmod(abs(microseconds), _MICROSECONDS)
    sign = "-" if microseconds < 0 else ""
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text


def _with_nulls(texts: list[str], array: pa.Array[Any]) -> list[JsonValue]:
    if not array.null_count:
        return list(texts)
    valid = array.is_valid().to_pylist()
    return [text if there else None for text, there in zip(texts, valid, strict=True)]


_BY_COLUMN_TYPE: dict[int, Callable[[pa.Array[Any], ColumnLayout], list[JsonValue]]] = {
    ColumnType.LONGLONG: _integers,
    ColumnType.BIT: _bits,
    ColumnType.NEWDECIMAL: _decimals,
    ColumnType.DATE: _dates,
    ColumnType.NEWDATE: _dates,
    ColumnType.DATETIME2: _datetimes,
    ColumnType.TIMESTAMP2: _datetimes,
    ColumnType.TIME2: _times,
}
