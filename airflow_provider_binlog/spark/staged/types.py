"""Types and defaults of staged columns in Spark, and which types hold every value of another.

The manifest says each column's Arrow type. A column that no row has shown yet is given the type
that it is going to be staged in, if its statement says that for certain: so the lake has it as soon
as the statement is merged.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple, TypeAlias

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX, InvalidText, ZeroDates
from airflow_provider_binlog.errors import MergeError, ReloadNeededError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.schema import NULL, Default, Field, Schema

Value: TypeAlias = bool | int | float | bytes | str | None
"""A value that no row image has, as targets take it: decimals, dates and times as text, in UTC."""

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
    """Return the type, as Spark's `simpleString` prints it, of values staged as `arrow_type`."""
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

    Delta makes it of either in place, Iceberg where `widens` says so.
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


class _Digits(NamedTuple):
    """A decimal type: digits before the point, and after it."""

    digits: int
    scale: int


def _decimal(type_: str) -> _Digits | None:
    match = _SPARK_DECIMAL.fullmatch(type_)
    return None if match is None else _Digits(int(match[1]) - int(match[2]), int(match[2]))


def _number(type_: str) -> _Digits | None:
    """Return the decimal type that formats accept in place of a type; None if there is none."""
    whole = _WHOLE_DIGITS.get(type_)
    return _decimal(type_) if whole is None else _Digits(whole, 0)


_WRITTEN = re.compile(r"(\w+)(?:\((.*)\))?( unsigned)?( compressed)?", re.ASCII | re.DOTALL)
_ARROW_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "year"), "int32"),
    **dict.fromkeys(("bigint", "time"), "int64"),
    **dict.fromkeys(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"
    ),
    "float": "float",
    "double": "double",
    "json": "string",
}
_UNSIGNED = {"int": "int64", "bigint": "decimal128(20, 0)"}
_DATES = {"date": "date32[day]", "datetime": "timestamp[us]", "timestamp": "timestamp[us, tz=UTC]"}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_WITHOUT_BYTES = (None, NULL, Default(""))
_DECIMAL = re.compile(r"(\d+),(\d+)", re.ASCII)


def expected_arrow_type(field: Field, manifest: Manifest) -> str | None:
    """Return the Arrow type that a field's values are going to have; None if that is not certain.

    No row has shown it. Values are staged as `manifest`, one of the field's source, says.
    """
    return "string" if field.hashed is not None else _expected_type(field, manifest)


def _expected_type(field: Field, manifest: Manifest) -> str | None:
    match = _WRITTEN.fullmatch(field.mysql_type or "")
    name, parameters, unsigned, _ = match.groups() if match is not None else ("", "", "", "")
    if name in _DATES:
        return "string" if manifest.zero_dates is ZeroDates.TEXT else _DATES[name]
    if is_text(field):
        if manifest.invalid_text is not InvalidText.BINARY:
            return "string" if field.charset != "binary" else None
        # Without its character set, the bytes of a default are not known.
        known = field.charset not in {None, "binary"} or field.initial_default in _WITHOUT_BYTES
        return "binary" if known else None
    if name == "decimal":
        return _decimal_type(parameters or "")
    if name == "bit":
        return "bool" if parameters == "1" else "binary"
    return _UNSIGNED.get(name, _ARROW_TYPES.get(name)) if unsigned else _ARROW_TYPES.get(name)


def is_text(field: Field) -> bool:
    """Whether a field holds text, an ENUM or a SET, whatever it is staged as."""
    match = _WRITTEN.fullmatch(field.mysql_type or "")
    return match is not None and match[1] in _TEXTS


def _decimal_type(parameters: str) -> str | None:
    digits = _DECIMAL.fullmatch(parameters)
    if digits is None:
        return None
    precision, scale = map(int, digits.groups())
    return f"decimal128({precision}, {scale})" if precision <= DECIMAL_DIGITS_MAX else "string"


_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_ASCII = frozenset({"ascii", "cp1250", "cp1251", "latin1", "latin2", "latin5", "latin7"})
_ZERO_DATE = re.compile(r"0000-|\d{4}-00|\d{4}-\d\d-00", re.ASCII)


def write_defaults(schema: Schema) -> dict[str, Value]:
    """Return what inserts leave in the columns of a schema, where it is known."""
    return {
        field.name: default_value(field, field.write_default)
        for field in schema.fields
        if field.write_default is not None
        and not is_zero_date(field, field.write_default)
        and _bytes(field, field.write_default.value) is not None
    }


def is_zero_date(field: Field, default: Default) -> bool:
    """Whether no value of the field's lake type stands for a default."""
    dates = ("date", "timestamp", "timestamp_ntz")
    return (
        default.value is not None
        and spark_type(str(field.arrow_type)) in dates
        and _ZERO_DATE.match(default.value) is not None
    )


def default_value(field: Field, default: Default) -> Value:
    """Return the value of a field whose type is known.

    Raises:
        MergeError: The text is no value of the type.
        ReloadNeededError: Its bytes are not known.
    """
    text, type_ = default.value, spark_type(str(field.arrow_type))
    if text is None:
        return None
    if type_ == "binary" and _bytes(field, text) is None:
        raise ReloadNeededError(
            "the default of a column is text whose bytes are not known: reload the table",
            column=field.name,
            charset=field.charset,
            default=text,
        )
    try:
        return _parse(field, text, type_)
    except (ValueError, OverflowError) as error:
        raise MergeError(
            "the default of a column is no value of its type",
            column=field.name,
            type=field.mysql_type,
            default=text,
        ) from error


def _parse(field: Field, text: str, type_: str) -> Value:
    if type_ == "boolean":
        return int(text, 16) != 0
    if type_ == "binary":
        return _bytes(field, text)
    if type_ == "bigint" and str(field.mysql_type).lower().partition("(")[0] == "time":
        return _microseconds(text)
    if type_ in _WHOLE_DIGITS:
        return int(text)
    if type_ == "float":
        # The lake may hold it as a double, of which FLOAT's nearest value is another one.
        return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    return float(text) if type_ == "double" else text


def _bytes(field: Field, text: str | None) -> bytes | None:
    """Return the bytes of a default as they are staged in a binary column; None if not known.

    Text under `invalid_text="binary"` is in its character set. Of others they are hex digits.
    """
    if not text or str(field.arrow_type) != "binary":
        return b""
    if not is_text(field):
        return bytes.fromhex(text)
    known = field.charset in _UTF8 or (text.isascii() and field.charset in _ASCII)
    return text.encode() if known else None


def _microseconds(text: str) -> int:
    """Return a TIME as it is staged."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, hours, minutes, seconds, fraction = match.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    value = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -value if sign else value
