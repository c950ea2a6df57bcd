"""Whether another type of a column changes the values that it holds.

A statement that changes a column's type logs no row. In strict mode it fails rather than lose a
value, with exceptions: it rounds, pads, cuts trailing spaces and converts what has another form.

Source: mysql-server, sql/field_conv.cc and sql/sql_table.cc, copy_data_between_tables; mariadb, the
same; what MySQL 9.7 and MariaDB 10.11 and 11.8 make of edge values (test_type_changes.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.columns import (
    BLOBS,
    BYTES,
    ENUMS,
    FLOATS,
    INTEGERS,
    STRINGS,
    TEMPORALS,
    TEXTS,
    SqlType,
)
from airflow_provider_binlog.sql.lexer import NO_AUTO_VALUE_ON_ZERO, PAD_CHAR_TO_FULL_LENGTH

if TYPE_CHECKING:
    from airflow_provider_binlog.sql.definitions import Definition
    from airflow_provider_binlog.sql.lexer import Session

# All of Unicode, and character sets without characters beyond its first plane. UCS2 is not among
# them: it holds halves of surrogate pairs.
_UNICODE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
_FIRST_PLANE = frozenset({"ascii", "latin1", "utf8mb3"})
# Character sets whose first 128 characters are not those of ASCII.
_NOT_ASCII = frozenset({"swe7", "binary"})
_CHARACTER_MAX = 4
# Decimal digits of the greatest values, signed and unsigned, by size in bytes.
_DIGITS = {1: (3, 3), 2: (5, 5), 3: (7, 8), 4: (10, 10), 8: (19, 20)}

_NARROWER = "the new type holds less"
_OTHER_FORM = "the new type has another form of values"


def rewrites_column(
    before: SqlType | None,
    after: Definition,
    session: Session,
    *,
    nullable: bool | None,
    auto_increment: bool = False,
) -> str | None:
    """Return why CHANGE or MODIFY may have changed values of the column; None if it kept them all.

    A column that becomes AUTO_INCREMENT has its zeros numbered. One that was NOT NULL is taken to
    have been AUTO_INCREMENT before if its type changes.

    Args:
        before: The type in full, with its character set; None where it is not known.
        after: What the statement makes of the column.
        session: That ran it.
        nullable: Whether the column might hold NULL before; None where it is not known.
        auto_increment: Whether it is known to have been AUTO_INCREMENT before.
    """
    if after.generated:
        return "the column is generated"
    not_null = after.nullable is False or (
        after.nullable is None
        and after.type is not None
        and after.type.name == "timestamp"
        and not session.explicit_timestamps
    )
    if nullable is not False and not_null:
        reason = _null_loss(after, session)
        if reason is not None:
            return reason
    if after.auto_increment and not auto_increment:
        numbers_zeros = before == after.type and not session.has(NO_AUTO_VALUE_ON_ZERO)
        if nullable is not False or numbers_zeros:
            return "the column is numbered"
    return rewrites(before, after.type, session)


def _null_loss(after: Definition, session: Session) -> str | None:
    is_timestamp = after.type is None or after.type.name == "timestamp"
    if after.auto_increment or is_timestamp or not session.is_strict:
        return "NULL became another value"
    return None


def rewrites(before: SqlType | None, after: SqlType | None, session: Session) -> str | None:
    """Return why another type may have changed values; None if it kept them all.

    Args:
        before: The type in full, with its character set; None where it is not known.
        after: The type after; its character set is None where the statement does not name one,
            and it is the table's default.
        session: That ran the statement.
    """
    if before is None or after is None:
        return "the type before or after is not known"
    strict = session.is_strict
    if after.name == "json" and before.name != "json" and session.flavor is Flavor.MARIADB:
        after = SqlType("longtext", charset="utf8mb4")
    if before.is_text or before.name in ENUMS:
        reason = _charset_loss(before, after, strict=strict)
        if reason is not None:
            return reason
    family = next((rule for names, rule in _RULES if before.name in names), None)
    if family is None:
        return None if before.name == after.name else _OTHER_FORM
    reason = family(_Change(before, after, strict))
    padded = before.name == "char" and after.name != "char"
    if reason is None and padded and session.has(PAD_CHAR_TO_FULL_LENGTH):
        return "sql_mode has PAD_CHAR_TO_FULL_LENGTH"
    return reason


def rewrites_charset(before: SqlType | None, charset: str | None) -> str | None:
    """Return why CONVERT TO CHARACTER SET may have changed values; None if it kept them all.

    It makes a longer type of one of TEXT that might be too short.

    Args:
        before: The column's type; None where it is not known.
        charset: The new character set; None where it is not known.
    """
    if before is None:
        return "the type before is not known"
    if not before.is_text and before.name not in ENUMS:
        return None
    if _keeps_charset(before.charset, charset):
        return None
    return f"the text was converted from {before.charset} to {charset}"


def _charset_loss(before: SqlType, after: SqlType, *, strict: bool) -> str | None:
    if not after.is_text and after.name not in ENUMS:
        return None
    if after.charset is None:
        # The default of a table may be another one than that of its column.
        known = strict or before.charset == "ascii"
        return None if known else "outside of strict mode, its character set may be another"
    if not _keeps_charset(before.charset, after.charset):
        return f"the text was converted from {before.charset} to {after.charset}"
    longer = after.name in TEXTS and _charset(before.charset) != _charset(after.charset)
    return _NARROWER if longer and not strict else None


def _keeps_charset(before: str | None, after: str | None) -> bool:
    before, after = _charset(before), _charset(after)
    if before is None or after is None:
        return before == "ascii"
    if before == after or (before == "ascii" and after not in _NOT_ASCII):
        return True
    return (after in _UNICODE and before in _UNICODE | _FIRST_PLANE) or (
        after == "utf8mb3" and before in _FIRST_PLANE
    )


def _charset(name: str | None) -> str | None:
    return "utf8mb3" if name == "utf8" else name


# ------------------------------------------------------------------- by family, of the type before


class _Change(NamedTuple):
    """From one type to another; `strict`: the statement fails rather than change a value."""

    before: SqlType
    after: SqlType
    strict: bool

    @property
    def keeps_sign(self) -> bool:
        """Whether the type after has the negative numbers of the one before."""
        return self.before.unsigned or not self.after.unsigned

    def loss(self, *, keeps: bool) -> str | None:
        """Return why values may have changed where the type after does not keep all of them."""
        return None if keeps or self.strict else _NARROWER


def _integer(change: _Change) -> str | None:
    before, after, _ = change
    size = INTEGERS[before.name]
    if after.name in INTEGERS:
        same = INTEGERS[after.name] == size and after.unsigned == before.unsigned
        return change.loss(keeps=same or (INTEGERS[after.name] > size and change.keeps_sign))
    if after.name == "decimal":
        holds = _whole_digits(after) >= _DIGITS[size][before.unsigned]
        return change.loss(keeps=holds and change.keeps_sign)
    return _OTHER_FORM


def _decimal(change: _Change) -> str | None:
    before, after, _ = change
    if after.name != "decimal":
        return _OTHER_FORM
    if (after.scale or 0) < (before.scale or 0):
        return "numbers were rounded"
    holds = _whole_digits(after) >= _whole_digits(before)
    return change.loss(keeps=holds and change.keeps_sign)


def _whole_digits(of: SqlType) -> int:
    return (of.length or 0) - (of.scale or 0)


def _float(change: _Change) -> str | None:
    before, after, _ = change
    if after.name not in FLOATS:
        return _OTHER_FORM
    same_digits = (before.length, before.scale) == (after.length, after.scale)
    if not same_digits or (before.name, after.name) == ("double", "float"):
        return "numbers were rounded"
    return change.loss(keeps=change.keeps_sign)


def _text(change: _Change) -> str | None:
    before, after, strict = change
    if not after.is_text:
        return _OTHER_FORM
    if after.name == "char" and before.name != "char":
        return "trailing spaces were removed"
    if before.name in TEXTS:
        keeps = TEXTS.get(after.name, 0) >= TEXTS[before.name]
        return None if keeps else _NARROWER
    same_charset = _charset(after.charset) in (None, _charset(before.charset))
    if _holds(after, before.length, same_charset=same_charset):
        return None
    # A CHAR has no trailing spaces, which are all that is cut in strict mode.
    return None if before.name == "char" and after.name in STRINGS and strict else _NARROWER


def _holds(of: SqlType, length: int | None, *, same_charset: bool) -> bool:
    """Whether a type of text holds so many characters."""
    if length is None:
        return False
    if of.name in STRINGS:
        return of.length is not None and of.length >= length
    # A VARCHAR has at most as many bytes as a TEXT, whatever its characters.
    fits = TEXTS[of.name] > 1 and same_charset
    return fits or length * _CHARACTER_MAX < 1 << 8 * TEXTS[of.name]


def _bytes(change: _Change) -> str | None:
    before, after, _ = change
    if after.name not in BYTES:
        return _OTHER_FORM
    if after.name == "binary":
        return None if before == after and before.length is not None else "values were padded"
    if after.name in BLOBS:
        least = 2 if before.name in ("binary", "varbinary") else BLOBS[before.name]
        fits = (before.length or 1 << 8) < 1 << 8 and before.name not in BLOBS
        return None if BLOBS[after.name] >= least or fits else _NARROWER
    known = before.length is not None and after.length is not None
    return None if known and (after.length or 0) >= (before.length or 0) else _NARROWER


def _enum(change: _Change) -> str | None:
    before, after, _ = change
    if before.values is None or (after.name in ENUMS and after.values is None):
        return "its values are not known"
    if after.is_text:
        lengths = [len(value) for value in before.values]
        longest = max(lengths) if before.name == "enum" else sum(lengths) + len(lengths) - 1
        return None if _holds(after, longest, same_charset=False) else _NARROWER
    if after.name != before.name or after.values is None:
        return _OTHER_FORM
    kept = after.values[: len(before.values)] == before.values
    if before.name == "enum" and change.strict:
        # It is converted by its text, of which no two values are equal. A SET has another order.
        kept = set(before.values) <= set(after.values)
    return None if kept else "its values are others, or in another order"


def _temporal(change: _Change) -> str | None:
    before, after, _ = change
    if before.name != after.name:
        return _OTHER_FORM
    return None if after.fsp >= before.fsp else "fractions of a second were removed"


def _exact(change: _Change) -> str | None:
    before, after, _ = change
    same = (before.name, before.length) == (after.name, after.length)
    return None if same and before.length is not None else _OTHER_FORM


_RULES = (
    (INTEGERS, _integer),
    (("decimal",), _decimal),
    (FLOATS, _float),
    ((*STRINGS, *TEXTS), _text),
    (BYTES, _bytes),
    (ENUMS, _enum),
    (TEMPORALS, _temporal),
    (("bit", "vector"), _exact),
)
