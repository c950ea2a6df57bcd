"""Values that columns hold although no row image has them, as SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError, ReloadNeededError
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.staged.expected_types import is_text
from airflow_provider_binlog.spark.staged.types import spark_type

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Default, Field, Schema

_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_ASCII = frozenset({"ascii", "cp1250", "cp1251", "latin1", "latin2", "latin5", "latin7"})
_ZERO_DATE = re.compile(r"0000-|\d{4}-00|\d{4}-\d\d-00", re.ASCII)


def write_defaults(schema: Schema) -> dict[str, str]:
    """Return what inserts leave in the columns of a schema, where it is known.

    Raises:
        MergeError: A default is no value of its type.
    """
    return {
        each.name: literal(each, each.write_default)
        for each in schema.fields
        if each.write_default is not None
        and not is_zero_date(each, each.write_default)
        and _bytes(each, each.write_default.value) is not None
    }


def is_zero_date(field: Field, default: Default) -> bool:
    """Whether no value of the field's lake type stands for a default."""
    dates = ("date", "timestamp", "timestamp_ntz")
    return (
        default.value is not None
        and spark_type(str(field.arrow_type)) in dates
        and _ZERO_DATE.match(default.value) is not None
    )


def literal(field: Field, default: Default) -> str:
    """Return a value of a field whose type is known.

    Raises:
        MergeError: The text is no value of the type.
        ReloadNeededError: Its bytes are not known.
    """
    text, type_ = default.value, spark_type(str(field.arrow_type))
    if text is None:
        return f"CAST(NULL AS {type_})"
    if type_ == "boolean":
        return "true" if int(text, 16) else "false"
    if type_ == "binary":
        data = _bytes(field, text)
        if data is None:
            raise ReloadNeededError(
                "the default of a column is text whose bytes are not known: reload the table",
                column=field.name,
                charset=field.charset,
                default=text,
            )
        return f"unhex({quote_text(data.hex())})"
    if type_ == "bigint" and str(field.mysql_type).lower().partition("(")[0] == "time":
        return f"{_microseconds(field, text)}L"
    return f"CAST({quote_text(text)} AS {type_})"


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


def _microseconds(field: Field, text: str) -> int:
    """Return a TIME as it is staged."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise MergeError("the default of a TIME is invalid", column=field.name, default=text)
    sign, hours, minutes, seconds, fraction = match.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    value = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -value if sign else value
