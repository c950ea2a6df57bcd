"""Decoded columns as JSON: numbers stay numbers, the rest is text as MySQL prints it.

TIMESTAMP is printed in UTC, whatever the session's time zone was. A JSON document is the text that
SELECT prints: as values of this JSON its numbers and keys would not stay what they are.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.column_types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from airflow_provider_binlog.rows.layout import ColumnLayout

JsonValue = int | float | str | list[float] | dict[str, str] | dict[str, int | str] | None

_MICROSECONDS = 1_000_000
_WITH_DIGITS = (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)


def to_json_values(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:
    """Return the values of one column, None for NULL."""
    convert = _BY_COLUMN_TYPE.get(column.logged.real_type)
    if convert is not None:
        return convert(array, column)
    if pa.types.is_timestamp(array.type):
        return _datetimes(array, column)
    if pa.types.is_date(array.type):
        return _dates(array)
    if pa.types.is_decimal(array.type):
        return _decimals(array)
    if pa.types.is_float32(array.type):
        return [_shortest(value) for value in array.to_pylist()]
    return [_plain(value) for value in array.to_pylist()]


def _plain(value: Any) -> JsonValue:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):  # a VECTOR
        return [float(str(np.float32(each))) for each in value]
    return value  # type: ignore[no-any-return]  # int, float, str or None


def _shortest(value: float | None) -> float | None:
    """Return the double that prints with the fewest digits that distinguish the float."""
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


def _geometries(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:  # noqa: ARG001
    return [None if value is None else _geometry(value) for value in array.to_pylist()]


def _geometry(value: bytes) -> dict[str, int | str]:
    """Return `| 4 SRID | WKB |` in parts.

    Source: MySQL 9.7 reference manual, 13.4.3 Supported Spatial Data Formats.
    """
    return {"srid": int.from_bytes(value[:4], "little"), "wkb": value[4:].hex()}


def _decimals(array: pa.Array[Any]) -> list[JsonValue]:
    return [None if value is None else f"{value:f}" for value in array.to_pylist()]


def _dates(array: pa.Array[Any]) -> list[JsonValue]:
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    return _with_nulls(np.datetime_as_string(days.astype("datetime64[D]")).tolist(), array)


def _datetimes(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return _with_nulls(format_moments(numbers, _digits(column)), array)


def _digits(column: ColumnLayout) -> int:
    """Return how many digits of a second's fraction a moment or a TIME has."""
    if column.logged.real_type in _WITH_DIGITS:
        return column.logged.fsp
    return column.logged.datetime_precision or 0  # of the formats from before MySQL 5.6


def format_moments(microseconds: npt.NDArray[np.int64], digits: int) -> list[str]:
    """Return microseconds since 1970 as `YYYY-MM-DD HH:MM:SS`, with so many digits of a second."""
    texts = np.datetime_as_string(microseconds.astype("datetime64[us]")).tolist()
    size = 19 + (digits + 1 if digits else 0)
    return [text[:size].replace("T", " ") for text in texts]


def _times(array: pa.Array[Any], column: ColumnLayout) -> list[JsonValue]:
    return [None if value is None else _time(value, _digits(column)) for value in array.to_pylist()]


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
    ColumnType.GEOMETRY: _geometries,
    ColumnType.TIME: _times,
    ColumnType.TIME2: _times,
}
