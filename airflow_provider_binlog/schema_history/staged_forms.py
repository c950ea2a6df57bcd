"""Whether another type of a column changes how its values are staged, though it keeps the values.

Some values are staged as the text that SELECT returns, or as the bytes of their character set: a
DECIMAL of more than 38 digits, dates and times under `zero_dates="text"`, text under
`invalid_text="binary"`. Such a text says more than the value: `1.00` becomes `1.000`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import DECIMAL_DIGITS_MAX
from airflow_provider_binlog.sql.column_types import ENUMS, TEMPORALS

if TYPE_CHECKING:
    from airflow_provider_binlog.sql.column_types import SqlType

_TEXT, _BYTES = "string", "binary"
_SHOWN = "its values are staged as text, which shows more digits or fewer"

# Character sets whose bytes mean the same in the second one.
_SAME_BYTES = frozenset(
    {("ascii", "utf8mb3"), ("ascii", "utf8mb4"), ("ascii", "latin1"), ("utf8mb3", "utf8mb4")}
)


def changes_form(arrow_type: str | None, before: SqlType | None, after: SqlType) -> str | None:
    """Return why the staged values of a column are others under another type; None if they are not.

    Args:
        arrow_type: The staged type, as Arrow prints it; None where it is not known.
        before: The column's type; None where it is not known.
        after: The type after, with its character set; None stands for the same one.
    """
    if before is None:
        return None
    if before.name == after.name == "decimal" and before.scale != after.scale:
        digits = min(before.length or 0, after.length or 0)
        return _SHOWN if digits > DECIMAL_DIGITS_MAX else None
    if before.name == after.name and before.name in TEMPORALS and before.fsp != after.fsp:
        return _SHOWN if arrow_type == _TEXT else None
    is_text = before.is_text or before.name in ENUMS
    if arrow_type == _BYTES and is_text and after.charset is not None:
        charsets = before.charset or "", after.charset
        if charsets[0] != charsets[1] and charsets not in _SAME_BYTES:
            return f"its text is staged as bytes, which were {before.charset}"
    return None
