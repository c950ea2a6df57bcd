"""Decoded columns as JSON: numbers stay numbers, the rest is text as MySQL prints it.

TIMESTAMP is printed in UTC, a JSON document as the text of SELECT, to keep its numbers and keys.

Source: MySQL 9.7 reference manual, 13 Data Types.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_binlog.rows.values import Array

JsonValue = int | float | str | list[float] | dict[str, str] | dict[str, int | str] | None

Show: TypeAlias = "Callable[[Array, int], list[JsonValue]]"
"""Returns the values of a column, None for NULL; the number is that of its digits of a second."""

_MICROSECONDS = 1_000_000


def perhaps_texts(array: Array) -> list[JsonValue]:
    """Return bytes of which the log does not say whether they are text as text, if it is UTF-8."""
    return _each(array, _text_or_base64)


def values(array: Array, _digits: int = 0) -> list[JsonValue]:
    """Return numbers and text as they are, bytes in base64."""
    return _each(array, lambda value: _base64(value) if isinstance(value, bytes) else value)


def integers(array: Array, _digits: int) -> list[JsonValue]:
    """Return integers, those of 64 bits too, which Arrow has as decimals."""
    return _each(array, int)


def floats(array: Array, _digits: int) -> list[JsonValue]:
    """Return FLOATs with the fewest digits that distinguish them."""
    return _each(array, _shortest)


def vectors(array: Array, _digits: int) -> list[JsonValue]:
    """Return VECTORs as lists of such FLOATs."""
    return _each(array, lambda value: [_shortest(number) for number in value])


def decimals(array: Array, _digits: int) -> list[JsonValue]:
    """Return DECIMALs as text, with all digits after the decimal point."""
    return _each(array, "{:f}".format if pa.types.is_decimal(array.type) else str)


def bits(array: Array, _digits: int) -> list[JsonValue]:
    """Return BITs as numbers."""
    return _each(array, lambda v: int.from_bytes(v, "big") if isinstance(v, bytes) else int(v))


def geometries(array: Array, _digits: int) -> list[JsonValue]:
    """Return `| 4 SRID | WKB |` in parts.

    Source: MySQL 9.7 reference manual, 13.4.3 Supported Spatial Data Formats.
    """
    return _each(array, lambda v: {"srid": int.from_bytes(v[:4], "little"), "wkb": v[4:].hex()})


def times(array: Array, digits: int) -> list[JsonValue]:
    """Return TIMEs, microseconds, as `-HHH:MM:SS.ffffff`."""
    return _each(array, lambda value: _time(value, digits))


def moments(array: Array, digits: int) -> list[JsonValue]:
    """Return dates, with a time of day or without; those that are staged as text are that text."""
    if pa.types.is_string(array.type):
        return values(array)
    if pa.types.is_date(array.type):
        days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        return _with_nulls(np.datetime_as_string(days.astype("datetime64[D]")).tolist(), array)
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return _with_nulls(format_moments(numbers, digits), array)


def format_moments(microseconds: npt.NDArray[np.int64], digits: int) -> list[str]:
    """Return microseconds since 1970 as `YYYY-MM-DD HH:MM:SS`, with so many digits of a second."""
    texts = np.datetime_as_string(microseconds.astype("datetime64[us]")).tolist()
    size = 19 + (digits + 1 if digits else 0)
    return [text[:size].replace("T", " ") for text in texts]


def _each(array: Array, show: Callable[[Any], JsonValue]) -> list[JsonValue]:
    return [None if value is None else show(value) for value in array.to_pylist()]


def _base64(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _text_or_base64(value: bytes) -> JsonValue:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _base64(value)


def _shortest(value: float) -> float:
    """Return the double that prints with the fewest digits that distinguish the float."""
    return float(str(np.float32(value)))


def _time(microseconds: int, digits: int) -> str:
    seconds, fraction = divmod(abs(microseconds), _MICROSECONDS)
    sign = "-" if microseconds < 0 else ""
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}"[: len(text) + 1 + digits] if digits else text


def _with_nulls(texts: list[str], array: Array) -> list[JsonValue]:
    if not array.null_count:
        return list(texts)
    valid = array.is_valid().to_pylist()
    return [text if there else None for text, there in zip(texts, valid, strict=True)]
