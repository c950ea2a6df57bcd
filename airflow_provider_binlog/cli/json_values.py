"""Decoded columns as JSON: numbers stay numbers, the rest is text as MySQL prints it.

TIMESTAMP is printed in UTC, whatever the session's time zone was. A JSON document is the text that
SELECT prints: as values of this JSON its numbers and keys would not stay what they are.
"""

from __future__ import annotations

import base64
from functools import partial
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
    kind = column.logged.real_type
    if pa.types.is_timestamp(array.type):
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _with_nulls(format_moments(numbers, _digits(column)), array)
    if pa.types.is_date(array.type):
        days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        return _with_nulls(np.datetime_as_string(days.astype("datetime64[D]")).tolist(), array)
    show: Callable[[Any], JsonValue] = _SHOWN.get(kind, _plain)
    if kind in _TIMES:
        show = partial(_time, digits=_digits(column))
    elif kind not in _SHOWN and pa.types.is_decimal(array.type):
        show = "{:f}".format
    elif pa.types.is_float32(array.type):
        show = _shortest
    return [None if value is None else show(value) for value in array.to_pylist()]


def _plain(value: Any) -> JsonValue:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):  # a VECTOR
        return [_shortest(each) for each in value]
    return value  # type: ignore[no-any-return]  # int, float or str


def _shortest(value: float) -> float:
    """Return the double that prints with the fewest digits that distinguish the float."""
    return float(str(np.float32(value)))


def _bits(value: Any) -> int:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)


def _geometry(value: bytes) -> dict[str, int | str]:
    """Return `| 4 SRID | WKB |` in parts.

    Source: MySQL 9.7 reference manual, 13.4.3 Supported Spatial Data Formats.
    """
    return {"srid": int.from_bytes(value[:4], "little"), "wkb": value[4:].hex()}


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


_TIMES = (ColumnType.TIME, ColumnType.TIME2)
_SHOWN: dict[int, Callable[[Any], JsonValue]] = {
    ColumnType.LONGLONG: int,
    ColumnType.BIT: _bits,
    ColumnType.GEOMETRY: _geometry,
}
