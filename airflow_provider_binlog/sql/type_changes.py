"""Whether another type of a column changes the values that it holds.

A statement that changes a column's type logs no row. In strict mode it fails rather than lose a
value, with exceptions: it rounds, pads, cuts trailing spaces and converts what has another form.

Source: mysql-server, sql/field_conv.cc and sql/sql_table.cc, copy_data_between_tables; mariadb, the
same; what MySQL 9.7 and MariaDB 10.11 and 11.8 make of edge values (test_type_changes.py).
"""

from __future__ import annotations

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql import columns as types
from airflow_provider_binlog.sql.definitions import Definition
from airflow_provider_binlog.sql.lexer import (
    NO_AUTO_VALUE_ON_ZERO,
    PAD_CHAR_TO_FULL_LENGTH,
    Session,
)

# All of Unicode, and character sets without characters beyond its first plane. UCS2 is not among
# them: it holds halves of surrogate pairs.
_UNICODE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
_FIRST_PLANE = frozenset({"ascii", "latin1", "utf8mb3"})
# Character sets whose first 128 characters are not those of ASCII.
_NOT_ASCII = frozenset({"swe7", "binary"})
_CHARACTER_MAX = 4

_NARROWER = "the new type holds less"
_OTHER_FORM = "the new type has another form of values"


