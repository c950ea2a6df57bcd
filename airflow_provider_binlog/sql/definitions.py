"""A column's definition in SQL, as far as it is certain, and what statements change by it.

`alteration_reader.py` reads the changes of ALTER TABLE and CREATE TABLE.

Source: mysql-server, sql/sql_yacc.yy, field_def, column_attribute, alter_list_item and
table_element; mariadb, the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, TypeVar

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import NULL, Default, UnknownDefault
from airflow_provider_binlog.sql.columns import (
    ENUMS,
    NUMBERS,
    SqlType,
    read_type,
)
from airflow_provider_binlog.sql.defaults import (
    Literal,
    LiteralKind,
    implicit_default,
    read_current_time,
    read_default,
    read_literal,
)
from airflow_provider_binlog.sql.lexer import Reader, Session, Word, keyword


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a column, as a statement writes it.

    Attributes:
        type: The column's type in full; its `charset` is None where it is not written. None where
            the type is not known, or depends on what is not written.
        nullable: False for NOT NULL, and in the primary key; True for NULL; None where the
            definition says neither: then it may, but for TIMESTAMP without
            `explicit_defaults_for_timestamp`.
        default: Of its DEFAULT clause; None without one.
        generated: Whether its values are computed from other columns.
        primary: Whether it makes the column the primary key.
        unique: Whether it adds another unique key.
        comment: Of its COMMENT clause; None without one.
    """

    type: SqlType | None = None
    nullable: bool | None = None
    default: Literal | None = None
    generated: bool = False
    auto_increment: bool = False
    visible: bool = True
    primary: bool = False
    unique: bool = False
    comment: str | None = None

    @property
    def is_computed(self) -> bool:
        """Whether its default is an expression: another value in each row that is inserted."""
        return self.default is not None and self.default.kind is LiteralKind.EXPRESSION

    def with_charset(self, charset: str | None) -> Definition:
        """Return the same column in a table of this character set."""
        of = self.type
        if of is None or of.charset is not None or not (of.is_text or of.name in ENUMS):
            return self
        return replace(self, type=_typed(of, compressed=of.compressed, charset=charset))


# What follows the type, by the names of the fields of `Definition` and `SqlType`.
_Attributes: TypeAlias = dict[str, Any]
_SERIAL: _Attributes = {"nullable": False, "auto_increment": True, "unique": True}
_OF_TYPE = ("unsigned", "compressed", "charset")

# Words that end a literal or an expression without brackets: attributes begin with them.
_ATTRIBUTES = frozenset(
    {
        *("AS", "AUTO_INCREMENT", "CHARACTER", "CHARSET", "CHECK", "COLLATE", "COLUMN_FORMAT"),
        *("COMMENT", "COMPRESSED", "CONSTRAINT", "DEFAULT", "ENFORCED", "ENGINE_ATTRIBUTE"),
        *("GENERATED", "INVISIBLE", "KEY", "NOT", "NULL", "ON", "PERSISTENT", "PRIMARY"),
        *("REFERENCES", "SECONDARY_ENGINE_ATTRIBUTE", "SERIAL", "SRID", "STORAGE", "STORED"),
        *("UNIQUE", "VIRTUAL", "VISIBLE", "WITH", "WITHOUT"),
    }
)


def read_definition(words: Sequence[Word], session: Session) -> Definition:
    """Return what the words after a column's name say, without FIRST and AFTER.

    Raises:
        UnsupportedError: A bracket does not end.
    """
    reader = Reader(words)
    serial = keyword(reader.peek()) == "SERIAL"
    try:
        of = read_type(reader, session)
    except UnsupportedError:
        of = None
    if of is None:
        reader = Reader(words)
        reader.next()
    attributes: _Attributes = dict(_SERIAL) if serial else {}
    while reader.peek() != Word(""):
        _attribute(reader, attributes)
    of_type = {name: attributes.pop(name) for name in _OF_TYPE if name in attributes}
    if attributes.get("primary"):
        attributes["nullable"] = False
    return Definition(type=None if of is None else _typed(of, **of_type), **attributes)


def _typed(
    of: SqlType, *, unsigned: bool = False, compressed: bool = False, charset: str | None = None
) -> SqlType | None:
    if of.name in NUMBERS:
        return replace(of, unsigned=of.unsigned or unsigned)
    if of.name in ENUMS:
        return replace(of, charset=charset)
    if of.is_text and charset == "binary":
        return None  # a type of bytes
    return replace(of, charset=charset if of.is_text else None, compressed=compressed)


