"""Which Spark type a staged column has, and which types hold every value of another.

The manifest says each column's Arrow type; it is read as such, so that no job has to open files
only to learn their schema.
"""

from __future__ import annotations

import re

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
    before, after = _SPARK_DECIMAL.fullmatch(narrow), _SPARK_DECIMAL.fullmatch(wide)
    if not before or not after:
        return False
    return before[2] == after[2] and int(before[1]) < int(after[1])
