"""The type that a column is going to be staged in, before any row shows it.

So the lake has a new column as soon as the statement that adds it is merged. Where the statement
does not say for certain how the values are staged, the column waits for its first row.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX, InvalidText, ZeroDates
from airflow_provider_binlog.schema import NULL, Default

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Field

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

    Args:
        field: No row has shown its type.
        manifest: One of its source: values are staged as this one says.
    """
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
        return _decimal(parameters or "")
    if name == "bit":
        return "bool" if parameters == "1" else "binary"
    return _UNSIGNED.get(name, _ARROW_TYPES.get(name)) if unsigned else _ARROW_TYPES.get(name)


def is_text(field: Field) -> bool:
    """Whether a field holds text, an ENUM or a SET, whatever it is staged as."""
    match = _WRITTEN.fullmatch(field.mysql_type or "")
    return match is not None and match[1] in _TEXTS


def _decimal(parameters: str) -> str | None:
    digits = _DECIMAL.fullmatch(parameters)
    if digits is None:
        return None
    precision, scale = map(int, digits.groups())
    return f"decimal128({precision}, {scale})" if precision <= DECIMAL_DIGITS_MAX else "string"
