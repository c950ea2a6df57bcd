"""Which Spark type a staged column has, and which types hold every value of another.

The manifest says each column's Arrow type; it is read as such, so that no job has to open files
only to learn their schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_binlog.errors import MergeError

_SPARK_TYPES = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "list<item: float>": "array<float>",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
    "timestamp[us, tz=UTC]": "timestamp",
}
_ARROW_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")
_SPARK_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDENINGS = {("int", "bigint"), ("float", "double")}
_ORDER = ("int", "bigint", "float", "double")
_COMMON = ({"int", "bigint"}, {"float", "double"}, {"int", "double"})
# Delta makes a decimal of them in place if it has at least so many digits before the point.
_WHOLE_DIGITS = {"int": 10, "bigint": 20}
_PRECISION_MAX = 38


def spark_type(arrow_type: str) -> str:
    """Return the type, as Spark's `simpleString` prints it, of values staged as `arrow_type`.

    Raises:
        MergeError: No staged column has this type.
    """
    if decimal := _ARROW_DECIMAL.fullmatch(arrow_type):
        return f"decimal({decimal[1]},{decimal[2]})"
    if arrow_type not in _SPARK_TYPES:
        raise MergeError("the merge does not know this type of staged values", type=arrow_type)
    return _SPARK_TYPES[arrow_type]


def widens(narrow: str, wide: str) -> bool:
    """Whether Delta and Iceberg both can change a column from `narrow` to `wide` in place."""
    if (narrow, wide) in _WIDENINGS:
        return True
    before, after = _decimal(narrow), _decimal(wide)
    if before is None or after is None:
        return False
    return before.scale == after.scale and before.digits < after.digits


def common_type(one: str, other: str) -> str | None:
    """Return the type that holds every value of two types as it is; None if there is none.

    Both formats can make it of either: in place, or by a copy of the column.
    """
    if one == other:
        return one
    if {one, other} in _COMMON:
        return max(one, other, key=_ORDER.index)
    first, second = _number(one), _number(other)
    if first is None or second is None:
        return None
    digits = max(first.digits, second.digits)
    scale = max(first.scale, second.scale)
    return f"decimal({digits + scale},{scale})" if digits + scale <= _PRECISION_MAX else None


@dataclass(frozen=True)
class _Digits:
    """A decimal type.

    Attributes:
        digits: How many are before the point.
        scale: How many are after it.
    """

    digits: int
    scale: int


def _decimal(type_: str) -> _Digits | None:
    match = _SPARK_DECIMAL.fullmatch(type_)
    return None if match is None else _Digits(int(match[1]) - int(match[2]), int(match[2]))


def _number(type_: str) -> _Digits | None:
    """Return the decimal type that formats accept in place of a type; None if there is none."""
    whole = _WHOLE_DIGITS.get(type_)
    return _decimal(type_) if whole is None else _Digits(whole, 0)