def _attribute(reader: Reader, attributes: _Attributes) -> None:
    """Read one attribute, or skip one word of something else."""
    if reader.skip_brackets() is not None:
        return
    word = reader.next()
    text = "" if word is None else keyword(word)
    if text in _FLAGS:
        attributes.update((_FLAGS[text],))
    elif text == "NOT":
        if reader.take("NULL"):
            attributes["nullable"] = False
    elif text in _WITH_VALUE:
        attributes[text.lower()] = _WITH_VALUE[text](reader)
    elif text == "SERIAL":  # SERIAL DEFAULT VALUE
        reader.take_all("DEFAULT", "VALUE")
        attributes |= _SERIAL
    elif text == "REFERENCES":
        _references(reader)
    elif not read_charset(text, reader, attributes):
        _skip_operand(text, reader)
    if text in ("PRIMARY", "UNIQUE"):
        reader.take("KEY")


_FLAGS: dict[str, tuple[str, bool | str]] = {
    "NULL": ("nullable", True),
    "UNSIGNED": ("unsigned", True),
    "ZEROFILL": ("unsigned", True),
    "AS": ("generated", True),
    "GENERATED": ("generated", True),
    "AUTO_INCREMENT": ("auto_increment", True),
    "INVISIBLE": ("visible", False),
    "COMPRESSED": ("compressed", True),
    "PRIMARY": ("primary", True),
    "KEY": ("primary", True),
    "UNIQUE": ("unique", True),
    "ASCII": ("charset", "latin1"),
    "UNICODE": ("charset", "ucs2"),
    "BYTE": ("charset", "binary"),
}


_WITH_OPERAND = ("COLUMN_FORMAT", "CONSTRAINT", "SRID", "STORAGE")


# How collations begin that have no character set in their name.
_OF_ANY_CHARSET = ("", "default", "uca1400")


def read_charset(text: str, reader: Reader, attributes: _Attributes) -> bool:
    """Read a character set or a collation; False if it is none."""
    if text == "CHARSET" or (text in ("CHARACTER", "CHAR") and reader.take("SET")):
        attributes["charset"] = _name(reader)
        return True
    if text != "COLLATE":
        return False
    charset = (_name(reader) or "").partition("_")[0]
    if charset not in _OF_ANY_CHARSET and attributes.get("charset") is None:
        attributes["charset"] = charset
    return True


def _skip_operand(text: str, reader: Reader) -> None:
    """Move past what follows an attribute that does not matter here."""
    if text == "ON":
        reader.take_all("UPDATE", "DELETE")
        reader.next()
    elif text in _WITH_OPERAND and not reader.take("CHECK"):
        reader.next()


def _name(reader: Reader) -> str | None:
    """Return the name of a character set or a collation; None where it is not written plainly."""
    reader.take("=")
    word = reader.next()
    if word is None or word.quote == "'" or not word.text.isascii():
        return None
    return word.text.lower()


def read_text(reader: Reader) -> str | None:
    """Return the text of a COMMENT clause; None where it cannot be decoded."""
    reader.take("=")
    word = reader.next()
    if word is None or word.quote not in ("'", '"') or "\ufffd" in word.text:
        return None
    return word.text


def _references(reader: Reader) -> None:
    """Move past `table (columns) MATCH FULL ON DELETE SET NULL ON UPDATE SET DEFAULT`."""
    reader.table("")
    reader.skip_brackets()
    while reader.take("MATCH", "ON"):
        reader.next()
        if reader.take("SET", "NO"):
            reader.next()
        else:
            reader.take("RESTRICT", "CASCADE")


def _default(reader: Reader) -> Literal:
    """Read what follows DEFAULT, up to the next attribute."""
    words: list[Word] = []
    while reader.peek() != Word(""):
        if words and keyword(reader.peek()) in _ATTRIBUTES:
            break
        if reader.peek() == Word("("):
            inside = reader.skip_brackets()
            words += [Word("("), *(inside or ()), Word(")")]
        else:
            words.append(reader.peek())
            reader.next()
    return read_literal(words)


_WITH_VALUE: dict[str, Callable[[Reader], Literal | str | None]] = {
    "COMMENT": read_text,
    "DEFAULT": _default,
}


def initial_default(
    definition: Definition, session: Session, *, nullable: bool | None = None
) -> Default | UnknownDefault:
    """Return what rows hold in a column that is added to their table.

    `nullable` is None where the definition decides.
    """
    of, default = definition.type, definition.default
    if of is not None and definition.is_computed and default is not None:
        now = read_current_time(of, default, session)
        if now is not None:
            return now
    reason = _unknown(definition, session, nullable)
    if reason is not None:
        return UnknownDefault(reason)
    if nullable is None:
        nullable = definition.nullable
    if default is None and nullable is not False:
        return NULL
    if of is None:
        return UnknownDefault("its type is not known here")
    if default is None or (default.kind is LiteralKind.NULL and nullable is False):
        return implicit_default(of, session)
    return read_default(of, default, session)