def rewrites_column(
    before: types.SqlType | None,
    after: Definition,
    session: Session,
    *,
    nullable: bool | None,
    auto_increment: bool = False,
) -> str | None:
    """Return why CHANGE or MODIFY may have changed values of the column; None if it kept them all.

    A column that becomes AUTO_INCREMENT has its zeros numbered. One that was NOT NULL is taken to
    have been AUTO_INCREMENT before if its type changes, even where `auto_increment` does not say
    so. `before` is in full, with its character set; it, and whether the column might hold NULL, is
    None where it is not known.
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


def rewrites(
    before: types.SqlType | None, after: types.SqlType | None, session: Session
) -> str | None:
    """Return why another type may have changed values; None if it kept them all.

    `before` is the type in full, with its character set, `after` may have none: then it is the
    table's default. Either is None where it is not known.
    """
    if before is None or after is None:
        return "the type before or after is not known"
    if after.name == "json" and before.name != "json" and session.flavor is Flavor.MARIADB:
        after = types.SqlType("longtext", charset="utf8mb4")
    if before.is_text or before.name in types.ENUMS:
        reason = _charset_loss(before, after, session)
        if reason is not None:
            return reason
    family = next((rule for names, rule in _RULES if before.name in names), None)
    if family is None:
        return None if before.name == after.name else _OTHER_FORM
    reason = family(before, after, session)
    padded = before.name == "char" and after.name != "char"
    if reason is None and padded and session.has(PAD_CHAR_TO_FULL_LENGTH):
        return "sql_mode has PAD_CHAR_TO_FULL_LENGTH"
    return reason


def rewrites_charset(before: types.SqlType | None, charset: str | None) -> str | None:
    """Return why CONVERT TO CHARACTER SET may have changed values; None if it kept them all.

    It makes a longer type of one of TEXT that might be too short.
    """
    if before is None:
        return "the type before is not known"
    if not before.is_text and before.name not in types.ENUMS:
        return None
    if _keeps_charset(before.charset, charset):
        return None
    return f"the text was converted from {before.charset} to {charset}"


def _charset_loss(before: types.SqlType, after: types.SqlType, session: Session) -> str | None:
    if not after.is_text and after.name not in types.ENUMS:
        return None
    if after.charset is None:
        # The default of a table may be another one than that of its column.
        known = session.is_strict or before.charset == "ascii"
        return None if known else "outside of strict mode, its character set may be another"
    if not _keeps_charset(before.charset, after.charset):
        return f"the text was converted from {before.charset} to {after.charset}"
    longer = after.name in types.TEXTS and _charset(before.charset) != _charset(after.charset)
    return _NARROWER if longer and not session.is_strict else None


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

# In strict mode a statement fails rather than change a number so that it fits.


def _integer(before: types.SqlType, after: types.SqlType, session: Session) -> str | None:
    if after.name == "decimal":
        return None if session.is_strict else _NARROWER
    if after.name not in types.INTEGERS:
        return _OTHER_FORM
    more = types.INTEGERS[after.name] - types.INTEGERS[before.name]
    same = more == 0 and after.unsigned == before.unsigned
    return (
        None
        if session.is_strict or same or (more > 0 and _keeps_sign(before, after))
        else _NARROWER
    )


def _keeps_sign(before: types.SqlType, after: types.SqlType) -> bool:
    return before.unsigned or not after.unsigned


def _decimal(before: types.SqlType, after: types.SqlType, session: Session) -> str | None:
    if after.name != "decimal":
        return _OTHER_FORM
    more = (after.scale or 0) - (before.scale or 0)
    if more < 0:
        return "numbers were rounded"
    holds = (after.length or 0) - (before.length or 0) >= more
    return None if session.is_strict or (holds and _keeps_sign(before, after)) else _NARROWER


def _float(before: types.SqlType, after: types.SqlType, session: Session) -> str | None:
    if after.name not in types.FLOATS:
        return _OTHER_FORM
    same_digits = (before.length, before.scale) == (after.length, after.scale)
    if not same_digits or (before.name, after.name) == ("double", "float"):
        return "numbers were rounded"
    return None if session.is_strict or _keeps_sign(before, after) else _NARROWER


def _text(before: types.SqlType, after: types.SqlType, session: Session) -> str | None:
    if not after.is_text:
        return _OTHER_FORM
    if after.name == "char" and before.name != "char":
        return "trailing spaces were removed"
    if before.name in types.TEXTS:
        return None if types.TEXTS.get(after.name, 0) >= types.TEXTS[before.name] else _NARROWER
    if before.length is None:
        return _NARROWER
    if after.name in types.TEXTS:
        # A VARCHAR has at most as many bytes as a TEXT, whatever its characters.
        same_charset = _charset(after.charset) in (None, _charset(before.charset))
        fits = before.length * _CHARACTER_MAX < 1 << 8 * types.TEXTS[after.name]
        return None if fits or (same_charset and after.name != "tinytext") else _NARROWER
    # A CHAR has no trailing spaces, which are all that is cut in strict mode.
    cuts_nothing = before.name == "char" and session.is_strict
    return None if cuts_nothing or (after.length or 0) >= before.length else _NARROWER


def _bytes(before: types.SqlType, after: types.SqlType, _: Session) -> str | None:
    if after.name in types.BLOBS:
        return None if types.BLOBS[after.name] >= types.BLOBS.get(before.name, 2) else _NARROWER
    known = before.length is not None and after.length is not None
    if after.name == "varbinary":
        return None if known and (after.length or 0) >= (before.length or 0) else _NARROWER
    return None if known and before == after else _OTHER_FORM


def _enum(before: types.SqlType, after: types.SqlType, session: Session) -> str | None:
    if before.name == "enum" and before.values and after.is_text:
        longest = max(map(len, before.values))
        return _text(types.SqlType("char", longest, charset=before.charset), after, session)
    if before.values is None or after.values is None or after.name != before.name:
        return _OTHER_FORM
    kept = after.values[: len(before.values)] == before.values
    if before.name == "enum" and session.is_strict:
        # It is converted by its text, of which no two values are equal. A SET has another order.
        kept = set(before.values) <= set(after.values)
    return None if kept else "its values are others, or in another order"


def _temporal(before: types.SqlType, after: types.SqlType, _: Session) -> str | None:
    if before.name != after.name:
        return _OTHER_FORM
    return None if after.fsp >= before.fsp else "fractions of a second were removed"


def _exact(before: types.SqlType, after: types.SqlType, _: Session) -> str | None:
    same = (before.name, before.length) == (after.name, after.length)
    return None if same and before.length is not None else _OTHER_FORM


_RULES = (
    (types.INTEGERS, _integer),
    (("decimal",), _decimal),
    (types.FLOATS, _float),
    ((*types.STRINGS, *types.TEXTS), _text),
    (types.BYTES, _bytes),
    (types.ENUMS, _enum),
    (types.TEMPORALS, _temporal),
    (("bit", "vector"), _exact),
)