def write_default(definition: Definition, session: Session) -> Default | None:
    """Return what an insert leaves in a column; None where that is not known."""
    default = initial_default(definition, session)
    return default if isinstance(default, Default) and not definition.is_computed else None


def _unknown(definition: Definition, session: Session, nullable: bool | None) -> str | None:  # noqa: FBT001
    """Return why the value is not certain, whatever the default."""
    if definition.generated:
        return "it is generated"
    if definition.auto_increment:
        return "the server numbers its values"
    is_timestamp = definition.type is not None and definition.type.name == "timestamp"
    says_null = nullable is not None or definition.nullable is not None
    if is_timestamp and not says_null and not session.explicit_timestamps:
        return "explicit_defaults_for_timestamp is not known to be ON"
    return None


FIRST = ""
"""In place of the column that another one comes after: no column has an empty name."""


@dataclass(frozen=True)
class AddColumn:
    """`ADD COLUMN name ... [FIRST | AFTER column]`; optional: IF NOT EXISTS.

    Rows that were there before hold `initial_default`, in CREATE TABLE NULL; `after` is the column
    that it comes after, or `FIRST`; None for the end.
    """

    name: str
    definition: Definition
    initial_default: Default | UnknownDefault
    after: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class DropColumn:
    """`DROP COLUMN name`; optional: IF EXISTS."""

    name: str
    optional: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """`CHANGE COLUMN old name ...`, and `MODIFY COLUMN name ...`, where both names are the same.

    `definition` says all that the column is now; `after` is None where it stays; optional: IF
    EXISTS.
    """

    old: str
    name: str
    definition: Definition
    after: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """`RENAME COLUMN old TO name`; optional: IF EXISTS."""

    old: str
    name: str
    optional: bool = False


@dataclass(frozen=True)
class SetDefault:
    """`ALTER COLUMN name SET DEFAULT ...`, and `DROP DEFAULT`, without one; optional: IF EXISTS."""

    name: str
    default: Literal | None = None
    optional: bool = False


@dataclass(frozen=True)
class AddPrimaryKey:
    """A primary key is made: (column, characters of a prefix or 0) in key order."""

    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class DropPrimaryKey:
    """The primary key is dropped."""

    type: ClassVar[str] = "drop_primary_key"


@dataclass(frozen=True)
class ChangeIndexes:
    """A unique key is added, or an index is dropped that may be one."""

    type: ClassVar[str] = "change_indexes"


@dataclass(frozen=True)
class ConvertCharset:
    """`CONVERT TO CHARACTER SET`: of every column of text; None where it names the default."""

    charset: str | None


@dataclass(frozen=True)
class SetComment:
    """The table has this comment; None where it is not staged: see `table_comment`."""

    comment: str | None


# The Spider engine of MariaDB connects with what the comment of its table says.
_PASSWORD = re.compile(r"""\bpassword\s*["']""", re.IGNORECASE)


def table_comment(text: str | None) -> str | None:
    """Return the comment of a table as it is staged; None for one with a password in it."""
    return None if text is None or _PASSWORD.search(text) else text


@dataclass(frozen=True)
class RewriteRows:
    """Rows may be others, and no row event says which; the reason completes `the statement ...`."""

    reason: str


@dataclass(frozen=True)
class Opaque:
    """Something that may change columns and rows, and is not understood."""

    text: str


Alteration: TypeAlias = (
    AddColumn
    | DropColumn
    | ChangeColumn
    | RenameColumn
    | SetDefault
    | AddPrimaryKey
    | DropPrimaryKey
    | ChangeIndexes
    | ConvertCharset
    | SetComment
    | RewriteRows
    | Opaque
)


_A = TypeVar("_A")


def of_kind(kind: type[_A], alterations: Iterable[Alteration]) -> list[_A]:
    """Return the alterations of one kind."""
    return [alteration for alteration in alterations if isinstance(alteration, kind)]


def new_key(alterations: Iterable[Alteration]) -> set[str]:
    """Return the columns of a primary key that is made, in lower case: they become NOT NULL."""
    made = of_kind(AddPrimaryKey, alterations)
    return {fold_name(name) for key in made for name, _ in key.columns}
